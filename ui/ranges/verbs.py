"""What a person does to ranges, as named, undoable edits."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QObject

from ui.document import Document
from ui.models.method_table import ChoiceOfRange, method_title
from workbench.project import edits
from workbench.project.configs import FixedRange, MethodId, MethodScope, RangeMethod
from workbench.project.model import Project
from workbench.results import TensorRange


class RangeVerbs(QObject):
    """Fixes and frees ranges, chooses methods for them, and leaves samples out."""

    def __init__(self, document: Document, parent: QObject) -> None:
        super().__init__(parent)
        self._document = document

    def fix(self, tensor: str, low: float, high: float) -> None:
        """Give a tensor a range of its own."""
        self._document.apply(
            f"Fix the range of {tensor}", lambda p: edits.fix_range(p, tensor, low, high)
        )

    def free(self, tensors: Sequence[str]) -> None:
        """Give tensors back the range that calibration finds."""
        named = tensors[0] if len(tensors) == 1 else f"{len(tensors)} tensors"
        self._document.apply(f"Free the range of {named}", lambda p: edits.free_ranges(p, tensors))

    def take_back(self, choices: Sequence[ChoiceOfRange]) -> None:
        """Undo choices, in numbers or by method, in one step."""
        fixed = [each.tensor for each in choices if isinstance(each, FixedRange)]
        methods = [each for each in choices if isinstance(each, RangeMethod)]
        named = [*fixed, *(method.place for method in methods)]
        many = f"{len(named)} choices" if len(named) != 1 else f"the range of {named[0]}"

        def edit(project: Project) -> Project:
            kept = tuple(r for r in project.ranges if r.tensor not in fixed)
            return edits.drop_methods(edits.revise(project, ranges=kept), methods)

        self._document.apply(f"Free {many}", edit)

    def take(self, method: MethodId, scope: MethodScope, chosen: TensorRange) -> None:
        """Have a method take the range of a tensor, of all in its "module", or of "all"."""
        match = {"all": "", "module": chosen.module, "tensor": chosen.node}[scope]
        place = RangeMethod(scope=scope, match=match, method=method).place
        self._document.apply(
            f"Take the range of {place} by {method_title(method)}",
            lambda p: edits.choose_method(p, scope, match, method),
        )

    def drop(self, samples: Sequence[int]) -> None:
        """Leave samples out of calibration."""
        self._document.apply(
            f"Leave out sample {samples[0]}", lambda p: edits.drop_samples(p, samples)
        )

    def restore(self, samples: Sequence[int]) -> None:
        """Calibrate on samples that were left out."""
        self._document.apply("Take samples back", lambda p: edits.restore_samples(p, samples))
