"""A converted module that gives the same numbers in less time, for passes over data.

Four rewrites of a copy of its graph: quantized constants are computed once; a quantize and its
dequantize become arithmetic on floats; of nodes that compute the same from the same only one
stays; a pair that meets values already on its grid is dropped. Every value equals the stock
module's for finite inputs; a NaN or an infinity becomes another integer in a cast, so only there
the two may differ.
"""

from __future__ import annotations

import copy
import math
import operator
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import fx
from torchao.quantization.pt2e import ObserverBase

from workbench.engine.fx.programs import write_nowhere

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from workbench.engine.runtime.context import StageContext

# ruff: noqa: SLF001, SIM905 - the insides of the toolchain are what this file is about

_Q = torch.ops.quantized_decomposed
_ATEN = torch.ops.aten
_PAIR = (_Q.quantize_per_tensor.default, _Q.dequantize_per_tensor.default)

# Below this many elements one fused operator is quicker than four passes over the tensor.
_SMALL = 2560
# Integers up to here, and their sums with a zero point, are exact in float32.
_EXACT = 2**20

# They move or choose values and compute none.
_KEEP_GRID = frozenset(
    getattr(_ATEN, name)
    for name in (
        "view reshape flatten permute transpose slice slice_copy select select_copy expand squeeze"
        " unsqueeze contiguous clone alias detach max_pool2d amax relu view_copy permute_copy"
        " squeeze_copy unsqueeze_copy expand_copy t _unsafe_view"
    ).split()
)
# From inputs that differ in the sign of zeros they give outputs that differ in that at most.
_IGNORE_ZERO_SIGN = _KEEP_GRID | frozenset(
    getattr(_ATEN, name)
    for name in (
        "conv1d conv2d conv3d convolution linear addmm matmul mm bmm add sub mul neg mean sum"
        " avg_pool2d adaptive_avg_pool2d hardtanh clamp hardsigmoid hardswish exp sigmoid tanh"
        " gelu erf silu softmax _softmax layer_norm batch_norm elu leaky_relu cat stack abs"
        " dropout"
    ).split()
)


class _Grid(NamedTuple):
    """The values a quantize and dequantize pair can give."""

    scale: float
    zero_point: int
    qmin: int
    qmax: int
    dtype: torch.dtype


def quantized_module(context: StageContext) -> fx.GraphModule:
    """Return the converted module, or an equal, faster one."""
    converted: fx.GraphModule = context.live("convert").module
    return fast_quantized_module(converted) if context.is_accelerated else converted


def fast_quantized_module(converted: fx.GraphModule) -> fx.GraphModule:
    """Return a module with the outputs of ``converted`` in less time.

    Patterns that are not known stay as they are; a graph that changes tensors in place is copied
    and not rewritten. Weights are shared with ``converted``, which is not altered.

    Args:
        converted: Module from ``convert_pt2e``, folded or not.
    """
    fast = fx.GraphModule(converted, copy.deepcopy(converted.graph), converted._get_name())
    _quicken(fast)
    return fast


def _quicken(fast: fx.GraphModule) -> None:
    graph = fast.graph
    if any(_is_mutable(node) for node in graph.nodes):
        return
    _fold_constants(fast)
    _fuse_pairs(graph)
    _merge_twins(graph)
    _drop_idle_pairs(graph)
    _merge_twins(graph)
    _fold_constants(fast)
    _guard_zero_signs(graph)
    fast.delete_all_unused_submodules()
    fast.recompile()


def requantized(
    x: torch.Tensor, grid: tuple[float, int, int, int], inverse: float, plus_zero: bool
) -> torch.Tensor:
    """Return ``x`` rounded to a grid: its quantization, and the dequantization of that.

    Args:
        x: Finite float32 values of any shape.
        grid: Scale, zero point, least and greatest integer.
        inverse: 1 / scale, in double precision as the stock operator computes it.
        plus_zero: Whether a zero must be positive, as the stock operators give it.
    """
    scale, zero_point, qmin, qmax = grid
    if x.numel() < _SMALL:
        return torch.fake_quantize_per_tensor_affine(x, scale, zero_point, qmin, qmax)
    y = x.mul(inverse).round_().clamp_(qmin - zero_point, qmax - zero_point)
    return (y.add_(0.0) if plus_zero else y).mul_(scale)


def _is_mutable(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def _is_foldable(node: fx.Node) -> bool:
    """Tell whether ``node`` gives the same values computed now as computed at every run."""
    target = node.target
    if target is requantized or _packet(node) in _KEEP_GRID:
        return True
    return isinstance(target, torch._ops.OpOverload) and target.namespace == "quantized_decomposed"


def _fold_constants(module: fx.GraphModule) -> None:
    """Compute each quantize and dequantize of constants, and each view of one, only once."""
    values: dict[fx.Node, Any] = {}
    for node in list(module.graph.nodes):
        if node.op == "get_attr":
            values[node] = operator.attrgetter(node.target)(module)
        elif _is_foldable(node) and all(source in values for source in node.all_input_nodes):
            args = fx.map_arg((node.args, node.kwargs), values.__getitem__)
            with torch.no_grad():
                values[node] = node.target(*args[0], **args[1])
            name = f"_folded_{node.name}"
            module.register_buffer(name, values[node], persistent=False)
            with module.graph.inserting_before(node):
                constant = module.graph.get_attr(name)
            constant.meta = dict(node.meta)
            values[constant] = values[node]
            node.replace_all_uses_with(constant)
            module.graph.erase_node(node)
    _forget_unread_constants(module)


def _forget_unread_constants(module: fx.GraphModule) -> None:
    module.graph.eliminate_dead_code()
    read = {node.target for node in module.graph.nodes if node.op == "get_attr"}
    for table in (module._parameters, module._buffers):
        for name in [name for name in table if name not in read]:
            del table[name]


def _fuse_pairs(graph: fx.Graph) -> None:
    """Make each dequantize of a quantize to the same grid one node of arithmetic on floats."""
    for node in list(graph.nodes):
        grid = _grid_of(node)
        if grid is None:
            continue
        with graph.inserting_before(node):
            args = (node.args[0].args[0], tuple(grid[:4]), 1.0 / grid.scale, False)
            fused = graph.call_function(requantized, args)
        fused.meta = dict(node.meta)
        node.replace_all_uses_with(fused)
        graph.erase_node(node)
    graph.eliminate_dead_code()


def _merge_twins(graph: fx.Graph) -> None:
    """Keep the first of all nodes which apply the same pure function to the same arguments."""
    first: dict[tuple[Any, str], fx.Node] = {}
    for node in list(graph.nodes):
        if node.target is not requantized:
            packet = _packet(node)
            if packet is None or torch.Tag.nondeterministic_seeded in node.target.tags:
                continue
        twin = first.setdefault((node.target, f"{node.args} {node.kwargs}"), node)
        if twin is not node:
            node.replace_all_uses_with(twin)
            graph.erase_node(node)


def _grid_of(node: fx.Node) -> _Grid | None:
    """Return the grid of a dequantize whose quantize has the same literal parameters."""
    if node.target is not _PAIR[1] or node.kwargs or len(node.args) != 6:
        return None
    quantize = node.args[0]
    if not isinstance(quantize, fx.Node) or quantize.target is not _PAIR[0] or quantize.kwargs:
        return None
    if quantize.args[1:] != node.args[1:] or not _is_float32(quantize.args[0]):
        return None
    grid = _Grid(*node.args[1:])
    return grid if _is_exact(grid) else None


def _is_float32(node: Any) -> bool:
    if not isinstance(node, fx.Node):
        return False
    if node.target is requantized:
        return True
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype is torch.float32


def _is_exact(grid: _Grid) -> bool:
    """Tell whether the arithmetic on floats gives the stock values for every finite input."""
    if any(isinstance(part, fx.Node) for part in grid) or not grid.scale > 0:
        return False
    held = torch.tensor(grid.scale, dtype=torch.float32).item() == grid.scale
    inside = -_EXACT < grid.qmin <= grid.zero_point <= grid.qmax < _EXACT
    return held and inside and math.isfinite(1.0 / grid.scale)


def _drop_idle_pairs(graph: fx.Graph) -> None:
    """Drop the fused nodes whose input is on their grid already.

    An integer k on the grid comes back as k: the relative errors of k * scale and of its product
    with 1 / scale are below 2**-22, too small to round to another integer.
    """
    on_grid: dict[fx.Node, Any] = {}
    for node in list(graph.nodes):
        if node.target is requantized:
            source, grid = node.args[0], node.args[1]
            if on_grid.get(source) == grid:
                node.replace_all_uses_with(source)
                graph.erase_node(node)
            else:
                on_grid[node] = grid
        elif _packet(node) in _KEEP_GRID and len(node.all_input_nodes) == 1:
            source = node.all_input_nodes[0]
            if source in on_grid:
                on_grid[node] = on_grid[source]


def _packet(node: fx.Node) -> Any:
    target = node.target
    return target.overloadpacket if isinstance(target, torch._ops.OpOverload) else None


def _guard_zero_signs(graph: fx.Graph) -> None:
    """Make zeros positive where their sign has an effect: in outputs and in divisions."""
    for node in graph.nodes:
        careless = node.target is requantized or _packet(node) in _IGNORE_ZERO_SIGN
        if node.op in ("placeholder", "get_attr") or careless:
            continue
        for source in _fused_before(node):
            source.args = (*source.args[:3], True)


def _fused_before(node: fx.Node) -> Iterator[fx.Node]:
    """Yield the fused nodes whose values reach ``node`` with no other of them between."""
    pending, seen = list(node.all_input_nodes), set()
    while pending:
        source = pending.pop()
        if source in seen:
            continue
        seen.add(source)
        if source.target is requantized:
            yield source
        else:
            pending.extend(source.all_input_nodes)


class Tapped:
    """A module that is asked for the values of some of its nodes by name."""

    def __init__(self, module: fx.GraphModule, names: list[str]) -> None:
        self._module, self._names = module, names

    def __call__(self, *inputs: torch.Tensor) -> tuple[Any, dict[str, Any]]:
        """Return the outputs, flat, and the values by name."""
        outputs, values = self._module(*inputs)
        return outputs, dict(zip(self._names, values, strict=True))


def tapped_float(prepared: fx.GraphModule, names: Collection[str]) -> Tapped:
    """Return the float side of a prepared module: nothing is observed when it runs."""
    module, kept = _with_values(prepared, names)
    for node in list(module.graph.nodes):
        if node.op == "call_module" and _observes(module, node):
            node.replace_all_uses_with(node.args[0])
            module.graph.erase_node(node)
    write_nowhere(module)
    return Tapped(module, kept)


def tapped_quantized(converted: fx.GraphModule, names: Collection[str]) -> Tapped:
    """Return a converted module that runs fast; the values are its own for finite inputs."""
    module, kept = _with_values(converted, names)
    write_nowhere(module)
    _quicken(module)
    return Tapped(module, kept)


def _with_values(module: fx.GraphModule, names: Collection[str]) -> tuple[fx.GraphModule, list[str]]:
    graph = copy.deepcopy(module.graph)
    # Inputs and outputs stay flat: the module's own nesting would not fit the values.
    graph.set_codegen(fx.graph.CodeGen())
    nodes = [node for node in graph.nodes if node.name in names]
    output = next(node for node in reversed(graph.nodes) if node.op == "output")
    output.args = ((output.args[0], tuple(nodes)),)
    return fx.GraphModule(module, graph), [node.name for node in nodes]


def _observes(module: fx.GraphModule, node: fx.Node) -> bool:
    return isinstance(module.get_submodule(str(node.target)), ObserverBase)
