"""Range methods and range overrides: their views and the edits."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from ui.features.ranges.range_table import (
    CHOSEN_COLUMNS,
    METHOD_COLUMNS,
    describe_choice,
    describe_chosen,
    overridden_tensor,
)
from ui.shared.labels import Label
from ui.shared.range_rows import Arrays, ChoiceOfRange, RangeOverride, method_title
from ui.shared.sortable_table import FigureTableModel, FigureView
from ui.shared.theme import Theme
from ui.state.document import Document
from workbench.analysis.ranges import Choice, MethodRanges, methods_of
from workbench.project import edits
from workbench.project.configs import FixedRange, MethodId, MethodScope, RangeMethod
from workbench.project.model import Project
from workbench.results import TensorRange

USE = (
    "Use this method for the ranges, also after changes of data, weights or precision. "
    "Overrides with a narrower scope and pinned ranges are kept."
)
NO_TENSOR = "Select an activation to compare the range that each method gives it."
COMPARING = "Comparing the methods\u2026"


class RangeMethodsView(QWidget):
    """Shows the range by every method, and applies a method to a scope.

    Signals:
        previewed: the selected ``Choice``.
        method_asked: its method, and "tensor", "module" or "all".
    """

    previewed = Signal(object)
    method_asked = Signal(str, str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.model = FigureTableModel(METHOD_COLUMNS, describe_choice, self)
        self.table = FigureView("Ranges by method", self.model, self, empty=COMPARING)
        self.table.rows_chosen.connect(self._on_rows_chosen)
        self.scope = QComboBox(self)
        self.scope.setAccessibleName("Scope of the method")
        self.use = QPushButton("Apply", self)
        self.use.setToolTip(USE)
        self.use.clicked.connect(self._on_use)
        self.why = Label(self)
        self.why.setObjectName("Hint")
        self.why.setWordWrap(True)
        self.why.hide()
        self._offer = QWidget(self)
        row = QHBoxLayout(self._offer)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(Label("Apply to", self))
        row.addWidget(self.scope, 1)
        row.addWidget(self.use)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 4, 0, 0)
        layout.setSpacing(4)
        layout.addWidget(self.why)
        layout.addWidget(self.table, 1)
        layout.addWidget(self._offer)
        layout.addStretch(0)

    def render_choices(self, offered: Sequence[Choice], module: str, why: str = "") -> None:
        """Show the ranges of a tensor by method.

        Args:
            offered: One choice per method.
            module: The tensor's module.
            why: Reason why there are no choices.
        """
        self.why.setText(why)
        self.why.setVisible(bool(why))
        self.table.setVisible(not why)
        self._offer.setVisible(not why)
        self.model.set_rows(offered)
        kept = self.scope.currentData()
        self.scope.clear()
        self.scope.addItem("this tensor", "tensor")
        if module:
            self.scope.addItem(f"all of {module}", "module")
        self.scope.addItem("all activations", "all")
        self.scope.setCurrentIndex(max(0, self.scope.findData(kept)))
        self.use.setEnabled(False)

    def set_theme(self, theme: Theme, *, stale: bool) -> None:
        """Apply the colours of a theme."""
        self.table.set_look(theme, stale=stale)

    def _chosen(self) -> Choice | None:
        rows = self.table.chosen_rows()
        return self.model.row_at(rows[0]) if rows else None

    def _on_rows_chosen(self) -> None:
        choice = self._chosen()
        self.use.setEnabled(choice is not None)
        if choice is not None:
            self.previewed.emit(choice)

    def _on_use(self) -> None:
        choice = self._chosen()
        if choice is not None:
            self.method_asked.emit(choice.method, str(self.scope.currentData()))


NOTHING = "No overrides: all ranges are from calibration."


class RangeOverridesView(QWidget):
    """Shows pinned ranges and methods, strongest first.

    Signals:
        tensor_chosen: a node.
        free_asked: the ``ChoiceOfRange`` values to remove.
    """

    tensor_chosen = Signal(str)
    free_asked = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.model = FigureTableModel(CHOSEN_COLUMNS, describe_chosen, self)
        self.table = FigureView("Range overrides", self.model, self)
        self.table.rows_chosen.connect(self._on_rows_chosen)
        self.empty = Label(NOTHING, self)
        self.empty.setObjectName("Hint")
        self.empty.setWordWrap(True)
        self.free = QPushButton("Unpin selected", self)
        self.free.clicked.connect(lambda: self.free_asked.emit(self._picked()))
        self.free_all = QPushButton("Unpin all", self)
        self.free_all.clicked.connect(lambda: self.free_asked.emit(self._choices))
        self._choices: list[ChoiceOfRange] = []
        row = QHBoxLayout()
        row.addStretch(1)
        row.addWidget(self.free)
        row.addWidget(self.free_all)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 4, 0, 0)
        layout.setSpacing(4)
        layout.addWidget(self.empty)
        layout.addWidget(self.table, 1)
        layout.addLayout(row)

    def render_project(self, project: Project | None) -> None:
        """Show the overrides of a project."""
        methods = project.range_methods if project is not None else ()
        fixed = project.ranges if project is not None else ()
        ordered = sorted(methods, key=lambda m: m.strength, reverse=True)
        choices: list[ChoiceOfRange] = [*fixed, *ordered]
        if choices != self._choices:
            self._choices = choices
            self.model.set_rows(choices)
            self.free.setEnabled(False)
        self.empty.setVisible(not choices)
        for part in (self.table, self.free, self.free_all):
            part.setVisible(bool(choices))

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of a theme."""
        self.table.set_look(theme, stale=False)

    def _picked(self) -> list[ChoiceOfRange]:
        return [self._choices[self.model.source_row(row)] for row in self.table.chosen_rows()]

    def _on_rows_chosen(self, _rows: Sequence[int]) -> None:
        picked = self._picked()
        self.free.setEnabled(bool(picked))
        if len(picked) == 1 and (tensor := overridden_tensor(picked[0])):
            self.tensor_chosen.emit(tensor)


class RangeOverrides(QObject):
    """Computes the range overrides. Searches take milliseconds per tensor and are deferred.

    Signals:
        changed: all deferred searches have finished.
    """

    changed = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._method_ranges = MethodRanges()
        self._due: list[tuple[TensorRange, str]] = []
        self._arrays: Arrays = {}
        self._more = QTimer(self, interval=0)
        self._more.timeout.connect(self._on_time_to_search)

    def of(
        self, rows: Sequence[TensorRange], arrays: Arrays, project: Project | None
    ) -> dict[str, RangeOverride]:
        """Return the overrides by node. Ranges that need a search are not known yet."""
        self._due, self._arrays = [], arrays
        self._more.stop()
        if project is None:
            return {}
        overrides = {
            tensor: RangeOverride("", "tensor", ends) for tensor, ends in project.fixed_ranges().items()
        }
        for row, chosen in methods_of(rows, project):
            method = chosen.method
            is_known = self._method_ranges.knows(row, arrays, method)
            ends = self._method_ranges.range_of(row, arrays, method) if is_known else None
            overrides[row.node] = RangeOverride(method, chosen.scope, ends, is_known)
            if not is_known:
                self._due.append((row, method))
        if self._due:
            self._more.start()
        return overrides

    def _on_time_to_search(self) -> None:
        if self._due:
            row, method = self._due.pop()
            self._method_ranges.range_of(row, self._arrays, method)
            return
        self._more.stop()
        self.changed.emit()


class RangeController(QObject):
    """Pins ranges, sets range methods, and excludes samples, each as one undo step."""

    def __init__(self, document: Document, parent: QObject) -> None:
        super().__init__(parent)
        self._document = document

    def fix(self, tensor: str, low: float, high: float) -> None:
        """Pin the range of a tensor."""
        self._document.apply(f"Pin range of {tensor}", lambda p: edits.fix_range(p, tensor, low, high))

    def free(self, tensors: Sequence[str]) -> None:
        """Remove the pinned ranges of tensors."""
        named = tensors[0] if len(tensors) == 1 else f"{len(tensors)} tensors"
        self._document.apply(f"Unpin range of {named}", lambda p: edits.free_ranges(p, tensors))

    def take_back(self, choices: Sequence[ChoiceOfRange]) -> None:
        """Remove pinned ranges and methods in one step."""
        fixed = [choice.tensor for choice in choices if isinstance(choice, FixedRange)]
        methods = [choice for choice in choices if isinstance(choice, RangeMethod)]
        named = [*fixed, *(method.scope_text for method in methods)]
        many = f"{len(named)} overrides" if len(named) != 1 else f"range of {named[0]}"

        def edit(project: Project) -> Project:
            kept = tuple(r for r in project.ranges if r.tensor not in fixed)
            return edits.drop_methods(edits.revise(project, ranges=kept), methods)

        self._document.apply(f"Unpin {many}", edit)

    def take(self, method: MethodId, scope: MethodScope, chosen: TensorRange) -> None:
        """Set the range method of a tensor, of all tensors in its "module", or of "all"."""
        match = {"all": "", "module": chosen.module, "tensor": chosen.node}[scope]
        target = RangeMethod(scope=scope, match=match, method=method).scope_text
        self._document.apply(
            f"Set range method of {target} to {method_title(method)}",
            lambda p: edits.choose_method(p, scope, match, method),
        )

    def drop(self, samples: Sequence[int]) -> None:
        """Exclude samples from calibration."""
        self._document.apply(f"Exclude sample {samples[0]}", lambda p: edits.drop_samples(p, samples))

    def restore(self, samples: Sequence[int]) -> None:
        """Include excluded samples again."""
        self._document.apply("Include samples", lambda p: edits.restore_samples(p, samples))
