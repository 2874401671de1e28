"""Training data: samples and the float model's outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from workbench.engine.data.evaluation import calibration_samples
from workbench.engine.evaluation.measures import tensors_of
from workbench.errors import Place, failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from workbench.engine.runtime.context import StageContext

    Program = Callable[..., object]

Tensors = tuple[torch.Tensor, ...]
# Memory limit of the samples [bytes]; every fifth sample is held out for measurement.
AT_MOST_BYTES = 256 << 20
_VALIDATE_EVERY = 5
_FEWEST_TO_SPLIT = 10


@dataclass(frozen=True)
class Batch:
    """A batch: the model's inputs and the float model's outputs, each [N, ...].

    ``labels`` [N] are classes; None if the data has none.
    """

    inputs: Tensors
    targets: Tensors
    labels: torch.Tensor | None


class TrainingDataset:
    """The calibration samples with the float model's outputs, in memory, on one device.

    Of ``all`` samples, ``used`` ones train and ``validation`` ones are held out for measurement, if
    there are enough. ``one_by_one`` means that the program does not support batches.
    """

    def __init__(self, context: StageContext, teacher: Program, student: Program, device: str) -> None:
        samples = calibration_samples(context)
        self.name = samples.name
        self.all: list[Batch] = []
        taken = 0
        with torch.no_grad():
            for sample in samples:
                context.check_cancelled()
                taken += sum(tensor.nbytes for tensor in sample.inputs)
                if self.all and taken > AT_MOST_BYTES:
                    context.log(f"Training uses the first {len(self.all)} samples (limit: 256 MiB).")
                    break
                inputs = tuple(tensor.to(device) for tensor in sample.inputs)
                label = None if sample.label is None else torch.tensor([sample.label])
                self.all.append(Batch(inputs, tuple(tensors_of(teacher(*inputs))), label))
        if not self.all:
            raise failure(
                f"{samples.name} contains no samples.",
                "Training needs at least one sample.",
                Place(kind="option", id="calibration.spec"),
                code="training-data-empty",
            )
        splits = len(self.all) >= _FEWEST_TO_SPLIT
        self.validation = self.all[::_VALIDATE_EVERY] if splits else self.all
        self.used = [b for i, b in enumerate(self.all) if i % _VALIDATE_EVERY or not splits]
        self.held_out = len(self.validation) if splits else 0
        self.one_by_one = not all(_takes_batches(program, self.all) for program in (teacher, student))

    def batches(self, size: int, seed: int, epoch: int) -> Iterator[Batch]:
        """Yield the training samples in an order determined by seed and epoch."""
        generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
        order = torch.randperm(len(self.used), generator=generator).tolist()
        return self.together([self.used[i] for i in order], size)

    def together(self, batches: Sequence[Batch], size: int) -> Iterator[Batch]:
        """Yield batches of the requested size, or of one sample without batch support."""
        step = 1 if self.one_by_one else size
        for start in range(0, len(batches), step):
            yield _joined(batches[start : start + step])


def _joined(batches: Sequence[Batch]) -> Batch:
    labels = [batch.labels for batch in batches if batch.labels is not None]
    return Batch(
        tuple(torch.cat(inputs) for inputs in zip(*(b.inputs for b in batches), strict=True)),
        tuple(torch.cat(targets) for targets in zip(*(b.targets for b in batches), strict=True)),
        torch.cat(labels) if len(labels) == len(batches) else None,
    )


def _takes_batches(program: Program, batches: Sequence[Batch]) -> bool:
    """Return whether a batch of two samples gives the same results as each sample alone."""
    if len(batches) < 2:
        return False
    try:
        with torch.no_grad():
            together = tensors_of(program(*_joined(batches[:2]).inputs))
            alone = [tensors_of(program(*batch.inputs)) for batch in batches[:2]]
        apart = [torch.cat(pair) for pair in zip(*alone, strict=True)]
    except (RuntimeError, IndexError, ValueError):
        return False
    return all(
        mine.shape == both.shape and torch.allclose(mine, both, rtol=1e-3, atol=1e-5)
        for mine, both in zip(together, apart, strict=True)
    )
