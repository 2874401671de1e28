"""Comparison of the outputs of two forms of one network that should compute the same function."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from workbench.engine.evaluation.measures import Accumulator, largest_magnitude, merged
from workbench.results import FormComparison

if TYPE_CHECKING:
    from collections.abc import Sequence

# An output may differ by this part of its largest magnitude.
EXPORTED, REWRITTEN = 1e-4, 1e-3
_LEAST = 1e-6
# A magnitude that stands for infinity, such as the least float32 in a mask.
_HUGE = 1e30
# For networks that amplify roundings: a change of all weights and inputs by CHANGE of their values
# does at least a tenth of what roundings do to the outputs.
CHANGE, _AMPLIFIED = 1e-6, 10.0


@dataclass
class Comparison:
    """Sums over the outputs of one form, sample by sample.

    Attributes:
        form: Its name.
        room: The allowed difference, as a part of the largest magnitude of an output.
    """

    form: str
    room: float
    samples: int = 0
    elements: int = 0
    sums: Accumulator = field(default_factory=Accumulator)

    def add(self, reference: Sequence[torch.Tensor], value: Sequence[torch.Tensor]) -> str:
        """Add the outputs for a sample; return how they differ, "" if they agree."""
        self.samples += 1
        if len(reference) != len(value):
            return f"it has {len(value)} outputs, the model has {len(reference)}"
        problems = [self._add(index, a, b) for index, (a, b) in enumerate(zip(reference, value, strict=True))]
        return next(filter(None, problems), "")

    def _add(self, index: int, a: torch.Tensor, b: torch.Tensor) -> str:
        if a.shape != b.shape:
            return f"output {index} has the shape {list(b.shape)}, the model's {list(a.shape)}"
        self.elements += a.numel()
        one, two, equal = _comparable(a, b)
        sums = _sums(one, two)
        self.sums = merged((self.sums, sums))
        far, largest = sums.worst, largest_magnitude(one)
        if not equal:
            return f"output {index} has infinities or NaN in other places"
        if far > self.room * largest + _LEAST:
            return f"output {index} differs by {far:.4g} (its largest magnitude is {largest:.4g})"
        return ""

    @property
    def result(self) -> FormComparison:
        """The figures of this form."""
        return FormComparison(
            form=self.form,
            samples=self.samples,
            elements=self.elements,
            max_abs_error=self.sums.worst,
            sqnr_db=self.sums.sqnr_db,
        )


def is_rounding(
    reference: Sequence[torch.Tensor],
    value: Sequence[torch.Tensor],
    changed: Sequence[Sequence[torch.Tensor]],
) -> bool:
    """Return whether a difference is one that roundings make in this network.

    Args:
        reference: The model's outputs.
        value: The outputs of another form.
        changed: The model's outputs with weights and inputs changed by ``CHANGE``, several times.
    """
    if len(reference) != len(value):
        return False
    for index, (a, b) in enumerate(zip(reference, value, strict=True)):
        if a.shape != b.shape:
            return False
        one, two, equal = _comparable(a, b)
        pairs = [_comparable(a, outputs[index]) for outputs in changed]
        # Infinities and NaN may be in other places only where roundings move them.
        if not equal and all(same for *_, same in pairs):
            return False
        spreads = [_error(*pair) for *pair, _ in pairs]
        for own, others in zip(_error(one, two), zip(*spreads, strict=True), strict=True):
            if own > _AMPLIFIED * max(others) + _LEAST:
                return False
    return True


def differs(reference: torch.Tensor, value: torch.Tensor) -> bool:
    """Return whether two values of one operator differ by more than roundings."""
    return bool(Comparison("", REWRITTEN).add([reference], [value]))


def _comparable(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, bool]:
    """Return the ordinary elements of both, and whether the others agree.

    An element that is NaN in one must be NaN in the other. One that is huge must have the same
    sign in the other, and there a magnitude not below that of the ordinary ones.
    """
    one, two = _flat(a), _flat(b)
    if largest_magnitude(one) < _HUGE and largest_magnitude(two) < _HUGE:
        return one, two, True
    one, two = one.double(), two.double()
    huge = ~(one.abs() < _HUGE)
    ordinary = ~huge & (two.abs() < _HUGE)
    largest = float(one[~huge].abs().max()) if bool((~huge).any()) else 0.0
    same_nan = one.isnan() == two.isnan()
    beyond = (one.sign() == two.sign()) & (two.abs() >= largest)
    equal = torch.where(huge, same_nan & (one.isnan() | beyond), two.abs() < _HUGE)
    return one[ordinary], two[ordinary], bool(equal.all())


def _sums(a: torch.Tensor, b: torch.Tensor) -> Accumulator:
    sums = Accumulator()
    sums.add(a, b)
    return sums


def _error(a: torch.Tensor, b: torch.Tensor) -> tuple[float, float]:
    """Return the largest difference, and the root of its mean square."""
    sums = _sums(a, b)
    return sums.worst, math.sqrt(sums.noise / a.numel()) if a.numel() else 0.0


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    values = tensor.detach()
    values = torch.view_as_real(values) if values.is_complex() else values
    return values.reshape(-1)
