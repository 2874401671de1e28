"""Time over SRAM: a dot for every point of a sweep, on logarithmic axes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, Signal
from PySide6.QtWidgets import QWidget

from ui.plots.chart import Chart, wash
from ui.theme import Theme

_NEAR_PX = 14.0
_SIZE_PX, _BEST_PX = 11, 15


@dataclass(frozen=True)
class DevicePoint:
    """Time [ms] and peak SRAM [KiB] of a point, both above 0."""

    time_ms: float
    sram_kib: float
    is_best: bool = False


class DevicePlot(Chart):
    """Dots; those that no other beats stand out by colour and by shape.

    Signals:
        dot_chosen: the place of a dot.
    """

    dot_chosen = Signal(int)

    def __init__(self, describe: Callable[[int], str], parent: QWidget | None = None) -> None:
        super().__init__(
            "Time and SRAM of devices", "peak SRAM [KiB], estimated (Vela)",
            "time [ms], estimated (Vela)", parent,
        )  # fmt: skip
        self.points: tuple[DevicePoint, ...] = ()
        self._describe = describe
        self._chosen: frozenset[int] = frozenset()
        self._theme: Theme | None = None
        self._places = np.zeros((0, 2))
        self.box.setMouseEnabled(x=False, y=False)
        self.plot.setLogMode(x=True, y=True)
        self._dots = pg.ScatterPlotItem()
        self.plot.addItem(self._dots, ignoreBounds=True)
        self.tell = self._tell
        self.box.picked.connect(self._on_picked)

    def render_points(self, points: Sequence[DevicePoint]) -> None:
        """Show other points."""
        self.points = tuple(points)
        self.set_empty(empty=not points)
        self._places = np.log10([[p.sram_kib, p.time_ms] for p in points] or np.ones((0, 2)))
        if points:
            low, high = self._places.min(axis=0), self._places.max(axis=0)
            air = np.maximum((high - low) * 0.08, 0.05)
            self.box.setXRange(low[0] - air[0], high[0] + air[0], padding=0)
            self.box.setYRange(low[1] - air[1], high[1] + air[1], padding=0)
        self._paint()

    def choose(self, places: Iterable[int]) -> None:
        """Mark what is chosen."""
        self._chosen = frozenset(places)
        self._paint()

    def restyle(self, theme: Theme) -> None:
        self._theme = theme
        self._paint()

    def _paint(self) -> None:
        if self._theme is None:
            return
        theme = self._theme
        spots = [
            {
                "pos": place,
                "size": _BEST_PX if point.is_best else _SIZE_PX,
                "symbol": "d" if point.is_best else "o",
                "brush": wash(theme.good if point.is_best else theme.accent, 0.75),
                "pen": pg.mkPen(theme.text if n in self._chosen else theme.surface, width=2),
            }
            for n, (place, point) in enumerate(zip(self._places, self.points, strict=True))
        ]
        self._dots.setData(spots)

    def _nearest(self, place: QPointF) -> int | None:
        if not self.points:
            return None
        unit = np.asarray(self.box.viewPixelSize())
        away = (((self._places - [place.x(), place.y()]) / unit) ** 2).sum(axis=1)
        nearest = int(np.argmin(away))
        return nearest if away[nearest] <= _NEAR_PX**2 else None

    def _tell(self, place: QPointF) -> str:
        nearest = self._nearest(place)
        return self._describe(nearest) if nearest is not None else ""

    def _on_picked(self, x: float, y: float, _adds: bool) -> None:
        nearest = self._nearest(QPointF(x, y))
        if nearest is not None:
            self.dot_chosen.emit(nearest)
