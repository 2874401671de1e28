"""What ordinary models have and programs for the toolchain have not: other float types, other names.

Values of other float types become float32: integers replace them anyway, and ExecuTorch quantizes
float32 alone. Constants are computed as the model computes them. A batch norm with the statistics of
the present batch becomes an instance norm: torchao folds it as if it had others. Parts whose names
an exported program has for something else get others: weights below ``torch.fx.GraphModule.code``
cannot be found.

This file stands on torch alone, because a generated script carries it along.
"""

import copy
import keyword
from typing import Any

import torch
from torch import fx
from torch.export.graph_signature import InputKind
from torch.fx.node import map_aggregate
from torch.utils import _pytree

from workbench.engine.fx.pieces import Pieces
from workbench.engine.fx.plain_regions import copied_graph, graphs_of, rebuilt

_ATEN = torch.ops.aten
_OTHER_TYPES = (torch.float16, torch.bfloat16, torch.float64)


def with_float32(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return a program in which what depends on the inputs is computed in float32."""
    if not values_of_other_types(program):
        return program
    module = copied_graph(program)
    changed = set[str]()
    for part in graphs_of(module):
        changed |= _take_float32(part.graph, _dependent(program, part is module, part.graph))
        part.recompile()
    changed_program = rebuilt(program, module, copy.deepcopy(program.graph_signature))
    stores: tuple[dict[Any, Any], ...] = (changed_program.state_dict, changed_program.constants)
    for spec in changed_program.graph_signature.input_specs:
        if spec.arg.name in changed:
            held = next(store for store in stores if spec.target in store)
            value = held[spec.target].to(torch.float32)
            is_parameter = spec.kind is InputKind.PARAMETER
            held[spec.target] = torch.nn.Parameter(value, requires_grad=False) if is_parameter else value
    return changed_program


def with_instance_norms(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return a program whose batch norms without running statistics are instance norms.

    A batch of images is one image whose rows are those of all.
    """
    graphs = [part.graph for part in graphs_of(program.graph_module)]
    if not any(map(_is_of_the_batch, (node for graph in graphs for node in graph.nodes))):
        return program
    module = copied_graph(program)
    for part in graphs_of(module):
        edit = Pieces(part.graph)
        for node in filter(_is_of_the_batch, list(part.graph.nodes)):
            edit.before(node)
            x, *settings = node.args
            shape = [*x.meta["val"].shape]
            if shape[0] > 1 or len(shape) == _WITHOUT_PLACES:
                turned = [shape[1], shape[0], *shape[2:]]
                rows = edit.call(_ATEN.transpose.int, x, 0, 1)
                rows = edit.call(_ATEN.reshape.default, rows, [1, shape[1], -1])
                rows = edit.call(_ATEN.instance_norm.default, rows, *settings)
                result = edit.call(_ATEN.transpose.int, edit.call(_ATEN.view.default, rows, turned), 0, 1)
            else:
                result = edit.call(_ATEN.instance_norm.default, x, *settings)
            node.replace_all_uses_with(result)
            part.graph.erase_node(node)
        part.recompile()
    return rebuilt(program, module, copy.deepcopy(program.graph_signature))


def _is_of_the_batch(node: fx.Node) -> bool:
    return node.target is _ATEN.batch_norm.default and node.args[3] is None


# Dimensions of a value that has a batch and channels only.
_WITHOUT_PLACES = 2


def values_of_other_types(program: torch.export.ExportedProgram) -> list[fx.Node]:
    """Return the operations whose values depend on the inputs and are no float32."""
    module = program.graph_module
    return [
        node
        for part in graphs_of(module)
        for node in _dependent(program, part is module, part.graph)
        if node.op == "call_function" and _of_other_type(node)
    ]


def _dependent(program: torch.export.ExportedProgram, is_whole: bool, graph: fx.Graph) -> dict[fx.Node, None]:
    """Return the nodes of a graph that depend on the inputs; all of those of a branch, in order."""
    inputs = {s.arg.name for s in program.graph_signature.input_specs if s.kind is InputKind.USER_INPUT}
    known = dict[fx.Node, None]()
    for node in graph.nodes:
        is_input = node.op == "placeholder" and (not is_whole or node.name in inputs)
        if is_input or any(source in known for source in node.all_input_nodes):
            known[node] = None
    return known


def _of_other_type(node: fx.Node) -> bool:
    """Return whether a value, or one of several, is of a float type that is not float32."""
    values = _pytree.tree_leaves(node.meta.get("val"))
    return any(isinstance(value, torch.Tensor) and value.dtype in _OTHER_TYPES for value in values)


def _take_float32(graph: fx.Graph, dependent: dict[fx.Node, None]) -> set[str]:
    """Let the dependent nodes of a graph compute in float32; return which weights have to be float32."""
    taken, changed = set[fx.Node](), set[str]()
    for node in dependent:
        if node.op == "output":
            continue
        if node.op == "placeholder":
            if _of_other_type(node):
                with graph.inserting_after(node):
                    taken.add(_cast(graph, node, [*node.users]))
            continue
        if not _of_other_type(node) and not taken.intersection(node.all_input_nodes):
            continue
        for source in node.all_input_nodes:
            if source in dependent or not _of_other_type(source):
                continue
            if source.op == "placeholder" and all(reader in dependent for reader in source.users):
                source.meta["val"] = _as_float32(source.meta["val"])
                changed.add(source.name)
            else:
                with graph.inserting_before(node):
                    _cast(graph, source, [node])
        node.args, node.kwargs = map_aggregate((node.args, node.kwargs), _float32)  # type: ignore[assignment,misc]
        if _of_other_type(node):
            node.meta["val"] = _pytree.tree_map(_as_float32, node.meta["val"])
            taken.add(node)
    return changed


def _cast(graph: fx.Graph, source: fx.Node, readers: list[fx.Node]) -> fx.Node:
    """Let readers take a value as float32; return it."""
    cast = graph.call_function(torch.ops.aten.to.dtype, (source, torch.float32))
    cast.meta = {**source.meta, "val": _as_float32(source.meta["val"])}
    for reader in readers:
        reader.replace_input_with(source, cast)
    return cast


def _float32(argument: Any) -> Any:
    return torch.float32 if argument in _OTHER_TYPES else argument


def _as_float32(value: Any) -> Any:
    """Return a value, with its elements as float32 if they are of another float type."""
    is_other = isinstance(value, torch.Tensor) and value.dtype in _OTHER_TYPES
    return value.to(torch.float32) if is_other else value


_RESERVED = {*dir(fx.GraphModule({}, fx.Graph())), "shape_env", "_in_spec", "_out_spec"} - {
    *dir(torch.nn.Module())
}


def with_free_names(module: torch.nn.Module) -> None:
    """Rename parts and tensors of a model, ``code`` to ``code_``; its code finds them as before."""
    held = (module._modules, module._parameters, module._buffers)  # noqa: SLF001 - torch has no other way
    aliases = dict[str, Any]()
    for name in [name for part in held for name in part if name in _RESERVED]:
        other = f"{name}_"
        while hasattr(module, other):
            other += "_"
        for part in held:
            items: Any = {other if key == name else key: value for key, value in part.items()}
            part.clear()
            part.update(items)
        passing = module._non_persistent_buffers_set  # noqa: SLF001
        if name in passing:
            passing.symmetric_difference_update({name, other})
        aliases[name] = _alias(other)
    if aliases:
        kind = type(module)
        named = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
        module.__class__ = type(kind.__name__, (kind,), {**aliases, **named})


def _alias(name: str) -> property:
    """Return an attribute that is another one of the same object."""
    return property(lambda own: getattr(own, name), lambda own, value: setattr(own, name, value))


def with_free_weights(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Rename weights of a program that Python cannot name: ``heads.class.bias`` to ``heads.class_.bias``.

    The module of a program is written as code, in which ``self.heads.class`` is no name, and which
    has ``self.code`` for something else.
    """
    signature = program.graph_signature
    known = {spec.target for spec in signature.input_specs if spec.target is not None}
    others = dict[str, str]()
    for name in sorted(known):
        first, *parts = name.split(".")
        parts = [f"{first}_" if first in _RESERVED else first, *parts]
        other = ".".join(f"{part}_" if keyword.iskeyword(part) else part for part in parts)
        while other != name and other in known:
            other += "_"
        if other != name:
            others[name] = other
    if others:
        for spec in (*signature.input_specs, *signature.output_specs):
            spec.target = others.get(str(spec.target), spec.target)
        for store in (program.state_dict, program.constants):
            items = {others.get(name, name): value for name, value in store.items()}
            store.clear()
            store.update(items)
    return program
