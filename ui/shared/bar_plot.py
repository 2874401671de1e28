"""Bar plots: per tensor, per difference in LSB, and per module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, Qt, Signal
from PySide6.QtGui import QFontMetricsF
from PySide6.QtWidgets import QWidget

from ui.shared.chart import COUNTS_LOG, Chart, pen, wash
from ui.shared.theme import Theme

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NAME_PX = 110
_ROW_PX = 21
_WIDEST_NAME_PX = 300
_UNITS = ((1e6, 1e-6, " [millions]"), (1e4, 1e-3, " [thousands]"), (0.0, 1.0, ""))


class BarPlot(Chart):
    """Vertical bars. Unknown values have no bar.

    Signals:
        bars_chosen: indices of the selected bars, ascending.
    """

    bars_chosen = Signal(object)

    def __init__(
        self, name: str, bottom: str, left: str, describe: Callable[[int], str], parent: QWidget | None = None
    ) -> None:
        super().__init__(name, bottom, left, parent)
        self.count_along_x()
        self.names: tuple[str, ...] = ()
        self.heights = np.zeros(0)
        self._describe = describe
        self._picked: frozenset[int] = frozenset()
        self._bars, self._marked = (pg.BarGraphItem(x=[0], height=[0], width=0.8, pen=None) for _ in range(2))
        self._brush = pg.LinearRegionItem(movable=False, pen=pen("#888888"))
        self._brush.hide()
        for item in (self._bars, self._marked, self._brush):
            self.plot.addItem(item, ignoreBounds=True)
        self.tell = self._tell
        self.box.sigXRangeChanged.connect(self._fit)
        self.box.brushed.connect(self._on_brushed)
        self.box.picked.connect(self._on_picked)

    def render_bars(self, names: Sequence[str], heights: NDArray[np.float64]) -> None:
        """Show bars; NaN is an unknown height."""
        self.names, self.heights = tuple(names), heights
        self._draw(self._bars, range(len(self.names)))
        self.set_run(-0.7, max(len(self.names), 1) - 0.3)
        self._fit()

    def choose(self, indices: Iterable[int]) -> None:
        """Mark the selected bars."""
        self._picked = frozenset(indices)
        self._draw(self._marked, sorted(self._picked))

    def restyle(self, theme: Theme) -> None:
        self._bars.setOpts(brush=wash(theme.accent, 0.55), pen=None)
        self._marked.setOpts(brush=wash(theme.warning), pen=None)
        self._brush.setBrush(wash(theme.accent, 0.2))

    def _draw(self, item: pg.BarGraphItem, indices: Iterable[int]) -> None:
        known = [i for i in indices if i < self.heights.size and np.isfinite(self.heights[i])]
        item.setVisible(bool(known))
        if known:
            x = np.asarray(known, np.intp)
            item.setOpts(x=x, height=self.heights[x], width=0.8)

    def _fit(self) -> None:
        left, right, _, _ = self.reach()
        first, last = max(0, round(left)), min(len(self.names) - 1, round(right))
        inside = self.heights[first : last + 1]
        inside = inside[np.isfinite(inside)]
        low, high = (float(inside.min()), float(inside.max())) if inside.size else (0.0, 1.0)
        self.set_rise(min(low, 0.0), max(high, 0.0))
        count = max(last - first + 1, 1)
        room = self.box.width()
        # Names if they fit, else indices.
        if count * _NAME_PX <= room:
            ticks = [(float(i), self.names[i]) for i in range(first, last + 1)]
            self.plot.getAxis("bottom").setTicks([ticks, []])
        else:
            self.plot.getAxis("bottom").setTicks(None)

    def _tell(self, point: QPointF) -> str:
        nearest = round(point.x())
        return self._describe(nearest) if 0 <= nearest < len(self.names) else ""

    def _on_picked(self, x: float, _y: float, adds: bool) -> None:
        index = round(x)
        if 0 <= index < len(self.names):
            picked = self._picked ^ {index} if adds else {index}
            self.bars_chosen.emit(sorted(picked))

    def _on_brushed(self, begun: float, now: float, is_over: bool) -> None:
        self._brush.setRegion((min(begun, now), max(begun, now)))
        self._brush.setVisible(not is_over)
        if is_over:
            first, last = max(0, round(min(begun, now))), round(max(begun, now))
            inside = range(first, min(last, len(self.names) - 1) + 1)
            self.bars_chosen.emit(list(inside))


class DifferencePlot(Chart):
    """Histogram of the differences of output elements [LSB]."""

    def __init__(self, other: str, parent: QWidget | None = None) -> None:
        super().__init__(f"Differences from the {other}", "difference [LSB]", "output elements", parent)
        self.count_along_x()
        self.counts: dict[int, int] = {}
        self._is_log = False
        self._bars = pg.BarGraphItem(x=[0], height=[0], width=0.8, pen=None)
        self.plot.addItem(self._bars, ignoreBounds=True)
        self.tell = self._tell

    def render_counts(self, counts: dict[int, int]) -> None:
        """Show a histogram of differences."""
        self.counts = dict(counts)
        self._draw()

    def set_log(self, on: bool) -> None:
        """Switch the count axis to a logarithmic scale."""
        self._is_log = on
        self.set_label("left", f"output {COUNTS_LOG}" if on else "output elements")
        self._draw()

    def restyle(self, theme: Theme) -> None:
        self._bars.setOpts(brush=wash(theme.accent, 0.8), pen=None)

    def _draw(self) -> None:
        steps = np.asarray(sorted(self.counts), np.float64)
        heights = np.asarray([self.counts[int(s)] for s in steps], np.float64)
        heights = np.log10(1 + heights) if self._is_log else heights
        self._bars.setVisible(bool(steps.size))
        if not steps.size:
            return
        self._bars.setOpts(x=steps, height=heights, width=0.8)
        reach = max(float(np.abs(steps).max()), 2.0) + 0.7
        self.set_run(-reach, reach)
        top = float(heights.max()) * 1.06 or 1.0
        self.box.setYRange(0.0, top, padding=0)
        self.show_counts(top if self._is_log else None)
        if reach < 12:
            whole = range(-int(reach), int(reach) + 1)
            ticks = [(float(s), f"{s:+d}" if s else "0") for s in whole]
            self.plot.getAxis("bottom").setTicks([ticks, []])
        else:
            self.plot.getAxis("bottom").setTicks(None)

    def _tell(self, point: QPointF) -> str:
        step = round(point.x())
        if step not in self.counts:
            return ""
        total = max(sum(self.counts.values()), 1)
        count = self.counts[step]
        return f"{step:+d} LSB: {count:,} of {total:,} elements ({100 * count / total:.2f} %)"


class ModuleBars(Chart):
    """Horizontal bars with names, from top to bottom. The wheel scrolls.

    Signals:
        bar_chosen: index of a bar.
    """

    bar_chosen = Signal(int)

    def __init__(
        self, name: str, bottom: str, describe: Callable[[int], str], parent: QWidget | None = None
    ) -> None:
        super().__init__(name, bottom, "", parent, is_upright=False)
        self.names: tuple[str, ...] = ()
        self.lengths = np.zeros(0)
        self._unit = bottom
        self._describe = describe
        self._bars, self._marked = (
            pg.BarGraphItem(x0=[0], x1=[0], y=[0], height=0.72, pen=None) for _ in range(2)
        )
        for item in (self._bars, self._marked):
            self.plot.addItem(item, ignoreBounds=True)
        self.box.invertY(True)
        self.tell = self._tell
        self.box.picked.connect(self._on_picked)
        self.box.sigResized.connect(self._fit)

    def set_unit(self, unit: str) -> None:
        """Set the label of the value axis."""
        self._unit = unit

    def render_bars(self, names: Sequence[str], lengths: NDArray[np.float64], reach: float = 0.0) -> None:
        """Show bars. Negative values extend to the left; the axis reaches at least to ``reach``."""
        self.names, self.lengths = tuple(names), lengths
        self.set_empty(empty=not names)
        self._draw(self._bars, range(len(self.names)))
        axis = self.plot.getAxis("left")
        metrics = QFontMetricsF(axis.style["tickFont"] or self.font())
        widest = max((metrics.horizontalAdvance(n) for n in self.names), default=0.0)
        axis.setWidth(min(widest, _WIDEST_NAME_PX) + 14)
        # pyqtgraph does not draw names that are wider than the axis.
        middle = Qt.TextElideMode.ElideMiddle
        shown = (metrics.elidedText(name, middle, _WIDEST_NAME_PX) for name in self.names)
        axis.setTicks([list(enumerate(shown)), []])
        longest, least = float(lengths.max(initial=reach)), float(lengths.min(initial=0.0))
        self.box.setXRange(least * 1.04, longest * 1.04 or 1.0, padding=0)
        scale, unit = next((s, u) for least, s, u in _UNITS if longest >= least)
        self.plot.getAxis("bottom").setScale(scale)
        self.set_label("bottom", f"{self._unit}{unit}")
        self._fit()

    def choose(self, indices: Iterable[int]) -> None:
        """Mark the selected bars."""
        self._draw(self._marked, sorted(indices))

    def restyle(self, theme: Theme) -> None:
        self._bars.setOpts(brush=wash(theme.accent, 0.55), pen=None)
        self._marked.setOpts(brush=wash(theme.warning), pen=None)

    def _draw(self, item: pg.BarGraphItem, indices: Iterable[int]) -> None:
        rows = np.asarray(list(indices), np.intp)
        item.setVisible(bool(rows.size))
        if rows.size:
            item.setOpts(y=rows, x0=np.zeros(rows.size), x1=self.lengths[rows], height=0.72)

    def _fit(self) -> None:
        """Show as many rows as are legible at this height."""
        count = max(len(self.names), 1)
        rows = max(3.0, self.box.height() / _ROW_PX)
        end = max(count - 0.4, rows - 0.6)
        self.box.setLimits(yMin=-0.6, yMax=end, minYRange=3, maxYRange=rows)
        self.box.setYRange(-0.6, -0.6 + rows, padding=0)

    def _tell(self, point: QPointF) -> str:
        row = round(point.y())
        return self._describe(row) if 0 <= row < len(self.names) else ""

    def _on_picked(self, _x: float, y: float, _adds: bool) -> None:
        if 0 <= round(y) < len(self.names):
            self.bar_chosen.emit(round(y))
