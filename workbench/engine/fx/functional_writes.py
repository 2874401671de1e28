"""Float programs whose writes into tensors are written as new values.

torchao inserts quantizers between a value and its views, so that a write into a view is lost in the
quantized program. Here every write becomes an operator that returns a new value, and whatever reads
the memory afterwards reads that value. Everything else of the program stays as it was exported:
nodes, names, modules, batch norms.

This file stands on torch alone, because a generated script carries it along.
"""

import copy
import operator
from typing import Any

import torch
from torch import fx
from torch.export.graph_signature import OutputKind, OutputSpec, TensorArgument

from workbench.engine.fx.aliases import (
    IDLE_IN_PLACE,
    Memory,
    is_write,
    name_of,
    output_of,
    same_view,
    writes_seen_elsewhere,
)
from workbench.engine.fx.pieces import Entries, Pieces, filling, plain_number
from workbench.engine.fx.plain_regions import copied_graph, graphs_of, rebuilt, with_plain_regions

_ATEN = torch.ops.aten


class WriteNotSupportedError(Exception):
    """An operator writes in a way that has no functional form; the argument is its node."""


def with_functional_writes(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return a program without writes whose effect is read elsewhere.

    A program that has none is returned unchanged, with operators such as ``relu_`` whose result
    alone is read. A program that writes its buffers returns their new values.

    Raises:
        WriteNotSupportedError: a write has no functional form.
    """
    _refuse(program)
    program = with_plain_regions(program)
    copied = _with_copies(program)
    functional = _with_functional_buffers(copied)
    if functional is not None:
        return functional
    is_needed = copied is not program or any(
        _needed(part, program) for part in graphs_of(program.graph_module)
    )
    return _functional(copied) if is_needed else program


# Operators that give a tensor another memory or size.
_RESIZING = ("resize_", "resize_as_", "set_", "as_strided_")


def _refuse(program: torch.export.ExportedProgram) -> None:
    """Raise for writes into lists of tensors, and for tensors that get another memory or size.

    Raises:
        WriteNotSupportedError: the program has one.
    """
    for part in graphs_of(program.graph_module):
        for node in part.graph.nodes:
            schema = getattr(node.target, "_schema", None)
            is_of_lists = schema is not None and schema.is_mutable and "_foreach_" in schema.name
            if name_of(node) in _RESIZING or is_of_lists:
                raise WriteNotSupportedError(node)


def _with_copies(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return a program whose results are copied into the tensors that were given for them.

    Raises:
        WriteNotSupportedError: such a tensor has another shape than the result.
    """
    if not any(output_of(node) for part in graphs_of(program.graph_module) for node in part.graph.nodes):
        return program
    module = copied_graph(program)
    for part in graphs_of(module):
        edit = Pieces(part.graph)
        for node in [node for node in part.graph.nodes if output_of(node) is not None]:
            edit.before(node)
            into: Any = output_of(node)
            kwargs = {name: value for name, value in node.kwargs.items() if value is not into}
            result = edit.call(_without_out(node), *node.args, **kwargs)
            if result.meta["val"].shape != into.meta["val"].shape:
                raise WriteNotSupportedError(node)
            node.replace_all_uses_with(edit.call(_ATEN.copy_.default, into, result))
            part.graph.erase_node(node)
        part.recompile()
    return rebuilt(program, module, copy.deepcopy(program.graph_signature))


def _without_out(node: fx.Node) -> Any:
    """Return the overload of an operator that returns a new tensor.

    Raises:
        WriteNotSupportedError: it has none.
    """
    target: Any = node.target
    taken = [(a.name, str(a.type)) for a in target._schema.arguments if not a.is_out]  # noqa: SLF001
    packet = target.overloadpacket
    for overload in (getattr(packet, name) for name in packet.overloads()):
        schema = overload._schema  # noqa: SLF001
        if [(a.name, str(a.type)) for a in schema.arguments] == taken and not schema.is_mutable:
            return overload
    raise WriteNotSupportedError(node)


def _with_functional_buffers(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram | None:
    """Return a program that returns the new values of its buffers and writes them at its end.

    ExecuTorch's export of language models does the same (1.5.1,
    ``extension/llm/export/builder.py``): Arm's quantizer has no patterns for operators that mutate
    a buffer. Its writes into other tensors become new values too, and transposes that undo each
    other are left out, as there. None for a program without mutations.
    """
    names = program.graph_signature.inputs_to_buffers
    if not any(_writes_buffer(node, names) for node in program.graph.nodes):
        return None
    functional = program.run_decompositions({})
    if any(node.target in _LEFT for node in functional.graph.nodes):
        return _functional(program)
    if not functional.graph_signature.buffers_to_mutate:
        return None
    _leave_out_transposes(functional.graph_module)
    return functional


def _leave_out_transposes(module: fx.GraphModule) -> None:
    """Read what a pair of transposes gives that undo each other before the first one."""
    for node in module.graph.find_nodes(op="call_function", target=_ATEN.transpose.int):
        before = node.args[0]
        is_pair = before.target is _ATEN.transpose.int and _axes(before) == _axes(node)
        if is_pair and all(user.op != "output" for user in node.users):
            node.replace_all_uses_with(before.args[0])
    module.graph.eliminate_dead_code()
    module.recompile()


def _axes(transpose: fx.Node) -> set[int]:
    rank = transpose.meta["val"].dim()
    return {int(str(axis)) % rank for axis in transpose.args[1:3]}


# What torch leaves of assignments to parts, and of batch norms, which are then not folded.
_LEFT = (_ATEN.copy.default, _ATEN._native_batch_norm_legit_no_training.default)  # noqa: SLF001


def _writes_buffer(node: fx.Node, buffers: Any) -> bool:
    if not is_write(node):
        return False
    at = node
    while at.op == "call_function" and at.args and isinstance(at.args[0], fx.Node):
        at = at.args[0]
    return at.name in buffers


def _functional(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    module = copied_graph(program)
    signature = copy.deepcopy(program.graph_signature)
    constants = {**program.state_dict, **program.constants}
    values = {
        spec.arg.name: constants[spec.target]
        for spec in signature.input_specs
        if spec.target in constants and isinstance(constants[spec.target], torch.Tensor)
    }
    for part in graphs_of(module):
        if part is not module:
            _Functional(part, {}, set()).rewrite()
    state = set(signature.inputs_to_buffers)
    written = _Functional(module, values, state).rewrite()
    _sign(module.graph, signature, written)
    return rebuilt(program, module, signature)


def _needed(part: fx.GraphModule, program: torch.export.ExportedProgram) -> bool:
    state = set[fx.Node]()
    if part is program.graph_module:
        names = program.graph_signature.inputs_to_buffers
        state = {node for node in part.graph.find_nodes(op="placeholder") if node.name in names}
    return any(True for _ in writes_seen_elsewhere(part, state))


def _sign(graph: fx.Graph, signature: Any, written: dict[fx.Node, fx.Node]) -> None:
    """Put the new values of a program's buffers before its outputs."""
    output = graph.output_node()
    results: Any = output.args[0]
    names = signature.inputs_to_buffers
    changed = [(names[given.name], value) for given, value in written.items() if given.name in names]
    output.args = ((*(value for _, value in changed), *results),)
    signature.output_specs = [
        *(
            OutputSpec(OutputKind.BUFFER_MUTATION, TensorArgument(value.name), name)
            for name, value in changed
        ),
        *signature.output_specs,
    ]


class _Functional:
    """Rewrites one graph: follows the value that each piece of memory has after each write."""

    def __init__(self, module: fx.GraphModule, constants: Any, state: set[str]) -> None:
        self._module, self._graph = module, module.graph
        self._memory = Memory(module)
        self._constants, self._state = constants, state
        self._bases = dict[fx.Node, fx.Node]()
        for nodes in self._memory.shared.values():
            writes = [n for n in nodes if is_write(n)]
            if writes:
                self._bases |= dict.fromkeys(nodes, nodes[0])
        # By base the number of writes so far; by alias its value, and the writes that it has seen.
        self._version = dict[fx.Node, int]()
        self._now = dict[fx.Node, tuple[int, fx.Node]]()
        self._edit = Pieces(self._graph)

    def rewrite(self) -> dict[fx.Node, fx.Node]:
        """Rewrite the graph; return the last value of each placeholder that was written."""
        erased = list[fx.Node]()
        for node in list(self._graph.nodes):
            self._edit.before(node)
            if is_write(node):
                self._write(node)
                erased.append(node)
            else:
                self._read(node)
        for node in reversed(erased):
            self._graph.erase_node(node)
        last = {
            base: self._now[base][1]
            for base in self._version
            if base.op == "placeholder" and self._now[base][1] is not base
        }
        self._edit.drop_unused(set(last.values()))
        self._module.recompile()
        return last

    def _read(self, node: fx.Node) -> None:
        """Let a node read what its inputs are by now."""
        before = (node.args, node.kwargs)
        args, kwargs = fx.map_arg(before, self._value)
        if (args, kwargs) != before:
            node.args, node.kwargs = args, kwargs
            if node.target is _ATEN.view.default:
                # The new value can lie otherwise in memory than the one it replaces.
                node.target = _ATEN.reshape.default
        is_view = torch.Tag.inplace_view in getattr(node.target, "tags", ())
        if is_view or name_of(node) in IDLE_IN_PLACE:
            functional = getattr(_ATEN, name_of(node).removesuffix("_"))
            overload = str(node.target).rpartition(".")[2]
            # ``transpose_`` has one overload without a name, ``transpose`` has one for numbers.
            node.target = getattr(functional, overload if overload in functional.overloads() else "int")
        if node in self._bases:
            base = self._bases[node]
            fill = filling(node)
            value = self._edit.full(node, 0) if fill is None and is_empty(node) else node
            self._now[node] = (self._version.setdefault(base, 0), value)

    def _value(self, node: fx.Node) -> fx.Node:
        """Return the node that has the value of an alias after the writes so far."""
        if node not in self._bases or node not in self._now:
            return node
        version = self._version[self._bases[node]]
        seen, value = self._now[node]
        if seen == version:
            return value
        parent = self._memory.parent(node)
        if parent is None:
            raise WriteNotSupportedError(node)
        value = self._view(node, self._value(parent))
        self._now[node] = (version, value)
        return value

    def _view(self, node: fx.Node, source: fx.Node) -> fx.Node:
        """Take the view of a node from another value of what it is a view of."""
        parent: Any = self._memory.parent(node)
        values = self._memory.values
        if is_write(node) or same_view(values[node], values[parent]):
            return source
        if values[node].dtype != values[parent].dtype and name_of(node) not in _OF_COMPLEX:
            raise WriteNotSupportedError(node)
        if piece := self._piece(node):
            return self._edit.part(source, *piece)
        target = _ATEN.reshape.default if name_of(node) == "view" else node.target
        args, kwargs = fx.map_arg((node.args[1:], node.kwargs), self._value)
        return self._edit.call(target, source, *args, **kwargs)

    def _piece(self, node: fx.Node) -> tuple[int, int, int, int, bool] | None:
        """Return the part of its source that a view is: dimension, first, count, step, select."""
        parent: Any = self._memory.parent(node)
        shape = self._memory.values[parent].shape
        name, arguments = name_of(node), _bound(node)
        if name in {"select", "slice", "narrow"}:
            dim = int(arguments.get("dim", 0)) % len(shape)
            size = shape[dim]
            if name == "select":
                return dim, int(arguments["index"]) % size, 1, 1, True
            if name == "narrow":
                return dim, int(arguments["start"]) % size, int(arguments["length"]), 1, False
            given = slice(arguments.get("start"), arguments.get("end"), arguments.get("step", 1))
            start, _, step = given.indices(size)
            return dim, start, self._memory.values[node].shape[dim], step, False
        if node.target is not operator.getitem:
            return None
        pack: Any = node.args[0]
        dim = int(_bound(pack).get("dim", 0)) % len(shape)
        if name_of(pack) == "unbind":
            return dim, int(node.args[1]), 1, 1, True  # type: ignore[arg-type]
        parts = self._memory.values[pack]
        start = sum(part.shape[dim] for part in parts[: node.args[1]])
        return dim, start, self._memory.values[node].shape[dim], 1, False

    def _write(self, node: fx.Node) -> None:
        """Compute what a write gives its target, and pass it on to all that it is a view of."""
        target: Any = node.args[0]
        base = self._bases[target]
        new = self._result(node, self._value(target))
        chain = [(target, new)]
        child: fx.Node = target
        while (parent := self._memory.parent(child)) is not None:
            new = self._within(child, self._value(parent), new)
            chain.append((parent, new))
            child = parent
        self._version[base] = self._version.get(base, 0) + 1
        for alias, value in [*chain, (node, chain[0][1])]:
            self._now[alias] = (self._version[base], value)

    def _within(self, child: fx.Node, source: fx.Node, new: fx.Node) -> fx.Node:
        """Return a value with another value in the place of one of its views."""
        parent: Any = self._memory.parent(child)
        values = self._memory.values
        if is_write(child) or same_view(values[child], values[parent]):
            return new
        if values[child].dtype != values[parent].dtype:
            return self._within_complex(child, source, new)
        if piece := self._piece(child):
            return self._edit.put(source, new, Entries(*piece))
        shape = [*values[parent].shape]
        if name_of(child) in _SHAPED:
            return self._edit.call(_ATEN.reshape.default, new, shape)
        if name_of(child) in _TURNING:
            # Lengths that all differ show where each dimension goes.
            probe = torch.empty(*range(2, 2 + len(shape)), device="meta")
            turned = child.target(probe, *child.args[1:], **child.kwargs)  # type: ignore[operator]
            back = [list(turned.shape).index(2 + dim) for dim in range(len(shape))]
            return self._edit.call(_ATEN.permute.default, new, back)
        if name_of(child) == "diagonal":
            return self._edit.call(
                _ATEN.diagonal_scatter.default, source, new, *child.args[1:], **child.kwargs
            )
        raise WriteNotSupportedError(child)

    def _within_complex(self, child: fx.Node, source: fx.Node, new: fx.Node) -> fx.Node:
        """Return a complex value with others in the place of its real numbers, or the reverse."""
        name = name_of(child)
        if name in {"view_as_real", "view_as_complex"}:
            back = _ATEN.view_as_complex if name == "view_as_real" else _ATEN.view_as_real
            return self._edit.call(back.default, new)
        if name == "real":
            return self._edit.call(_ATEN.complex.default, new, self._edit.call(_ATEN.imag.default, source))
        if name == "imag":
            return self._edit.call(_ATEN.complex.default, self._edit.call(_ATEN.real.default, source), new)
        raise WriteNotSupportedError(child)

    def _result(self, node: fx.Node, target: fx.Node) -> fx.Node:
        """Return what a write leaves in its target."""
        args, kwargs = fx.map_arg((node.args[1:], node.kwargs), self._value)
        value = self._memory.values[node.args[0]]  # type: ignore[index]
        name = name_of(node)
        if name == "zero_":
            return self._edit.full(target, 0)
        if name == "fill_" and not isinstance(args[0], fx.Node):
            return self._edit.full(target, args[0])
        if name in {"fill_", "copy_"}:
            return self._filled(target, args[0])
        if name == "index_put_" and (result := self._placed(target, *args)) is not None:
            return result
        if name == "fill_diagonal_" and value.dim() == 2 and len(args) == 1:
            eye = self._edit.call(_ATEN.eye.m, *value.shape, dtype=torch.bool)
            return self._edit.call(_ATEN.where.ScalarSelf, eye, args[0], target)
        functional = getattr(_ATEN, name.removesuffix("_"), None)
        overload = getattr(functional, str(node.target).rpartition(".")[2], None)
        if overload is None or not name.endswith("_") or _is_random(node):
            raise WriteNotSupportedError(node)
        return self._as(self._edit.call(overload, target, *args, **kwargs), value)

    def _filled(self, target: fx.Node, assigned: fx.Node) -> fx.Node:
        """Return a value in the shape and type of another one."""
        number = self._constant(assigned)
        if number is not None and number.numel() == 1:
            return self._edit.full(target, number.item())
        value = target.meta["val"]
        source = self._as(assigned, value)
        if source.meta["val"].shape == value.shape:
            return source
        return self._edit.call(_ATEN.expand.default, source, [*value.shape])

    def _as(self, node: fx.Node, like: torch.Tensor) -> fx.Node:
        if node.meta["val"].dtype == like.dtype:
            return node
        return self._edit.call(_ATEN.to.dtype, node, like.dtype)

    def _placed(
        self, target: fx.Node, indices: Any, assigned: Any, accumulate: bool = False
    ) -> fx.Node | None:
        """Return what an assignment by a mask or by a list of constants leaves; else None."""
        chosen = [(dim, index) for dim, index in enumerate(indices) if index is not None]
        if len(chosen) != 1 or accumulate:
            return None
        dim, index = chosen[0]
        if index.meta["val"].dtype == torch.bool:
            return self._masked(target, dim, index, assigned)
        return self._listed(target, dim, index, assigned)

    def _masked(self, target: fx.Node, dim: int, index: fx.Node, assigned: fx.Node) -> fx.Node | None:
        """Return a value with one number where a mask of some dimensions is set; else None."""
        if assigned.meta["val"].numel() != 1:
            return None
        value, mask = target.meta["val"], index
        for _ in range(value.dim() - dim - index.meta["val"].dim()):
            mask = self._edit.call(_ATEN.unsqueeze.default, mask, -1)
        number = self._constant(assigned)
        if number is not None:
            return self._edit.call(_ATEN.masked_fill.Scalar, target, mask, plain_number(number.item()))
        one = self._edit.call(_ATEN.reshape.default, assigned, [1] * value.dim())
        return self._edit.call(_ATEN.where.self, mask, self._as(one, value), target)

    def _listed(self, target: fx.Node, dim: int, index: fx.Node, assigned: fx.Node) -> fx.Node | None:
        """Return a value with others at constant places of a dimension; else None."""
        places, shape = self._constant(index), target.meta["val"].shape
        if places is None or places.dim() != 1 or len(places) > min(_FEW_PLACES, shape[dim]):
            return None
        like = self._edit.part(target, dim, 0, len(places), 1, select=False)
        values = self._filled(like, assigned)
        for position, place in enumerate(places.tolist()):
            entry = self._edit.part(values, dim, position, 1, 1, select=False)
            at = Entries(dim, place % shape[dim])
            target = self._edit.put(target, entry, at)
        return target

    def _constant(self, node: Any) -> torch.Tensor | None:
        """Return the value of a node that copies a constant of the program; None for others."""
        while isinstance(node, fx.Node) and name_of(node) in _COPYING:
            node = node.args[0]
        if not isinstance(node, fx.Node):
            return None
        value = self._constants.get(node.name) if node not in self._bases else None
        if value is None and node.op == "get_attr":
            value = getattr(self._module, str(node.target), None)
        return value if isinstance(value, torch.Tensor) else None


_FEW_PLACES = 64
_COPYING = ("lift_fresh_copy", "detach", "alias", "clone", "lift_fresh")
_SHAPED = (
    "view",
    "reshape",
    "flatten",
    "unflatten",
    "squeeze",
    "unsqueeze",
    "view_as",
    "reshape_as",
    "ravel",
    "_unsafe_view",
    "squeeze_",
    "unsqueeze_",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
)
_OF_COMPLEX = ("view_as_real", "view_as_complex", "real", "imag")
_TURNING = (
    "permute",
    "transpose",
    "t",
    "movedim",
    "moveaxis",
    "swapaxes",
    "swapdims",
    "numpy_T",
    "mT",
    "adjoint",
    "matrix_H",
    "transpose_",
    "t_",
    "swapaxes_",
    "swapdims_",
)


def _is_random(node: fx.Node) -> bool:
    return torch.Tag.nondeterministic_seeded in node.target.tags  # type: ignore[union-attr]


def _bound(node: fx.Node) -> dict[str, Any]:
    """Return the arguments of a call by their names."""
    schema = getattr(node.target, "_schema", None)
    names = [argument.name for argument in schema.arguments] if schema is not None else []
    return {**dict(zip(names, node.args, strict=False)), **node.kwargs}


def is_empty(node: fx.Node) -> bool:
    """Return whether a node makes a tensor whose elements are not set."""
    return name_of(node) in {"empty", "empty_like", "new_empty", "empty_permuted"}
