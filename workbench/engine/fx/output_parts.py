"""The tensors that an output joins, and programs that return them one by one.

An output is followed back through operators that only move elements, such as ``cat``, ``stack``,
``view`` and ``permute``, and through functions of single elements behind them. To find where each
element comes from, the moving operators are executed on the numbers of the elements.

This file stands on torch alone, because a generated script carries it along.
"""

import hashlib
import operator
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.export.graph_signature import InputKind, InputSpec, OutputKind, OutputSpec, TensorArgument

from workbench.engine.fx.aliases import mode_of

_ATEN = torch.ops.aten
# An element's number is its piece times this, plus its place in the piece.
_STRIDE = 1 << 40
# Operators that move elements, and the position of an argument that is an index or a mask.
_MOVING_OPERATORS: dict[str, int | None] = {
    **dict.fromkeys((
        "alias", "block_diag", "cat", "chunk", "clone", "column_stack", "concat", "concatenate",
        "constant_pad_nd", "contiguous", "detach", "detach_", "dropout", "dstack", "expand",
        "expand_as", "flatten", "flip", "hstack", "lift_fresh_copy", "movedim", "narrow", "pad",
        "permute", "pixel_shuffle", "pixel_unshuffle", "repeat", "repeat_interleave", "reshape",
        "roll", "rot90", "select", "select_copy", "select_scatter", "slice", "slice_copy",
        "slice_scatter", "split", "split_with_sizes", "squeeze", "squeeze_", "stack", "swapaxes",
        "t", "tile", "transpose", "unbind", "unflatten", "unsafe_chunk", "unsafe_split",
        "unsqueeze", "unsqueeze_", "view", "view_as", "view_copy", "vstack", "_unsafe_view",
    )),
    "gather": 2, "index": 1, "index_put": 1, "index_select": 2, "where": 0,
}  # fmt: skip
# Operators that change the type of each element, or nothing.
_KEEPING_OPERATORS = (
    "_to_copy",
    "to",
    "type_as",
    "float",
    "dropout",
    "contiguous",
    "clone",
    "lift_fresh_copy",
)
# Functions of single elements, of a tensor and of numbers or constants.
_POINTWISE_OPERATORS = frozenset({
    "abs", "add", "clamp", "clamp_max", "clamp_min", "clip", "div", "elu", "exp", "gelu",
    "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "log", "mul", "neg", "pow", "reciprocal",
    "relu", "relu6", "round", "rsub", "rsqrt", "sigmoid", "silu", "softplus", "sqrt", "square",
    "sub", "tanh",
})  # fmt: skip
# An output of more pieces is not taken apart.
_MOST_PIECES = 256
# Factors within this ratio are of similar size; more of them are a pattern of places, not units.
_SIMILAR, _MOST_FACTORS, _MOST_RUNS = 4.0, 64, 8
# A function is told by at most so many operators from the nearest layer on.
_DEEPEST = 64
# So many parts of one tensor are returned as that tensor.
_MANY_PARTS = 4


@dataclass(frozen=True, eq=False)
class OutputPiece:
    """A tensor that outputs join: a node, or what ``node`` computes of the piece ``source``.

    ``value`` is that of a constant. ``places`` are the elements of the input of ``node`` that the
    elements of ``source`` are, in its order; -1 for those that it does not have. ``cut`` are the
    dimension, start and end of the part of ``source`` that it is, where no node computes it.
    ``members`` are pieces of one function of one layer, which are joined along a dimension.
    """

    node: fx.Node
    shape: tuple[int, ...]
    value: torch.Tensor | None = None
    source: "OutputPiece | None" = None
    places: torch.Tensor | None = None
    cut: tuple[int, int, int] | None = None
    members: "tuple[OutputPiece, ...]" = ()

    @property
    def root(self) -> fx.Node:
        """The node whose value it comes from."""
        if self.members:
            return self.members[0].root
        return self.node if self.source is None else self.source.root


@dataclass(frozen=True, eq=False)
class OutputOrigin:
    """Where the elements of an output come from.

    ``owners`` has for each element, in order, the index of its piece in ``pieces``, ``places`` its
    index in that piece.
    """

    pieces: tuple[OutputPiece, ...]
    owners: torch.Tensor
    places: torch.Tensor

    @property
    def is_joined(self) -> bool:
        """Whether it joins several tensors that depend on the inputs."""
        return sum(piece.value is None for piece in self.pieces) > 1


def user_outputs(program: torch.export.ExportedProgram) -> list[fx.Node]:
    """Return the nodes of a program's outputs, without new values of buffers."""
    values = tuple(program.graph.output_node().args[0])  # type: ignore[arg-type]
    specs = program.graph_signature.output_specs
    return [
        value for value, spec in zip(values, specs, strict=True)
        if spec.kind == OutputKind.USER_OUTPUT
    ]  # type: ignore[misc] # fmt: skip


def origins(program: torch.export.ExportedProgram) -> list[OutputOrigin]:
    """Return for each output where its elements come from.

    A piece is what is joined, as it is joined, such as a slice of a tensor; the tensor itself where
    many parts of it, or all, are joined. What one function of one layer gives several times, such
    as in a loop, is one piece.
    """
    late, early = _OriginTrace(program), _OriginTrace(program, early=True)
    parts = [(node, late.origin(node)) for node in user_outputs(program)]
    return [
        _with_groups(_with_whole_tensors(origin, early.origin(node))) if origin.is_joined else origin
        for node, origin in parts
    ]


def _with_whole_tensors(parts: OutputOrigin, whole: OutputOrigin) -> OutputOrigin:
    """Return an origin with the tensors themselves in the place of many parts of them."""
    pieces, owners, places = list(parts.pieces), parts.owners.clone(), parts.places.clone()
    for index, piece in enumerate(whole.pieces):
        owned = whole.owners == index
        inside = parts.owners[owned].unique()
        others = parts.owners[~owned].unique()
        alone = not set(inside.tolist()) & set(others.tolist())
        is_whole = len(inside) > 1 and int(owned.sum()) == _numel(piece.shape)
        if (len(inside) >= _MANY_PARTS or is_whole) and alone and piece.value is None:
            pieces.append(piece)
            owners[owned], places[owned] = len(pieces) - 1, whole.places[owned]
    used, owners = owners.unique(return_inverse=True)
    return OutputOrigin(tuple(pieces[index] for index in used.tolist()), owners, places)


def _with_groups(origin: OutputOrigin) -> OutputOrigin:
    """Return an origin with one piece for what one function of one layer gives several times."""
    groups: dict[str, list[OutputPiece]] = {}
    known: dict[fx.Node, str] = {}
    for piece in in_order(origin):
        groups.setdefault(f"{_signature(piece, known)} {piece.shape}", []).append(piece)
    pieces, owners, places = list(origin.pieces), origin.owners.clone(), origin.places.clone()
    for members in groups.values():
        if len(members) == 1:
            continue
        shape, dim = members[0].shape, _joining_dimension(members[0].shape)
        size = _numel(shape)
        numbers = torch.arange(size * len(members)).reshape(len(members), *shape)
        joined = torch.cat(list(numbers), dim)
        behind = torch.empty(numbers.numel(), dtype=torch.int64)
        behind[joined.reshape(-1)] = torch.arange(numbers.numel())
        for index, member in enumerate(members):
            owned = origin.owners == origin.pieces.index(member)
            owners[owned] = len(pieces)
            places[owned] = behind[origin.places[owned] + index * size]
        whole = OutputPiece(members[0].node, tuple(joined.shape), members=tuple(members))
        pieces.append(whole)
    used, owners = owners.unique(return_inverse=True)
    return OutputOrigin(tuple(pieces[index] for index in used.tolist()), owners, places)


def _joining_dimension(shape: tuple[int, ...]) -> int:
    return min(1, len(shape) - 1)


def _signature(piece: OutputPiece, known: dict[fx.Node, str]) -> str:
    """Return what a piece computes of the output of the nearest layer, and of which layer."""
    if piece.source is not None:
        return f"{piece.node.name} {piece.cut} of {_signature(piece.source, known)}"
    return _function(piece.root, known)


def _function(node: fx.Node, known: dict[fx.Node, str], depth: int = 0) -> str:
    if node.op == "placeholder" or depth > _DEEPEST:
        return node.name
    if node not in known:
        before = node.all_input_nodes
        is_layer = any(map(_is_learned, before))
        texts = {
            n: "x" if is_layer and n.op != "placeholder" else _function(n, known, depth + 1) for n in before
        }
        args = fx.map_arg((node.args, node.kwargs), lambda n: texts[n])
        known[node] = hashlib.sha256(f"{node.target}{args}".encode()).hexdigest()
    return known[node]


class _OriginTrace:
    """Numbers the elements of values by the pieces that they come from.

    ``early`` takes the tensors that operators make, not what other operators moved of them.
    """

    def __init__(self, program: torch.export.ExportedProgram, *, early: bool = False) -> None:
        self._early = early
        stored = {**program.state_dict, **program.constants}
        signature = program.graph_signature
        mutated = set(signature.buffers_to_mutate.values())
        self._stored = {
            spec.arg.name: stored[spec.target]
            for spec in signature.input_specs
            if isinstance(stored.get(spec.target), torch.Tensor) and spec.target not in mutated
        }
        self._pieces: list[OutputPiece] = []
        self._values: dict[fx.Node, Any] = {}
        self._numbers: dict[fx.Node, Any] = {}
        self._is_fixed: dict[fx.Node, bool] = {}
        for node in program.graph.nodes:
            self._is_fixed[node] = self._fixed(node)

    def origin(self, node: fx.Node) -> OutputOrigin:
        """Return where the elements of a tensor come from."""
        numbers = self._of(node).reshape(-1)
        first = int(numbers[0]) if numbers.numel() else 0
        if torch.equal(numbers, torch.arange(first, first + numbers.numel())):
            whole = self._pieces[first // _STRIDE]
            return OutputOrigin((whole,), torch.zeros_like(numbers), numbers % _STRIDE)
        used, owners = torch.unique(numbers // _STRIDE, return_inverse=True)
        pieces = tuple(self._pieces[int(index)] for index in used)
        if len(pieces) > _MOST_PIECES:
            pieces = (OutputPiece(node, tuple(node.meta["val"].shape)),)
            return OutputOrigin(pieces, torch.zeros_like(numbers), torch.arange(numbers.numel()))
        return OutputOrigin(pieces, owners, numbers % _STRIDE)

    def _fixed(self, node: fx.Node) -> bool:
        """Return whether a node does not depend on the inputs."""
        if node.op == "placeholder":
            return node.name in self._stored
        is_pure = node.op == "call_function" and "rand" not in str(node.target)
        return is_pure and all(self._is_fixed[before] for before in node.all_input_nodes)

    def _of(self, node: fx.Node) -> Any:
        """Return the numbers of the elements of a node's value."""
        if node not in self._numbers:
            numbers = self._constant(node) if self._is_fixed[node] else self._computed(node)
            self._numbers[node] = self._leaf(node) if numbers is None else numbers
        return self._numbers[node]

    def _computed(self, node: fx.Node) -> Any:
        name = _packet_name(node)
        if node.target is operator.getitem:
            source = node.args[0]
            listed = self._of(source) if _packet_name(source) in _MOVING_OPERATORS else None  # type: ignore[arg-type]
            return self._collapsed(listed[node.args[1]]) if isinstance(listed, list) else None
        if name in _KEEPING_OPERATORS and isinstance(node.args[0], fx.Node):
            same_type = node.args[0].meta["val"].dtype == node.meta["val"].dtype
            return self._collapsed(self._of(node.args[0])) if same_type else None
        if name in _MOVING_OPERATORS:
            return self._moved(node, name)
        return self._mapped(node) if name.removesuffix("_") in _POINTWISE_OPERATORS else None

    def _moved(self, node: fx.Node, name: str) -> Any:
        """Return the numbers behind an operator that moves elements; None if it fails on them."""
        index = _MOVING_OPERATORS[name]
        args = list(node.args)
        if name == "index_put" and True in args[3:]:
            return None
        if index is not None and not all(self._is_fixed[n] for n in _nodes_in(args[index : index + 1])):
            return None
        values = [
            fx.map_arg(arg, self._value if position == index else self._of)
            for position, arg in enumerate(args)
        ]
        if name == "where" and not all(isinstance(arg, fx.Node) for arg in args):
            return None
        if name in {"constant_pad_nd", "pad"}:
            values = self._padded(node, values)
        kwargs = {key: given for key, given in node.kwargs.items() if key != "memory_format"}
        try:
            moved = node.target(*values, **kwargs)  # type: ignore[operator]
        except (RuntimeError, TypeError, IndexError, ValueError):
            return None
        if isinstance(moved, list | tuple):
            return [part.contiguous() for part in moved]
        return self._collapsed(moved.contiguous())

    def _padded(self, node: fx.Node, values: list[Any]) -> list[Any]:
        """Return the arguments of a padding, with the number of its constant as the value."""
        is_plain = _packet_name(node) == "constant_pad_nd"
        mode = "constant" if is_plain else (values[2] if len(values) > 2 else "constant")
        if mode != "constant":
            return [None]
        given = values[2 if is_plain else 3] if len(values) > (2 if is_plain else 3) else 0.0
        number = self._add(OutputPiece(node, (1,), value=torch.tensor([float(given or 0.0)])))
        return [*values[:2], number] if is_plain else [*values[:2], "constant", number]

    def _mapped(self, node: fx.Node) -> Any:
        """Return the numbers behind a function of single elements, of several pieces."""
        moving = [n for n in node.all_input_nodes if not self._is_fixed[n]]
        if len(moving) != 1:
            return None
        numbers, shape = self._of(moving[0]), node.meta["val"].shape
        if not isinstance(numbers, torch.Tensor) or numbers.shape != shape:
            return None
        numbers = self._by_factor(node, numbers)
        owners = numbers.reshape(-1) // _STRIDE
        listed = owners.unique().tolist()
        if len(listed) == 1:
            return None
        behind, flat = torch.empty_like(owners), numbers.reshape(-1) % _STRIDE
        for owner in listed:
            owned = (owners == owner).nonzero().reshape(-1)
            piece = self._behind(node, moving[0], self._pieces[owner], flat[owned], owned)
            if piece is None:
                return None
            places = torch.arange(owned.numel()) if piece.value is not None else flat[owned]
            behind[owned] = self._add(piece) + places
        return behind.reshape(shape)

    def _by_factor(self, node: fx.Node, numbers: torch.Tensor) -> torch.Tensor:
        """Return the numbers with a piece taken apart where factors of other size multiply it."""
        fixed = [n for n in node.all_input_nodes if self._is_fixed[n] and not _is_learned(n)]
        owners = (numbers // _STRIDE).unique().tolist()
        if _packet_name(node).removesuffix("_") not in {"mul", "div"} or not fixed or len(owners) > 1:
            return numbers
        piece = self._pieces[owners[0]]
        factors = self._value(fixed[0])
        is_whole = torch.equal(numbers.reshape(-1) % _STRIDE, torch.arange(numbers.numel()))
        if piece.value is not None or numbers.shape != piece.shape or not is_whole:
            return numbers
        sizes = [1] * (len(piece.shape) - factors.dim()) + list(factors.shape)
        wide = [dim for dim, size in enumerate(sizes) if size > 1]
        if len(wide) != 1 or sizes[wide[0]] > _MOST_FACTORS:
            return numbers
        result, dim = numbers.clone(), wide[0]
        runs = _runs(factors.detach().abs().double().reshape(-1).tolist())
        for start, end in runs if 1 < len(runs) <= _MOST_RUNS else ():
            shape = (*piece.shape[:dim], end - start, *piece.shape[dim + 1 :])
            cut = OutputPiece(piece.node, shape, source=piece, cut=(dim, start, end))
            result.narrow(dim, start, end - start).copy_(self._numbered(cut))
        return result

    def _behind(
        self, node: fx.Node, moving: fx.Node, piece: OutputPiece, places: torch.Tensor,
        owned: torch.Tensor,
    ) -> OutputPiece | None:  # fmt: skip
        """Return the piece that an element-wise node makes of a piece; None if it cannot."""
        if piece.value is not None:
            whole = torch.zeros(moving.meta["val"].shape, dtype=piece.value.dtype)
            whole.view(-1)[owned] = piece.value.reshape(-1)[places]
            args = fx.map_arg(node.args, lambda n: whole if n is moving else self._value(n))
            value = functional(node)(*args, **node.kwargs).reshape(-1)[owned]
            return OutputPiece(node, (owned.numel(),), value=value)
        if places.unique().numel() != places.numel():
            return None
        put = torch.full((_numel(piece.shape),), -1, dtype=torch.int64)
        put[places] = owned
        return OutputPiece(node, piece.shape, source=piece, places=put)

    def _collapsed(self, numbers: torch.Tensor) -> torch.Tensor | None:
        """Return numbers that are of several pieces; None if they are of one that is a node."""
        owners = (numbers // _STRIDE).unique().tolist()
        piece = self._pieces[owners[0]] if len(owners) == 1 else None
        is_node = piece is not None and piece.value is None and piece.source is None
        return None if is_node and not self._early else numbers

    def _leaf(self, node: fx.Node) -> Any:
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            return None
        return self._numbered(OutputPiece(node, tuple(value.shape)))

    def _constant(self, node: fx.Node) -> Any:
        value = self._value(node)
        if not isinstance(value, torch.Tensor):
            return value
        return self._numbered(OutputPiece(node, tuple(value.shape), value=value))

    def _numbered(self, piece: OutputPiece) -> torch.Tensor:
        first = self._add(piece)
        return torch.arange(first, first + _numel(piece.shape)).reshape(piece.shape)

    def _add(self, piece: OutputPiece) -> int:
        self._pieces.append(piece)
        return (len(self._pieces) - 1) * _STRIDE

    def _value(self, node: fx.Node) -> Any:
        """Return the value of a node that does not depend on the inputs."""
        if node not in self._values:
            if node.op == "placeholder":
                self._values[node] = self._stored[node.name].detach()
            else:
                args, kwargs = fx.map_arg((node.args, node.kwargs), self._value)
                self._values[node] = node.target(*args, **kwargs)  # type: ignore[operator]
        return self._values[node]


def _is_learned(node: fx.Node) -> bool:
    """Return whether a constant is a parameter: learned factors are no units."""
    return node.op == "placeholder" and node.name.startswith("p_")


def _runs(factors: list[float]) -> list[tuple[int, int]]:
    """Return where factors of similar size start and end."""
    runs: list[tuple[int, int]] = []
    start = 0
    for index in range(1, len(factors) + 1):
        among = factors[start : index + 1]
        if index == len(factors) or max(among) > _SIMILAR * min(among):
            runs.append((start, index))
            start = index
    return runs


def functional(node: fx.Node) -> Any:
    """Return the operator of a node, and for one that writes its input the one that does not."""
    packet = getattr(_ATEN, _packet_name(node).removesuffix("_"))
    return getattr(packet, node.target._overloadname)  # type: ignore[union-attr]  # noqa: SLF001


def _packet_name(node: fx.Node) -> str:
    """Return the operator of a node without its overload, e.g. ``cat``; "" for other nodes."""
    packet = getattr(node.target, "overloadpacket", None)
    return str(getattr(packet, "__name__", ""))


def _nodes_in(args: Any) -> list[fx.Node]:
    nodes: list[fx.Node] = []
    fx.map_arg(args, nodes.append)
    return nodes


def _numel(shape: tuple[int, ...]) -> int:
    return int(torch.Size(shape).numel())


def with_split_outputs(
    program: torch.export.ExportedProgram, positions: tuple[int, ...]
) -> torch.export.ExportedProgram:
    """Return a program that returns the tensors that some of its outputs join.

    The tensors come in the place of the output, in the order of their first elements. One that
    several outputs have is returned once, and constants are left out. All outputs are then in one
    tuple. Outputs that join nothing stay.

    Args:
        program: The program; it is changed.
        positions: The positions of the outputs.
    """
    return split_outputs(program, origins(program), positions)[0]


def split_outputs(
    program: torch.export.ExportedProgram, known: list[OutputOrigin], positions: tuple[int, ...]
) -> tuple[torch.export.ExportedProgram, list[list[int]]]:
    """Return a program as ``with_split_outputs`` does, and where the parts of its outputs are.

    Args:
        program: The program; it is changed.
        known: What ``origins`` returns for it.
        positions: The positions of the outputs to split.

    Returns:
        The program, and for each of the former outputs the positions of its parts, in the order of
        ``in_order``; one position for an output that stays.
    """
    chosen = [o if i in positions and o.is_joined else None for i, o in enumerate(known)]
    if not any(chosen):
        return program, [[position] for position in range(len(known))]
    split = _OutputSplit(program)
    values = tuple(program.graph.output_node().args[0])  # type: ignore[arg-type]
    kept = [(v, s) for v, s in zip(values, program.graph_signature.output_specs, strict=True)]
    specs = [spec for _, spec in kept if spec.kind != OutputKind.USER_OUTPUT]
    nodes = [value for value, spec in kept if spec.kind != OutputKind.USER_OUTPUT]
    first, ports = len(nodes), []
    for node, origin in zip(user_outputs(program), chosen, strict=True):
        parts = [node] if origin is None else [split.node_of(p) for p in in_order(origin)]
        for part in parts:
            if part not in nodes[first:]:
                nodes.append(part)
                argument = TensorArgument(name=part.name)
                specs.append(OutputSpec(OutputKind.USER_OUTPUT, argument, None))
        ports.append([nodes[first:].index(part) for part in parts])
    program.graph.output_node().args = (tuple(nodes),)
    program.graph.eliminate_dead_code()
    program.graph_module.recompile()
    program.graph_signature.output_specs = specs
    users = [spec.arg for spec in specs if spec.kind == OutputKind.USER_OUTPUT]
    signature = program.module_call_graph[0].signature
    assert signature is not None
    signature.outputs = users
    signature.out_spec = torch.utils._pytree.tree_structure(tuple(range(len(users))))  # noqa: SLF001
    return program, ports


def in_order(origin: OutputOrigin) -> list[OutputPiece]:
    """Return the pieces that depend on the inputs, in the order of their first elements."""
    count = len(origin.pieces)
    first = [int((origin.owners == index).nonzero()[0]) for index in range(count)]
    order = sorted(range(count), key=first.__getitem__)
    return [origin.pieces[index] for index in order if origin.pieces[index].value is None]


class _OutputSplit:
    """Makes the nodes of pieces."""

    def __init__(self, program: torch.export.ExportedProgram) -> None:
        self._program = program
        self._trace = _OriginTrace(program)
        self._created: dict[int, fx.Node] = {}

    def node_of(self, piece: OutputPiece) -> fx.Node:
        """Return the node with the value of a piece, which is added where there is none."""
        if piece.members and id(piece) not in self._created:
            args = ([self.node_of(member) for member in piece.members],
                    _joining_dimension(piece.members[0].shape))  # fmt: skip
            self._created[id(piece)] = self._call(_ATEN.cat.default, args, {}, piece.node)
        if piece.members:
            return self._created[id(piece)]
        if piece.source is None:
            return piece.node
        if piece.cut is not None and id(piece) not in self._created:
            source = (self.node_of(piece.source), *piece.cut)
            self._created[id(piece)] = self._call(_ATEN.slice.Tensor, source, {}, piece.node)
        if id(piece) not in self._created:
            self._created[id(piece)] = self._added(piece, self.node_of(piece.source))
        return self._created[id(piece)]

    def _added(self, piece: OutputPiece, source: fx.Node) -> fx.Node:
        """Add what an element-wise node computes of a piece."""
        node, fixed = piece.node, self._trace._is_fixed  # noqa: SLF001
        constants = {n: self._constant(n, piece) for n in node.all_input_nodes if fixed[n]}
        args = fx.map_arg(node.args, lambda n: constants.get(n, source))
        return self._call(functional(node), args, dict(node.kwargs), node)

    def _call(self, target: Any, args: Any, kwargs: dict[str, Any], like: fx.Node) -> fx.Node:
        """Add a call of an operator behind a node, with its module and its line."""
        with self._program.graph.inserting_after(self._last(like, args)):
            added = self._program.graph.call_function(target, args, kwargs)
        added.meta = {key: value for key, value in like.meta.items() if key != "val"}
        values = fx.map_arg(args, lambda given: given.meta["val"])
        mode = mode_of(like)
        assert mode is not None
        with torch.no_grad(), mode:
            added.meta["val"] = target(*values, **kwargs)
        return added

    def _last(self, like: fx.Node, args: Any) -> fx.Node:
        """Return the last of a node and the arguments of a call."""
        order = {node: index for index, node in enumerate(self._program.graph.nodes)}
        return max([like, *_nodes_in(args)], key=order.__getitem__)

    def _constant(self, node: fx.Node, piece: OutputPiece) -> Any:
        """Return what a constant of an element-wise node is for a piece: a number, or a node."""
        assert piece.places is not None
        shape = piece.node.meta["val"].shape
        whole = self._trace._value(node).expand(shape).reshape(-1)  # noqa: SLF001
        used = piece.places >= 0
        values = whole[piece.places.clamp(min=0)]
        values[~used] = values[used][0]
        values = values.reshape(piece.shape)
        for dim, size in enumerate(values.shape):
            first = values.narrow(dim, 0, 1)
            if size > 1 and torch.equal(values, first.expand_as(values)):
                values = first
        return values.item() if values.numel() == 1 else self._stored(values, piece)

    def _stored(self, values: torch.Tensor, piece: OutputPiece) -> fx.Node:
        """Add a constant to the program, and return its node."""
        program, graph = self._program, self._program.graph
        number = sum(name.startswith("split_constant") for name in program.constants)
        name = f"split_constant_{number}"
        first = next(node for node in graph.nodes if node.op == "placeholder")
        with graph.inserting_before(first):
            node = graph.placeholder(f"c_{name}")
        mode = mode_of(piece.node)
        assert mode is not None
        node.meta = {"val": mode.from_tensor(values.contiguous(), static_shapes=True)}
        program.constants[name] = values.contiguous()
        program.graph_signature.input_specs.insert(
            0, InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(name=node.name), name)
        )
        return node
