"""The tensor view: range editor, methods, samples, calls and overrides."""

from __future__ import annotations

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, Qt, QTimer
from PySide6.QtWidgets import QSplitter, QVBoxLayout, QWidget

from ui.features.ranges.range_choices import NO_TENSOR, RangeMethodsView, RangeOverridesView
from ui.features.ranges.range_editor import RangeEditor
from ui.features.ranges.range_table import describe_origin, facts_of, remarks_on
from ui.features.ranges.samples_view import SamplesView
from ui.shared.chart import Chart, pen, wash
from ui.shared.forms import WrappedLabel
from ui.shared.labels import FactsTable, Label
from ui.shared.number_format import figure
from ui.shared.range_data import SampleView
from ui.shared.range_rows import Arrays, Channels, RangeRow
from ui.shared.range_series import samples_of, tensor_of
from ui.shared.tabs import Tabs
from ui.shared.theme import Theme
from workbench.analysis.histogram import Histogram
from workbench.analysis.ranges import CallRanges, call_ranges, choices, histogram_of
from workbench.project.model import Project
from workbench.results import TensorRange

_BINS = 24
_WIDTH = 0.8


class CallPlot(Chart):
    """Plot of the range of each call, sorted by scale."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Range by call", "calls, sorted by scale", "value", parent)
        self.count_along_x()
        self._bars = pg.BarGraphItem(x=[], y0=[], y1=[], width=_WIDTH)
        self.plot.addItem(self._bars, ignoreBounds=True)
        self.order = np.empty(0, np.intp)
        self._ranges: CallRanges | None = None
        self.tell = self._tell

    def render_calls(self, ranges: CallRanges) -> None:
        """Show the calls of a tensor."""
        self._ranges = ranges
        self.order = np.argsort(np.nan_to_num(ranges.scale, nan=-1.0), kind="stable")
        low, high = ranges.low[self.order], ranges.high[self.order]
        self._bars.setOpts(x=np.arange(low.size), y0=low, y1=high, width=_WIDTH)
        if low.size:
            self.set_rise(min(float(low.min()), 0.0), max(float(high.max()), 0.0))
        self.set_run(-0.7, max(low.size, 2) - 0.3)

    def restyle(self, theme: Theme) -> None:
        self._bars.setOpts(brush=wash(theme.accent, 0.6), pen=pen(theme.accent))

    def _tell(self, point: QPointF) -> str:
        at, ranges = round(point.x()), self._ranges
        if ranges is None or not 0 <= at < self.order.size:
            return ""
        call = self.order[at]
        scale, zero = ranges.scale[call], ranges.zero_point[call]
        grid = f"scale {scale:.4g}, zero point {zero:.0f}" if np.isfinite(scale) else "no range"
        return f"{ranges.low[call]:.4g} to {ranges.high[call]:.4g}\n{grid}"


class ScalePlot(Chart):
    """Histogram of the scales of calls."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Scale by call", "scale", "calls", parent)
        self._bars = pg.BarGraphItem(x0=[], x1=[], height=[])
        self.plot.addItem(self._bars, ignoreBounds=True)
        self.counts, self._edges = np.zeros(0, np.intp), np.zeros(1)
        self.tell = self._tell

    def render_calls(self, ranges: CallRanges) -> None:
        """Show the scales of a tensor."""
        known = ranges.scale[np.isfinite(ranges.scale)].astype(np.float64)
        low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
        if low == high:
            low, high = low * 0.95, high * 1.05
        self.counts, self._edges = np.histogram(known, _BINS, (low, high))
        self._bars.setOpts(x0=self._edges[:-1], x1=self._edges[1:], height=self.counts)
        self.set_rise(0.0, max(float(self.counts.max()), 1.0))
        self.set_run(low - (high - low) / 40, high + (high - low) / 40)

    def restyle(self, theme: Theme) -> None:
        self._bars.setOpts(brush=wash(theme.accent, 0.6), pen=pen(theme.accent))

    def _tell(self, point: QPointF) -> str:
        at = int(np.searchsorted(self._edges, point.x())) - 1
        if not 0 <= at < self.counts.size:
            return ""
        ends = f"{self._edges[at]:.4g} to {self._edges[at + 1]:.4g}"
        return f"scale {ends}\n{self.counts[at]} calls"


NOTHING = "No sample data of this tensor."


class CallsView(QWidget):
    """Shows a summary, the range of every call, and the histogram of scales."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.summary = Label(NOTHING, self)
        self.summary.setWordWrap(True)
        self.calls, self.scales = CallPlot(self), ScalePlot(self)
        split = QSplitter(Qt.Orientation.Horizontal, self)
        for part in (self.calls, self.scales):
            split.addWidget(part)
            split.setCollapsible(split.count() - 1, False)
        split.setSizes([240, 160])
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 4, 0, 0)
        layout.setSpacing(4)
        layout.addWidget(self.summary)
        layout.addWidget(split, 1)

    def render_calls(self, mode: str, view: SampleView) -> None:
        """Show the calls of a tensor; ``mode`` is how ranges are computed."""
        ranges = call_ranges(mode, view.low, view.high)
        self.summary.setText(_sentences(ranges))
        self.calls.render_calls(ranges)
        self.scales.render_calls(ranges)

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of a theme."""
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
        f"Scale {low} to {high}, median {middle}, ratio {spread:.3g}. "
        f"Zero point {' to '.join(map(str, points))}. {warning}"
    ).strip()


NO_CHOICE = "This range cannot be overridden; the reason is below the histogram."
NO_SPREAD = "All observed values are equal; all methods give the same range."
_CALLS = 3
# Delay after a selection before all methods are searched [ms].
_REST_MS = 60
UNCHOSEN_TEXT = "Select a tensor in the plot or the table to see its histogram."


class TensorSide(QWidget):
    """Title, editor and tabs of one tensor."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.title = WrappedLabel(UNCHOSEN_TEXT, self)
        self.title.setObjectName("Subheading")
        self.place, self.remarks = WrappedLabel(parent=self), WrappedLabel(parent=self)
        self.place.setObjectName("Hint")
        self.facts = FactsTable(self)
        for label in (self.title, self.place, self.remarks):
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.editor = RangeEditor(self)
        self.methods, self.samples, self.chosen, self.calls = (
            RangeMethodsView(self),
            SamplesView(self),
            RangeOverridesView(self),
            CallsView(self),
        )
        self.methods.previewed.connect(lambda c: self.editor.preview(c.minimum, c.maximum))
        self.pages = Tabs(self)
        for title, page in (
            ("Methods", self.methods),
            ("Samples", self.samples),
            ("Overrides", self.chosen),
            ("Calls", self.calls),
        ):
            self.pages.addTab(page, title)
        self.pages.setTabVisible(_CALLS, False)
        split = QSplitter(Qt.Orientation.Vertical, self)
        for number, part in enumerate((self.editor, self.pages)):
            split.addWidget(part)
            split.setStretchFactor(number, 5 - 2 * number)
            split.setCollapsible(number, False)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 4, 4, 4)
        layout.setSpacing(3)
        for row in (self.title, self.place, self.facts, self.remarks):
            layout.addWidget(row)
        layout.addWidget(split, 1)
        self.editor.hide()
        self._asked: tuple[TensorRange, Histogram] | None = None
        self._later = QTimer(self, interval=_REST_MS, singleShot=True)
        self._later.timeout.connect(self._on_rest)

    def render_project(self, project: Project | None) -> None:
        """Show the overrides of the project."""
        self.chosen.render_project(project)
        count = self.chosen.model.rowCount()
        self.pages.setTabText(2, f"Overrides ({count})" if count else "Overrides")

    def render_nothing(self, text: str = UNCHOSEN_TEXT) -> None:
        """Show that no tensor is selected."""
        self.title.setText(text)
        for part in (self.place, self.facts, self.remarks):
            part.hide()
        self._asked = None
        self.editor.hide()
        self.methods.render_choices([], "", NO_TENSOR)
        self.samples.setEnabled(False)

    def render_tensor(
        self,
        row: RangeRow,
        index: int,
        arrays: Arrays,
        channels: Channels,
        project: Project | None,
        theme: Theme,
    ) -> None:
        """Show one tensor."""
        self.title.setText(row.name)
        self.place.setText(describe_origin(row))
        self.facts.render_facts(facts_of(row), theme.muted)
        self.remarks.setText("\n".join(remarks_on(row)))
        self.place.show()
        self.facts.show()
        self.remarks.setVisible(bool(remarks_on(row)))
        histogram = histogram_of(row.tensor, arrays)
        view = tensor_of(row, index, arrays, channels)
        self.editor.setVisible(True)
        self.editor.render_tensor(row, view, histogram, theme)
        why = NO_SPREAD if histogram is None else ""
        why = NO_CHOICE if row.refusal else why
        self.methods.render_choices([], row.tensor.module, why)
        self._asked = (row.tensor, histogram) if histogram is not None and not why else None
        self._later.start()
        self.pages.setTabVisible(_CALLS, bool(row.tensor.dynamic))
        if row.tensor.dynamic:
            self.calls.render_calls(row.tensor.dynamic, samples_of(arrays, row.tensor.index))
            self.pages.setCurrentIndex(_CALLS)
        data = project.calibration if project is not None else None
        self.samples.setEnabled(True)
        self.samples.render_samples(
            samples_of(arrays, row.tensor.index),
            data.dropped if data is not None else (),
            can_drop=data is not None,
        )

    def _on_rest(self) -> None:
        """Search all methods after the selection delay, because that takes longer than a frame."""
        if self._asked is not None:
            self.methods.render_choices(choices(*self._asked), self._asked[0].module)

    def set_theme(self, theme: Theme, *, stale: bool) -> None:
        """Apply the colours of a theme."""
        self.editor.tensor.set_theme(theme)
        self.methods.set_theme(theme, stale=stale)
        self.samples.set_theme(theme)
        self.calls.set_theme(theme)
        self.chosen.set_theme(theme)
