"""Average pools round halves away from zero on the NPU, and to the even neighbour in torch.

The quantized model is computed as the NPU rounds where both are compared: a half that goes to the
other neighbour is one step, which a later difference of two almost equal values makes many. Nothing
else differs between both ways.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

_ATEN, _GRIDS = torch.ops.aten, torch.ops.quantized_decomposed
# Padding, ceil_mode, count_include_pad and divisor_override of ``avg_pool2d``.
_DEFAULTS: tuple[Any, ...] = ((0, 0), False, True, None)
# Means of integers over n values lie 1 / n apart; a half is moved by less than that.
_SHARE_OF_DISTANCE = 4


@contextmanager
def halves_away_from_zero(
    converted: torch.fx.GraphModule, lowered: torch.export.ExportedProgram
) -> Iterator[bool]:
    """Let the average pools that run on the NPU round as it does while the block runs.

    Pools that stay on the CPU, as those of a batch on U55 and U65, round as torch. Only pools
    between equal grids: their means are then of the integers themselves. Means of an odd number of
    integers are never halves. Copies that are made of the module meanwhile keep rounding so. The
    block gets whether any pool does: without one, the module computes what it does outside.

    Source: TOSA 1.0 ``AVG_POOL2D`` multiplies the sum with a number just above 1 / n
    (``reciprocal_scale``), adds one half and rounds down (``apply_scale_32``).

    Args:
        converted: Module from ``convert_pt2e``; its nodes are as before when the block ends.
        lowered: The program that was compiled from it, with its delegates.
    """
    on_cpu = {
        _sizes(node)
        for node in lowered.graph.nodes
        if node.op == "call_function" and "avg_pool2d" in str(node.target)
    }
    pools = {
        node: step
        for node in converted.graph.nodes
        if (step := _step_of(node)) and _sizes(node) not in on_cpu
    }
    if not pools:
        yield False
        return
    try:
        for node, step in pools.items():
            node.target = pool_with_offset
            node.kwargs = {"offset": step / _SHARE_OF_DISTANCE / math.prod(_size_of(node))}
        converted.recompile()
        yield True
    finally:
        for node in pools:
            node.target, node.kwargs = _ATEN.avg_pool2d.default, {}
        converted.recompile()


def pool_with_offset(x: torch.Tensor, *settings: Any, offset: float) -> torch.Tensor:
    """Return an average pool with ``offset`` away from zero; the settings are ``avg_pool2d``'s."""
    pooled: torch.Tensor = _ATEN.avg_pool2d.default(x, *settings)
    return pooled + offset * torch.sign(pooled)


def _sizes(node: torch.fx.Node) -> tuple[Any, ...]:
    """Return the shape of the output and the size of a pool, by which it is known."""
    size: Any = node.args[1]
    return tuple(getattr(node.meta.get("val"), "shape", ())), tuple(size)


def _step_of(node: torch.fx.Node) -> float:
    """Return the step of an average pool between two equal grids; 0 for other nodes."""
    if node.target is not _ATEN.avg_pool2d.default or node.kwargs or _is_of_odd_number(node):
        return 0.0
    before: Any = node.args[0]
    grids = {tuple(reader.args[1:6]) for reader in node.users if _quantizes(reader)}
    is_between = before.target is _GRIDS.dequantize_per_tensor.default and len(node.users) == 1
    if not is_between or grids != {tuple(before.args[1:6])}:
        return 0.0
    return float(before.args[1])


def _is_of_odd_number(node: torch.fx.Node) -> bool:
    """Return whether each mean of a pool is of the same, odd number of elements.

    The arguments of ``avg_pool2d``: input, size, stride, padding, ceil_mode, count_include_pad,
    divisor_override. A padded pool may count less at the borders.
    """
    settings: tuple[Any, ...] = node.args[3:]
    padding, by_ceiling, _, divisor = settings + _DEFAULTS[len(settings) :]
    return math.prod(_size_of(node)) % 2 == 1 and not (by_ceiling or divisor or any(padding))


def _quantizes(node: torch.fx.Node) -> bool:
    return node.target is _GRIDS.quantize_per_tensor.default


def _size_of(node: torch.fx.Node) -> tuple[int, ...]:
    size: Any = node.args[1]
    return tuple(size) * (1 if len(size) > 1 else 2)
