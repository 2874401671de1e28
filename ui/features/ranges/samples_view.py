"""Calibration samples of one tensor, and excluding them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from ui.shared.chart import Chart, Scatter, pen, wash
from ui.shared.labels import Label
from ui.shared.number_format import figure, percent
from ui.shared.range_data import SampleView
from ui.shared.theme import Theme

_DOT_PX = 4


class CoveragePlot(Chart):
    """Plot of the minimum and maximum by sample, and of the cumulative range."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Range by sample", "samples", "value", parent)
        self.count_along_x()
        self.view_of = SampleView()
        self._lines = [pg.PlotCurveItem() for _ in range(2)]
        self._dots = Scatter(size=_DOT_PX, pen=None, pxMode=True)
        for item in (*self._lines, self._dots):
            self.plot.addItem(item, ignoreBounds=True)
        self.tell = self._tell

    def render_samples(self, view: SampleView) -> None:
        """Show the samples of a tensor."""
        self.view_of = view
        positions = np.arange(view.numbers.size, dtype=np.float64)
        for line, values in zip(self._lines, (view.running_low, view.running_high), strict=True):
            line.setData(positions, values, connect="finite")
        self._dots.setData(np.tile(positions, 2), np.concatenate([view.low, view.high]))
        ends = np.concatenate([view.low, view.high])
        ends = ends[np.isfinite(ends)]
        if ends.size:
            self.set_rise(min(float(ends.min()), 0.0), max(float(ends.max()), 0.0))
        self.set_run(-0.7, max(view.numbers.size, 2) - 0.3)

    def restyle(self, theme: Theme) -> None:
        self._dots.setBrush(wash(theme.muted, 0.9))
        for line in self._lines:
            line.setPen(pen(theme.accent))

    def _tell(self, point: QPointF) -> str:
        at, view = round(point.x()), self.view_of
        if not 0 <= at < view.numbers.size:
            return ""
        return (
            f"sample {view.numbers[at]}: {view.low[at]:.4g} to {view.high[at]:.4g}\n"
            f"range so far: {view.running_low[at]:.4g} to {view.running_high[at]:.4g}"
        )


NOTHING = "No sample data of this tensor."


class SamplesView(QWidget):
    """Shows the cumulative range, the samples that set its ends, and buttons to exclude them.

    Signals:
        drop_asked: numbers of samples.
        restore_asked: numbers of samples.
    """

    drop_asked = Signal(object)
    restore_asked = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.summary = Label(NOTHING, self)
        self.summary.setWordWrap(True)
        self.plot = CoveragePlot(self)
        self.drops = [QPushButton(self) for _ in range(2)]
        self._setters: list[int] = []
        for index, button in enumerate(self.drops):
            button.setToolTip("Exclude it from calibration")
            button.clicked.connect(lambda _=False, at=index: self._on_drop(at))
        self.dropped = Label(self)
        self.dropped.setObjectName("Hint")
        self.dropped.setWordWrap(True)
        self.restore = QPushButton("Include again", self)
        self.restore.clicked.connect(lambda: self.restore_asked.emit(self._out))
        self._out: tuple[int, ...] = ()
        self._arrange()

    def render_samples(self, view: SampleView, dropped: Sequence[int], *, can_drop: bool) -> None:
        """Show the samples of a tensor, and the excluded ones."""
        self._out = tuple(dropped)
        self.plot.setVisible(view.is_known)
        self._setters = sorted({s for s in view.setters() if s is not None}) if view.is_known else []
        self.summary.setText(_sentences(view) if view.is_known else NOTHING)
        if view.is_known:
            self.plot.render_samples(view)
        for index, button in enumerate(self.drops):
            there = index < len(self._setters)
            button.setVisible(there and can_drop and view.numbers.size > 1)
            button.setText(f"Exclude sample {self._setters[index]}" if there else "")
        self.dropped.setText(f"Excluded: {', '.join(map(str, dropped))}" if dropped else "")
        self.dropped.setVisible(bool(dropped))
        self.restore.setVisible(bool(dropped))

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of a theme."""
        self.plot.set_theme(theme)

    def _arrange(self) -> None:
        row = QHBoxLayout()
        for button in self.drops:
            row.addWidget(button)
        row.addStretch(1)
        out = QHBoxLayout()
        out.addWidget(self.dropped, 1)
        out.addWidget(self.restore)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 4, 0, 0)
        layout.setSpacing(4)
        layout.addWidget(self.summary)
        layout.addWidget(self.plot, 1)
        layout.addLayout(row)
        layout.addLayout(out)

    def _on_drop(self, index: int) -> None:
        self.drop_asked.emit([self._setters[index]])


def _sentences(view: SampleView) -> str:
    least, greatest = view.setters()
    low, high = figure(float(view.running_low[-1])), figure(float(view.running_high[-1]))
    if least is not None and least == greatest:
        first = f"Sample {least} has both the minimum {low} and the maximum {high}."
    else:
        first = f"{_setter(least)} the minimum {low}, {_setter(greatest).lower()} the maximum {high}."
    if view.numbers.size < 4:
        return f"{first} {view.numbers.size} samples are too few for a trend."
    late = view.widened_late()
    share = "did not widen the range" if late <= 0 else f"widened the range by {percent(late)}"
    return f"{first} The last quarter of the samples {share}."


def _setter(sample: int | None) -> str:
    return "Several samples have" if sample is None else f"Sample {sample} has"
