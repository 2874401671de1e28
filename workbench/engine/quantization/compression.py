"""Compression of a float program: fewer channels, and fewer distinct weights.

The file is also a part of exported scripts, so it takes nothing from the workbench.

Channels: every value of the graph has labels along one dimension, one for each channel. Operators
that handle channels one by one pass labels on, joins (``x + y``) unite the labels of both sides,
and convolutions and linears begin new ones. A channel is removed with everything that has its
label: rows of the weights that make it, columns of those that read it, entries of norms. Labels
that reach anything else, such as an output of the model or a norm over channels, cannot be removed.

Weights: every output channel is divided by its largest magnitude, and the magnitudes of the whole
layer are moved to a few levels found by k-means, of which 0 and 1 are two. A quantizer with one
scale per channel and no zero point then finds as few codes, and Vela encodes them in fewer bits.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

_TORCH_OPS = torch.ops.aten
_GROUPS_AT = {
    _TORCH_OPS.conv1d.default: 6, _TORCH_OPS.conv2d.default: 6, _TORCH_OPS.conv3d.default: 6,
    _TORCH_OPS.conv_transpose2d.input: 6,
}  # fmt: skip
_COLUMNS_FIRST = {_TORCH_OPS.conv_transpose2d.input}
_LINEAR, _NORM = _TORCH_OPS.linear.default, _TORCH_OPS.batch_norm.default
# Operators that compute every channel from the same channel of their first input.
_ALONE = {
    "relu", "relu_", "relu6", "hardtanh", "hardtanh_", "hardswish", "hardswish_", "hardsigmoid",
    "silu", "silu_", "gelu", "sigmoid", "tanh", "leaky_relu", "leaky_relu_", "elu", "mish",
    "softplus", "clamp", "clamp_", "neg", "abs", "exp", "sqrt", "rsqrt", "pow", "to", "clone",
    "contiguous", "dropout", "dropout_", "dropout1d", "dropout2d", "feature_dropout",
}  # fmt: skip
# The same, if the channels are not among the dimensions that the window or the scale covers.
_SPATIAL = {
    "max_pool1d": 1, "max_pool2d": 2, "avg_pool1d": 1, "avg_pool2d": 2, "adaptive_avg_pool1d": 1,
    "adaptive_avg_pool2d": 2, "adaptive_max_pool2d": 2, "upsample_nearest2d": 2,
    "upsample_bilinear2d": 2, "constant_pad_nd": 2, "pad": 2,
}  # fmt: skip
_RECURRENT = {"gru", "lstm", "rnn_tanh", "rnn_relu"}
_JOINS = {"add", "add_", "sub", "sub_", "mul", "mul_", "div", "maximum", "minimum"}
_REDUCING = {"mean", "sum", "amax", "amin"}
_MOVES = {
    "view", "reshape", "flatten", "permute", "transpose", "t", "squeeze", "unsqueeze", "cat",
    "expand", "slice", "select", "stack", "unflatten",
}  # fmt: skip
_SIZED = {"view", "reshape", "expand"}
# A value's labels: the dimension of its channels, and the label of each channel.
_Labels = tuple[int, torch.Tensor]


# Steps of k-means; it ends earlier when nothing moves.
_MOST_STEPS = 100


class NotPrunableError(ValueError):
    """Channels of a module cannot be removed; the message says why."""


@dataclass
class Channels:
    """The channels of a program.

    Attributes:
        outputs: Labels of the output channels of each convolution and linear, by module.
        slices: Constants by name, their dimension, and the labels along it.
        parents: For each label the one that it was united with.
        fixed: Why a label cannot be removed, by the label that stands for all united with it.
        groups: Depthwise convolutions, with the labels of their channels.
        sizes: Nodes with sizes in their arguments: the node, the dimension, the labels along it.
    """

    outputs: dict[str, torch.Tensor] = field(default_factory=dict)
    slices: dict[tuple[str, int], torch.Tensor] = field(default_factory=dict)
    parents: list[int] = field(default_factory=list)
    fixed: dict[int, str] = field(default_factory=dict)
    groups: list[tuple[fx.Node, torch.Tensor]] = field(default_factory=list)
    sizes: list[tuple[fx.Node, int, torch.Tensor]] = field(default_factory=list)

    def begin(self, count: int) -> torch.Tensor:
        """Return new labels [count]."""
        first = len(self.parents)
        self.parents.extend(range(first, first + count))
        return torch.arange(first, first + count)

    def root(self, label: int) -> int:
        """Return the label that stands for all that one was united with."""
        while self.parents[label] != label:
            self.parents[label] = self.parents[self.parents[label]]
            label = self.parents[label]
        return label

    def unite(self, ours: torch.Tensor, others: torch.Tensor) -> None:
        """Unite labels pair by pair; a negative one stands for a channel that stays."""
        for one, other in zip(ours.tolist(), others.tolist(), strict=True):
            if min(one, other) < 0:
                self.fix(torch.tensor([max(one, other)]), "is joined with a fixed channel")
                continue
            first, second = self.root(one), self.root(other)
            self.parents[max(first, second)] = min(first, second)
            if max(first, second) in self.fixed:
                self.fixed.setdefault(min(first, second), self.fixed[max(first, second)])

    def fix(self, labels: torch.Tensor, why: str) -> None:
        """Keep channels."""
        for label in labels.tolist():
            if label >= 0:
                self.fixed.setdefault(self.root(label), why)

    def cut(self, name: str, dimension: int, labels: torch.Tensor) -> None:
        """Remember that a constant has labels along a dimension."""
        known = self.slices.setdefault((name, dimension), labels)
        if known is not labels:
            self.unite(known, labels)

    def roots_of(self, module: str) -> list[int]:
        """Return the channels that a module makes, each once.

        Raises:
            NotPrunableError: There is no such layer, or a channel cannot be removed.
        """
        if module not in self.outputs:
            raise NotPrunableError("is not a convolution or linear with weights of its own")
        roots = list(dict.fromkeys(self.root(label) for label in self.outputs[module].tolist()))
        why = next((self.fixed[root] for root in roots if root in self.fixed), "")
        if why:
            raise NotPrunableError(why)
        return roots

    def partners(self, module: str) -> list[str]:
        """Return the modules whose channels are removed together with a module's."""
        mine = {self.root(label) for label in self.outputs[module].tolist()}
        return [
            name
            for name, labels in self.outputs.items()
            if name != module and mine & {self.root(label) for label in labels.tolist()}
        ]


def channels_of(module: fx.GraphModule) -> Channels:
    """Return the channels of an exported program's module, whose nodes have example values."""
    channels = Channels()
    labels: dict[fx.Node, _Labels] = {}
    for node in module.graph.nodes:
        if node.op == "output":
            for given in node.all_input_nodes:
                if given in labels:
                    channels.fix(labels[given][1], "makes an output of the model")
        elif node.op == "call_function":
            own_labels = _labels_of(module, channels, labels, node)
            if own_labels is not None:
                labels[node] = own_labels
    return channels


def _operator_name(node: fx.Node) -> str:
    """Return the name of an ATen operator without its overload."""
    parts = str(node.target).split(".")
    return parts[1] if parts[0] == "aten" and len(parts) > 1 else ""


def _labels_of(
    module: fx.GraphModule, channels: Channels, labels: dict[fx.Node, _Labels], node: fx.Node
) -> _Labels | None:
    """Return the labels of a node's value; None if it has none."""
    if node.target in _GROUPS_AT or node.target is _LINEAR:
        return _of_layer(module, channels, labels, node)
    tracked = [given for given in node.all_input_nodes if given in labels]
    kind = _operator_name(node)
    if not tracked:
        return None
    if kind in _RECURRENT:
        _read_recurrently(channels, labels, node)
        return None
    own_labels = _passed_on(module, channels, labels, node)
    if own_labels is None:
        for given in tracked:
            why = f"is read by {kind or node.target}, which mixes channels"
            channels.fix(labels[given][1], why)
    return own_labels


def _passed_on(
    module: fx.GraphModule, channels: Channels, labels: dict[fx.Node, _Labels], node: fx.Node
) -> _Labels | None:
    """Return the labels that an operator passes on; None if it mixes channels."""
    kind, first = _operator_name(node), node.args[0]
    if kind in _JOINS:
        return _of_join(module, channels, labels, node)
    if kind in _MOVES:
        moved = _moved(module, labels, node)
        if moved is not None and kind in _SIZED:
            channels.sizes.append((node, *moved))
        return moved
    mine = labels.get(first) if isinstance(first, fx.Node) else None
    if mine is None or kind in _ALONE:
        return mine
    if node.target is _NORM and mine[0] == 1:
        return _of_norm(channels, node, mine)
    if kind in _SPATIAL:
        is_kept = _example(node).shape[mine[0]] == len(mine[1])
        return mine if is_kept and mine[0] < _example(node).dim() - _SPATIAL[kind] else None
    return _of_reduction(node, mine) if kind in _REDUCING else None


def _example(node: fx.Node) -> torch.Tensor:
    value = node.meta["val"]
    # A pool that also returns the indices of its maxima has them as its second output.
    value = value[0] if isinstance(value, tuple | list) else value
    assert isinstance(value, torch.Tensor)
    return value


def _constant_name(node: object) -> str | None:
    """Return the name of a constant; None for other nodes."""
    return str(node.target) if isinstance(node, fx.Node) and node.op == "get_attr" else None


def _of_layer(
    module: fx.GraphModule, channels: Channels, labels: dict[fx.Node, _Labels], node: fx.Node
) -> _Labels | None:
    source, weight, bias = (*node.args[:3], None)[:3]
    assert isinstance(source, fx.Node)
    mine = labels.get(source)
    name, bias_name = _constant_name(weight), _constant_name(bias)
    if name is None or (bias is not None and bias_name is None):
        if mine is not None:
            channels.fix(mine[1], "is read by a layer with computed weights")
        return None
    groups = _groups_of(node)
    rows, columns = (1, 0) if node.target in _COLUMNS_FIRST else (0, 1)
    tensor = operator.attrgetter(name)(module)
    dimension = _channel_dimension(node, tensor)
    if groups > 1:
        return _of_groups(channels, node, mine, (name, bias_name, tensor))
    if mine is not None:
        if mine[0] == dimension:
            channels.cut(name, columns, mine[1])
        else:
            channels.fix(mine[1], "is read by a layer along another dimension")
    layer_labels = channels.slices.get((name, rows))
    if layer_labels is None:
        layer_labels = channels.begin(tensor.shape[rows])
        channels.cut(name, rows, layer_labels)
        channels.outputs[name.removesuffix(".weight")] = layer_labels
    if bias_name is not None:
        channels.cut(bias_name, 0, layer_labels)
    return dimension, layer_labels


def _channel_dimension(node: fx.Node, weight: torch.Tensor) -> int:
    """Return the dimension of a layer's channels; a convolution may have no batch before it."""
    behind = 0 if node.target is _LINEAR else weight.dim() - 2
    return _example(node).dim() - 1 - behind


def _groups_of(node: fx.Node) -> int:
    at = _GROUPS_AT.get(node.target, 99)
    return int(str(node.args[at])) if len(node.args) > at else 1


def _of_groups(
    channels: Channels, node: fx.Node, input_labels: _Labels | None,
    constants: tuple[str, str | None, torch.Tensor],
) -> _Labels | None:  # fmt: skip
    """Return the labels of a depthwise convolution's output: those of its input."""
    name, bias, tensor = constants
    if input_labels is None:
        return None
    is_depthwise = tensor.shape[1] == 1 and len(input_labels[1]) == _groups_of(node) == tensor.shape[0]
    if input_labels[0] != _channel_dimension(node, tensor) or not is_depthwise:
        channels.fix(input_labels[1], "is read by a grouped convolution")
        return None
    channels.cut(name, 0, input_labels[1])
    if bias is not None:
        channels.cut(bias, 0, input_labels[1])
    channels.groups.append((node, input_labels[1]))
    return input_labels


def _read_recurrently(channels: Channels, labels: dict[fx.Node, _Labels], node: fx.Node) -> None:
    """Take the channels of a sequence for the columns of the weights that read it first."""
    source, _, weights, biases, count = node.args[:5]
    mine = labels.get(source) if isinstance(source, fx.Node) else None
    for given in node.all_input_nodes:
        if given in labels and given is not source:
            channels.fix(labels[given][1], "is the state of a recurrent layer")
    if mine is None:
        return
    assert isinstance(weights, list | tuple)
    step = len(weights) // int(str(count))
    both = step > (4 if biases else 2)
    firsts = [0, step // 2] if both else [0]
    names = [_constant_name(weights[at]) for at in firsts]
    if mine[0] != 2 or None in names:
        channels.fix(mine[1], "is read by a recurrent layer along another dimension")
        return
    for name in names:
        channels.cut(str(name), 1, mine[1])


def _of_norm(channels: Channels, node: fx.Node, input_labels: _Labels) -> _Labels:
    for given in node.args[1:5]:
        name = _constant_name(given)
        if name is not None:
            channels.cut(name, 0, input_labels[1])
    return input_labels


def _of_join(
    module: fx.GraphModule, channels: Channels, labels: dict[fx.Node, _Labels], node: fx.Node
) -> _Labels | None:
    """Return the labels of an operator with two inputs; None if they do not fit together."""
    rank = _example(node).dim()
    joined: _Labels | None = None
    for given in node.args[:2]:
        if isinstance(given, fx.Node) and given in labels:
            dimension = labels[given][0] + rank - _example(given).dim()
            if joined is not None and (joined[0] != dimension or len(joined[1]) != len(labels[given][1])):
                return None
            if joined is not None:
                channels.unite(joined[1], labels[given][1])
            joined = dimension, labels[given][1]
    assert joined is not None
    for given in node.args[:2]:
        if not isinstance(given, fx.Node) or given in labels:
            continue
        name = _constant_name(given)
        shape = operator.attrgetter(name)(module).shape if name else _example(given).shape
        dimension = joined[0] - (rank - len(shape))
        if dimension < 0 or shape[dimension] == 1:
            continue
        if name is None:
            return None
        channels.cut(name, dimension, joined[1])
    return joined


def _of_reduction(node: fx.Node, input_labels: _Labels) -> _Labels | None:
    given = node.args[0]
    assert isinstance(given, fx.Node)
    rank = _example(given).dim()
    dims = node.args[1] if len(node.args) > 1 and isinstance(node.args[1], list | tuple) else ()
    reduced = sorted({int(str(dim)) % rank for dim in dims})
    if not reduced or input_labels[0] in reduced:
        return None
    kept = _example(node).dim() == rank
    return input_labels[0] - (0 if kept else sum(dim < input_labels[0] for dim in reduced)), input_labels[1]


def _moved(module: fx.GraphModule, labels: dict[fx.Node, _Labels], node: fx.Node) -> _Labels | None:
    """Return the labels after a move of values, by moving labels; None if dimensions mix."""

    def spread(operand: fx.Node) -> torch.Tensor:
        name = _constant_name(operand)
        shape = tuple(operator.attrgetter(name)(module).shape if name else _example(operand).shape)
        if operand not in labels:
            return torch.full(shape, -1, dtype=torch.int64)
        dimension, mine = labels[operand]
        sizes = [-1 if axis == dimension else 1 for axis in range(len(shape))]
        return mine.reshape(sizes).expand(shape).contiguous()

    moved = node.target(*fx.node.map_arg(node.args, spread), **fx.node.map_arg(node.kwargs, spread))  # type: ignore[operator]
    if not moved.numel():
        return None
    for dimension in range(moved.dim()):
        rows = moved.movedim(dimension, 0).reshape(moved.shape[dimension], -1)
        if bool((rows == rows[:, :1]).all()):
            # A selection of some channels would need other bounds.
            before = {label for given in node.all_input_nodes if given in labels
                      for label in labels[given][1].tolist()}  # fmt: skip
            after = set(rows[:, 0].tolist())
            is_whole = before <= after
            if is_whole and (len(after) > 1 or len(rows) == 1):
                return dimension, rows[:, 0].clone()
    return None


def scores(module: fx.GraphModule, channels: Channels) -> dict[int, float]:
    """Return the importance of every channel.

    The product of three sums of norms, each relative to the largest of its tensor: of the weights
    that make the channel, of those that read it, and of the scale of its batch norm.
    Source: Li et al., Pruning Filters for Efficient ConvNets, 2017 (norms of filters); Liu et al.,
    Learning Efficient Convolutional Networks through Network Slimming, 2017 (scales of norms).
    """
    parts: list[dict[int, float]] = [{}, {}, {}]
    scales = {_constant_name(n.args[1]) for n in module.graph.nodes if n.target is _NORM}
    for (name, dimension), labels in channels.slices.items():
        tensor = operator.attrgetter(name)(module).detach().float()
        if tensor.dim() < 2 and name not in scales:
            continue
        norms = tensor.movedim(dimension, 0).reshape(tensor.shape[dimension], -1).norm(dim=1)
        shares = (norms / norms.max().clamp_min(1e-12)).tolist()
        makes = channels.outputs.get(name.removesuffix(".weight")) is labels
        part = parts[2 if tensor.dim() < 2 else 0 if makes else 1]
        for label, share in zip(labels.tolist(), shares, strict=True):
            if label >= 0:
                part[channels.root(label)] = part.get(channels.root(label), 0.0) + share
    written, read, scaled = parts
    return {root: written[root] * read.get(root, 1.0) * scaled.get(root, 1.0) for root in written}


def prune(module: fx.GraphModule, counts: dict[str, int]) -> dict[str, tuple[int, int]]:
    """Remove the least important channels of modules, in place.

    Args:
        module: An exported program's module, whose nodes have example values.
        counts: The number of channels that stay, by the module that makes them.

    Returns:
        The channels before and after of every convolution and linear that changed.

    Raises:
        NotPrunableError: A module cannot be pruned so; ``args`` are its name and the reason.
    """
    channels = channels_of(module)
    importance = scores(module, channels)
    gone: dict[int, str] = {}
    done: dict[frozenset[int], int] = {}
    for name, count in counts.items():
        try:
            roots = channels.roots_of(name)
        except NotPrunableError as error:
            raise NotPrunableError(name, str(error)) from error
        if count > len(roots):
            raise NotPrunableError(name, f"has {len(roots)} channels, not {count}")
        known = done.setdefault(frozenset(roots), count)
        if known != count:
            raise NotPrunableError(name, f"is pruned together with one that keeps {known}")
        ordered = sorted(roots, key=lambda root: (-importance.get(root, 0.0), root))
        gone |= dict.fromkeys(ordered[count:], name)
    before = {name: len(labels) for name, labels in channels.outputs.items()}
    if gone:
        _cut(module, channels, set(gone))
    after = {name: int(_stays(channels, labels, set(gone)).sum())
             for name, labels in channels.outputs.items()}  # fmt: skip
    return {n: (before[n], after[n]) for n in before if before[n] != after[n]}


def _stays(channels: Channels, labels: torch.Tensor, gone: set[int]) -> torch.Tensor:
    """Return which positions stay, as booleans."""
    return torch.tensor([x < 0 or channels.root(x) not in gone for x in labels.tolist()])


def _cut(module: fx.GraphModule, channels: Channels, gone: set[int]) -> None:
    """Remove channels from constants and arguments, and compute the example values anew."""
    for (name, dimension), labels in channels.slices.items():
        kept = _stays(channels, labels, gone)
        if bool(kept.all()):
            continue
        path, _, attribute = name.rpartition(".")
        owner = module.get_submodule(path) if path else module
        tensor = getattr(owner, attribute)
        smaller = tensor.detach().index_select(dimension, kept.nonzero()[:, 0]).clone()
        if isinstance(tensor, torch.nn.Parameter):
            smaller = torch.nn.Parameter(smaller, requires_grad=tensor.requires_grad)
        setattr(owner, attribute, smaller)
    for node, labels in channels.groups:
        groups = int(_stays(channels, labels, gone).sum())
        node.args = (*node.args[:6], groups, *node.args[7:])
    for node, dimension, labels in channels.sizes:
        sizes = list(node.args[1])  # type: ignore[arg-type]
        if sizes[dimension] != -1:
            sizes[dimension] = int(_stays(channels, labels, gone).sum())
        node.args = (node.args[0], sizes, *node.args[2:])
    module.recompile()
    inputs = [node.meta["val"] for node in module.graph.nodes if node.op == "placeholder"]
    # A mode of its own without symbols, since sizes are fixed.
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    shapes = [torch.empty(tuple(value.shape), dtype=value.dtype) for value in inputs]
    FakeTensorProp(module, mode).propagate(*shapes)


def cluster(module: fx.GraphModule, counts: dict[str, int]) -> dict[str, tuple[int, int]]:
    """Move the weights of convolutions, linears and recurrent layers to a few levels, in place.

    Args:
        module: An exported program's module.
        counts: The number of distinct values, 3 or more, by module; "" is every other layer.

    Returns:
        The distinct relative weights before and after, by module; of several weights the most.

    Raises:
        NotPrunableError: There is no such layer; ``args`` are its name and the reason.
    """
    done: dict[str, tuple[int, int]] = {}
    for name, dimension in layer_weights(module).items():
        layer = name.rpartition(".")[0]
        count = counts.get(layer, counts.get(""))
        if count is None:
            continue
        tensor = operator.attrgetter(name)(module).data
        before = _distinct(tensor, dimension)
        tensor.copy_(clustered(tensor, count, dimension))
        known = done.get(layer, (0, 0))
        done[layer] = max(known[0], before), max(known[1], _distinct(tensor, dimension))
    for name in counts.keys() - done.keys() - {""}:
        raise NotPrunableError(name, "is not a layer with weights of its own")
    return done


def layer_weights(module: fx.GraphModule) -> dict[str, int]:
    """Return the dimension of the output channels of each weight of a layer, by its name."""
    dimensions: dict[str, int] = {}
    for node in module.graph.nodes:
        if node.target in _GROUPS_AT or node.target is _LINEAR:
            weights = [node.args[1]]
        elif _operator_name(node) in _RECURRENT:
            weights = [n for n in node.args[2] if operator.attrgetter(n.target)(module).dim() > 1]
        else:
            continue
        rows = 1 if node.target in _COLUMNS_FIRST else 0
        dimensions |= {name: rows for name in map(_constant_name, weights) if name is not None}
    return dimensions


def _distinct(weight: torch.Tensor, dimension: int) -> int:
    """Return the number of distinct weights, relative to their channel, with 8 bits."""
    return len(torch.unique((127 * _relative(weight, dimension)[0]).round()))


def clustered(weight: torch.Tensor, count: int, dimension: int = 0) -> torch.Tensor:
    """Return a weight whose values, relative to their channel's largest, are few.

    Args:
        weight: [..., out, ...].
        count: The number of distinct values, with both signs and zero.
        dimension: That of the output channels.
    """
    relative, largest = _relative(weight, dimension)
    magnitudes = relative.abs()
    levels = _levels(magnitudes.flatten(), max(1, (count - 1) // 2))
    borders = (levels[1:] + levels[:-1]) / 2
    nearest = levels[torch.bucketize(magnitudes, borders)]
    return nearest * relative.sign() * largest


def _relative(weight: torch.Tensor, dimension: int) -> tuple[torch.Tensor, torch.Tensor]:
    others = [axis for axis in range(weight.dim()) if axis != dimension]
    largest = weight.detach().abs().amax(others, keepdim=True)
    return weight.detach() / largest.clamp_min(1e-12), largest


def _levels(magnitudes: torch.Tensor, count: int) -> torch.Tensor:
    """Return 0 and ``count`` levels up to 1: the means of k-means, on the grid of 8 bits.

    Zero and one stay: zero is free in the encoding, and one is what the scale is made from.
    """
    shares = torch.linspace(0, 1, count + 1)[1:].to(magnitudes)
    # Between equal steps and equal numbers of weights, both of which lose much on their own.
    start = (shares + torch.quantile(magnitudes[:: max(1, len(magnitudes) >> 20)], shares)) / 2
    levels = torch.cat([torch.zeros(1).to(start), start])
    levels[-1] = 1
    for _ in range(_MOST_STEPS):
        nearest = torch.bucketize(magnitudes, (levels[1:] + levels[:-1]) / 2)
        sums = torch.zeros_like(levels).index_add_(0, nearest, magnitudes)
        counts = torch.bincount(nearest, minlength=len(levels))
        means = torch.where(counts > 0, sums / counts.clamp_min(1), levels)
        means[0], means[-1] = 0, 1
        if torch.equal(means, levels):
            break
        levels = means
    return torch.unique((127 * levels).round()) / 127
