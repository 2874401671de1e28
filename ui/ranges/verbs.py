"""What a person does to ranges, as named, undoable edits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from PySide6.QtCore import QObject, QTimer

from ui.document import Document
from ui.models.method_table import method_title
from ui.models.range_arrays import Arrays
from workbench.numerics.tensors import activations, replacements
from workbench.project import edits
from workbench.project.fixed_range import FixedRange
from workbench.project.rules import is_within
from workbench.results import TensorRange


class RangeVerbs(QObject):
    """Fixes and frees ranges, takes a method's, and leaves samples out."""

    def __init__(self, document: Document, parent: QObject) -> None:
        super().__init__(parent)
        self._document = document
        self._method = ""
        self._found: dict[str, FixedRange | None] = {}
        self._searching: Iterator[tuple[str, FixedRange | None]] = iter(())
        self._more = QTimer(self, interval=0)
        self._more.timeout.connect(self._on_time_to_search)

    def fix(self, tensor: str, low: float, high: float) -> None:
        """Give a tensor a range of its own."""
        self._document.apply(
            f"Fix the range of {tensor}", lambda p: edits.fix_range(p, tensor, low, high)
        )

    def free(self, tensors: Sequence[str]) -> None:
        """Give tensors back the range that calibration finds."""
        named = tensors[0] if len(tensors) == 1 else f"{len(tensors)} tensors"
        self._document.apply(f"Free the range of {named}", lambda p: edits.free_ranges(p, tensors))

    def take(
        self, method: str, scope: str, chosen: TensorRange, ranges: Sequence[TensorRange],
        arrays: Arrays,
    ) -> None:  # fmt: skip
        """Fix ranges as a method takes them: of one tensor, its "module", or "all".

        Searching takes some milliseconds a tensor, so it is done between other events.
        """
        rows = [
            row
            for row in activations(ranges)
            if scope == "all"
            or row.node == chosen.node
            or (scope == "module" and is_within(row.module, chosen.module))
        ]
        self._method, self._found = method, {}
        self._searching = replacements(rows, arrays, method)
        self._more.start()

    def _on_time_to_search(self) -> None:
        step = next(self._searching, None)
        if step is not None:
            self._found[step[0]] = step[1]
            return
        self._more.stop()
        found = self._found
        fixed = [new for new in found.values() if new is not None]
        freed = [tensor for tensor, new in found.items() if new is None]
        named = next(iter(found)) if len(found) == 1 else f"{len(found)} tensors"
        self._document.apply(
            f"Take the range of {named} by {method_title(self._method)}",
            lambda p: edits.replace_ranges(p, fixed, freed),
        )

    def drop(self, samples: Sequence[int]) -> None:
        """Leave samples out of calibration."""
        self._document.apply(
            f"Leave out sample {samples[0]}", lambda p: edits.drop_samples(p, samples)
        )

    def restore(self, samples: Sequence[int]) -> None:
        """Calibrate on samples that were left out."""
        self._document.apply("Take samples back", lambda p: edits.restore_samples(p, samples))
