"""Memory allocation plot: a rectangle per tensor, time on x and address on y."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, QSizeF, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QTransform
from PySide6.QtWidgets import QWidget

from ui.shared.chart import Chart, pen, wash
from ui.shared.theme import Theme
from workbench.results import LiveRange

_KIB = 1024
# Vela's name for weights that are copied to SRAM at run time.
_BUFFERS = "OpBuffering"
# The smallest block that is drawn, and the side from which it has a rim [px].
_LEAST_BLOCK, _RIMMED_PX = QSizeF(1.0, 1.0), 4.0
# Names in blocks: their size, the room around them, and the narrowest room that has one [px].
_NAME_PX, _PAD_PX, _NAMED_PX = 11, 4.0, 40.0


class _Blocks(pg.GraphicsObject):  # type: ignore[misc]  # pyqtgraph has no types
    """Rectangles that are never smaller than a pixel, with a rim where there is room for one.

    A bar of pyqtgraph whose rim has the colour of the ground vanishes where it is narrow.
    """

    def __init__(self) -> None:
        super().__init__()
        self._sides = np.zeros((0, 4))
        self._brushes: list[QColor] = []
        self._rim, self._text = QColor(), QColor()
        self._names: tuple[str, ...] = ()

    def show_blocks(
        self,
        sides: NDArray[np.float64],
        brushes: list[QColor],
        rim: QColor,
        names: Sequence[str] = (),
        text: str = "",
    ) -> None:
        """Show rectangles.

        Args:
            sides: Left, right, bottom and top of each, shape (number, 4), in units of the plot.
            brushes: A colour for each.
            rim: The colour of the rims.
            names: A name for each, painted where it has room; or none.
            text: The colour of the names.
        """
        self.prepareGeometryChange()
        self._sides, self._brushes, self._rim = sides, brushes, rim
        self._names, self._text = tuple(names), QColor(text)
        self.update()

    def boundingRect(self) -> QRectF:
        if not self._sides.size:
            return QRectF()
        left, bottom = self._sides[:, [0, 2]].min(axis=0)
        right, top = self._sides[:, [1, 3]].max(axis=0)
        return QRectF(left, bottom, right - left, top - bottom)

    def paint(self, painter: QPainter, *_: object) -> None:
        """Paint the blocks in whole pixels of the picture."""
        shape = painter.worldTransform()
        painter.save()
        painter.resetTransform()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, on=False)
        painter.setPen(Qt.PenStyle.NoPen)
        wide: list[QRectF] = []
        by_colour: dict[int, list[QRectF]] = {}
        for sides, colour in zip(self._sides, self._brushes, strict=True):
            left, right, bottom, top = sides
            block = shape.mapRect(QRectF(left, bottom, right - left, top - bottom))
            block.setSize(block.size().expandedTo(_LEAST_BLOCK))
            by_colour.setdefault(colour.rgba(), []).append(block)
            if min(block.width(), block.height()) >= _RIMMED_PX:
                wide.append(block)
        for rgba, blocks in by_colour.items():
            painter.setBrush(QColor.fromRgba(rgba))
            painter.drawRects(blocks)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(pg.mkPen(self._rim, width=1))
        painter.drawRects(wide)
        self._paint_names(painter, shape)
        painter.restore()

    def _paint_names(self, painter: QPainter, shape: QTransform) -> None:
        font = QFont(painter.font())
        font.setPixelSize(_NAME_PX)
        painter.setFont(font)
        painter.setPen(self._text)
        metrics = QFontMetricsF(font)
        # Tensors that take the place of another one are painted over it.
        painted: list[QRectF] = []
        for (left, right, bottom, top), name in zip(self._sides, self._names, strict=False):
            block = shape.mapRect(QRectF(left, bottom, right - left, top - bottom))
            room = block.adjusted(_PAD_PX, 0, -_PAD_PX, 0)
            if room.width() >= _NAMED_PX and room.height() >= metrics.height():
                shown = metrics.elidedText(name, Qt.TextElideMode.ElideMiddle, room.width())
                place = QRectF(0, 0, metrics.horizontalAdvance(shown), metrics.height())
                place.moveCenter(room.center())
                if not any(place.intersects(other) for other in painted):
                    painter.drawText(place, Qt.AlignmentFlag.AlignCenter, shown)
                    painted.append(place)


class MemoryPlot(Chart):
    """The tensors of one memory, with a line at the peak.

    Signals:
        tensor_chosen: index of a tensor, and whether it extends the selection.
    """

    tensor_chosen = Signal(int, bool)

    def __init__(
        self,
        describe: Callable[[int], str],
        parent: QWidget | None = None,
        *,
        step: str = "schedule step",
        origin: str = "estimated (Vela)",
    ) -> None:
        super().__init__("Tensors in memory", step, f"address [KiB], {origin}", parent)
        self.count_along_x()
        self.tensors: tuple[LiveRange, ...] = ()
        self._describe = describe
        self._names: list[str] = []
        self._chosen: frozenset[int] = frozenset()
        self._theme: Theme | None = None
        self._sides = np.zeros((0, 4))
        self._boxes, self._marks = _Blocks(), _Blocks()
        self._peak = pg.InfiniteLine(angle=0)
        self._most = pg.LinearRegionItem(movable=False)
        for item in (self._most, self._boxes, self._marks, self._peak):
            self.plot.addItem(item, ignoreBounds=True)
        self.tell = self._tell
        self.box.picked.connect(self._on_picked)

    def render_tensors(self, tensors: Sequence[LiveRange], fullest: int) -> None:
        """Show tensors; ``fullest`` is the step of the peak. Nothing is selected afterwards."""
        self.tensors = tuple(tensors)
        self._chosen = frozenset()
        self._names = [t.module or ("weights" if t.usage == _BUFFERS else t.name) for t in tensors]
        self._sides = np.asarray(
            [(t.start, t.end + 1, t.address / _KIB, (t.address + t.bytes) / _KIB) for t in tensors]
        ).reshape(-1, 4)
        if tensors:
            top = float(self._sides[:, 3].max())
            self.set_run(0.0, float(self._sides[:, 1].max()))
            self.set_rise(0.0, top)
            self._peak.setValue(top)
            self._most.setRegion((fullest, fullest + 1))
        self._peak.setVisible(bool(tensors))
        self._most.setVisible(bool(tensors))
        self._paint()

    def choose(self, indices: Iterable[int]) -> None:
        """Mark the selected tensors."""
        self._chosen = frozenset(indices)
        self._mark()

    def restyle(self, theme: Theme) -> None:
        self._theme = theme
        self._peak.setPen(pen(theme.warning, is_dashed=True))
        self._most.setBrush(wash(theme.warning, 0.18))
        for line in self._most.lines:
            line.setPen(pg.mkPen(None))
        self._paint()

    def _paint(self) -> None:
        if self._theme is None:
            return
        theme = self._theme
        kinds = {True: wash(theme.warning, 0.55), False: wash(theme.accent, 0.55)}
        brushes = [kinds[tensor.usage == _BUFFERS] for tensor in self.tensors]
        self._boxes.show_blocks(self._sides, brushes, QColor(theme.surface), self._names, theme.text)
        self._mark()

    def _mark(self) -> None:
        if self._theme is None:
            return
        rows = sorted(self._chosen)
        brushes = [wash(self._theme.good, 0.85)] * len(rows)
        names = [self._names[row] for row in rows]
        rim, ink = QColor(self._theme.text), self._theme.background
        # The names below are covered.
        self._marks.show_blocks(self._sides[rows], brushes, rim, names, ink)

    def _at(self, point: QPointF) -> int | None:
        x, y = point.x(), point.y()
        left, right, low, high = self._sides.T
        inside = np.flatnonzero((left <= x) & (x < right) & (low <= y) & (y < high))
        return int(inside[-1]) if inside.size else None

    def _tell(self, point: QPointF) -> str:
        tensor = self._at(point)
        return self._describe(tensor) if tensor is not None else ""

    def _on_picked(self, x: float, y: float, adds: bool) -> None:
        tensor = self._at(QPointF(x, y))
        if tensor is not None:
            self.tensor_chosen.emit(tensor, adds)
