"""Difference of two tensors, accumulated over samples."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from workbench.results import OutputQuality

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# So many elements are compared at a time: their float64 values stay in a core's cache.
_BLOCK = 1 << 15


def blocks(*tensors: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """Yield equally many elements of each tensor at a time, as vectors, so that sums take little memory."""
    return zip(*(tensor.detach().reshape(-1).split(_BLOCK) for tensor in tensors), strict=True)


@dataclass
class Accumulator:
    """Running sums of a reference and its approximation, in float64."""

    signal: float = 0.0
    noise: float = 0.0
    dot: float = 0.0
    other: float = 0.0
    worst: float = 0.0
    not_finite: int = 0

    def add(self, reference: torch.Tensor, value: torch.Tensor) -> None:
        """Add one pair of tensors with equal shapes.

        Elements that are NaN or infinite in one of them are counted, and left out of the sums.
        """
        for a, b in blocks(reference, value):
            self._add_block(a.double(), b.double())

    def _add_block(self, a: torch.Tensor, b: torch.Tensor) -> None:
        error = a - b
        noise = float(error.dot(error))
        if not math.isfinite(noise):
            known = a.isfinite() & b.isfinite()
            self.not_finite += int((~known & (a != b)).sum())
            a, b = a[known], b[known]
            error = a - b
            noise = float(error.dot(error))
        self.signal += float(a.dot(a))
        self.noise += noise
        self.dot += float(a.dot(b))
        self.other += float(b.dot(b))
        if error.numel():
            self.worst = max(self.worst, float(error.abs().max()))

    @property
    def sqnr_db(self) -> float | None:
        """10 log10(signal / noise) [dB]; None without noise or signal."""
        if self.noise <= 0.0 or self.signal <= 0.0 or not math.isfinite(self.noise):
            return None
        return 10.0 * math.log10(self.signal / self.noise)

    @property
    def cosine(self) -> float | None:
        """Cosine similarity of all reference and all other values; None for zeros."""
        length = math.sqrt(self.signal * self.other)
        return min(self.dot / length, 1.0) if length > 0.0 and math.isfinite(length) else None

    def output(self, name: str) -> OutputQuality:
        """Return the figures under a name."""
        return OutputQuality(
            name=name,
            sqnr_db=self.sqnr_db,
            cosine=self.cosine,
            max_abs_error=self.worst,
            not_finite=self.not_finite,
        )


@dataclass
class TensorSums:
    """Sums of one tensor: against the float model, and against its operation alone in float.

    ``added`` is None where the operation is not computed alone, see ``FloatOperations``. ``low`` and
    ``high`` are the extremes of the float model, infinite without a finite value.
    """

    total: Accumulator = field(default_factory=Accumulator)
    added: Accumulator | None = None
    low: float = math.inf
    high: float = -math.inf
    elements: int = 0
    zeros: int = 0

    def add(self, reference: torch.Tensor, value: torch.Tensor, alone: torch.Tensor | None) -> None:
        """Add the float, the quantized and the operation's own float value of one sample."""
        self.total.add(reference, value)
        self.elements += reference.numel()
        self.zeros += reference.numel() - int(torch.count_nonzero(reference))
        if reference.numel():
            low, high = (float(end) for end in torch.aminmax(reference.detach()))
            if math.isfinite(low) and math.isfinite(high):
                self.low, self.high = min(self.low, low), max(self.high, high)
        if alone is not None and alone.shape == value.shape:
            self.added = self.added or Accumulator()
            self.added.add(alone, value)

    def of_values(self) -> dict[str, float]:
        """Return minimum, maximum, root mean square and share of 0 of the float model, if known."""
        if not self.low <= self.high:
            return {}
        rms = math.sqrt(self.total.signal / self.elements)
        zeros = self.zeros / self.elements
        return {"minimum": self.low, "maximum": self.high, "rms": rms, "zeros": zeros}


# The largest element of a vector is a class where it exceeds the second by this share of what the
# largest exceed the smallest by, on average: closer ones are a tie that any rounding turns.
_CLEAR = 0.1


@dataclass
class OutputAccumulator(Accumulator):
    """The difference of an output from the float model's, and the classes that both give."""

    whole: bool = False
    equal: int = 0
    _elements: int = 0
    _leads: list[tuple[float, bool]] = field(default_factory=list)
    _spread: float = 0.0

    def add(self, reference: torch.Tensor, value: torch.Tensor) -> None:
        """Add the output of one sample, first that of the float model."""
        super().add(reference, value)
        if not reference.is_floating_point():
            self.whole = True
            self._elements += reference.numel()
            self.equal += int((reference == value).sum())
            return
        if reference.numel() < 2 or max(reference.shape) != reference.numel():
            return
        a, b = reference.detach().double().reshape(-1), value.detach().double().reshape(-1)
        first, second = a.topk(2).values.tolist()
        if math.isfinite(first) and math.isfinite(second):
            is_equal = bool(a.argmax() == b.argmax()) and bool(b.isfinite().all())
            self._leads.append((first - second, is_equal))
            self._spread += first - float(a[a.isfinite()].min())

    def output(self, name: str) -> OutputQuality:
        """Return the figures under a name."""
        clear = _CLEAR * self._spread / len(self._leads) if self._leads else 0.0
        decided = [is_equal for lead, is_equal in self._leads if lead > clear]
        return (
            super()
            .output(name)
            .model_copy(
                update={
                    "whole": self.whole,
                    "decided": self._elements if self.whole else len(decided),
                    "decided_equal": self.equal if self.whole else sum(decided),
                }
            )
        )


def largest_magnitude(values: torch.Tensor) -> float:
    """Return the largest magnitude, without a copy of the values; NaN if one of them is NaN."""
    if not values.numel():
        return 0.0
    low, high = (float(end) for end in torch.aminmax(values.detach()))
    return max(abs(low), abs(high))


def merged(parts: Sequence[Accumulator]) -> Accumulator:
    """Return the sums over several accumulators."""
    return Accumulator(
        sum(p.signal for p in parts),
        sum(p.noise for p in parts),
        sum(p.dot for p in parts),
        sum(p.other for p in parts),
        max((p.worst for p in parts), default=0.0),
        sum(p.not_finite for p in parts),
    )


def top_k_hit(logits: torch.Tensor, label: int, k: int) -> bool | None:
    """Return whether the class is among the k largest; None for fewer than k outputs."""
    flat = logits.reshape(-1)
    if flat.numel() < k:
        return None
    return label in flat.topk(k).indices.tolist()


def class_output(outputs: Sequence[torch.Tensor], label: int, asked: int | None) -> int:
    """Return the output that gives the class: the one asked for, else one that can.

    That is the first vector with an element for the label; the first output where there is none.
    """
    if asked is not None:
        return min(asked, len(outputs) - 1)
    fitting = (i for i, output in enumerate(outputs) if classes_of(output) > max(1, label))
    return next(fitting, 0)


def classes_of(output: torch.Tensor) -> int:
    """Return the number of classes that an output may give: its size, if it is a vector; else 0."""
    is_vector = output.is_floating_point() and output.numel() == max(output.shape, default=0)
    return output.numel() if is_vector else 0


def tensors_of(value: Any) -> list[torch.Tensor]:
    """Return the tensors in a model's return value, in order; also those in objects of its classes."""
    tensors: list[torch.Tensor] = []
    for leaf in torch.utils._pytree.tree_leaves(value):  # noqa: SLF001 - no public name
        if isinstance(leaf, torch.Tensor):
            tensors.append(leaf)
        else:
            tensors += tensors_of(_parts(leaf))
    return tensors


def _parts(value: Any) -> list[Any]:
    """Return what lies in an object of a class that torch does not know."""
    if dataclasses.is_dataclass(value):
        return [getattr(value, field.name) for field in dataclasses.fields(value)]
    if isinstance(value, dict | list):
        return list(value.values() if isinstance(value, dict) else value)
    is_plain = hasattr(value, "__dict__") and not isinstance(value, type | torch.nn.Module)
    return list(vars(value).values()) if is_plain else []
