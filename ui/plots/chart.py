"""The plain chart under every plot: theme, axes, hovering, picking and brushing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyqtgraph as pg
from PySide6.QtCore import QPoint, QPointF, Qt, Signal
from PySide6.QtGui import QColor, QFont
from PySide6.QtWidgets import QToolTip, QVBoxLayout, QWidget

from ui.theme import Theme

_TICK_PX = 11
_LEAST_PX = 120
_STALE = 0.4
_AIR = 0.05


class BrushBox(pg.ViewBox):  # type: ignore[misc]
    """Left drag brushes along x, Shift or the middle button moves, the wheel zooms along x.

    Signals:
        brushed: both ends along x, and whether the drag is over.
        picked: the place of a click, and whether it adds to what is chosen.
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
            place = self.mapSceneToView(event.scenePos())
            adds = bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)
            self.picked.emit(place.x(), place.y(), adds)


class Chart(QWidget):
    """One pair of axes.

    ``tell`` gives the text about the place under the cursor, "" for nothing.
    """

    def __init__(
        self, name: str, bottom: str, left: str, parent: QWidget | None = None, *,
        is_upright: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(parent)
        self.box = BrushBox(is_upright=is_upright)
        self.view = pg.PlotWidget(parent=self, viewBox=self.box)
        self.view.setAccessibleName(name)
        self.view.setFrameShape(self.view.Shape.NoFrame)
        self.plot = self.view.getPlotItem()
        self.plot.hideButtons()
        self.plot.setMenuEnabled(False)
        self.plot.disableAutoRange()
        self.labels = {"bottom": bottom, "left": left}
        self.tell: Callable[[QPointF], str] = lambda _place: ""
        self._told = ""
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.view)
        self.setMinimumSize(_LEAST_PX, _LEAST_PX)
        # Half of the uppermost tick's label stands above the axis.
        self.plot.layout.setContentsMargins(1, _TICK_PX // 2 + 1, 1, 1)
        self.view.scene().sigMouseMoved.connect(self._on_mouse_moved)

    def set_theme(self, theme: Theme) -> None:
        """Take on the colours of a theme."""
        self.view.setBackground(theme.surface)
        font = QFont(self.font())
        font.setPixelSize(_TICK_PX)
        for side, text in self.labels.items():
            axis = self.plot.getAxis(side)
            axis.setPen(pen(theme.border))
            axis.setTextPen(pen(theme.muted))
            axis.setStyle(tickFont=font, tickLength=4, autoExpandTextSpace=True)
            style = {"color": theme.muted, "font-size": f"{_TICK_PX}px"}
            axis.setLabel(text, siPrefixEnableRanges=(), **style)
        self.restyle(theme)

    def restyle(self, theme: Theme) -> None:
        """Give the items the colours of a theme."""

    def set_stale(self, stale: bool) -> None:
        """Fade what belongs to a former configuration."""
        self.box.setOpacity(_STALE if stale else 1.0)

    def set_empty(self, *, empty: bool) -> None:
        """Show no axes while there is nothing to read on them."""
        self.plot.setVisible(not empty)

    def set_label(self, side: str, text: str) -> None:
        """Name an axis anew."""
        if self.labels[side] != text:
            self.labels[side] = text
            axis = self.plot.getAxis(side)
            axis.setLabel(text, siPrefixEnableRanges=(), **axis.labelStyle)

    def reach(self) -> tuple[float, float, float, float]:
        """Return the shown limits: left, right, bottom, top."""
        (left, right), (bottom, top) = self.box.viewRange()
        return left, right, bottom, top

    def set_rise(self, low: float, high: float) -> None:
        """Show values from ``low`` to ``high`` with a little air."""
        if not high > low:
            low, high = low - 0.5, high + 0.5
        # Room for half a line of text at the least: a tick's label may stand at either end.
        air = (high - low) * max(_AIR, _TICK_PX / max(self.box.height(), 4.0 * _TICK_PX))
        self.box.setYRange(low - air, high + air, padding=0)

    def set_run(self, low: float, high: float) -> None:
        """Show places from ``low`` to ``high`` along x, and let nobody leave them."""
        self.box.setLimits(xMin=low, xMax=high, minXRange=min(3.0, high - low))
        self.box.setXRange(low, high, padding=0)

    def _on_mouse_moved(self, position: QPointF) -> None:
        inside = self.box.sceneBoundingRect().contains(position)
        text = self.tell(self.box.mapSceneToView(position)) if inside else ""
        if text != self._told:
            self._told = text
            spot = self.view.mapFromScene(position)
            where = self.view.viewport().mapToGlobal(QPoint(spot.x() + 12, spot.y() + 12))
            if text:
                QToolTip.showText(where, text, self.view)
            else:
                QToolTip.hideText()


def pen(colour: str, *, is_dashed: bool = False) -> Any:
    """Return a line of one pixel."""
    style = Qt.PenStyle.DashLine if is_dashed else Qt.PenStyle.SolidLine
    return pg.mkPen(QColor(colour), width=1, style=style)


def wash(colour: str, opacity: float = 1.0) -> QColor:
    """Return a colour that lets through what is behind it."""
    made = QColor(colour)
    made.setAlphaF(opacity)
    return made
