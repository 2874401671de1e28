"""Training through emulated formats: gradients go straight through their rounding."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from workbench.engine.toolchains.formats.emulation import quantize_per_format
from workbench.engine.toolchains.formats.quantizing import convert, prepare, quantizer
from workbench.engine.training.student import Student, norms_of, take_batches, unrounded

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from workbench.project.model import Project

# Places of arguments of a batch norm: running mean and variance, training.
_STATISTICS, _TRAINS = (3, 4), 5


class FormatStudent(Student):
    """The emulated program as it is, weights rounded at every pass; formats learn no ranges."""

    def __init__(self, floating: fx.GraphModule, project: Project, folder: Path) -> None:
        self._float = fx.GraphModule(floating, copy.deepcopy(floating.graph))
        self.module = convert(prepare(floating, quantizer(project, folder)), fold=False)
        if not any(node.target is quantize_per_format for node in self.module.graph.nodes):
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
        """Take nothing: formats have no ranges of activations."""
        del batches


def student(floating: fx.GraphModule, project: Project, folder: Path) -> FormatStudent:
    """Return the float program with its formats, to be trained."""
    return FormatStudent(floating, project, folder)
