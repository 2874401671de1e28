"""Which layers stay as they are written, because Vela takes more cycles for what a rewrite writes.

A rewrite of a layer is judged by products and copies first. Where that is not clear, the layer is
compiled in both forms: alone where it reads an input of the program, behind a small layer elsewhere.
That is for the project's device and memory; where its memory is as usual, for one device of the family,
since what is prepared serves all of them.
"""

from __future__ import annotations

import copy
from math import prod
from typing import TYPE_CHECKING

import torch
from torch import fx
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from workbench.engine.ethos_u import quantization
from workbench.engine.ethos_u.corrections.graph_writer import Writer, fused_reader
from workbench.engine.ethos_u.estimate import estimate
from workbench.engine.ethos_u.lowering import tosa_on_npu
from workbench.engine.ethos_u.rewrites.norm_groups import path_to_pool
from workbench.engine.ethos_u.rewrites.patches import picture_behind
from workbench.engine.ethos_u.rewrites.quantized_calls import (
    CONVOLUTIONS,
    conv_arguments,
    quantized_calls,
    written_name,
)
from workbench.engine.ethos_u.rewrites.strides import each_axis, is_outside
from workbench.targets.ethos_u import ETHOS_U
from workbench.targets.ethos_u.corrections import switched_off
from workbench.targets.ethos_u.devices import family_of
from workbench.targets.ethos_u.rewrites import (
    DILATIONS,
    GROUPS,
    KERNELS,
    NORMS_AS_ONE,
    PATCHES,
    POOLS,
    SHUFFLES,
    STRIDES,
    TRANSPOSED,
)

if TYPE_CHECKING:
    from workbench.engine.ethos_u.quantization import ReportingQuantizer
    from workbench.project.model import TargetChoice
    from workbench.project.opened import OpenProject

_ATEN = torch.ops.aten
_TRANSPOSED = {_ATEN.conv_transpose1d.default, _ATEN.conv_transpose2d.input}
_POOLED = {_ATEN.max_pool2d.default, _ATEN.avg_pool2d.default}
# The rewrites that add copies or products, and the layers that they change.
_TRIED = {
    PATCHES: {_ATEN.linear.default, _ATEN.conv2d.default},
    SHUFFLES: {_ATEN.pixel_shuffle.default},
    TRANSPOSED: _TRANSPOSED,
    POOLS: _POOLED,
    GROUPS: {_ATEN.group_norm.default},
    DILATIONS: {_ATEN.conv1d.default, _ATEN.conv1d.padding},
    STRIDES: CONVOLUTIONS,
    KERNELS: CONVOLUTIONS,
}
# The rewrites that change what is written too: a convolution over patches has their size as its stride.
_AFTER = {PATCHES: (STRIDES,), GROUPS: (POOLS, NORMS_AS_ONE)}
_COPIES = {_ATEN.slice.Tensor, _ATEN.cat.default, _ATEN.constant_pad_nd.default}
# Products of a cycle, and cycles for each element that is copied or turned, by Vela's estimates.
_PRODUCTS = {"u55": 128, "u65": 256, "u85": 256}
_COPY, _TURN = 2, {"u55": 2, "u65": 4, "u85": 20}
# A convolution with a larger stride multiplies so many values in a cycle.
_LARGEST_STRIDE, _SERIAL_PRODUCTS = 3, 2
# A rewrite is not compiled if it takes less than the first part of many cycles, or less than the second
# part of fewer, by products and copies.
_CLEAR, _VERY_CLEAR, _MANY = 0.4, 0.1, 1_000_000
_BLOCK = 8
_KNOWN = dict[str, bool]()


def quantizer(opened: OpenProject) -> ReportingQuantizer:
    """Return a quantizer with the project's rules, which leaves layers as written where that is faster.

    Raises:
        WorkbenchError: a rule names an operator that torch does not have, a plug-in fails, or the
            installed ExecuTorch lacks what is patched.
    """
    own = quantization.quantizer(opened)
    own.trial = lambda module, rewrite: _slower_layers(opened, own, module, rewrite)
    return own


def _slower_layers(
    opened: OpenProject, quantizer: ReportingQuantizer, module: fx.GraphModule, rewrite: str
) -> tuple[str, ...]:
    """Return the layers of a float graph that take more cycles as a rewrite would write them."""
    slower, family = list[str](), family_of(opened.project.target.id).name
    layers = list(quantized_calls(module, quantizer, *_TRIED.get(rewrite, ())))
    names = _rewritten_names(module, quantizer, rewrite) if layers else set()
    for layer in (layer for layer in layers if written_name(layer) in names):
        # Every run decides alike, and other random numbers stay what they were.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            written, changed = (_alone(module, layer) for _ in range(2))
            if not quantizer.rewrites[rewrite](changed, quantizer):
                continue
            for name in _AFTER.get(rewrite, ()):
                for form in (written, changed) if name in quantizer.rewrites else ():
                    quantizer.rewrites[name](form, quantizer)
            after, before = (_bound(form, family) for form in (changed, written))
            part = _CLEAR if before > _MANY or layer.target in _POOLED else _VERY_CLEAR
            if after >= part * before and _is_slower(opened, written, changed):
                slower.append(written_name(layer))
    return tuple(slower)


def _rewritten_names(module: fx.GraphModule, quantizer: ReportingQuantizer, rewrite: str) -> set[str]:
    """Return the names of the layers that a rewrite would write; the graph stays as it is."""
    copied = fx.GraphModule(module, copy.deepcopy(module.graph))
    return set(quantizer.rewrites[rewrite](copied, quantizer))


def _alone(module: fx.GraphModule, layer: fx.Node) -> fx.GraphModule:
    """Return a layer and its function; behind a small layer if it reads no input of the program."""
    source = next(iter(layer.all_input_nodes))
    source = picture_behind(layer, source) or source
    behind = _behind(module, layer)
    inside, waiting = {layer, *behind}, [layer]
    while waiting:
        others = [node for node in waiting.pop().all_input_nodes if node not in {source, *inside}]
        inside.update(others)
        waiting += others
    graph, known = fx.Graph(), dict[fx.Node, fx.Node]()
    known[source] = graph.placeholder(source.name)
    known[source].meta = dict(source.meta)
    for node in (node for node in module.graph.nodes if node in inside):
        known[node] = graph.node_copy(node, known.__getitem__)
    graph.output((known[behind[-1]],))
    alone = fx.GraphModule(module, graph)
    if not is_outside(source) and source.meta["val"].dim() in _SMALL:
        _put_small_layer(alone)
    return alone


def _behind(module: fx.GraphModule, layer: fx.Node) -> list[fx.Node]:
    """Return what is computed with a layer: its function, or what is up to the pool behind a norm."""
    if layer.target is _ATEN.group_norm.default and (path := path_to_pool(module, layer)):
        return path
    return [fused_reader(layer)]


def _put_small_layer(alone: fx.GraphModule) -> None:
    """Put a layer over few channels, whose result has the layout of memory, behind the input."""
    value = next(iter(alone.graph.nodes))
    held, readers = value.meta["val"], list(value.users)
    batch, channels, *sizes = held.shape
    value.meta["val"] = held.new_empty(batch, _BLOCK, *sizes)
    write = Writer(alone, value.next)
    weight = write.parameter(_SMALL_WEIGHT, torch.rand(channels, _BLOCK, *[1] * len(sizes)))
    result = write(_SMALL[held.dim()], value, weight)
    for reader in readers:
        reader.replace_input_with(value, result)
    alone.recompile()


# By the number of dimensions, a layer whose result has the layout of memory.
_SMALL = {3: _ATEN.conv1d.default, 4: _ATEN.conv2d.default}
_SMALL_WEIGHT = "small_weight"


def _bound(module: fx.GraphModule, family: str) -> float:
    """Return the cycles that products and copies of a graph take, by no compiler's estimate."""
    products = others = 0.0
    for node in (node for node in module.graph.nodes if node.op == "call_function"):
        size = float(node.meta["val"].numel())
        if node.target in CONVOLUTIONS | _TRANSPOSED or node.target is _ATEN.linear.default:
            products += _products(node, _PRODUCTS[family])
            # Weights are read once at least.
            others += node.args[1].meta["val"].numel()
        elif node.target in _POOLED:
            _, kernel, stride, *_ = conv_arguments(node)
            # Where strides are larger, all places are computed.
            is_whole = max(each_axis(stride or kernel, 2, 1)) > _LARGEST_STRIDE
            places = node.args[0].meta["val"].numel() if is_whole else size
            products += places * prod(each_axis(kernel, 2, 1)) * _BLOCK
        elif node.target is _ATEN.permute.default and not _is_layout_of_memory(node):
            others += size * _TURN[family]
        elif node.target in _COPIES and any(reader.target is not _ATEN.cat.default for reader in node.users):
            others += size * _COPY
        elif node.target is _ATEN.pixel_shuffle.default:
            others += size
    return products / _PRODUCTS[family] + others


def _products(node: fx.Node, at_once: int) -> float:
    """Return how many products a layer takes, with every block of channels filled."""
    weight = node.args[1].meta["val"]  # type: ignore[union-attr]
    if str(node.args[1]).startswith(_SMALL_WEIGHT):
        return 0.0
    outputs, inputs, *kernel = weight.shape
    size, taps = node.meta["val"].numel(), prod(kernel)
    blocks = _filled(outputs) * _filled(inputs)
    if node.target in _TRANSPOSED:
        return float(size / inputs * taps * blocks)
    places = size / outputs * taps
    if kernel and max(each_axis(conv_arguments(node)[3], len(kernel), 1)) > _LARGEST_STRIDE:
        return float(places * outputs * inputs * at_once / _SERIAL_PRODUCTS)
    return float(places * blocks)


def _filled(channels: int) -> int:
    return -(-channels // _BLOCK) * _BLOCK


def _is_layout_of_memory(permute: fx.Node) -> bool:
    """Return whether a permutation of no input is between channels first and channels last.

    In memory they are last.
    """
    (source,), dims = permute.all_input_nodes, permute.meta["val"].dim()
    orders = [0, *range(2, dims), 1], [0, dims - 1, *range(1, dims - 1)]
    return source.op != "placeholder" and permute.args[1] in orders


def _is_slower(opened: OpenProject, written: fx.GraphModule, changed: fx.GraphModule) -> bool:
    """Return whether a layer takes more cycles as it is rewritten."""
    target = opened.project.target
    choice = ETHOS_U.tried(target)
    off = switched_off(target.options, "quantizer")
    forms = [_described(opened, form) for form in (written, changed)]
    key = f"{forms} {choice} {_ini(choice, opened)} {off}"
    if key not in _KNOWN:
        before = _cycles(opened, written)
        after = _cycles(opened, changed) if before is not None else None
        _KNOWN[key] = before is not None and (after is None or before < after)
    return _KNOWN[key]


def _described(opened: OpenProject, module: fx.GraphModule) -> str:
    """Return what the cycles of a graph depend on: its operators, with all shapes, numbers and rules."""
    quantizer = quantization.trial_quantizer(opened)
    configs = dict[fx.Node, str]()
    for part in quantizer.quantizer.quantizers:
        config = str(getattr(part, "quantization_config", ""))
        for node in part.node_finder.find_nodes(module) if hasattr(part, "node_finder") else ():
            configs.setdefault(node, config)
    names = {node: f"%{number}" for number, node in enumerate(module.graph.nodes)}
    lines = (
        f"{node.target if node.op == 'call_function' else node.op} "
        f"{fx.map_arg((node.args, node.kwargs), names.__getitem__)} "
        f"{getattr(node.meta.get('val'), 'shape', '')} {configs.get(node, '')}"
        for node in module.graph.nodes
    )
    return "\n".join(lines)


def _ini(choice: TargetChoice, opened: OpenProject) -> dict[str, str]:
    """Return the texts of the files that the options of a choice refer to, by option."""
    files = ETHOS_U.files(choice, opened.folder)
    return {option: path.read_text("utf-8") for option, path in files.items()}


def _cycles(opened: OpenProject, module: fx.GraphModule) -> int | None:
    """Return the cycles of a graph by Vela's estimate; None where not all of it runs on the NPU."""
    tried = ETHOS_U.tried(opened.project.target)
    choice, files = ETHOS_U.complete(tried, opened.folder), _ini(tried, opened)
    inputs = tuple(torch.randn(node.meta["val"].shape) for node in module.graph.find_nodes(op="placeholder"))
    try:
        with torch.no_grad():
            prepared = prepare_pt2e(module, quantization.trial_quantizer(opened))
            prepared(*inputs)
            program = torch.export.export(convert_pt2e(prepared), inputs)
        tosa = tosa_on_npu(program, choice)
        return estimate(tosa, choice.id, choice.options, files).cycles_total if tosa else None
    except OSError:
        raise
    except Exception:  # noqa: BLE001 - whatever the tools raise for what is not delivered
        return None
