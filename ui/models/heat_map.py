"""Points of a sweep as a map: devices downwards, memory across, warmer is more."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from PySide6.QtCore import QAbstractTableModel, QObject, Qt
from PySide6.QtGui import QColor

from ui.figures import DASH, milliseconds, size
from ui.models.device_table import describe_point
from ui.models.figure_table import ROOT, AnyIndex
from ui.theme import Theme
from workbench.results import VelaTotals
from workbench.studies.sweep import SweepPoint

Figure = Callable[[VelaTotals], float]
# What a map can show: its title, the figure, and how it is written.
FIGURES: tuple[tuple[str, Figure, Callable[[float], str]], ...] = (
    ("Time", lambda t: t.inference_ms, milliseconds),
    ("SRAM", lambda t: t.sram_bytes, lambda value: size(int(value))),
    ("Constants", lambda t: t.flash_bytes, lambda value: size(int(value))),
)
_FAINTEST, _STRONGEST = 0.08, 0.62


class HeatMapModel(QAbstractTableModel):
    """Cells of points; ``shown`` is the row of ``FIGURES`` that colours them."""

    def __init__(self, theme: Callable[[], Theme], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._points: tuple[SweepPoint, ...] = ()
        self._rows: list[str] = []
        self._columns: list[str] = []
        self._places: dict[tuple[str, str], int] = {}
        self._low, self._high = 0.0, 1.0
        self._shown = 0

    def set_points(self, points: Sequence[SweepPoint]) -> None:
        """Show other points; of several in one cell the first."""
        self.beginResetModel()
        self._points = tuple(points)
        varied = _varied(points)
        names = [(_row(p, varied), _column(p, varied)) for p in points]
        self._rows = list(dict.fromkeys(row for row, _ in names))
        self._columns = list(dict.fromkeys(column for _, column in names))
        self._places = {name: place for place, name in reversed(list(enumerate(names)))}
        self._scale()
        self.endResetModel()

    def show_figure(self, row: int) -> None:
        """Colour by another figure."""
        self.beginResetModel()
        self._shown = row
        self._scale()
        self.endResetModel()

    def place(self, index: AnyIndex) -> int | None:
        """Return which point a cell shows; None for one without."""
        return self._places.get((self._rows[index.row()], self._columns[index.column()]))

    def rowCount(self, parent: AnyIndex = ROOT) -> int:
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: AnyIndex = ROOT) -> int:
        return 0 if parent.isValid() else len(self._columns)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> str | None:
        if role != Qt.ItemDataRole.DisplayRole:
            return None
        names = self._columns if orientation == Qt.Orientation.Horizontal else self._rows
        return names[section]

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        place = self.place(index)
        point = self._points[place] if place is not None else None
        match role:
            case Qt.ItemDataRole.DisplayRole:
                value = self._value(point)
                return DASH if value is None else FIGURES[self._shown][2](value)
            case Qt.ItemDataRole.ToolTipRole:
                return describe_point(point) if point else None
            case Qt.ItemDataRole.BackgroundRole:
                return self._colour(self._value(point))
            case Qt.ItemDataRole.TextAlignmentRole:
                return Qt.AlignmentFlag.AlignCenter
        return None

    def _value(self, point: SweepPoint | None) -> float | None:
        if point is None or point.totals is None:
            return None
        return float(FIGURES[self._shown][1](point.totals))

    def _scale(self) -> None:
        logs = [math.log(v) for v in map(self._value, self._points) if v is not None and v > 0]
        self._low, self._high = (min(logs), max(logs)) if logs else (0.0, 1.0)

    def _colour(self, value: float | None) -> QColor | None:
        """Return a colour on a logarithmic scale; none for what is not known."""
        if value is None or value <= 0:
            return None
        part = (math.log(value) - self._low) / (self._high - self._low or 1.0)
        colour = QColor(self._theme().warning)
        colour.setAlphaF(_FAINTEST + part * (_STRONGEST - _FAINTEST))
        return colour


def _varied(points: Sequence[SweepPoint]) -> set[str]:
    """Return the options in which points of one device differ, and system configurations."""
    seen: dict[tuple[str, str], set[object]] = {}
    for point in points:
        for name, value in point.target.options.items():
            seen.setdefault((point.target.id, name), set()).add(value)
    return {name for (_, name), values in seen.items() if len(values) > 1}


def _row(point: SweepPoint, varied: set[str]) -> str:
    if "system_config" not in varied:
        return point.target.id
    return f"{point.target.id}, {point.target.options.get('system_config')}"


def _column(point: SweepPoint, varied: set[str]) -> str:
    options = point.target.options
    parts = [str(options.get("memory_mode"))]
    limit = options.get("arena_cache_bytes")
    if "arena_cache_bytes" in varied:
        parts.append(size(limit) if isinstance(limit, int) else "no limit")
    if "optimise" in varied:
        parts.append(str(options.get("optimise")))
    return "\n".join(parts)
