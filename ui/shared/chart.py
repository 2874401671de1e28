"""Base class of all plots: theme, axes, hover text, picking and brushing."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from html import escape
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QEvent, QObject, QPoint, QPointF, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QKeySequence, QResizeEvent, QShortcut
from PySide6.QtWidgets import QToolTip, QVBoxLayout, QWidget

from ui.shared.labels import literal
from ui.shared.theme import Theme

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Labels of axes whose values are drawn on a logarithmic scale.
COUNTS_LOG = "elements, log scale"
_TICK_PX = 11
# Room for a tick of a logarithmic axis with its text.
_TICK_WIDE_PX, _TICK_HIGH_PX = 44, 26
_LEAST_PX = 120
_LEAST_TICKS = 2
# Height from which there is a label below a plot [px].
_LABELLED_PX = 120
_STALE = 0.4
_AIR = 0.05
# Ticks with more decimals, or from this size on, have an exponent.
_MOST_PLACES, _LARGEST, _ROUNDING = 5, 1e9, 1e-9


class BrushBox(pg.ViewBox):  # type: ignore[misc]
    """Left drag brushes along x, Shift or the middle button pans, the wheel zooms along x.

    Signals:
        brushed: both ends along x, and whether the drag has ended.
        picked: the position of a click, and whether it extends the selection.
    """

    brushed = Signal(float, float, bool)
    picked = Signal(float, float, bool)

    def __init__(self, *, is_upright: bool = True) -> None:
        super().__init__(enableMenu=False)
        self.setMouseEnabled(x=is_upright, y=not is_upright)
        self.setDefaultPadding(0.0)

    def mouseDragEvent(self, event: Any, axis: int | None = None) -> None:
        held = event.modifiers() & Qt.KeyboardModifier.ShiftModifier
        if event.button() != Qt.MouseButton.LeftButton or held:
            super().mouseDragEvent(event, axis)
            return
        event.accept()
        begun = self.mapSceneToView(event.buttonDownScenePos())
        now = self.mapSceneToView(event.scenePos())
        self.brushed.emit(begun.x(), now.x(), event.isFinish())

    def mouseClickEvent(self, event: Any) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            event.accept()
            point = self.mapSceneToView(event.scenePos())
            adds = bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)
            self.picked.emit(point.x(), point.y(), adds)


class Scatter(pg.ScatterPlotItem):  # type: ignore[misc]
    """Dots that leave clicks to the box of the chart: pyqtgraph's take a click on a dot."""

    def mouseClickEvent(self, event: Any) -> None:
        event.ignore()


def tick_texts(values: list[float], scale: float, spacing: float) -> list[str]:
    """Return the texts of linear ticks, with thousands separators.

    The arguments are those of pyqtgraph's ``AxisItem.tickStrings``, which it replaces.
    """
    step = spacing * scale
    digits = max(0, math.ceil(-math.log10(step) - _ROUNDING)) if step > 0 else 0
    largest = max((abs(value * scale) for value in values), default=0.0)
    if digits > _MOST_PLACES or largest >= _LARGEST:
        return [f"{value * scale:.4g}" for value in values]
    return [f"{value * scale:,.{digits}f}" for value in values]


def whole_spacing(low: float, high: float, size: float) -> list[tuple[float, float]]:
    """Return spacing and offset of ticks at whole numbers, with room for their texts.

    The arguments are those of pyqtgraph's ``AxisItem.tickSpacing``, which it replaces: the ends of
    the axis, and its length [px].
    """
    least = abs(high - low) * _TICK_WIDE_PX / max(size, 1.0)
    steps = (digit * 10**decade for decade in count() for digit in (1, 2, 5))
    return [(float(next(step for step in steps if step >= least)), 0.0)] if high > low else []


def log_ticks(low: float, high: float, room: int) -> list[tuple[float, str]]:
    """Return ticks of a logarithmic axis: 1, 2 and 5 of each decade, or whole decades.

    An axis that is too short for two of these has ticks at equal distances.

    Args:
        low: Common logarithm of the smallest visible value.
        high: Common logarithm of the largest one.
        room: How many ticks fit.

    Returns:
        The logarithm and the text of each tick.
    """
    decades = range(math.floor(low), math.ceil(high) + 1)
    for digits in ((1, 2, 3, 5, 7), (1, 2, 5), (1,)):
        values = [digit * 10.0**decade for decade in decades for digit in digits]
        shown = [value for value in values if low <= math.log10(value) <= high]
        if len(shown) <= room or digits == (1,):
            break
    if len(shown) < _LEAST_TICKS:
        shown = _even_values(10.0**low, 10.0**high, room) or shown
    stride = max(1, -(-len(shown) // max(room, 1)))
    return [(math.log10(value), f"{value:,.9g}") for value in shown[::stride]]


def _even_values(low: float, high: float, room: int) -> list[float]:
    """Return multiples of the least 1, 2 or 5 times a power of ten of which no more than ``room`` fit."""
    if not 0.0 < low < high < math.inf:
        return []
    power = 10.0 ** math.floor(math.log10((high - low) / max(room, 1)))
    for step in (digit * power for digit in (1, 2, 5, 10)):
        first, last = math.ceil(low / step), math.floor(high / step)
        if last - first < room:
            return [number * step for number in range(first, last + 1)]
    return []


def count_ticks(high: float) -> list[tuple[float, str]]:
    """Return ticks of counts n that are drawn at log10(1 + n): 0 and powers of ten.

    Args:
        high: The greatest visible position.
    """
    powers = [10**decade for decade in range(math.floor(max(high, 0.0)) + 1)]
    ticks = [(math.log10(1 + power), f"{power:,}") for power in powers]
    return [(0.0, "0"), *((position, text) for position, text in ticks if position <= high)]


class Chart(QWidget):
    """A plot with one pair of axes.

    ``tell`` returns the hover text for a position; "" for none.
    """

    def __init__(
        self, name: str, bottom: str, left: str, parent: QWidget | None = None, *,
        is_upright: bool = True, is_log: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(parent)
        self.box = BrushBox(is_upright=is_upright)
        self.view = pg.PlotWidget(parent=self, viewBox=self.box)
        self.view.setAccessibleName(name)
        self.view.setFrameShape(self.view.Shape.NoFrame)
        self.plot = self.view.getPlotItem()
        self.plot.setLogMode(x=is_log, y=is_log)
        for side in ("bottom", "left", "top", "right"):
            # An axis made here would belong to Python, which may delete it before its scene.
            axis = self.plot.getAxis(side)
            # It would lay out its label again with each change of the range.
            axis.enableAutoSIPrefix(False)
            if not is_log:
                axis.tickStrings = tick_texts
        self.plot.hideButtons()
        self.plot.setMenuEnabled(False)
        self.plot.disableAutoRange()
        self.labels = {"bottom": bottom, "left": left}
        self.tell: Callable[[QPointF], str] = lambda _position: ""
        self._hover_text = ""
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.view)
        self.setMinimumSize(_LEAST_PX, _LEAST_PX)
        # Half of the topmost tick label is above the axis.
        self.plot.layout.setContentsMargins(1, _TICK_PX // 2 + 1, 1, 1)
        self.view.scene().sigMouseMoved.connect(self._on_mouse_moved)
        self.box.sigResized.connect(self._show_labels)
        if is_log:
            self.box.sigRangeChanged.connect(self._show_log_ticks)
            self.box.sigResized.connect(self._show_log_ticks)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Leave out the label below a low plot, which needs the room."""
        super().resizeEvent(event)
        axis, is_high = self.plot.getAxis("bottom"), self.height() >= _LABELLED_PX
        if self.labels["bottom"] and axis.label.isVisible() != is_high:
            axis.showLabel(is_high)

    def count_along_x(self) -> None:
        """Let the ticks along x be whole numbers, e.g. of steps."""
        self.plot.getAxis("bottom").tickSpacing = whole_spacing

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of a theme."""
        self.view.setBackground(theme.surface)
        font = QFont(self.font())
        font.setPixelSize(_TICK_PX)
        for side, text in self.labels.items():
            axis = self.plot.getAxis(side)
            axis.setPen(pen(theme.border))
            axis.setTextPen(pen(theme.muted))
            axis.setStyle(tickFont=font, tickLength=4, autoExpandTextSpace=True)
            style = {"color": theme.muted, "font-size": f"{_TICK_PX}px"}
            self._set_axis_label(axis, self._fitting(side, text), style)
        self.restyle(theme)

    def restyle(self, theme: Theme) -> None:
        """Apply the theme's colours to the plot items."""

    def set_stale(self, stale: bool) -> None:
        """Fade the plot if its result is outdated."""
        self.box.setOpacity(_STALE if stale else 1.0)

    def set_empty(self, *, empty: bool) -> None:
        """Hide the axes while the plot is empty."""
        self.plot.setVisible(not empty)

    def set_label(self, side: str, text: str) -> None:
        """Set the label of an axis."""
        if self.labels[side] != text:
            self.labels[side] = text
            self._show_label(side)

    def reach(self) -> tuple[float, float, float, float]:
        """Return the visible range: left, right, bottom, top."""
        (left, right), (bottom, top) = self.box.viewRange()
        return left, right, bottom, top

    def show_counts(self, high: float | None) -> None:
        """Label the left axis with counts drawn at log10(1 + n) up to a position; None as usual."""
        ticks = None if high is None else [count_ticks(high), []]
        self.plot.getAxis("left").setTicks(ticks)

    def set_rise(self, low: float, high: float) -> None:
        """Show y values from ``low`` to ``high`` with a margin."""
        if not high > low:
            low, high = low - 0.5, high + 0.5
        # At least half a line of text: a tick label may be at either end.
        air = (high - low) * max(_AIR, _TICK_PX / max(self.box.height(), 4.0 * _TICK_PX))
        self.box.setYRange(low - air, high + air, padding=0)

    def set_run(self, low: float, high: float) -> None:
        """Show x values from ``low`` to ``high`` and limit panning to them."""
        self.box.setLimits(xMin=low, xMax=high, minXRange=min(3.0, high - low))
        self.box.setXRange(low, high, padding=0)

    def _show_labels(self, *_: object) -> None:
        for side in self.labels:
            self._show_label(side)

    def _show_label(self, side: str) -> None:
        axis, shown = self.plot.getAxis(side), self._fitting(side, self.labels[side])
        if axis.labelText != escape(shown):
            self._set_axis_label(axis, shown, axis.labelStyle)

    def _set_axis_label(self, axis: Any, text: str, style: dict[str, str]) -> None:
        axis.setLabel(escape(text), **style)
        # pyqtgraph centres a label only when the axis gets another size.
        axis.resizeEvent()

    def _fitting(self, side: str, text: str) -> str:
        """Return as much of the label of an axis as fits beside it: parts end at commas."""
        font = QFont(self.font())
        font.setPixelSize(_TICK_PX)
        room = self.box.height() if side == "left" else self.box.width()
        metrics = QFontMetricsF(font)
        while ", " in text and metrics.horizontalAdvance(text) > room:
            text = text.rpartition(", ")[0]
        return text

    def _show_log_ticks(self, *_: object) -> None:
        left, right, bottom, top = self.reach()
        room = {"bottom": self.box.width() / _TICK_WIDE_PX, "left": self.box.height() / _TICK_HIGH_PX}
        for side, ends in (("bottom", (left, right)), ("left", (bottom, top))):
            self.plot.getAxis(side).setTicks([log_ticks(*ends, max(2, int(room[side]))), []])

    def _on_mouse_moved(self, position: QPointF) -> None:
        inside = self.box.sceneBoundingRect().contains(position)
        text = self.tell(self.box.mapSceneToView(position)) if inside else ""
        if text != self._hover_text:
            self._hover_text = text
            spot = self.view.mapFromScene(position)
            where = self.view.viewport().mapToGlobal(QPoint(spot.x() + 12, spot.y() + 12))
            if text:
                QToolTip.showText(where, literal(text), self.view)
            else:
                QToolTip.hideText()


def pen(colour: str, *, is_dashed: bool = False) -> Any:
    """Return a pen of one pixel."""
    style = Qt.PenStyle.DashLine if is_dashed else Qt.PenStyle.SolidLine
    return pg.mkPen(QColor(colour), width=1, style=style)


def wash(colour: str, opacity: float = 1.0) -> QColor:
    """Return a translucent colour."""
    result = QColor(colour)
    result.setAlphaF(opacity)
    return result


_ZOOM, _STEP = 1.3, 0.15


class ViewKeys(QObject):
    """Shortcuts that zoom and pan a chart along x.

    They work while the pointer is over the chart or the chart has the focus.
    """

    def __init__(self, chart: Chart) -> None:
        super().__init__(chart)
        self._chart = chart
        self._ends = (0.0, 1.0)
        self._pointer: QPointF | None = None
        deeds = {
            "W": partial(self.zoom, 1 / _ZOOM),
            "S": partial(self.zoom, _ZOOM),
            "A": partial(self.move, -_STEP),
            "D": partial(self.move, _STEP),
            "F": self.fit,
        }
        self._shortcuts = []
        for key, deed in deeds.items():
            shortcut = QShortcut(QKeySequence(key), chart)
            shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            shortcut.activated.connect(deed)
            self._shortcuts.append(shortcut)
        chart.view.scene().sigMouseMoved.connect(self._on_moved)
        chart.view.installEventFilter(self)

    def set_ends(self, low: float, high: float) -> None:
        """Set the full range and show all of it."""
        self._ends = (low, high)
        self._chart.set_run(low, high)

    def zoom(self, factor: float) -> None:
        """Scale the visible range by ``factor`` around the pointer."""
        left, right, _, _ = self._chart.reach()
        fixed = self._pointed(left, right)
        self._show(fixed - (fixed - left) * factor, (right - left) * factor)

    def move(self, share: float) -> None:
        """Pan right by a fraction of the visible range; negative values pan left."""
        left, right, _, _ = self._chart.reach()
        self._show(left + share * (right - left), right - left)

    def fit(self) -> None:
        """Show the full range."""
        low, high = self._ends
        self._show(low, high - low)

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.Enter, QEvent.Type.Leave):
            is_over = event.type() == QEvent.Type.Enter
            self._pointer = self._pointer if is_over else None
            context = (
                Qt.ShortcutContext.WindowShortcut
                if is_over
                else Qt.ShortcutContext.WidgetWithChildrenShortcut
            )
            for shortcut in self._shortcuts:
                shortcut.setContext(context)
        return False

    def _show(self, left: float, width: float) -> None:
        low, high = self._ends
        width = min(max(width, min(3.0, high - low)), high - low)
        left = min(max(left, low), high - width)
        self._chart.box.setXRange(left, left + width, padding=0)

    def _pointed(self, left: float, right: float) -> float:
        if self._pointer is None:
            return (left + right) / 2
        point = float(self._chart.box.mapSceneToView(self._pointer).x())
        return min(max(point, left), right)

    def _on_moved(self, position: QPointF) -> None:
        self._pointer = position


_MOST_LABELS = 9
_LN10 = math.log(10.0)


@dataclass(frozen=True)
class ValueScale:
    """Maps values to positions on an axis.

    Below ``linear`` a symmetric logarithm is linear; None is a linear axis.
    """

    linear: float | None = None

    def position(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the axis positions of values."""
        if self.linear is None:
            return values
        sizes: NDArray[np.float64] = np.log1p(np.abs(values) / self.linear) / _LN10
        return np.copysign(sizes, values)

    def value(self, position: float) -> float:
        """Return the value at an axis position."""
        if self.linear is None:
            return position
        return math.copysign(math.expm1(min(abs(position), 300.0) * _LN10) * self.linear, position)

    def ticks(self, low: float, high: float) -> list[tuple[float, str]] | None:
        """Return labelled ticks between two positions; None for the default ticks of the axis."""
        if self.linear is None:
            return None
        first = math.floor(math.log10(self.linear)) + 1
        reach = max(abs(self.value(low)), abs(self.value(high)), self.linear * 10)
        decades = list(range(first, math.floor(math.log10(reach)) + 1))
        stride = max(1, -(-len(decades) // max(_MOST_LABELS // 2, 1)))
        # Thinned out from the largest value, whose labels are furthest from zero.
        kept = [10.0**power for power in decades[::-1][::stride]]
        values = [-value for value in kept] + [0.0] + kept[::-1]
        positions = self.position(np.asarray(values, np.float64))
        return [
            (float(position), f"{value:g}")
            for position, value in zip(positions, values, strict=True)
            if low <= position <= high
        ]


LINEAR = ValueScale()


def symmetric_log(limits: NDArray[np.float64]) -> ValueScale:
    """Return a symmetric logarithmic axis on which tensors with these widths are all visible."""
    sizes = np.abs(limits)
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    if not sizes.size:
        return ValueScale(1.0)
    return ValueScale(10.0 ** (math.floor(math.log10(float(np.percentile(sizes, 10)))) - 2))
