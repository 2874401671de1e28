"""Plot of accuracy over cycles: a dot per configuration, sized by SRAM, with the Pareto front."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, Signal
from PySide6.QtWidgets import QWidget

from ui.shared.chart import Chart, Scatter, pen, wash
from ui.shared.theme import Theme

_SMALLEST_PX, _LARGEST_PX = 8.0, 20.0
_NEAR_PX = 14.0
# The largest figure that is drawn: ticks of axes overflow beyond it.
_MOST = 1e15
# What ``Dot.has_more_cpu`` looks like, in words.
CPU_WORDS = "Triangle: more CPU operators, whose time the cycles leave out."
# What cycles are counted in, from ten of them on.
_UNITS = ((1_000_000, "million "), (1_000, "thousand "))
# Names of accuracies in [0, 1].
_SHARES = ("top-1", "Top-1")


@dataclass(frozen=True)
class Dot:
    """One configuration: accuracy, cycles and peak SRAM [bytes].

    A faint dot breaks a limit that the plot does not show. ``has_more_cpu`` is whether more
    operators run on the CPU than in other configurations: its cycles leave these out, and it is
    drawn as a triangle.
    """

    accuracy: float
    cycles: float
    sram: float
    on_front: bool = False
    is_faint: bool = False
    has_more_cpu: bool = False


def _drawable(dot: Dot) -> Dot:
    """Return a dot within what axes can show: figures of a history of somebody else may be anything."""
    accuracy, cycles = (min(max(value, -_MOST), _MOST) for value in (dot.accuracy, dot.cycles))
    return replace(dot, accuracy=accuracy, cycles=cycles, sram=min(max(dot.sram, 0), _MOST))


class TradeoffPlot(Chart):
    """Dots, their Pareto front, and two draggable limits.

    Signals:
        dot_chosen: index of a dot, and whether it extends the selection.
        limits_changed: the minimum accuracy and the maximum cycles after a drag.
    """

    dot_chosen = Signal(int, bool)
    limits_changed = Signal(float, float)

    def __init__(
        self,
        name: str,
        describe: Callable[[int], str],
        parent: QWidget | None = None,
        *,
        has_limits: bool = True,
    ) -> None:
        super().__init__(name, "cycles, estimated (Vela)", "accuracy", parent)
        self.dots: tuple[Dot, ...] = ()
        self._describe = describe
        self._has_limits = has_limits
        self._is_share = False
        self._is_dragged = False
        self._chosen: frozenset[int] = frozenset()
        self._theme: Theme | None = None
        self.box.setMouseEnabled(x=False, y=False)
        self._front = pg.PlotCurveItem()
        self._trail = pg.PlotCurveItem()
        self._dots = Scatter()
        self._least = pg.InfiniteLine(angle=0, movable=True)
        self._most = pg.InfiniteLine(angle=90, movable=True)
        for item in (self._trail, self._front, self._dots, self._least, self._most):
            self.plot.addItem(item, ignoreBounds=True)
        for line in (self._least, self._most):
            line.sigPositionChanged.connect(self._paint)
            line.sigDragged.connect(self._on_dragged)
            line.sigPositionChangeFinished.connect(self._on_limits)
            line.hide()
        self.tell = self._tell
        self.box.picked.connect(self._on_picked)

    def render_dots(self, dots: Sequence[Dot], accuracy: str) -> None:
        """Show dots; ``accuracy`` is the label of the y axis. Shares are shown in per cent."""
        self._is_share = accuracy.startswith(_SHARES)
        if self._is_share:
            name, _, rest = accuracy.partition(",")
            accuracy = f"{name} [%],{rest}"
        self.plot.getAxis("left").setScale(100.0 if self._is_share else 1.0)
        if not dots or accuracy != self.labels["left"]:
            self.release_limits()
        self.dots = tuple(map(_drawable, dots))
        self.set_empty(empty=not dots)
        self.set_label("left", accuracy)
        for line in (self._least, self._most):
            line.setVisible(bool(dots) and self._has_limits)
        if not dots:
            self._dots.clear()
            self._front.setData([], [])
            return
        self._reach_all()
        if not self._is_dragged:
            # Nobody has set a limit: no dot is outside.
            _, right, bottom, _ = self.reach()
            self._least.setValue(bottom)
            self._most.setValue(right)
        self._draw_front()
        self._paint()

    def release_limits(self) -> None:
        """Let the limits include all dots again, as before one was dragged."""
        self._is_dragged = False

    def render_trail(self, indices: Sequence[int]) -> None:
        """Connect dots by a dashed line, in this order."""
        trail = [self.dots[index] for index in indices]
        self._trail.setData([d.cycles for d in trail], [d.accuracy for d in trail])

    def choose(self, indices: Iterable[int]) -> None:
        """Mark the selected dots."""
        self._chosen = frozenset(indices)
        self._paint()

    def keeps_limits(self, index: int) -> bool:
        """Return whether a dot is within both limits."""
        dot = self.dots[index]
        if not self._has_limits:
            return not dot.is_faint
        least, most = float(self._least.value()), float(self._most.value())
        return dot.accuracy >= least and dot.cycles <= most

    def restyle(self, theme: Theme) -> None:
        self._theme = theme
        self._trail.setPen(pen(theme.muted, is_dashed=True))
        self._front.setPen(pg.mkPen(theme.good, width=2))
        for line in (self._least, self._most):
            line.setPen(pen(theme.warning, is_dashed=True))
            line.setHoverPen(pg.mkPen(theme.warning, width=3))
        self._paint()

    def _reach_all(self) -> None:
        cycles = np.asarray([d.cycles for d in self.dots])
        heights = np.asarray([d.accuracy for d in self.dots])
        size, unit = next((u for u in _UNITS if float(cycles.max()) >= 10 * u[0]), (1, ""))
        self.set_label("bottom", f"{unit}cycles, estimated (Vela)")
        self.plot.getAxis("bottom").setScale(1.0 / size)
        bottom, top = _air(float(heights.min()), float(heights.max()))
        self.set_rise(bottom, min(top, 1.0) if self._is_share else top)
        low, high = _air(float(cycles.min()), float(cycles.max()))
        self.box.setXRange(low, high, padding=0)

    def _draw_front(self) -> None:
        steps = sorted((d.cycles, d.accuracy) for d in self.dots if d.on_front)
        best: list[tuple[float, float]] = []
        for cycles, accuracy in steps:
            if best and accuracy <= best[-1][1]:
                continue
            if best:
                best.append((cycles, best[-1][1]))
            best.append((cycles, accuracy))
        self._front.setData([x for x, _ in best], [y for _, y in best])

    def _paint(self) -> None:
        if self._theme is None or not self.dots:
            return
        theme = self._theme
        memory = np.asarray([d.sram for d in self.dots], np.float64)
        top = float(memory.max()) or 1.0
        sizes = _SMALLEST_PX + (_LARGEST_PX - _SMALLEST_PX) * memory / top
        colours, rims = [], []
        for index, dot in enumerate(self.dots):
            inside = self.keeps_limits(index)
            colour = theme.good if dot.on_front else theme.accent
            colours.append(pg.mkBrush(wash(colour, 0.75 if inside else 0.18)))
            is_chosen = index in self._chosen
            rims.append(pg.mkPen(theme.text if is_chosen else theme.surface, width=2))
        self._dots.setData(
            x=[d.cycles for d in self.dots],
            y=[d.accuracy for d in self.dots],
            size=sizes,
            brush=colours,
            pen=rims,
            symbol=["t1" if d.has_more_cpu else "o" for d in self.dots],
        )

    def _nearest(self, point: QPointF) -> int | None:
        if not self.dots:
            return None
        unit_x, unit_y = self.box.viewPixelSize()
        away = [
            ((d.cycles - point.x()) / unit_x) ** 2 + ((d.accuracy - point.y()) / unit_y) ** 2
            for d in self.dots
        ]
        nearest = int(np.argmin(away))
        return nearest if away[nearest] <= _NEAR_PX**2 else None

    def _tell(self, point: QPointF) -> str:
        nearest = self._nearest(point)
        return self._describe(nearest) if nearest is not None else ""

    def _on_picked(self, x: float, y: float, adds: bool) -> None:
        nearest = self._nearest(QPointF(x, y))
        if nearest is not None:
            self.dot_chosen.emit(nearest, adds)

    def _on_dragged(self, _line: object) -> None:
        self._is_dragged = True

    def _on_limits(self) -> None:
        self.limits_changed.emit(float(self._least.value()), float(self._most.value()))


def _air(low: float, high: float) -> tuple[float, float]:
    room = (high - low) * 0.12 or abs(high) * 0.1 or 0.5
    return low - room, high + room
