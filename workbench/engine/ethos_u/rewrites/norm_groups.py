"""Norms over groups of channels, from the means of single channels.

ExecuTorch takes the channels of a group for rows of one axis, and Vela changes the layout of the whole
tensor for that, several times. The mean of a group is the mean of the means of its channels: with
channels last, as memory has them, no value changes its place.
"""

import torch
from executorch.backends.arm.quantizer import EthosUQuantizer
from torch import fx

from workbench.engine.ethos_u.corrections.graph_writer import Writer, constant_of, finished
from workbench.engine.ethos_u.rewrites.quantized_calls import conv_arguments, quantized_calls, written_name

_ATEN = torch.ops.aten
_SEQUENCE, _IMAGE = 3, 4
# Vela sums up so many places at once.
_MOST_PLACES = 65_536
# Functions that keep the order of values.
_RISING = {_ATEN.relu.default, _ATEN.relu6.default, _ATEN.hardtanh.default, _ATEN.dropout.default}
_LARGEST = _ATEN.max_pool2d.default
_EPSILON_OF_GROUPS = 1e-5


def write_group_norms(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Write norms over groups of channels with means of channels, behind pools of largest values."""
    done = list[str]()
    for norm in quantized_calls(module, quantizer, _ATEN.group_norm.default):
        stored = conv_arguments(norm)[2:4]
        parts = [constant_of(module, value) for value in stored]
        unknown = any(part is None and value is not None for part, value in zip(parts, stored, strict=True))
        shape = norm.meta["val"].shape
        is_one = len(shape) in {_SEQUENCE, _IMAGE} and shape[0] == 1 and not norm.kwargs
        # Groups of one channel are in memory as they are needed.
        is_split = norm.args[1] < shape[1] or bool(path_to_pool(module, norm))  # type: ignore[operator]
        if is_one and is_split and not unknown and 1 < shape[2:].numel() <= _MOST_PLACES:
            done.append(written_name(norm))
            _write_norm(module, norm, parts)
    return finished(module, done)


def _write_norm(module: fx.GraphModule, norm: fx.Node, parts: list[torch.Tensor | None]) -> None:
    """Put differences to means, over the roots of their mean squares, in the place of a norm."""
    x, groups, _, _, eps, *_ = conv_arguments(norm)
    path, write = path_to_pool(module, norm), Writer(module, norm)
    image = x if x.meta["val"].dim() == _IMAGE else write(_ATEN.unsqueeze.default, x, 2)
    height, width = image.meta["val"].shape[2:]
    row = _with_sides(write, write(_ATEN.permute.default, image, [0, 2, 3, 1]), 1, height * width)
    apart = write(_ATEN.sub.Tensor, row, _mean_of_groups(write, row, groups))
    square = _mean_of_groups(write, write(_ATEN.mul.Tensor, apart, apart), groups)
    root = write(
        _ATEN.rsqrt.default, write(_ATEN.add.Tensor, square, _EPSILON_OF_GROUPS if eps is None else eps)
    )
    if path:
        apart = write(_ATEN.permute.default, _with_sides(write, apart, height, width), [0, 3, 1, 2])
        apart = Writer(module, path[-1]).called(path[-1], apart)
        norm.prepend(apart)
        apart = write(_ATEN.permute.default, apart, [0, 2, 3, 1])
        height, width = apart.meta["val"].shape[1:3]
    result = _with_sides(write, write(_ATEN.mul.Tensor, apart, root), height, width)
    result = write(_ATEN.permute.default, result, [0, 3, 1, 2])
    if norm.meta["val"].dim() != _IMAGE and not path:
        result = write(_ATEN.squeeze.dim, result, 2)
    _replace(norm, path, _with_weights(write, result, parts))


def _replace(norm: fx.Node, path: list[fx.Node], result: fx.Node) -> None:
    """Put a result in the place of a norm, and before the functions up to a pool, which is gone."""
    for function in (node for node in path if node.target in _RISING):
        function.replace_input_with(function.args[0], result)  # type: ignore[arg-type]
        values = fx.map_arg(function.args, lambda part: part.meta["val"])
        function.meta["val"] = function.target(*values, **function.kwargs)  # type: ignore[operator]
        result = function
    last = path[-1] if path else norm
    last.replace_all_uses_with(result)


def path_to_pool(module: fx.GraphModule, norm: fx.Node) -> list[fx.Node]:
    """Return the functions behind a norm up to a pool of largest values; none if there is no such pool.

    They keep the order of values, and so does the norm; nothing else reads what is in between.
    """
    weight = constant_of(module, conv_arguments(norm)[2])
    path, node, held = list[fx.Node](), norm, norm.meta["val"].shape
    while len(node.users) == 1 and (weight is None or bool((weight > 0).all())):
        (node,) = node.users
        path.append(node)
        if node.target is _LARGEST and not node.kwargs:
            pooled = node.args[0].meta["val"].shape  # type: ignore[union-attr]
            return path if [*pooled] == [*held[:2], *[1] * (_IMAGE - len(held)), *held[2:]] else []
        if node.target not in _RISING and node.target is not _ATEN.unsqueeze.default:
            return []
    return []


def _with_sides(write: Writer, x: fx.Node, height: int, width: int) -> fx.Node:
    """Return a value with channels last as an image with other sides."""
    shape = [1, height, width, x.meta["val"].shape[-1]]
    return x if [*x.meta["val"].shape] == shape else write(_ATEN.reshape.default, x, shape)


def _mean_of_groups(write: Writer, x: fx.Node, groups: int) -> fx.Node:
    """Return the mean of the group of each channel, of a row of places with channels last."""
    mean = write(_ATEN.mean.dim, x, [1, 2], keepdim=True)
    channels = x.meta["val"].shape[-1]
    if groups == channels:
        return mean
    size = channels // groups
    blocks = torch.block_diag(*[torch.full((size, size), 1 / size)] * groups)
    return write(_ATEN.linear.default, mean, write.parameter("means_of_groups", blocks))


def _with_weights(write: Writer, x: fx.Node, parts: list[torch.Tensor | None]) -> fx.Node:
    """Return a norm with its weight and bias, as a batch norm, which other rewrites take."""
    if all(part is None for part in parts):
        return x
    ones = torch.ones(x.meta["val"].shape[1])
    weight, bias = (
        usual if part is None else part for part, usual in zip(parts, (ones, ones * 0), strict=True)
    )
    stored = [
        write.parameter(f"group_{name}", value)
        for name, value in (("weight", weight), ("bias", bias), ("mean", ones * 0), ("variance", ones))
    ]
    return write(_ATEN.batch_norm.default, x, *stored, False, 0.0, 0.0, False)
