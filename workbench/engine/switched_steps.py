"""A switched program taken through samples; every setting of its switches remembers by itself.

What a setting puts into caches is what it reads there at the next step, as a program that was
quantized so would.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from workbench.engine.quality import tensors_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    import torch
    from torch import fx

    from workbench.engine.data import Sample
    from workbench.engine.switches import SwitchedProgram, Values

Setting = tuple[str, int]


@dataclass
class _Memory:
    """What buffers hold by name, and the outputs that are inputs of the next step."""

    kept: dict[str, torch.Tensor] = field(default_factory=dict)
    carried: tuple[torch.Tensor, ...] = ()


class SwitchedSteps:
    """Runs a switched program sample after sample."""

    def __init__(self, program: SwitchedProgram) -> None:
        self._program = program
        self._memories: dict[Setting, _Memory] = {}
        self._sample: Sample | None = None

    def remembers(self, sample: Sample) -> bool:
        """Return whether a step depends on those before it."""
        return bool(self._program.writes or sample.carried)

    def take(self, sample: Sample) -> None:
        """Go on to the next sample, and forget what was before where a sequence begins."""
        if sample.begins:
            self._memories = {}
        self._sample = sample

    def run(self, setting: Setting, on: frozenset[fx.Node]) -> Values:
        """Return the values of all nodes with the switches ``on`` closed."""
        memory = self._memories.setdefault(setting, _Memory())
        values = self._program.run(self._inputs(memory), on, memory.kept)
        self._keep(memory, values)
        return values

    def rerun(
        self, setting: Setting, before: Values, changed: Iterable[fx.Node], on: frozenset[fx.Node]
    ) -> list[torch.Tensor]:
        """Return the program's own outputs with ``on`` closed; see ``SwitchedProgram.rerun``."""
        memory = self._memories.setdefault(setting, _Memory())
        inputs = self._inputs(memory)
        values = self._program.rerun(before, changed, on, inputs, memory.kept)
        self._keep(memory, values)
        return self.outputs(values)

    def outputs(self, values: Values) -> list[torch.Tensor]:
        """Return the outputs among the values of a run, without what is carried on."""
        assert self._sample is not None
        every = tensors_of(self._program.output(values))
        return every[: len(every) - self._sample.carried]

    def _inputs(self, memory: _Memory) -> tuple[torch.Tensor, ...]:
        assert self._sample is not None
        inputs = self._sample.inputs
        if not memory.carried:
            return inputs
        return (*inputs[: -self._sample.carried], *memory.carried)

    def _keep(self, memory: _Memory, values: Values) -> None:
        assert self._sample is not None
        memory.kept = {name: values[node] for name, node in self._program.writes.items()}
        every = tensors_of(self._program.output(values))
        memory.carried = tuple(every[len(every) - self._sample.carried :])
