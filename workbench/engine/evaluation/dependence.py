"""Whether the outputs of a program depend on its inputs where those of the float model do."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch

from workbench.engine.evaluation.measures import Accumulator, largest_magnitude
from workbench.results import Dependence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from workbench.engine.data import Sample
    from workbench.results import ExportResult

    Outputs = Sequence[torch.Tensor]
    Program = Callable[[Sample], list[torch.Tensor]]

# A change of an output by this share of its largest magnitude is five steps of a grid of 8 bits.
_SHARE = 0.02
# Samples whose inputs are exchanged.
EXCHANGED = 3


@dataclass
class Variation:
    """Which outputs vary over samples: in the float model, and in a program."""

    _first: tuple[list[torch.Tensor], list[torch.Tensor]] | None = None
    _moves: list[bool] = field(default_factory=list)
    _program_moves: list[bool] = field(default_factory=list)

    def add(self, floats: Outputs, outputs: Outputs) -> None:
        """Add the outputs of the float model and of the program for one sample."""
        if self._first is None:
            self._first = [t.clone() for t in floats], [t.clone() for t in outputs]
            self._moves = [False for _ in floats]
            self._program_moves = [False for _ in floats]
            return
        for index, (before, now) in enumerate(zip(self._first[0], floats, strict=True)):
            self._moves[index] = self._moves[index] or _is_clear(before, now)
        for index, (before, now) in enumerate(zip(self._first[1], outputs, strict=True)):
            self._program_moves[index] = self._program_moves[index] or not torch.equal(before, now)

    def constant_positions(self) -> list[int]:
        """Return the positions of the outputs that vary in the float model only."""
        pairs = zip(self._moves, self._program_moves, strict=True)
        return [i for i, (floats, program) in enumerate(pairs) if floats and not program]

    def result(self, exported: ExportResult) -> Dependence:
        """Return the outputs that are constant, and the input that a program of one ignores.

        Args:
            exported: The model, which names its inputs and outputs.
        """
        inputs = tuple(spec.name for spec in exported.inputs)
        names = exported.model_output_names(len(self._moves))
        constant = tuple(names[i] for i in self.constant_positions())
        ignores = bool(constant) and len(inputs) == 1 and not any(self._program_moves)
        return Dependence(constant=constant, ignored=inputs if ignores else ())


def with_inputs(
    known: Dependence, floating: Program, program: Program, samples: Sequence[Sample], inputs: Sequence[str]
) -> Dependence:
    """Return a dependence with the inputs that the program, or the float model too, ignores.

    Each input of one sample is replaced by that of another, while the other inputs stay; both
    programs must have no state. A single input of several samples is covered by their variation.

    Args:
        known: What follows from the samples as they are.
        floating: Returns the float model's outputs.
        program: Returns the program's outputs.
        samples: Up to ``EXCHANGED`` samples.
        inputs: The names of the inputs.
    """
    if not samples or (len(inputs) == 1 and len(samples) > 1):
        return known
    ignored, unused = [*known.ignored], []
    for index, name in enumerate(inputs):
        moves = list(_moves(index, floating, program, samples))
        if moves and not any(program_moves for _, _, program_moves in moves):
            if any(is_clear for _, is_clear, _ in moves):
                ignored.append(name)
            elif not any(is_any for is_any, _, _ in moves):
                unused.append(name)
    return known.model_copy(update={"ignored": tuple(dict.fromkeys(ignored)), "unused": tuple(unused)})


def _moves(
    index: int, floating: Program, program: Program, samples: Sequence[Sample]
) -> Iterator[tuple[bool, bool, bool]]:
    """Yield whether the float model moves, and clearly, and the program, if an input changes.

    The last pair is the first in which the program moves.
    """
    for base in samples:
        for value in _others(index, base, samples):
            changed = (*base.inputs[:index], value, *base.inputs[index + 1 :])
            other = replace(base, inputs=changed)
            try:
                floats, others = floating(_own(base)), floating(_own(other))
                before, after = program(_own(base)), program(_own(other))
            except (RuntimeError, IndexError, ValueError):
                # The inputs of two samples need not fit together.
                continue
            moves = not all(map(torch.equal, before, after))
            yield (not all(map(torch.equal, floats, others)), any(map(_is_clear, floats, others)), moves)
            if moves:
                return


def _others(index: int, base: Sample, samples: Sequence[Sample]) -> Iterator[torch.Tensor]:
    """Yield other values of an input: those of other samples, else the same in another order."""
    own = base.inputs[index]
    others = [s.inputs[index] for s in samples if not torch.equal(s.inputs[index], own)]
    if others:
        yield from others
        return
    turned = own.reshape(-1).roll(1).reshape(own.shape)
    if not torch.equal(turned, own):
        yield turned
    elif own.is_floating_point():
        yield own * 0.5 + 0.25


def _own(sample: Sample) -> Sample:
    """Return a sample that a program may write to."""
    return replace(sample, inputs=tuple(value.clone() for value in sample.inputs))


def _is_clear(before: torch.Tensor, now: torch.Tensor) -> bool:
    """Return whether an output changes by more than a small share of its largest magnitude."""
    if before.shape != now.shape:
        return True
    if not before.numel():
        return False
    change = Accumulator()
    change.add(before, now)
    return change.worst > _SHARE * max(largest_magnitude(before), largest_magnitude(now))
