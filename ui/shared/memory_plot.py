"""Memory allocation plot: a rectangle per tensor, time on x and address on y."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, Signal
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QWidget

from ui.shared.chart import Chart, pen, wash
from ui.shared.theme import Theme
from workbench.results import LiveRange

_KIB = 1024
# Vela's name for weights that are copied to SRAM at run time.
_BUFFERS = "OpBuffering"


class MemoryPlot(Chart):
    """The tensors of one memory, with a line at the peak.

    Signals:
        tensor_chosen: index of a tensor, and whether it extends the selection.
    """

    tensor_chosen = Signal(int, bool)

    def __init__(
        self, describe: Callable[[int], str], parent: QWidget | None = None, *,
        step: str = "schedule step", origin: str = "estimated (Vela)",
    ) -> None:  # fmt: skip
        super().__init__("Tensors in memory", step, f"address [KiB], {origin}", parent)
        self.count_along_x()
        self.tensors: tuple[LiveRange, ...] = ()
        self._describe = describe
        self._chosen: frozenset[int] = frozenset()
        self._theme: Theme | None = None
        self._sides = np.zeros((0, 4))
        self._boxes = pg.BarGraphItem(x0=[], x1=[], y0=[], y1=[])
        self._marks = pg.BarGraphItem(x0=[], x1=[], y0=[], y1=[])
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
        self._draw(self._boxes, self._sides, brushes, QColor(theme.surface))
        self._mark()

    def _mark(self) -> None:
        if self._theme is None:
            return
        rows = sorted(self._chosen)
        brushes = [wash(self._theme.good, 0.85)] * len(rows)
        self._draw(self._marks, self._sides[rows], brushes, QColor(self._theme.text))

    def _draw(
        self, item: pg.BarGraphItem, sides: NDArray[np.float64], brushes: list[QColor], rim: QColor
    ) -> None:
        item.setOpts(
            x0=sides[:, 0], x1=sides[:, 1], y0=sides[:, 2], y1=sides[:, 3],
            brushes=brushes, pen=pg.mkPen(rim, width=1),
        )  # fmt: skip

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
