"""The range editor: drag the ends of a range, see the predicted figures, and pin it."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QCheckBox, QHBoxLayout, QLineEdit, QPushButton, QVBoxLayout, QWidget

from ui.shared.forms import WrappedLabel
from ui.shared.labels import Label
from ui.shared.number_format import decibel, figure, percent
from ui.shared.range_data import TensorView
from ui.shared.range_rows import RangeRow
from ui.shared.tensor_range_plot import TensorPlot
from ui.shared.theme import Theme
from workbench.analysis.histogram import Grid, Histogram
from workbench.analysis.ranges import predicted, scheme_of
from workbench.project.configs import range_fault

_DIGITS = 6


class RangeFields(QWidget):
    """Fields for minimum and maximum. The decimal separator is a point in every locale.

    Signals:
        typed: both ends, if both are numbers.
        refused: the text that is not a number.
        entered: Return was pressed.
    """

    typed = Signal(float, float)
    refused = Signal(str)
    entered = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.low, self.high = QLineEdit(self), QLineEdit(self)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(6)
        for title, name, field in (
            ("Min", "Minimum of the range", self.low),
            ("Max", "Maximum of the range", self.high),
        ):
            field.setAccessibleName(name)
            field.textEdited.connect(self._on_typed)
            field.returnPressed.connect(self.entered)
            layout.addWidget(Label(title, self))
            layout.addWidget(field, 1)

    def show_ends(self, low: float | None, high: float | None) -> None:
        """Set both ends. A field that is being edited is not changed."""
        for field, value in ((self.low, low), (self.high, high)):
            if not field.isModified() or not field.hasFocus():
                field.setText(figure(value, _DIGITS) if value is not None else "")

    def forget(self) -> None:
        """Discard edits, so that the next ends are shown."""
        for field in (self.low, self.high):
            field.setModified(False)

    def _on_typed(self) -> None:
        ends = []
        for field in (self.low, self.high):
            try:
                ends.append(float(field.text().replace("\u2212", "-")))
            except ValueError:
                self.refused.emit(field.text().strip())
                return
        self.typed.emit(*ends)


FREE = "Use the range of calibration"
FREE_WIDER = "This method covers more tensors. Remove it on the tab Overrides"


class RangeEditor(QWidget):
    """Shows the histogram with two draggable lines, and the figures of the range.

    Signals:
        fix_asked: node, minimum and maximum to pin.
        free_asked: nodes whose range is to be unpinned.
    """

    fix_asked = Signal(str, float, float)
    free_asked = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.tensor = TensorPlot(self)
        self.tensor.histogram.dragged.connect(self.preview)
        self.counts_log = QCheckBox("Logarithmic counts", self)
        self.counts_log.setChecked(True)
        self.counts_log.clicked.connect(self.tensor.histogram.set_log)
        self.summary = WrappedLabel(parent=self)
        self.summary.setTextFormat(Qt.TextFormat.PlainText)
        self.fields = RangeFields(self)
        self.fields.typed.connect(self.preview)
        self.fields.refused.connect(self._on_refused)
        self.fields.entered.connect(self._on_entered)
        self.apply = QPushButton("Apply", self)
        self.apply.setToolTip("Pin this range (calibration does not run again)")
        self.apply.clicked.connect(self._on_apply)
        self.back = QPushButton("Reset", self)
        self.back.setToolTip("Reset the lines")
        self.back.clicked.connect(self._on_back)
        self.free = QPushButton("Unpin", self)
        self.free.setToolTip(FREE)
        self.free.clicked.connect(self._on_free)
        self._row: RangeRow | None = None
        self._view: TensorView | None = None
        self._histogram: Histogram | None = None
        self._ends: tuple[float, float] | None = None
        self._arrange()

    def render_tensor(
        self, row: RangeRow, view: TensorView | None, histogram: Histogram | None, theme: Theme
    ) -> None:
        """Show a tensor."""
        self._row, self._view, self._histogram, self._ends = row, view, histogram, None
        self.tensor.render_tensor(view, theme)
        self.fields.forget()
        self._show(row.effective)

    def preview(self, low: float, high: float) -> None:
        """Show the figures of a range without pinning it."""
        if self._row is None:
            return
        self._ends = (low, high)
        if fault := range_fault(low, high):
            self._refuse(f"Invalid range: {fault}.")
            return
        grid = scheme_of(self._row.tensor).grid(low, high)
        if self._view is not None:
            self.tensor.histogram.show_grid(grid.low, grid.high, grid.scale, (low, high))
        self._show(grid)

    def _refuse(self, why: str) -> None:
        self.summary.setText(why)
        self._enable(can_apply=False)

    def _show(self, grid: Grid | None) -> None:
        row = self._row
        self._enable(can_apply=grid is not None and self._ends is not None)
        if row is None or row.refusal or grid is None:
            self.fields.show_ends(None, None)
            self.summary.setText(_without_grid(row) if row is not None else "")
            return
        decided = row.decided
        ends = self._ends or (decided.ends if decided is not None else None)
        low, high = ends or (grid.low, grid.high)
        self.fields.show_ends(low, high)
        lines = [f"{figure(low)} to {figure(high)}   step {figure(grid.scale)}"]
        if self._ends is None and decided is not None:
            lines[0] += f"   {'by ' if decided.method else 'pinned by '}{decided.who}"
        self.summary.setText("\n".join([*lines, self._prediction(grid)]))

    def _prediction(self, grid: Grid) -> str:
        if self._histogram is None or self._row is None:
            return "All observed values are equal; no prediction possible."
        choice = predicted(self._histogram, grid)
        text = f"clipped {percent(choice.clipped)}   SQNR {decibel(choice.sqnr_db)} (predicted)"
        if self._ends is not None and self._row.effective is not None:
            now = predicted(self._histogram, self._row.effective)
            text += f", current {decibel(now.sqnr_db)}"
        return text

    def _enable(self, *, can_apply: bool) -> None:
        is_editable = self._row is not None and self._row.is_editable
        for part in (self.fields, self.apply, self.back, self.free):
            part.setVisible(is_editable)
        self.apply.setEnabled(can_apply)
        self.back.setEnabled(self._ends is not None)
        decided = self._row.decided if self._row is not None else None
        self.free.setEnabled(decided is not None and decided.scope == "tensor")
        is_wider = decided is not None and decided.scope != "tensor"
        self.free.setToolTip(FREE_WIDER if is_wider else FREE)

    def _arrange(self) -> None:
        tools = QHBoxLayout()
        tools.setSpacing(6)
        tools.addWidget(self.counts_log)
        tools.addStretch(1)
        for button in (self.back, self.free, self.apply):
            tools.addWidget(button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(3)
        layout.addWidget(self.tensor, 1)
        layout.addWidget(self.summary)
        layout.addWidget(self.fields)
        layout.addLayout(tools)

    def _on_refused(self, text: str) -> None:
        self._ends = None
        self._refuse(f"\u201c{text}\u201d is not a number." if text else "Enter both ends.")
        self.back.setEnabled(True)

    def _on_entered(self) -> None:
        if self.apply.isEnabled():
            self.apply.click()

    def _on_back(self) -> None:
        if self._row is None:
            return
        self._ends = None
        self.fields.forget()
        if self._view is not None and self._view.grid is not None:
            self.tensor.histogram.show_grid(*self._view.grid, self._view.step)
        self._show(self._row.effective)

    def _on_apply(self) -> None:
        if self._row is not None and self._ends is not None:
            self.fix_asked.emit(self._row.node, *self._ends)

    def _on_free(self) -> None:
        if self._row is not None:
            self.free_asked.emit([self._row.node])


def _without_grid(row: RangeRow) -> str:
    """Show why the tensor has no grid."""
    decided = row.decided
    is_searched = decided is not None and not decided.is_known
    return f"{decided.who}: searching\u2026" if is_searched and decided else row.refusal
