"""Operators that ExecuTorch takes badly, written with others before they are quantized.

This file stands on torch and ExecuTorch alone, because a generated script carries it along. What
each correction is about, and for which versions it was proven, stands in
``workbench.targets.ethos_u.corrections``. Every function changes the graph of a float program and
returns the names of the nodes that it replaced.
"""

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import torch
from executorch.backends.arm.quantizer import EthosUQuantizer
from torch import fx
from torch.fx.traceback import NodeSource

_ATEN = torch.ops.aten


class CorrectingQuantizer(EthosUQuantizer):
    """Ethos-U's quantizer, with the corrections that come before calibration.

    Attributes:
        rewrites: By id, functions that change the float program's graph; they are given the
            graph module and this quantizer.
        patches: By id, context managers that are entered while operators are taken apart.
        refinements: By id, functions that change annotations.
        corrected: By id, the names of the nodes that a correction changed.
    """

    rewrites: dict[str, Any] = {}  # noqa: RUF012 - set on the instance
    patches: dict[str, Any] = {}  # noqa: RUF012
    refinements: dict[str, Any] = {}  # noqa: RUF012
    corrected: dict[str, tuple[str, ...]] = {}  # noqa: RUF012

    def transform_for_annotation(self, model: fx.GraphModule) -> fx.GraphModule:
        """Rewrite operators, then take operators apart as stock does."""
        for name, rewrite in self.rewrites.items():
            self._note(name, rewrite(model, self))
        with contextlib.ExitStack() as stack:
            for name, patch in self.patches.items():
                stack.callback(self._note, name, stack.enter_context(patch()))
            module: fx.GraphModule = super().transform_for_annotation(model)
        return module

    def annotate(self, model: fx.GraphModule) -> fx.GraphModule:
        """Annotate as stock does, then refine the annotations."""
        annotated: fx.GraphModule = super().annotate(model)
        for name, refine in self.refinements.items():
            self._note(name, refine(annotated))
        return annotated

    def _note(self, name: str, places: list[str]) -> None:
        known = self.corrected.get(name, ())
        self.corrected = {**self.corrected, name: (*known, *places)}


class _Writer:
    """Makes nodes before a node, in its module and with its origin, with the shapes they have."""

    def __init__(self, module: fx.GraphModule, node: fx.Node) -> None:
        self._module, self._node = module, node
        self._meta = {key: node.meta[key] for key in _KEPT if key in node.meta}
        self._meta["from_node"] = [NodeSource(node)]

    def __call__(self, target: Any, *args: Any) -> fx.Node:
        with self._module.graph.inserting_before(self._node):
            node = self._module.graph.call_function(target, args)
        values = fx.map_arg(args, lambda argument: argument.meta["val"])
        node.meta = {**self._meta, "val": target(*values)}
        return node

    def constant(self, name: str, value: torch.Tensor) -> fx.Node:
        """Add a tensor to the module, and return a node that reads it."""
        while hasattr(self._module, name):
            name += "_"
        self._module.register_buffer(name, value.contiguous())
        with self._module.graph.inserting_before(self._node):
            node = self._module.graph.get_attr(name)
        mode = next(n.meta["val"].fake_mode for n in self._module.graph.nodes if _is_fake(n))
        node.meta = {**self._meta, "val": mode.from_tensor(value, static_shapes=True)}
        return node

    def parameter(self, name: str, value: torch.Tensor) -> fx.Node:
        """Do the same with a parameter, which folding asks for."""
        node = self.constant(name, value)
        delattr(self._module, str(node.target))
        held = torch.nn.Parameter(value, requires_grad=False)
        self._module.register_parameter(str(node.target), held)
        return node

    @property
    def readers(self) -> list[fx.Node]:
        """The nodes that read the node."""
        return list(self._node.users)

    @property
    def shape(self) -> list[int]:
        """The shape of the node's value."""
        return [*self._node.meta["val"].shape]

    def replace(self, result: Any) -> None:
        """Put what was made in the place of the node, or of the parts of its tuple."""
        if not isinstance(result, tuple):
            self._node.replace_all_uses_with(result)
        for reader in list(self._node.users):
            reader.replace_all_uses_with(result[reader.args[1]])
            self._module.graph.erase_node(reader)
        self._module.graph.erase_node(self._node)


_KEPT = ("nn_module_stack", "stack_trace", "torch_fn", "source_fn_stack")


def _is_fake(node: fx.Node) -> bool:
    return hasattr(node.meta.get("val"), "fake_mode")


def _constant_of(module: fx.GraphModule, node: Any) -> Any:
    """Return the tensor that a node reads from the module; None for any other node."""
    if not isinstance(node, fx.Node) or node.op != "get_attr":
        return None
    owner, _, name = str(node.target).rpartition(".")
    value = getattr(module.get_submodule(owner), name, None)
    if not isinstance(value, torch.Tensor) or _is_written(node):
        return None
    return value.detach()


def _floating_calls(module: fx.GraphModule, *targets: Any) -> Iterator[fx.Node]:
    for node in list(module.graph.nodes):
        if node.op == "call_function" and node.target in targets and _is_floating(node):
            yield node


def _is_floating(node: fx.Node) -> bool:
    value = node.meta.get("val")
    first = value[0] if isinstance(value, tuple | list) else value
    return isinstance(first, torch.Tensor) and first.is_floating_point()


def fold_constants(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Compute what depends on no input once, here: positions, masks, normed weights.

    A value that is larger than all it is made of, such as an expanded one, is left alone.
    """
    del quantizer
    _write_without_changes(module)
    known, made_of = _known_values(module)
    done = list[str]()
    for node in [known_node for known_node in known if known_node.op == "call_function"]:
        readers = [reader for reader in node.users if reader not in known]
        small = known[node].numel() <= max(made_of[node], _SMALL)
        if readers and small and (node.all_input_nodes or _name(node) in _COUNTING):
            write = _Writer(module, node)
            constant = write.constant(f"{node.name}_folded", _unlimited(known[node].clone()))
            for reader in readers:
                reader.replace_input_with(node, constant)
            done.append(node.name)
    for node in [
        known_node
        for known_node in known
        if known_node.op == "get_attr" and _is_limited(known[known_node])
    ]:
        value = _unlimited(known[node].clone())
        node.replace_all_uses_with(_Writer(module, node).constant("mask_folded", value))
        done.append(node.name)
    return _finished(module, done)


def _known_values(
    module: fx.GraphModule,
) -> tuple[dict[fx.Node, torch.Tensor], dict[fx.Node, int]]:
    """Return the values that depend on no input, and the number of elements they are made of."""
    known = dict[fx.Node, torch.Tensor]()
    made_of = dict[fx.Node, int]()
    for node in list(module.graph.nodes):
        value = _constant_of(module, node)
        fill = _fill_of(node)
        if fill is not None:
            node = _filled(module, node, fill)  # noqa: PLW2901 - it stands in its place
        if value is not None:
            known[node], made_of[node] = value, value.numel()
        elif _is_foldable(node, known):
            args, kwargs = fx.map_arg((node.args, node.kwargs), known.__getitem__)
            result = node.target(*args, **kwargs)
            if isinstance(result, torch.Tensor):
                known[node] = result
                made_of[node] = sum(made_of[source] for source in node.all_input_nodes)
    for node in reversed([source for source in known if source.op == "call_function"]):
        left = _is_masked(known[node]) and not _is_limited(known[node])
        if left and any(reader not in known for reader in node.users):
            del known[node]
    return known, made_of


def _write_without_changes(module: fx.GraphModule) -> None:
    """Give an operator that changes its input a result of its own where nothing else reads it."""
    for node in module.graph.nodes:
        changed = node.args[0] if node.args else None
        if not isinstance(changed, fx.Node) or changed.op != "call_function":
            continue
        name, schema = _name(node), getattr(changed.target, "_schema", None)
        is_own = schema is not None and all(
            argument.alias_info is None for argument in schema.returns
        )
        if name.endswith("_") and len(changed.users) == 1 and is_own:
            overload = str(node.target).rpartition(".")[2]
            node.target = getattr(getattr(_ATEN, name[:-1], None), overload, node.target)


def _is_limited(value: torch.Tensor) -> bool:
    """Return whether there are limits of the type in a tensor, as ExecuTorch leaves them alone."""
    if not value.is_floating_point():
        return False
    limits = torch.finfo(value.dtype)
    return bool(((value == limits.min) | (value == limits.max)).any())


def _unlimited(value: torch.Tensor) -> torch.Tensor:
    """Return a tensor with infinities for the limits of its type, which masks are made of.

    ExecuTorch gives infinities a number that can be quantized, and leaves the limits alone.
    """
    if _is_limited(value):
        limits = torch.finfo(value.dtype)
        value[value == limits.min] = -torch.inf
        value[value == limits.max] = torch.inf
    return value


def _is_masked(value: torch.Tensor) -> bool:
    """Return whether the values of a mask lie beside others, which would share its wide range."""
    is_wide = value.is_floating_point() and bool((value.abs() >= _INFINITE).any())
    return is_wide and value.unique().numel() > 2


# A number that is no activation: masks have -inf, the least float or -10,000.
_INFINITE = 1e4
_SMALL = 4096


def _fill_of(node: fx.Node) -> Any:
    """Return the value that an operator gives all its entries; None for other operators."""
    if node.op != "call_function" or _is_written(node):
        return None
    name = _name(node)
    for kind, fill in (("ones", 1), ("zeros", 0)):
        if name in {f"{kind}_like", f"new_{kind}"}:
            return fill
    return node.args[1] if name == "full_like" and len(node.args) > 1 else None


def _filled(module: fx.GraphModule, node: fx.Node, fill: Any) -> fx.Node:
    """Replace an operator that only takes the shape of its input by one without inputs."""
    write, value = _Writer(module, node), node.meta["val"]
    filled = write(_ATEN.full.default, list(value.shape), fill)
    filled.kwargs = {"dtype": value.dtype}
    filled.meta["val"] = value
    write.replace(filled)
    return filled


_COUNTING = ("arange", "linspace", "eye", "tril_indices", "triu_indices")
_MAKING = (*_COUNTING, "full", "ones", "zeros", "scalar_tensor", "full_like", "ones_like",
           "zeros_like")  # fmt: skip


def _name(node: fx.Node) -> str:
    schema = getattr(node.target, "_schema", None)
    return schema.name.rpartition("::")[2] if schema is not None else ""


def _is_foldable(node: fx.Node, known: dict[fx.Node, torch.Tensor]) -> bool:
    """Return whether a node is a function of constants, with the same result at every run."""
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None or schema.is_mutable:
        return False
    if torch.Tag.nondeterministic_seeded in node.target.tags or _is_written(node):
        return False
    inputs = node.all_input_nodes
    return all(source in known for source in inputs) and bool(inputs or _name(node) in _MAKING)


def _is_written(node: fx.Node) -> bool:
    """Return whether something writes to a value in place."""
    schemas = (getattr(reader.target, "_schema", None) for reader in node.users)
    return any(schema is not None and schema.is_mutable for schema in schemas)


def write_out_cells(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Write recurrent cells with linears and gates, each of which has a pattern."""
    del quantizer
    done = list[str]()
    for node in _floating_calls(module, *_CELLS):
        write = _Writer(module, node)
        x, state, *weights = node.args
        weights += [None] * (4 - len(weights))
        write.replace(_CELLS[node.target](write, x, state, weights))
        done.append(node.name)
    return _finished(module, done)


def _gru(write: _Writer, x: Any, state: Any, weights: Any) -> Any:
    into, again, b, c = weights
    given = write(_ATEN.linear.default, x, into, b)
    kept = write(_ATEN.linear.default, state, again, c)
    size, last = state.meta["val"].shape[-1], x.meta["val"].dim() - 1
    parts = [(_slice(write, given, last, i, size), _slice(write, kept, last, i, size))
             for i in range(3)]  # fmt: skip
    reset, update = (
        write(_ATEN.sigmoid.default, write(_ATEN.add.Tensor, *pair)) for pair in parts[:2]
    )
    fresh = write(_ATEN.mul.Tensor, reset, parts[2][1])
    fresh = write(_ATEN.tanh.default, write(_ATEN.add.Tensor, parts[2][0], fresh))
    change = write(_ATEN.mul.Tensor, update, write(_ATEN.sub.Tensor, state, fresh))
    return write(_ATEN.add.Tensor, fresh, change)


def _lstm(write: _Writer, x: Any, state: Any, weights: Any) -> Any:
    hidden, memory = state
    into, again, b, c = weights
    given = write(_ATEN.linear.default, x, into, b)
    gates = write(_ATEN.add.Tensor, given, write(_ATEN.linear.default, hidden, again, c))
    size, last = hidden.meta["val"].shape[-1], x.meta["val"].dim() - 1
    kinds = (_ATEN.sigmoid, _ATEN.sigmoid, _ATEN.tanh, _ATEN.sigmoid)
    enter, keep, fresh, leave = (
        write(kind.default, _slice(write, gates, last, i, size)) for i, kind in enumerate(kinds)
    )
    kept, added = write(_ATEN.mul.Tensor, keep, memory), write(_ATEN.mul.Tensor, enter, fresh)
    memory = write(_ATEN.add.Tensor, kept, added)
    return write(_ATEN.mul.Tensor, leave, write(_ATEN.tanh.default, memory)), memory


def _plain(function: Any) -> Any:
    def cell(write: _Writer, x: Any, state: Any, weights: Any) -> Any:
        into, again, b, c = weights
        given = write(_ATEN.linear.default, x, into, b)
        kept = write(_ATEN.linear.default, state, again, c)
        return write(function, write(_ATEN.add.Tensor, given, kept))

    return cell


def _slice(write: _Writer, value: Any, dim: int, index: int, size: int) -> fx.Node:
    return write(_ATEN.slice.Tensor, value, dim, index * size, (index + 1) * size)


_CELLS: dict[Any, Any] = {
    _ATEN.gru_cell.default: _gru,
    _ATEN.lstm_cell.default: _lstm,
    _ATEN.rnn_tanh_cell.default: _plain(_ATEN.tanh.default),
    _ATEN.rnn_relu_cell.default: _plain(_ATEN.relu.default),
}


def write_linears(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Write a product with constant weights and a constant bias as the linear that it is."""
    del quantizer
    done = list[str]()
    for node in _floating_calls(module, _ATEN.addmm.default):
        bias, weight = _constant_of(module, node.args[0]), _constant_of(module, node.args[2])
        if bias is None or weight is None or bias.dim() != 1 or node.kwargs:
            continue
        write = _Writer(module, node)
        turned = write.constant(f"{node.name}_weight", weight.t())
        write.replace(write(_ATEN.linear.default, node.args[1], turned, node.args[0]))
        done.append(node.name)
    return _finished(module, done)


def write_plainly(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Write operators without a pattern with operators that have one."""
    del quantizer
    done = list[str]()
    for node in _floating_calls(module, *_PLAIN):
        write = _Writer(module, node)
        written = _PLAIN[node.target](write, *node.args, **node.kwargs)
        if written is not None:
            write.replace(written)
            done.append(node.name)
    return _finished(module, done)


def _mean(write: _Writer, x: fx.Node, size: Any) -> fx.Node | None:
    is_whole = all(axis == 1 for axis in size)
    return (
        write(_ATEN.mean.dim, x, [-axis - 1 for axis in range(len(size))], True)
        if is_whole
        else None
    )


def _pool(
    write: _Writer, x: fx.Node, size: Any, stride: Any = (), pad: Any = (0,), *rest: Any
) -> fx.Node | None:
    """Take a mean over the whole extent as one, and a pool over one dimension as one over two."""
    extent = list(x.meta["val"].shape[-len(size) :])
    if list(size) == extent and not any(pad) and rest[2:] in {(), (None,)}:
        return _mean(write, x, [1] * len(size))
    if len(size) > 1:
        return None
    flat = write(_ATEN.unsqueeze.default, x, 2)
    sizes = [1, *size], [1, *(stride or size)], [0, *pad]
    return write(_ATEN.squeeze.dim, write(_ATEN.avg_pool2d.default, flat, *sizes, *rest), 2)


def _max_pool(
    write: _Writer, x: fx.Node, size: Any, stride: Any = (), pad: Any = (0,), apart: Any = (1,),
    *rest: Any,
) -> fx.Node:  # fmt: skip
    flat = write(_ATEN.unsqueeze.default, x, 2)
    sizes = [1, *size], [1, *(stride or size)], [0, *pad], [1, *apart]
    return write(_ATEN.squeeze.dim, write(_ATEN.max_pool2d.default, flat, *sizes, *rest), 2)


def _largest(write: _Writer, x: fx.Node, size: Any) -> tuple[fx.Node, fx.Node] | None:
    """Take the largest of the whole extent as such, where nothing reads its index."""
    is_read = any(reader.args[1] != 0 and reader.users for reader in write.readers)
    if is_read or any(axis != 1 for axis in size):
        return None
    largest = write(_ATEN.amax.default, x, [-axis - 1 for axis in range(len(size))], True)
    return largest, largest


def _instances(
    write: _Writer, x: fx.Node, weight: Any, bias: Any, *settings: Any
) -> fx.Node | None:
    """Take the norm of each channel as a group norm, unless it has running statistics."""
    mean, _, present, _, eps, *_ = settings
    if mean is not None or not present:
        return None
    return write(_ATEN.group_norm.default, x, x.meta["val"].shape[1], weight, bias, eps)


def _softplus(write: _Writer, x: fx.Node, beta: float = 1, limit: float = 20) -> fx.Node | None:
    """Write log(1 + exp(x)) as relu(x) + log1p(exp(-|x|)), whose parts have small ranges."""
    del limit
    if beta != 1:
        return None
    small = write(_ATEN.exp.default, write(_ATEN.neg.default, write(_ATEN.abs.default, x)))
    return write(_ATEN.add.Tensor, write(_ATEN.relu.default, x), write(_ATEN.log1p.default, small))


def _log_of_sum(write: _Writer, x: fx.Node, dims: Any, keep: bool = False) -> fx.Node:
    largest = write(_ATEN.amax.default, x, dims, True)
    small = write(_ATEN.exp.default, write(_ATEN.sub.Tensor, x, largest))
    total = write(_ATEN.log.default, write(_ATEN.sum.dim_IntList, small, dims, True))
    total_log = write(_ATEN.add.Tensor, total, largest)
    return total_log if keep else write(_ATEN.squeeze.dims, total_log, dims)


def _rolled(write: _Writer, x: fx.Node, shifts: Any, dims: Any = ()) -> fx.Node | None:
    """Write a roll as the two parts in the other order."""
    if len(shifts) != len(dims):
        return None
    for shift, dim in zip(shifts, dims, strict=True):
        size = x.meta["val"].shape[dim]
        if at := -shift % size:
            parts = [write(_ATEN.slice.Tensor, x, dim, at, size),
                     write(_ATEN.slice.Tensor, x, dim, 0, at)]  # fmt: skip
            x = write(_ATEN.cat.default, parts, dim)
    return x


def _same(
    write: _Writer, x: fx.Node, weight: Any, bias: Any = None, stride: Any = (1,),
    padding: str = "valid", *rest: Any,
) -> fx.Node | None:  # fmt: skip
    """Write the padding of an even kernel, which has one row more behind than before."""
    sizes = weight.meta["val"].shape[2:]
    apart = (*(rest[0] if rest else (1,)),) * (len(sizes) if not rest or len(rest[0]) == 1 else 1)
    more = [step * (size - 1) for size, step in zip(sizes, apart, strict=True)]
    if padding != "same" or not any(extent % 2 for extent in more):
        return None
    around = [end for extent in reversed(more) for end in (extent // 2, extent - extent // 2)]
    padded = write(_ATEN.pad.default, x, around, "constant", 0.0)
    target = _ATEN.conv1d.default if len(sizes) == 1 else _ATEN.conv2d.default
    return write(target, padded, weight, bias, stride, [0] * len(sizes), *rest)


def _leaky(write: _Writer, x: fx.Node, low: Any = 1 / 8, high: Any = 1 / 3, *rest: Any) -> Any:
    return None if any(rest) else write(_ATEN.leaky_relu.default, x, (low + high) / 2)


def _deviation(write: _Writer, x: fx.Node, dims: Any = None, *rest: Any, **named: Any) -> Any:
    """Write a standard deviation as the root of the variance."""
    unbiased = rest[0] if rest else True
    keep = rest[1] if rest[1:] else False
    correction = named.get("correction", 1)
    if correction not in {0, 1, None}:
        return None
    every = list(range(x.meta["val"].dim()))
    is_unbiased = bool(unbiased) and correction != 0
    keep = bool(keep or named.get("keepdim"))
    return write(_ATEN.sqrt.default, write(_ATEN.var.dim, x, dims or every, is_unbiased, keep))


def _root_mean_square(
    write: _Writer, x: fx.Node, shape: Any, weight: Any = None, eps: float | None = None
) -> fx.Node:
    """Write RMSNorm with its mean and its root."""
    dims = [-1 - place for place in range(len(shape))]
    mean = write(_ATEN.mean.dim, write(_ATEN.pow.Tensor_Scalar, x, 2), dims, True)
    least = torch.finfo(x.meta["val"].dtype).eps if eps is None else eps
    root = write(_ATEN.rsqrt.default, write(_ATEN.add.Tensor, mean, least))
    normed = write(_ATEN.mul.Tensor, x, root)
    return normed if weight is None else write(_ATEN.mul.Tensor, normed, weight)


def _between(write: _Writer, a: fx.Node, b: fx.Node, weight: Any) -> fx.Node:
    apart = write(_ATEN.mul.Tensor, write(_ATEN.sub.Tensor, b, a), weight)
    return write(_ATEN.add.Tensor, a, apart)


def _product_added(write: _Writer, x: fx.Node, a: fx.Node, b: fx.Node, *, value: Any = 1) -> Any:
    product = write(_ATEN.mul.Tensor, a, b)
    scaled = product if value == 1 else write(_ATEN.mul.Tensor, product, value)
    return write(_ATEN.add.Tensor, x, scaled)


def _distance(
    write: _Writer, a: fx.Node, b: fx.Node, p: float = 2, eps: float = 1e-6, keep: bool = False
) -> fx.Node | None:
    """Write the Euclidean distance of rows."""
    if p != 2:
        return None
    apart = write(_ATEN.add.Tensor, write(_ATEN.sub.Tensor, a, b), eps)
    square = write(_ATEN.pow.Tensor_Scalar, apart, 2)
    return write(_ATEN.sqrt.default, write(_ATEN.sum.dim_IntList, square, [-1], keep))


def _repeated(write: _Writer, x: fx.Node, size: Any, *factors: Any) -> fx.Node | None:
    """Repeat the steps of a sequence a whole number of times."""
    del factors
    n, channels, steps = x.meta["val"].shape
    result = write.shape[-1]
    if result % steps:
        return None
    del size
    single = write(_ATEN.unsqueeze.default, x, 3)
    wide = write(_ATEN.expand.default, single, [n, channels, steps, result // steps])
    return write(_ATEN.reshape.default, wide, [n, channels, result])


def _shuffled(write: _Writer, x: fx.Node, groups: int) -> fx.Node:
    """Write a shuffle of channels as an exchange of two dimensions."""
    n, channels, *rest = x.meta["val"].shape
    apart = write(_ATEN.reshape.default, x, [n, groups, channels // groups, *rest])
    turned = write(_ATEN.transpose.int, apart, 1, 2)
    return write(_ATEN.reshape.default, turned, [n, channels, *rest])


_PLAIN: dict[Any, Any] = {
    _ATEN.clamp_min.default: lambda write, x, low: write(_ATEN.clamp.default, x, low),
    _ATEN.clamp_max.default: lambda write, x, high: write(_ATEN.clamp.default, x, None, high),
    _ATEN.expand_as.default: lambda write, x, like: write(
        _ATEN.expand.default, x, [*like.meta["val"].shape]
    ),
    _ATEN.square.default: lambda write, x: write(_ATEN.pow.Tensor_Scalar, x, 2),
    _ATEN.std.dim: _deviation,
    _ATEN.std.correction: _deviation,
    _ATEN.max.other: lambda write, a, b: write(_ATEN.maximum.default, a, b),
    _ATEN.min.other: lambda write, a, b: write(_ATEN.minimum.default, a, b),
    _ATEN.rms_norm.default: _root_mean_square,
    _ATEN.lerp.Scalar: _between,
    _ATEN.lerp.Tensor: _between,
    _ATEN.addcmul.default: _product_added,
    _ATEN.pairwise_distance.default: _distance,
    _ATEN.upsample_nearest1d.default: _repeated,
    _ATEN.upsample_nearest1d.vec: _repeated,
    _ATEN.channel_shuffle.default: _shuffled,
    _ATEN.log2.default: lambda write, x: write(
        _ATEN.mul.Tensor, write(_ATEN.log.default, x), 1 / math.log(2)
    ),
    _ATEN.exp2.default: lambda write, x: write(
        _ATEN.exp.default, write(_ATEN.mul.Tensor, x, math.log(2))
    ),
    _ATEN.conv1d.padding: _same,
    _ATEN.conv2d.padding: _same,
    _ATEN.adaptive_avg_pool1d.default: _mean,
    _ATEN.avg_pool1d.default: _pool,
    _ATEN.avg_pool2d.default: _pool,
    _ATEN.max_pool1d.default: _max_pool,
    _ATEN.adaptive_max_pool1d.default: _largest,
    _ATEN.adaptive_max_pool2d.default: _largest,
    _ATEN.instance_norm.default: _instances,
    _ATEN.softplus.default: _softplus,
    _ATEN.mish.default: lambda write, x: write(
        _ATEN.mul.Tensor, x, write(_ATEN.tanh.default, _softplus(write, x))
    ),
    _ATEN.log_sigmoid.default: lambda write, x: write(
        _ATEN.neg.default, _softplus(write, write(_ATEN.neg.default, x))
    ),
    _ATEN.logsumexp.default: _log_of_sum,
    _ATEN.roll.default: _rolled,
    _ATEN.rrelu.default: _leaky,
}


def write_minima(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Write minima over dimensions as negated maxima, for U55 and U65."""
    done = list[str]()
    if not quantizer.tosa_spec.is_U55_subset:
        return done
    for node in _floating_calls(module, _ATEN.amin.default):
        write = _Writer(module, node)
        turned = write(_ATEN.mul.Scalar, node.args[0], -1.0)
        most = write(_ATEN.amax.default, turned, *node.args[1:])
        write.replace(write(_ATEN.mul.Scalar, most, -1.0))
        done.append(node.name)
    return _finished(module, done)


_REDUCTIONS = (_ATEN.amax.default, _ATEN.amin.default, _ATEN.mean.dim, _ATEN.sum.dim_IntList)


def drop_reductions(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Leave out reductions of one element: the value is its maximum, minimum, sum and mean."""
    del quantizer
    done = list[str]()
    for node in _floating_calls(module, *_REDUCTIONS):
        source: Any = node.args[0]
        given, result = source.meta["val"], node.meta["val"]
        if given.numel() != result.numel() or given.dtype != result.dtype:
            continue
        write = _Writer(module, node)
        same = given.shape == result.shape
        write.replace(source if same else write(_ATEN.reshape.default, source, [*result.shape]))
        done.append(node.name)
    return _finished(module, done)


_RESIZES = tuple(
    overload
    for name in ("upsample_nearest2d", "upsample_bilinear2d", "upsample_bicubic2d")
    for overload in (getattr(_ATEN, name).default, getattr(_ATEN, name).vec)
)


def repeat_pixels(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Repeat a single pixel where it is resized: all values between equal ones are equal."""
    del quantizer
    done = list[str]()
    for node in _floating_calls(module, *_RESIZES):
        source: Any = node.args[0]
        if tuple(source.meta["val"].shape[2:]) == (1, 1):
            write = _Writer(module, node)
            write.replace(write(_ATEN.expand.default, source, [*node.meta["val"].shape]))
            done.append(node.name)
    return _finished(module, done)


_TRANSPOSED = {_ATEN.conv_transpose1d.default: _ATEN.conv1d.default,
               _ATEN.conv_transpose2d.input: _ATEN.conv2d.default}  # fmt: skip
_FOUR_BITS = 15


def insert_zeros(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Write transposed convolutions that cannot go as zeros between values and a convolution.

    These are the ones with 16-bit values on U55 and U65, with 4-bit weights, and those over one
    dimension.
    """
    left = list(_floating_calls(module, *_TRANSPOSED))
    if not left:
        return []
    chosen = _precise(module, quantizer)
    done = list[str]()
    for node in left:
        if node.name in chosen and _constant_of(module, node.args[1]) is not None:
            write = _Writer(module, node)
            write.replace(_grown(module, write, node))
            done.append(node.name)
    return _finished(module, done)


def _precise(module: fx.GraphModule, quantizer: EthosUQuantizer) -> set[str]:
    """Return the transposed convolutions that stock cannot lower as they are quantized."""
    copied = fx.Graph()
    copied.output(copied.graph_copy(module.graph, {}))
    nodes = set[str]()
    narrow_only = quantizer.tosa_spec.is_U55_subset
    annotated = EthosUQuantizer.annotate(quantizer, fx.GraphModule(module, copied))
    for node in annotated.graph.nodes:
        note = node.meta.get("quantization_annotation")
        specs = note.input_qspec_map if note is not None else {}
        if node.target not in _TRANSPOSED:
            continue
        value, weight = (specs.get(node.args[i]) for i in (0, 1))
        few = weight is not None and weight.quant_max - weight.quant_min <= _FOUR_BITS
        wide = narrow_only and getattr(value, "dtype", None) is torch.int16
        # Over one dimension there is no pattern, and rules reach the convolution instead.
        if wide or few or node.target is _ATEN.conv_transpose1d.default:
            nodes.add(node.name)
    return nodes


def _grown(module: fx.GraphModule, write: _Writer, node: fx.Node) -> fx.Node:
    """Return a convolution over a value with zeros between, equal to a transposed one."""
    given: list[Any] = [*node.args, *_USUAL[len(node.args) :]]
    value, _, bias, stride, padding, extra, groups, dilation = given
    weight = _constant_of(module, node.args[1])
    dims = weight.dim() - 2
    stride, padding, extra, dilation = (
        [*extent] * (dims // len(extent)) for extent in (stride, padding, extra, dilation)
    )
    parts = weight.reshape(groups, -1, *weight.shape[1:]).transpose(1, 2)
    turned = parts.reshape(-1, *parts.shape[2:]).flip(*range(2, dims + 2))
    pads = list[int]()
    for dim in range(dims):
        value = _spread(write, value, dim + 2, stride[dim])
        around = dilation[dim] * (weight.shape[dim + 2] - 1) - padding[dim]
        pads = [around, around + extra[dim] - (stride[dim] - 1), *pads]
    for dim in range(dims):
        before, after = pads[2 * (dims - 1 - dim) : 2 * (dims - dim)]
        size = value.meta["val"].shape[dim + 2]
        if before < 0 or after < 0:
            ends = max(0, -before), size - max(0, -after)
            value = write(_ATEN.slice.Tensor, value, dim + 2, *ends)
    if any(pad > 0 for pad in pads):
        padded = [max(0, pad) for pad in pads]
        value = write(_ATEN.constant_pad_nd.default, value, padded)
    constant = write.constant(f"{node.name}_weight", turned)
    ones, none = [1] * dims, [0] * dims
    return write(_TRANSPOSED[node.target], value, constant, bias, ones, none, dilation, groups)


# bias, stride, padding, output_padding, groups, dilation where a call leaves them out.
_USUAL: tuple[Any, ...] = (None, None, None, [1], [0], [0], 1, [1])


def _spread(write: _Writer, value: fx.Node, dim: int, stride: int) -> fx.Node:
    """Return a value with zeros after each of its entries along a dimension, in 4 dimensions."""
    if stride == 1:
        return value
    shape = list(value.meta["val"].shape)
    after = shape[dim + 1 :]
    wide = 1
    for size in after:
        wide *= size
    flat = write(_ATEN.reshape.default, value, [shape[0], -1, 1, wide])
    padded = write(_ATEN.constant_pad_nd.default, flat, [0, 0, 0, stride - 1])
    return write(_ATEN.reshape.default, padded, [*shape[:dim], shape[dim] * stride, *after])


def take_weights(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Make parameters of buffers that convolutions, linears and embeddings have as weights.

    ExecuTorch's passes give the dimensions of buffers no fixed size.
    """
    del quantizer
    done = list[str]()
    for node in [reader for reader in module.graph.nodes if reader.op == "get_attr"]:
        value = _constant_of(module, node)
        owner, _, name = str(node.target).rpartition(".")
        holder = module.get_submodule(owner)
        is_weight = any(_name(user) in _FOLDED_INTO or _name(user) in _READ for user in node.users)
        if value is None or not is_weight or isinstance(getattr(holder, name), torch.nn.Parameter):
            continue
        delattr(holder, name)
        held = torch.nn.Parameter(value, requires_grad=False)
        holder.register_parameter(name, held)
        done.append(node.name)
    return done


_READ = ("embedding",)
SEPARATED = "separated_weights"
_FOLDED_INTO = ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "linear")


def separate_weights(module: fx.GraphModule) -> list[str]:
    """Give each convolution and linear before a batch norm weights that no other reads.

    The batch norm is folded into the weights where they lie, once for every reader.

    Returns:
        The names of the nodes with weights of their own; they also stand in ``module.meta``.
    """
    reads = list[tuple[fx.Node, int]]()
    uses = dict[str, int]()
    for node in _floating_calls(module, *{n.target for n in module.graph.nodes}):
        for index, given in enumerate(node.args):
            if isinstance(given, fx.Node) and given.op == "get_attr":
                uses[str(given.target)] = uses.get(str(given.target), 0) + 1
                is_normed = any("batch_norm" in _name(reader) for reader in node.users)
                if _name(node) in _FOLDED_INTO and is_normed:
                    reads.append((node, index))
    done = list[str]()
    for node, index in reads:
        value = _constant_of(module, node.args[index])
        if value is not None and uses[str(getattr(node.args[index], "target", ""))] > 1:
            own = _Writer(module, node).parameter(f"{node.name}_own_{index}", value.clone())
            node.update_arg(index, own)
            done.append(node.name)
    module.meta[SEPARATED] = list(dict.fromkeys(done))
    return _finished(module, done)


def _finished(module: fx.GraphModule, done: list[str]) -> list[str]:
    if done:
        module.graph.eliminate_dead_code()
        module.recompile()
    return done
