"""The ranges of one tensor that its calls take, as distributions over the samples."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QSplitter, QVBoxLayout, QWidget

from ui.figures import figure
from ui.plots.call_plots import CallPlot, ScalePlot
from ui.plots.series import SampleView
from ui.theme import Theme
from workbench.analysis.ranges import CallRanges, call_ranges

NOTHING = "Calibration kept no samples of this tensor."


class CallsView(QWidget):
    """A sentence, every call's range, and how the scales spread."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.told = QLabel(NOTHING, self)
        self.told.setWordWrap(True)
        self.calls, self.scales = CallPlot(self), ScalePlot(self)
        split = QSplitter(Qt.Orientation.Horizontal, self)
        for part in (self.calls, self.scales):
            split.addWidget(part)
            split.setCollapsible(split.count() - 1, False)
        split.setSizes([240, 160])
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 4, 0, 0)
        layout.setSpacing(4)
        layout.addWidget(self.told)
        layout.addWidget(split, 1)

    def render_calls(self, mode: str, view: SampleView) -> None:
        """Show another tensor's calls; ``mode`` is how they take their range."""
        ranges = call_ranges(mode, view.low, view.high)
        self.told.setText(_sentences(ranges))
        self.calls.render_calls(ranges)
        self.scales.render_calls(ranges)

    def set_theme(self, theme: Theme) -> None:
        """Take on the colours of a theme."""
        self.calls.set_theme(theme)
        self.scales.set_theme(theme)


def _sentences(ranges: CallRanges) -> str:
    known = ranges.scale[np.isfinite(ranges.scale)]
    warning = f"Warning: {ranges.warning}." if ranges.warning else ""
    if not known.size:
        return warning or NOTHING
    zeros = ranges.zero_point[np.isfinite(ranges.zero_point)]
    low, middle, high = (figure(float(f(known))) for f in (np.min, np.median, np.max))
    points = sorted({int(zeros.min()), int(zeros.max())})
    spread = float(known.max() / known.min())
    return (
        f"Scale {low} to {high}, median {middle}: the widest call's step is {spread:.3g} times the "
        f"narrowest's. Zero point {' to '.join(map(str, points))}. {warning}"
    ).strip()
