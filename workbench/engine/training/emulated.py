"""A student whose rounding is emulated in float: gradients go straight through."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from torch import fx

from workbench.engine.training.student import Student, norms_of, take_batches, unrounded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import torch

# Places of arguments of a batch norm: running mean and variance, training.
_STATISTICS, _TRAINS = (3, 4), 5


class EmulatedStudent(Student):
    """The emulated program as it is, weights rounded at every pass; it learns no ranges.

    Args:
        floating: The float program.
        emulate: Makes the emulated program of it, with float weights; it may be used up.
        rounds: Whether a node rounds.

    Raises:
        WorkbenchError: nothing rounds.
    """

    def __init__(
        self,
        floating: fx.GraphModule,
        emulate: Callable[[fx.GraphModule], fx.GraphModule],
        rounds: Callable[[fx.Node], bool],
    ) -> None:
        self._idle = {}
        self._float = fx.GraphModule(floating, copy.deepcopy(floating.graph))
        self.module = emulate(floating)
        if not any(rounds(node) for node in self.module.graph.nodes):
            raise unrounded()
        for each in (self._float, self.module):
            take_batches(each)
        self._norms = list(norms_of(self.module))
        buffers = dict(self.module.named_buffers())
        targets = [str(node.args[at].target) for node in self._norms for at in _STATISTICS]
        self._statistics = {name: buffers[name] for name in targets}
        self.parameters = dict(self.module.named_parameters())
        for parameter in self.parameters.values():
            parameter.requires_grad_(parameter.is_floating_point())

    def run_in_float(self, *inputs: torch.Tensor) -> Any:
        """Return the outputs without rounding."""
        return self._float(*inputs)

    def switch(self, *, observes: bool, normalizes: bool) -> None:
        """Let statistics of batch norms follow the data or stay."""
        del observes
        for node in self._norms:
            node.args = (*node.args[:_TRAINS], normalizes, *node.args[_TRAINS + 1 :])
        self.module.recompile()

    def see(self, batches: Iterable[tuple[torch.Tensor, ...]]) -> None:
        """Take nothing: no ranges of activations are learned."""
        del batches
