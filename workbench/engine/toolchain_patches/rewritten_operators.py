"""Operators that ExecuTorch takes badly, written with others before they are quantized.

This file stands on torch and ExecuTorch alone, because a generated script carries it along. What
each correction is about, and for which versions it was proven, stands in
``workbench.targets.ethos_u.corrections``. Every function changes the graph of a float program and
returns the names of the nodes that it replaced.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from executorch.backends.arm.quantizer import EthosUQuantizer
from executorch.backends.arm.quantizer.quantization_config import TOSAQuantizationConfig
from torch import fx

from workbench.engine.toolchain_patches.graph_writer import (
    Writer,
    constant_of,
    finished,
    floating_calls,
    is_written,
)

_ATEN = torch.ops.aten


# Under this name a module's metadata has the places that each patch changes, by id.
PATCHED = "patched_places"


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
            patched = {name: stack.enter_context(patch()) for name, patch in self.patches.items()}
            model.meta[PATCHED] = patched
            module: fx.GraphModule = super().transform_for_annotation(model)
        # A module that is remembered brings the places of the time when it was made.
        for name, known in module.meta.pop(PATCHED, patched).items():
            self._note(name, list(known))
        return module

    def annotate(self, model: fx.GraphModule) -> fx.GraphModule:
        """Annotate as stock does, then refine the annotations."""
        with _own_grids_of_silu() if _STEPS in self.refinements else contextlib.nullcontext():
            annotated: fx.GraphModule = super().annotate(model)
        for name, refine in self.refinements.items():
            self._note(name, refine(annotated))
        return annotated

    def _note(self, name: str, nodes: list[str]) -> None:
        known = self.corrected.get(name, ())
        self.corrected = {**self.corrected, name: (*known, *nodes)}


_STEPS = "fine_steps"


@contextlib.contextmanager
def _own_grids_of_silu() -> Iterator[None]:
    """Let a SiLU have a grid of its own in the block, as it has from ExecuTorch 1.5 on.

    ExecuTorch 1.4 gives it, and what is joined with it, the grid of its input; it reaches half.
    """
    stock = TOSAQuantizationConfig.SHARED_OUTPUT_ACT_QSPEC_PATTERNS
    silu = {_ATEN.silu.default, _ATEN.silu_.default}
    TOSAQuantizationConfig.SHARED_OUTPUT_ACT_QSPEC_PATTERNS = stock - silu
    try:
        yield
    finally:
        TOSAQuantizationConfig.SHARED_OUTPUT_ACT_QSPEC_PATTERNS = stock


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
            write = Writer(module, node)
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
        node.replace_all_uses_with(Writer(module, node).constant("mask_folded", value))
        done.append(node.name)
    return finished(module, done)


def _known_values(
    module: fx.GraphModule,
) -> tuple[dict[fx.Node, torch.Tensor], dict[fx.Node, int]]:
    """Return the values that depend on no input, and the number of elements they are made of."""
    known = dict[fx.Node, torch.Tensor]()
    made_of = dict[fx.Node, int]()
    for node in list(module.graph.nodes):
        value = constant_of(module, node)
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
    if node.op != "call_function" or is_written(node):
        return None
    name = _name(node)
    for kind, fill in (("ones", 1), ("zeros", 0)):
        if name in {f"{kind}_like", f"new_{kind}"}:
            return fill
    return node.args[1] if name == "full_like" and len(node.args) > 1 else None


def _filled(module: fx.GraphModule, node: fx.Node, fill: Any) -> fx.Node:
    """Replace an operator that only takes the shape of its input by one without inputs."""
    write, value = Writer(module, node), node.meta["val"]
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
    if torch.Tag.nondeterministic_seeded in node.target.tags or is_written(node):
        return False
    inputs = node.all_input_nodes
    return all(source in known for source in inputs) and bool(inputs or _name(node) in _MAKING)


def write_out_cells(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Write recurrent cells with linears and gates, each of which has a pattern."""
    del quantizer
    done = list[str]()
    for node in floating_calls(module, *_CELLS):
        write = Writer(module, node)
        x, state, *weights = node.args
        weights += [None] * (4 - len(weights))
        write.replace(_CELLS[node.target](write, x, state, weights))
        done.append(node.name)
    return finished(module, done)


def _gru(write: Writer, x: Any, state: Any, weights: Any) -> Any:
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


def _lstm(write: Writer, x: Any, state: Any, weights: Any) -> Any:
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
    def cell(write: Writer, x: Any, state: Any, weights: Any) -> Any:
        into, again, b, c = weights
        given = write(_ATEN.linear.default, x, into, b)
        kept = write(_ATEN.linear.default, state, again, c)
        return write(function, write(_ATEN.add.Tensor, given, kept))

    return cell


def _slice(write: Writer, value: Any, dim: int, index: int, size: int) -> fx.Node:
    return write(_ATEN.slice.Tensor, value, dim, index * size, (index + 1) * size)


_CELLS: dict[Any, Any] = {
    _ATEN.gru_cell.default: _gru,
    _ATEN.lstm_cell.default: _lstm,
    _ATEN.rnn_tanh_cell.default: _plain(_ATEN.tanh.default),
    _ATEN.rnn_relu_cell.default: _plain(_ATEN.relu.default),
}


def write_minima(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Write minima over dimensions as negated maxima, for U55 and U65."""
    done = list[str]()
    if not quantizer.tosa_spec.is_U55_subset:
        return done
    for node in floating_calls(module, _ATEN.amin.default):
        write = Writer(module, node)
        turned = write(_ATEN.mul.Scalar, node.args[0], -1.0)
        most = write(_ATEN.amax.default, turned, *node.args[1:])
        write.replace(write(_ATEN.mul.Scalar, most, -1.0))
        done.append(node.name)
    return finished(module, done)


_REDUCTIONS = (_ATEN.amax.default, _ATEN.amin.default, _ATEN.mean.dim, _ATEN.sum.dim_IntList)


def drop_reductions(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Leave out reductions of one element: the value is its maximum, minimum, sum and mean."""
    del quantizer
    done = list[str]()
    for node in floating_calls(module, *_REDUCTIONS):
        value: Any = node.args[0]
        given, result = value.meta["val"], node.meta["val"]
        chosen: Any = (node.args[1] if len(node.args) > 1 else None) or range(given.dim())
        dims = [chosen] if isinstance(chosen, int) else list(chosen)
        kept = [dim for dim in dims if given.shape[dim] != 1]
        if given.dtype != result.dtype or len(kept) == len(dims):
            continue
        write = Writer(module, node)
        if kept:
            value = write(node.target, value, kept, True)
        if value.meta["val"].shape != result.shape:
            value = write(_ATEN.reshape.default, value, [*result.shape])
        write.replace(value)
        done.append(node.name)
    return finished(module, done)


_RESIZES = tuple(
    overload
    for name in ("upsample_nearest2d", "upsample_bilinear2d", "upsample_bicubic2d")
    for overload in (getattr(_ATEN, name).default, getattr(_ATEN, name).vec)
)


def repeat_pixels(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Repeat a single pixel where it is resized: all values between equal ones are equal."""
    del quantizer
    done = list[str]()
    for node in floating_calls(module, *_RESIZES):
        source: Any = node.args[0]
        if tuple(source.meta["val"].shape[2:]) == (1, 1):
            write = Writer(module, node)
            write.replace(write(_ATEN.expand.default, source, [*node.meta["val"].shape]))
            done.append(node.name)
    return finished(module, done)


_TRANSPOSED = {_ATEN.conv_transpose1d.default: _ATEN.conv1d.default,
               _ATEN.conv_transpose2d.input: _ATEN.conv2d.default}  # fmt: skip
_FOUR_BITS = 15


def insert_zeros(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Write transposed convolutions that cannot go as zeros between values and a convolution.

    These are the ones with 16-bit values on U55 and U65, with 4-bit weights, those over one
    dimension, and those in groups with more or fewer outputs than inputs.
    """
    left = list(floating_calls(module, *_TRANSPOSED))
    if not left:
        return []
    chosen = _precise(module, quantizer)
    done = list[str]()
    for node in left:
        if node.name in chosen and constant_of(module, node.args[1]) is not None:
            write = Writer(module, node)
            write.replace(_grown(module, write, node))
            done.append(node.name)
    return finished(module, done)


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
        groups = node.args[6] if len(node.args) > 6 else 1
        sizes = node.args[1].meta["val"].shape
        # The steps of weights are those of input channels then, whose number is another.
        odd = groups != 1 and sizes[0] != sizes[1] * groups
        # Over one dimension there is no pattern, and rules reach the convolution instead.
        if wide or few or odd or node.target is _ATEN.conv_transpose1d.default:
            nodes.add(node.name)
    return nodes


def _grown(module: fx.GraphModule, write: Writer, node: fx.Node) -> fx.Node:
    """Return a convolution over a value with zeros between, equal to a transposed one."""
    given: list[Any] = [*node.args, *_USUAL[len(node.args) :]]
    value, _, bias, stride, padding, extra, groups, dilation = given
    weight = constant_of(module, node.args[1])
    dims = weight.dim() - 2
    is_alone = value.meta["val"].dim() < weight.dim()
    value = write(_ATEN.unsqueeze.default, value, 0) if is_alone else value
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
    settings = bias, ones, none, dilation, groups
    result = write(_TRANSPOSED[node.target], value, constant, *settings)
    return write(_ATEN.squeeze.dim, result, 0) if is_alone else result


# bias, stride, padding, output_padding, groups, dilation where a call leaves them out.
_USUAL: tuple[Any, ...] = (None, None, None, [1], [0], [0], 1, [1])


def _spread(write: Writer, value: fx.Node, dim: int, stride: int) -> fx.Node:
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
