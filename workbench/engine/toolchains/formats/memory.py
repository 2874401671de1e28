"""How many bits the values of an emulated program would take."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING

import torch
from torch import fx

from workbench.engine import programs
from workbench.engine.observers import branches_of
from workbench.engine.toolchains.formats.emulation import RESULT
from workbench.engine.toolchains.formats.finding import operations
from workbench.results import FormatMemory
from workbench.results.programs import FLOAT_BITS

if TYPE_CHECKING:
    from workbench.engine.toolchains.formats.emulation import Placing


def memory(observed: fx.GraphModule) -> FormatMemory:
    """Return the average bits of weights and of what flows into operations; the rest is float32.

    Weights are all floating constants that the graph reads, biases and statistics among them.

    Args:
        observed: From ``prepare``, calibrated or not.
    """
    weights, data = _Sum(), _Sum()
    _add(observed, weights, data)
    return FormatMemory(
        weight_bits=weights.average, data_bits=data.average,
        weight_elements=weights.elements, data_elements=data.elements,
    )  # fmt: skip


def _add(observed: fx.GraphModule, weights: _Sum, data: _Sum) -> None:
    """Add the values of a graph and of the branches and loops in it."""
    for node in observed.graph.nodes:
        if not programs.is_constant(node) or not node.users:
            continue
        value = operator.attrgetter(str(node.target))(observed)
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            users = (_placing(observed, user) for user in node.users)
            placing = next((each for each in users if each is not None), None)
            weights.add(tuple(value.shape), placing)
    seen: set[tuple[fx.Node, str]] = set()
    for found in operations(observed.graph):
        for operand in found.operands:
            source = operand.source
            placing = _placing(observed, source)
            origin = source.args[0] if placing is not None else source
            key = origin, placing.text if placing is not None else ""
            if not programs.is_constant(origin) and key not in seen:
                seen.add(key)
                data.add(tuple(origin.meta["val"].shape), placing)
    for _, branch in branches_of(observed):
        _add(branch, weights, data)


class _Sum:
    def __init__(self) -> None:
        self.elements, self._bits = 0, 0.0

    def add(self, shape: tuple[int, ...], placing: Placing | None) -> None:
        count = math.prod(shape)
        self.elements += count
        self._bits += count * (FLOAT_BITS if placing is None else _bits(placing, shape))

    @property
    def average(self) -> float | None:
        return self._bits / self.elements if self.elements else None


def _bits(placing: Placing, shape: tuple[int, ...]) -> float:
    operation = placing.made
    if placing.operand == RESULT:
        return operation.result_bits()
    return operation.bits(shape, placing.operand)


def _placing(observed: fx.GraphModule, node: fx.Node) -> Placing | None:
    if node.op != "call_module":
        return None
    placing: Placing | None = getattr(observed.get_submodule(str(node.target)), "placing", None)
    return placing
