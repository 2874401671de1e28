"""Convolutions and linears before batch norms, made fit for torchao to fold the norms into them.

A correction changes the module and returns the names of the nodes that it changed.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torchao.quantization.pt2e.utils import (
    _is_conv_or_conv_transpose_node,
    _is_conv_transpose_node,
    _is_linear_node,
)

from .graph_writer import Writer, constant_of, finished, floating_calls

_ATEN = torch.ops.aten
_WEIGHTS = (1, 2)
# Under this name a module's metadata has what was changed, by the id of the correction.
_CHANGED = "changed_before_folding"


def made_foldable(
    module: fx.GraphModule, functions: Sequence[Callable[[fx.GraphModule], list[str]]]
) -> dict[str, list[str]]:
    """Apply functions of this file to a module, unless that was done.

    Args:
        module: A float program's module, before its batch norms are folded.
        functions: Those that are applied.

    Returns:
        By id, the names of the nodes that were changed.
    """
    known: dict[str, list[str]] | None = module.meta.get(_CHANGED)
    if known is None:
        known = {function.__name__: function(module) for function in functions}
        module.meta[_CHANGED] = known
    return known


def own_weights(module: fx.GraphModule) -> list[str]:
    """Fold a batch norm or a factor into weights that are used twice.

    Fault: Where a convolution with a batch norm is called twice, as in siamese networks and heads
        that levels share, the batch norm of the first call is folded into it and those of the other
        calls are lost: the quantized model is another one. A factor behind one of two calls can be
        lost too.
    Instead: Every call has weights of its own before folding; equal ones are one again in the
        compiled program.
    Right because: Each call is folded with its own batch norm or factor.
    Network: bn_a(conv(x)) + bn_b(conv(y)) in a8w8; v = conv(x + torch.zeros_like(x)), then v - 0.5
        * other(other(v))
    Reported: https://github.com/pytorch/ao/pull/2795
    Tools: torchao 0.18.0
    """
    uses = dict[str, int]()
    for node in floating_calls(module, *{n.target for n in module.graph.nodes}):
        for given in node.args:
            if isinstance(given, fx.Node) and given.op == "get_attr":
                uses[str(given.target)] = uses.get(str(given.target), 0) + 1
    done = list[str]()
    sources = [*(source for _, source in _folded(module)), *_scaled(module)]
    for node in dict.fromkeys(sources):
        for index in _WEIGHTS:
            given = node.args[index] if index < len(node.args) else None
            value = constant_of(module, given)
            if value is not None and uses[str(getattr(given, "target", ""))] > 1:
                own = Writer(module, node).parameter(f"{node.name}_own_{index}", value.clone())
                node.update_arg(index, own)
                done.append(node.name)
    return finished(module, list(dict.fromkeys(done)))


def foldable_norms(module: fx.GraphModule) -> list[str]:
    """Fold batch norms only where and how they can be folded.

    Fault: A batch norm is folded into the convolution or linear before it for all readers of that,
        also for those that want the value before the norm, as in residual networks with norms
        first: the quantized model is another one. Folding fails for weights that are buffers or
        computed, as fixed filters, weight norm and spectral norm have them, for linears without a
        bias, for norms without weights behind a linear, and for transposed convolutions in groups.
    Instead: A norm that cannot be folded becomes a convolution with one weight a channel, or a
        product and a sum. The others are given parameters before folding.
    Right because: Both are the same functions of real numbers.
    Network: x = conv(image); relu(bn(x)) + x; bn(linear(x)) without a bias;
        bn(weight_norm(conv)(x))
    Tools: torchao 0.18.0
    """
    done = list[str]()
    folded = set[fx.Node]()
    for norm, source in _folded_or_chained(module, folded):
        groups = source.args[6] if _is_conv_transpose_node(source) and source.args[6:] else 1
        if len(source.users) > 1 or groups != 1 or _is_alone(source):
            write_norm(module, norm, source)
            done.append(norm.name)
        elif source in folded:
            _merge(module, source, norm)
            done.append(norm.name)
        else:
            folded.add(norm)
            if _give_parameters(module, norm, source):
                done.append(source.name)
    return finished(module, done)


def _folded_or_chained(
    module: fx.GraphModule, folded: Collection[fx.Node]
) -> Iterator[tuple[fx.Node, fx.Node]]:
    """Yield the norms that are folded, and those that directly follow one of ``folded``."""
    for norm in floating_calls(module, _ATEN.batch_norm.default):
        source: Any = norm.args[0]
        if _is_folded(module, norm) or (source in folded and _is_fixed(module, norm)):
            yield norm, source


def _merge(module: fx.GraphModule, first: fx.Node, second: fx.Node) -> None:
    """Let a batch norm do what the one after it does, and drop that."""
    weight, bias, mean, variance = (_value(module, given) for given in second.args[1:5])
    scale = torch.rsqrt(variance + second.args[7])
    scale = scale if weight is None else scale * weight
    shift = -mean * scale if bias is None else bias - mean * scale
    given_weight, given_bias = (_value(module, given) for given in first.args[1:3])
    write = Writer(module, first)
    factor = scale if given_weight is None else given_weight * scale
    summand = shift if given_bias is None else given_bias * scale + shift
    own = (
        write.parameter(f"{first.name}_merged_1", factor),
        write.parameter(f"{first.name}_merged_2", summand),
    )
    first.args = (first.args[0], *own, *first.args[3:])
    second.replace_all_uses_with(first)
    module.graph.erase_node(second)


def _folded(module: fx.GraphModule) -> Iterator[tuple[fx.Node, fx.Node]]:
    """Yield the batch norms that are folded, each with its convolution or linear."""
    for norm in floating_calls(module, _ATEN.batch_norm.default):
        source: Any = norm.args[0]
        if _is_folded(module, norm):
            yield norm, source


def _scaled(module: fx.GraphModule) -> Iterator[fx.Node]:
    """Yield the convolutions whose only reader multiplies them by a number."""
    for product in floating_calls(module, _ATEN.mul.Tensor, _ATEN.mul.Scalar):
        for source, factor in (product.args, product.args[::-1]):
            is_scaled = isinstance(factor, int | float) and isinstance(source, fx.Node)
            if is_scaled and len(source.users) == 1 and _is_conv_or_conv_transpose_node(source):
                yield source


def _is_folded(module: fx.GraphModule, norm: fx.Node) -> bool:
    """Return whether torchao folds a batch norm into what is before it."""
    source: Any = norm.args[0]
    is_flat = _is_linear_node(source) and source.meta["val"].dim() == 2
    is_before = is_flat or _is_conv_or_conv_transpose_node(source)
    return is_before and _is_fixed(module, norm)


def _is_alone(source: fx.Node) -> bool:
    """Return whether a convolution has no batch: the norm then takes its channels for one."""
    if not _is_conv_or_conv_transpose_node(source):
        return False
    weight: Any = source.args[1]
    dimensions: int = weight.meta["val"].dim()
    return bool(source.meta["val"].dim() < dimensions)


def _is_fixed(module: fx.GraphModule, norm: fx.Node) -> bool:
    """Return whether a batch norm uses statistics and weights that depend on no input."""
    return not norm.args[5] and all(
        given is None or _value(module, given) is not None for given in norm.args[1:5]
    )


def write_norm(module: fx.GraphModule, norm: fx.Node, source: fx.Node) -> None:
    """Write a batch norm as a factor and a summand for each channel."""
    weight, bias, mean, variance = (_value(module, given) for given in norm.args[1:5])
    scale = torch.rsqrt(variance + norm.args[7])
    scale = scale if weight is None else scale * weight
    shift = -mean * scale if bias is None else bias - mean * scale
    write_line(Writer(module, norm), source, scale, shift)


def write_line(write: Writer, source: fx.Node, scale: torch.Tensor, shift: torch.Tensor) -> None:
    """Put a factor and a summand for each channel of a value in the place of a node."""
    write.replace(line_of(write, source, scale, shift))


def line_of(write: Writer, source: fx.Node, scale: torch.Tensor, shift: torch.Tensor) -> fx.Node:
    """Return a value times a factor for each channel, plus a summand.

    For images and sequences that is a convolution with one weight for each channel.
    """
    sizes = [1] * (len(write.shape) - 2)
    convolve = _DEPTHWISE.get(len(sizes))
    if convolve is not None:
        factor = write.parameter("line_factor", scale.view(-1, 1, *sizes))
        summand = write.parameter("line_summand", shift)
        none = [0] * len(sizes)
        return write(convolve, source, factor, summand, sizes, none, sizes, len(scale))
    factor = write.constant("line_factor", scale.view(1, -1, *sizes))
    summand = write.constant("line_summand", shift.view(1, -1, *sizes))
    return write(_ATEN.add.Tensor, write(_ATEN.mul.Tensor, source, factor), summand)


# By the number of dimensions behind the channels.
_DEPTHWISE = {1: _ATEN.conv1d.default, 2: _ATEN.conv2d.default}


def _give_parameters(module: fx.GraphModule, norm: fx.Node, source: fx.Node) -> bool:
    """Give a convolution or linear, and its batch norm, parameters; return whether it had not."""
    mean = _value(module, norm.args[3])
    ones, zeros = torch.ones_like(mean), torch.zeros_like(mean)
    usual = {(source, 1): None, (source, 2): None}
    if _is_linear_node(source):
        usual = {(source, 1): None, (source, 2): zeros, (norm, 1): ones, (norm, 2): zeros}
    is_changed = False
    for (node, index), other in usual.items():
        given = node.args[index] if index < len(node.args) else None
        value = other if given is None else _value(module, given)
        if value is None or _is_parameter(module, given):
            continue
        own = Writer(module, source).parameter(f"{node.name}_own_{index}", value.detach().clone())
        node.args = (*node.args[:index], own, *node.args[index + 1 :])
        is_changed = True
    return is_changed


def _value(module: fx.GraphModule, node: Any) -> Any:
    """Return the value of a node that depends on no input; None for any other."""
    if not isinstance(node, fx.Node) or node.op != "call_function":
        return constant_of(module, node)
    values = dict[fx.Node, Any]()
    for source in node.all_input_nodes:
        # Values that depend on an input end here: their other paths to inputs can be very many.
        if (value := _value(module, source)) is None:
            return None
        values[source] = value
    if not values or torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
        return None
    args, kwargs = fx.map_arg((node.args, node.kwargs), values.__getitem__)
    return node.target(*args, **kwargs)  # type: ignore[operator]


def _is_parameter(module: fx.GraphModule, node: Any) -> bool:
    """Return whether a node reads a parameter."""
    if not isinstance(node, fx.Node) or node.op != "get_attr":
        return False
    owner, _, name = str(node.target).rpartition(".")
    return isinstance(getattr(module.get_submodule(owner), name), torch.nn.Parameter)
