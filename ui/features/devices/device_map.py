"""Table and heat map of estimated devices and memory configurations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPalette, QPen
from PySide6.QtWidgets import (
    QAbstractItemView,
    QComboBox,
    QHeaderView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from ui.shared.chip import AnyIndex
from ui.shared.labels import Label, literal
from ui.shared.number_format import DASH, count, kib, milliseconds, size
from ui.shared.sortable_table import ROOT, Column
from ui.shared.theme import Theme
from workbench.deploy.boards import Board, why_not_on
from workbench.project.model import TargetChoice
from workbench.results import VelaTotals
from workbench.studies.sweep import SweepPoint, remark

Figure = Callable[[VelaTotals], float]


@dataclass(frozen=True)
class DeviceRow:
    """A point, its time and memory relative to the largest, and why it is Pareto-optimal.

    ``best_in`` is "" for a point that another one beats in time, SRAM and constants. ``on_board``
    is "fits", or why the point does not fit the project's board; "" without a board.
    """

    point: SweepPoint
    time_share: float | None = None
    sram_share: float | None = None
    best_in: str = ""
    is_present: bool = False
    on_board: str = ""

    @property
    def is_best(self) -> bool:
        """Whether no other point beats it."""
        return bool(self.best_in)


def device_rows(
    points: Sequence[SweepPoint],
    best: Sequence[int],
    present: TargetChoice | None,
    board: Board | None = None,
) -> list[DeviceRow]:
    """Return the rows of a sweep; ``present`` is the project's complete target choice."""
    known = [point.totals for point in points if point.totals is not None]
    slowest = max((t.inference_ms for t in known), default=0.0) or 1.0
    largest = max((t.sram_bytes for t in known), default=0) or 1
    front = set(best)
    least = _least(known)
    return [
        DeviceRow(
            point,
            point.totals.inference_ms / slowest if point.totals else None,
            point.totals.sram_bytes / largest if point.totals else None,
            _best_in(point.totals, least) if index in front and point.totals else "",
            point.target == present,
            _on_board(board, point),
        )
        for index, point in enumerate(points)
    ]


def _on_board(board: Board | None, point: SweepPoint) -> str:
    if board is None or point.totals is None:
        return ""
    return why_not_on(board, point.target, point.totals.sram_bytes) or "fits"


def fastest(rows: Sequence[DeviceRow]) -> DeviceRow | None:
    """Return the fastest row that fits the board, or the fastest one without a board."""
    known = [row for row in rows if row.point.totals is not None and not row.point.problem]
    fitting = [row for row in known if row.on_board in {"", "fits"}]

    def time(row: DeviceRow) -> float:
        assert row.point.totals is not None
        return row.point.totals.inference_ms

    return min(fitting, key=time, default=None)


def _least(known: Sequence[VelaTotals]) -> tuple[tuple[str, Figure, float], ...]:
    """Return the smallest time, SRAM and constants of all points, each with its words."""
    read: tuple[tuple[str, Figure], ...] = (
        ("fastest", lambda t: t.inference_ms),
        ("least SRAM", lambda t: t.sram_bytes),
        ("least constants", lambda t: t.flash_bytes),
    )
    return tuple((words, of, min(map(of, known))) for words, of in read) if known else ()


def _best_in(totals: VelaTotals, least: Sequence[tuple[str, Figure, float]]) -> str:
    """Return in what a Pareto-optimal point is the best, e.g. "fastest"."""
    named = [words for words, of, smallest in least if of(totals) == smallest]
    return ", ".join(named) or "trade-off"


def describe_point(point: SweepPoint) -> str:
    """Return the figures of a point, one per line."""
    lines = [point.target.id, option(point, "system_config"), option(point, "memory_mode")]
    if point.totals is None:
        return "\n".join([*lines, point.problem or "not estimated yet"])
    return "\n".join(
        [
            *lines,
            f"{milliseconds(point.totals.inference_ms)}, {count(point.totals.cycles_total)} cycles",
            f"SRAM {size(point.totals.sram_bytes)}, constants {size(point.totals.flash_bytes)}",
            *filter(None, [remark(point)]),
        ]
    )


def option(point: SweepPoint, name: str) -> str:
    """Return an option of a point as text; a dash if it is not set."""
    value = point.target.options.get(name)
    if value is None:
        return DASH
    return size(value) if isinstance(value, int) else str(value)


def _text(read: Callable[[VelaTotals], float], text: Callable[[float], str]) -> Callable[[DeviceRow], str]:
    return lambda row: text(read(row.point.totals)) if row.point.totals else DASH


def _value(read: Callable[[VelaTotals], float]) -> Callable[[DeviceRow], float | None]:
    return lambda row: read(row.point.totals) if row.point.totals else None


DEVICE_COLUMNS: tuple[Column[DeviceRow], ...] = (
    Column("Device", lambda r: f"{r.point.target.id}{'  (current)' if r.is_present else ''}"),
    Column("Memory mode", lambda r: option(r.point, "memory_mode")),
    Column(
        "Time",
        _text(lambda t: t.inference_ms, milliseconds),
        _value(lambda t: t.inference_ms),
        "Cycles divided by the clock of the system configuration, estimated by Vela",
        lambda r: r.time_share,
    ),
    Column(
        "SRAM [KiB]",
        _text(lambda t: t.sram_bytes, lambda v: kib(int(v))),
        _value(lambda t: t.sram_bytes),
        "Peak, estimated by Vela",
        lambda r: r.sram_share,
    ),
    Column(
        "Cycles",
        _text(lambda t: t.cycles_total, count),
        _value(lambda t: t.cycles_total),
        "Estimated by Vela",
    ),
    Column(
        "Constants [KiB]",
        _text(lambda t: t.flash_bytes, lambda v: kib(int(v))),
        _value(lambda t: t.flash_bytes),
        "Weights and commands, estimated by Vela",
    ),
    Column(
        "Best",
        lambda r: r.best_in,
        None,
        "In what the point is the best. Trade-off: no other point is at least as good in time, "
        "SRAM and constants",
    ),
    Column(
        "Board",
        lambda r: r.on_board or DASH,
        None,
        "Whether the program fits the project's board: NPU, memory mode and SRAM",
    ),
    Column("SRAM limit", lambda r: option(r.point, "arena_cache_bytes")),
    Column("Optimise", lambda r: option(r.point, "optimise")),
    Column("System configuration", lambda r: option(r.point, "system_config")),
    Column(
        "Remark",
        lambda r: r.point.problem or remark(r.point),
        meaning="Reason why a point was skipped, or a remark",
    ),
)


def describe_device(row: DeviceRow) -> str:
    """Return the tooltip of a row of the points of a sweep."""
    return describe_point(row.point)


# Figures of the map: title, value and number format.
FIGURES: tuple[tuple[str, Figure, Callable[[float], str]], ...] = (
    ("Time", lambda t: t.inference_ms, milliseconds),
    ("SRAM", lambda t: t.sram_bytes, lambda value: size(int(value))),
    ("Constants", lambda t: t.flash_bytes, lambda value: size(int(value))),
)
_FAINTEST, _STRONGEST = 0.08, 0.62


class HeatMapModel(QAbstractTableModel):
    """The cells of the heat map; ``shown`` is the row of ``FIGURES`` that colours them."""

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
        """Set the points. A cell shows the first of its points."""
        self.beginResetModel()
        self._points = tuple(points)
        varied = _varied(points)
        names = [(_row(p, varied), _column(p, varied)) for p in points]
        self._rows = list(dict.fromkeys(row for row, _ in names))
        self._columns = list(dict.fromkeys(column for _, column in names))
        self._places = {name: index for index, name in reversed(list(enumerate(names)))}
        self._scale()
        self.endResetModel()

    def show_figure(self, row: int) -> None:
        """Set the figure that colours the cells."""
        self.beginResetModel()
        self._shown = row
        self._scale()
        self.endResetModel()

    def point_at(self, index: AnyIndex) -> int | None:
        """Return the index of the point in a cell; None for an empty cell."""
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
        number = self.point_at(index)
        point = self._points[number] if number is not None else None
        match role:
            case Qt.ItemDataRole.DisplayRole:
                value = self._value(point)
                return DASH if value is None else FIGURES[self._shown][2](value)
            case Qt.ItemDataRole.ToolTipRole:
                return literal(describe_point(point)) if point else None
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
        """Return a colour on a logarithmic scale; None for unknown values."""
        if value is None or value <= 0:
            return None
        part = (math.log(value) - self._low) / (self._high - self._low or 1.0)
        colour = QColor(self._theme().warning)
        colour.setAlphaF(_FAINTEST + part * (_STRONGEST - _FAINTEST))
        return colour


def _varied(points: Sequence[SweepPoint]) -> set[str]:
    """Return the options that differ between points of one device, and system configurations."""
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


class _Cells(QStyledItemDelegate):
    """Paints cell colours, which the stylesheet would otherwise cover."""

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        colour = index.data(Qt.ItemDataRole.BackgroundRole)
        rect = option.rect.adjusted(1, 1, -1, -1)
        painter.save()
        if colour is not None:
            painter.fillRect(rect, colour)
        painter.setPen(option.palette.color(QPalette.ColorRole.Text))
        painter.drawText(rect, Qt.AlignmentFlag.AlignCenter, str(index.data()))
        if option.state & QStyle.StateFlag.State_Selected:
            painter.setPen(QPen(option.palette.color(QPalette.ColorRole.Highlight), 2))
            painter.drawRect(rect)
        painter.restore()


class HeatMap(QWidget):
    """The heat map view; ``figures`` are the titles of the selectable figures.

    Signals:
        figure_chosen: the row of a figure.
        cell_chosen: the index of a cell.
    """

    figure_chosen = Signal(int)
    cell_chosen = Signal(QModelIndex)

    def __init__(
        self, model: QAbstractTableModel, figures: Sequence[str], empty: str, parent: QWidget | None = None
    ) -> None:
        """Make a view; ``empty`` is what it says without points."""
        super().__init__(parent)
        self.none = Label(empty, self)
        self.none.setObjectName("Hint")
        self.none.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.none.setWordWrap(True)
        self.figure = QComboBox(self)
        self.figure.setAccessibleName("Heat map figure")
        self.figure.addItems(figures)
        self.figure.activated.connect(self.figure_chosen)
        self.view = QTableView(self)
        self.view.setTabKeyNavigation(False)
        self.view.setAccessibleName("Heat map of devices and memory modes")
        self.view.setModel(model)
        self.view.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.view.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        self.view.setItemDelegate(_Cells(self.view))
        self.view.setShowGrid(False)
        self.view.clicked.connect(self.cell_chosen)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addWidget(self.figure, 0, Qt.AlignmentFlag.AlignLeft)
        layout.addWidget(self.view, 1)
        layout.addWidget(self.none, 1)
        model.modelReset.connect(self._show_parts)
        self._show_parts()

    def _show_parts(self) -> None:
        has_points = self.view.model().rowCount() > 0
        self.none.setVisible(not has_points)
        for part in (self.figure, self.view):
            part.setVisible(has_points)
