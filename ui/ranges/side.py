"""One tensor large: the editor above, and below what else can be known and done."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QSplitter, QTabWidget, QVBoxLayout, QWidget

from ui.models.range_arrays import Arrays, Channels
from ui.models.range_table import RangeRow, describe
from ui.range_drawing import samples_of, tensor_of
from ui.ranges.calls_view import CallsView
from ui.ranges.chosen_view import ChosenView
from ui.ranges.editor import RangeEditor
from ui.ranges.methods_view import MethodsView
from ui.ranges.samples_view import SamplesView
from ui.theme import Theme
from ui.widgets.wrapped_label import WrappedLabel
from workbench.analysis.histogram import Histogram
from workbench.analysis.ranges import choices, histogram_of
from workbench.project.model import Project
from workbench.results import TensorRange

NO_CHOICE = "There is no range to choose here; the reason stands under the histogram."
NO_SPREAD = "Calibration saw no spread of values here, so all methods would say the same."
_CALLS = 3
# How long a selection rests before all methods are searched [ms].
_REST_MS = 60
UNCHOSEN_TEXT = "Choose a tensor in the plot or the table to see its histogram."


class TensorSide(QWidget):
    """Title, editor and three pages about one tensor."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.title = WrappedLabel(UNCHOSEN_TEXT, self)
        self.title.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.editor = RangeEditor(self)
        self.methods, self.samples, self.chosen, self.calls = (
            MethodsView(self), SamplesView(self), ChosenView(self), CallsView(self),
        )  # fmt: skip
        self.methods.previewed.connect(lambda c: self.editor.preview(c.minimum, c.maximum))
        self.pages = QTabWidget(self)
        self.pages.setDocumentMode(True)
        for title, page in (
            ("Methods", self.methods), ("Samples", self.samples), ("Chosen", self.chosen),
            ("Calls", self.calls),
        ):  # fmt: skip
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
        layout.addWidget(self.title)
        layout.addWidget(split, 1)
        self.editor.hide()
        self._asked: tuple[TensorRange, Histogram] | None = None
        self._later = QTimer(self, interval=_REST_MS, singleShot=True)
        self._later.timeout.connect(self._on_rest)

    def render_project(self, project: Project | None) -> None:
        """Show what the project chooses."""
        self.chosen.render_project(project)
        count = self.chosen.model.rowCount()
        self.pages.setTabText(2, f"Chosen ({count})" if count else "Chosen")

    def render_nothing(self, text: str = UNCHOSEN_TEXT) -> None:
        """Show that no tensor is chosen."""
        self.title.setText(text)
        self._asked = None
        self.editor.hide()
        self.methods.setEnabled(False)
        self.samples.setEnabled(False)

    def render_tensor(
        self, row: RangeRow, place: int, arrays: Arrays, channels: Channels,
        project: Project | None, theme: Theme,
    ) -> None:  # fmt: skip
        """Show one tensor."""
        self.title.setText("  \u00b7  ".join(describe(row).splitlines()))
        histogram = histogram_of(row.tensor, arrays)
        view = tensor_of(row, place, arrays, channels)
        self.editor.setVisible(True)
        self.editor.render_tensor(row, view, histogram, theme)
        why = NO_SPREAD if histogram is None else ""
        why = NO_CHOICE if row.refusal else why
        self.methods.setEnabled(True)
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
            samples_of(arrays, row.tensor.index), data.dropped if data is not None else (),
            can_drop=data is not None,
        )  # fmt: skip

    def _on_rest(self) -> None:
        """Search by every method once the selection rests: that takes longer than a frame."""
        if self._asked is not None:
            self.methods.render_choices(choices(*self._asked), self._asked[0].module)

    def set_theme(self, theme: Theme, *, stale: bool) -> None:
        """Take on the colours of a theme."""
        self.editor.tensor.set_theme(theme)
        self.methods.set_theme(theme, stale=stale)
        self.samples.set_theme(theme)
        self.calls.set_theme(theme)
        self.chosen.set_theme(theme)
