"""The conversion of an ONNX graph into a module of torch, for one shape of its inputs.

Every node becomes a module with the name that the node has, inside the modules that its name or its
scopes tell. What does not depend on the model's inputs is computed here: shapes are constants.
"""

from __future__ import annotations

import ast
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import onnx
import torch
from onnx import numpy_helper
from torch import fx, nn

from workbench.engine.loading.onnx_import.calls import (
    Call,
    Converted,
    NotConvertedError,
    identifier,
    refuse_large,
)
from workbench.engine.loading.onnx_import.layers import LAYERS, linear
from workbench.engine.loading.onnx_import.operators import OPERATORS, TYPES
from workbench.engine.loading.onnx_import.shapes import SHAPES

CONVERTERS: dict[str, Any] = {**OPERATORS, **SHAPES, **LAYERS}
_OTHERS = frozenset({"Constant", "If"})


def operator_of(node: onnx.NodeProto) -> str:
    """Return the name of a node's operator, with its domain unless that is ONNX itself."""
    own = node.domain in {"", "ai.onnx"}
    return str(node.op_type) if own else f"{node.domain}.{node.op_type}"


def unknown_operators(graph: onnx.GraphProto) -> list[str]:
    """Return the operators of a graph that have no converter, sorted, in branches too."""
    return sorted({op for op in _operators(graph) if op not in CONVERTERS and op not in _OTHERS})


def _operators(graph: onnx.GraphProto) -> Iterator[str]:
    for node in graph.node:
        yield operator_of(node)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _operators(attribute.g)


def graph_inputs(model: onnx.ModelProto) -> list[tuple[str, int, list[int | None]]]:
    """Return name, element type and shape of the inputs; None for a size that is not fixed."""
    stored = {tensor.name for tensor in model.graph.initializer}
    inputs = []
    for value in model.graph.input:
        if value.name in stored:
            continue
        kind = value.type.tensor_type
        sizes = [d.dim_value if d.dim_value > 0 else None for d in kind.shape.dim]
        inputs.append((str(value.name), int(kind.elem_type), sizes))
    return inputs


def example_inputs(
    model: onnx.ModelProto, examples: Sequence[torch.Tensor] | None
) -> tuple[torch.Tensor, ...]:
    """Return example inputs of a graph in the types that it takes: random numbers, or ones.

    Args:
        model: The model; a first size that is not fixed counts the samples, and is 1.
        examples: The example inputs, or shapes as tensors of float32; None to take the graph's.
    """
    generator = torch.Generator().manual_seed(0)
    inputs = []
    for position, (_, number, sizes) in enumerate(graph_inputs(model)):
        kind = TYPES[number]
        shape = [1 if size is None else size for size in sizes]
        value = torch.randn(shape, generator=generator) if examples is None else examples[position]
        # Of random numbers for a shape of integers the shape is kept.
        is_other = value.is_floating_point() and not kind.is_floating_point
        inputs.append(torch.ones(value.shape, dtype=kind) if is_other else value.to(kind))
    return tuple(inputs)


def tensor_of(proto: onnx.TensorProto) -> torch.Tensor:
    """Return a constant of a graph.

    Raises:
        NotConvertedError: torch has no such type, or the values do not fill the shape.
    """
    try:
        return torch.from_numpy(numpy_helper.to_array(proto).copy())
    except (TypeError, ValueError, KeyError) as error:
        names = {number: name for name, number in onnx.TensorProto.DataType.items()}
        kind = names.get(proto.data_type, f"type {proto.data_type}")
        raise NotConvertedError(f"the constant {proto.name} of {kind}: {error}") from error


def convert(model: onnx.ModelProto, inputs: Sequence[torch.Tensor]) -> fx.GraphModule:
    """Return a module that computes what the main graph of a model does.

    Args:
        model: The model with its weights.
        inputs: Example inputs, which fix all shapes.

    Raises:
        NotConvertedError: A node has no equal in torch.
    """
    with torch.no_grad():
        return _Conversion(model).run(inputs)


class _Conversion:
    """Builds the module, node by node, while the example inputs run through it."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._model = model
        self._versions = {v.domain or "ai.onnx": v.version for v in model.opset_import}
        self._root, self._graph = nn.Module(), fx.Graph()
        # Values for the example inputs, and the nodes of those that depend on them.
        self._values: dict[str, torch.Tensor] = {}
        self._nodes: dict[str, fx.Node] = {}
        self._sources: dict[str, tuple[int, str, str]] = {}
        self._count = 0
        self._needed, self._uses = _used(model.graph)
        self._scopes = Counter(_scope(n) for n in model.graph.node if operator_of(n) not in _SHAPES)

    def run(self, inputs: Sequence[torch.Tensor]) -> fx.GraphModule:
        graph = self._model.graph
        self._add_constants(graph)
        names = [name for name, _, _ in graph_inputs(self._model)]
        for name, value in zip(names, inputs, strict=True):
            self._values[name] = value
            self._nodes[name] = self._graph.placeholder(identifier(name))
        self._add_nodes(graph.node)
        results = [self._output(value.name) for value in graph.output]
        self._graph.output(results[0] if len(results) == 1 else tuple(results))
        module = fx.GraphModule(self._root, self._graph, identifier(graph.name or "Model"))
        module.onnx_nodes = self._sources
        return module.eval()

    def _add_constants(self, graph: onnx.GraphProto) -> None:
        for proto in graph.initializer:
            if proto.name not in self._uses:
                continue
            value = tensor_of(proto)
            is_weight = value.is_floating_point() and value.dim() > 0
            self._values[proto.name] = nn.Parameter(value, False) if is_weight else value

    def _output(self, name: str) -> fx.Node:
        if name not in self._nodes:
            raise NotConvertedError(f"the output {name} does not depend on the inputs")
        return self._nodes[name]

    def _add_nodes(self, nodes: Iterable[onnx.NodeProto]) -> None:
        for node in nodes:
            if self._needed.isdisjoint(node.output) or all(o in self._nodes for o in node.output):
                continue
            try:
                self._add(node)
            except NotConvertedError as error:
                raise NotConvertedError(f"{operator_of(node)} ({_title(node)}): {error}") from error
            except Exception as error:
                first = str(error).strip().split("\n")[0][:200] or type(error).__name__
                raise NotConvertedError(f"{operator_of(node)} ({_title(node)}): {first}") from error

    def _add(self, node: onnx.NodeProto) -> None:
        attributes = {a.name: _attribute(a) for a in node.attribute}
        name = operator_of(node)
        if name == "Constant":
            self._values[node.output[0]] = torch.as_tensor(next(iter(attributes.values())))
            return
        if name == "If":
            self._add_branch(node, attributes)
            return
        call = Call(
            operator=name,
            name=_title(node),
            version=self._versions.get(node.domain or "ai.onnx", 1),
            attributes=attributes,
            values=[self._value(i) for i in node.input],
            constants=[None if i in self._nodes else self._value(i) for i in node.input],
            outputs=max((i for i, o in enumerate(node.output, 1) if o in self._uses), default=1),
        )
        outputs = list(node.output)
        converted = self._fused(node, call, outputs) or CONVERTERS[name](call)
        if isinstance(converted, torch.Tensor):
            self._values[outputs[0]] = converted
        else:
            self._call(node, converted, outputs)

    def _value(self, name: str) -> torch.Tensor | None:
        if not name:
            return None
        if name not in self._values:
            raise NotConvertedError(f"no node before it computes its input {name}")
        return self._values[name]

    def _add_branch(self, node: onnx.NodeProto, attributes: Mapping[str, Any]) -> None:
        if node.input[0] in self._nodes:
            raise NotConvertedError("its condition depends on the data")
        chosen = bool(self._values[node.input[0]])
        branch = attributes["then_branch" if chosen else "else_branch"]
        needed, uses = _used(branch)
        self._needed, self._uses = self._needed | needed, self._uses + uses
        self._add_constants(branch)
        self._add_nodes(branch.node)
        for inner, outer in zip(branch.output, node.output, strict=True):
            self._values[outer] = self._values[inner.name]
            if inner.name in self._nodes:
                self._nodes[outer] = self._nodes[inner.name]

    def _fused(self, node: onnx.NodeProto, call: Call, outputs: list[str]) -> Converted | None:
        """Return a linear layer for a product with a weight and the sum with a bias after it.

        ``outputs`` then names the sum.
        """
        weight = call.constant(1)
        if call.operator != "MatMul" or weight is None or weight.dim() != 2:
            return None
        users = [n for n in self._model.graph.node if node.output[0] in n.input]
        if len(users) != 1 or operator_of(users[0]) != "Add" or node.output[0] in self._returned:
            return None
        others = [i for i in users[0].input if i != node.output[0]]
        bias = self._values.get(others[0]) if len(others) == 1 else None
        is_bias = bias is not None and others[0] not in self._nodes
        if not is_bias or bias is None or bias.shape != (weight.shape[1],):
            return None
        outputs[:] = users[0].output
        self._scopes[_scope(users[0])] -= 1
        return linear(weight.t().contiguous(), bias), (0,)

    @property
    def _returned(self) -> set[str]:
        return {value.name for value in self._model.graph.output}

    def _call(
        self, node: onnx.NodeProto, converted: tuple[nn.Module, tuple[int, ...]], outputs: list[str]
    ) -> None:
        """Run a module on the example values, and add the call of it unless all are constant."""
        module, positions = converted
        module.eval().requires_grad_(False)
        operands = [self._values[node.input[p]] for p in positions]
        refuse_large(module, operands)
        results = module(*operands)
        results = results if isinstance(results, tuple | list) else (results,)
        pairs = [(o, v) for o, v in zip(outputs, results, strict=False) if o]
        self._values.update(pairs)
        if all(node.input[p] not in self._nodes for p in positions):
            return
        name = self._register(node, module)
        arguments = tuple(self._node(node.input[p], name, p) for p in positions)
        called = self._graph.call_module(name, arguments)
        for number, (output, _) in enumerate(pairs):
            is_part = len(results) > 1
            self._nodes[output] = (
                self._graph.call_function(operator.getitem, (called, number)) if is_part else called
            )

    def _node(self, value: str, owner: str, position: int) -> fx.Node:
        """Return the node of a value; a constant becomes one beside the module that takes it."""
        if value not in self._nodes:
            name = f"{owner}_{position}"
            parent, _, own = name.rpartition(".")
            self._module(parent).register_buffer(own, self._values[value].detach())
            return self._graph.get_attr(name)
        return self._nodes[value]

    def _module(self, path: str) -> nn.Module:
        module = self._root
        for part in filter(None, path.split(".")):
            if part not in module._modules:  # noqa: SLF001 - what add_module fills
                module.add_module(part, nn.Module())
            module = module.get_submodule(part)
        return module

    def _register(self, node: onnx.NodeProto, module: nn.Module) -> str:
        """Add a module under the name of its node; return its dotted name."""
        scope = _scope(node)
        parts = [*scope] if scope and self._scopes[scope] <= 1 else [*scope, _own_name(node)]
        parent = self._module(".".join(parts[:-1]))
        name, number = parts[-1], 1
        while hasattr(parent, name):
            number += 1
            name = f"{parts[-1]}_{number}"
        parent.add_module(name, module)
        self._count += 1
        path = ".".join([*parts[:-1], name])
        self._sources[path] = (self._count, _title(node), operator_of(node))
        return path


# Operators that mostly compute shapes: they do not make a scope one of several operators.
_SHAPES = frozenset(
    {"Constant", "Shape", "Gather", "Unsqueeze", "Squeeze", "Concat", "Cast", "Identity", "Slice"}
)


def _used(graph: onnx.GraphProto) -> tuple[set[str], Counter[str]]:
    """Return the values that the outputs of a graph need, and how often each value is used."""
    uses: Counter[str] = Counter(value.name for value in graph.output)
    needed = {value.name for value in graph.output}
    for node in reversed(graph.node):
        if needed.isdisjoint(node.output):
            continue
        inner = [_outer_names(a.g) for a in node.attribute if a.HasField("g")]
        names = [*filter(None, node.input), *(name for names in inner for name in names)]
        needed.update(names)
        uses.update(names)
    return needed, uses


def _outer_names(graph: onnx.GraphProto) -> list[str]:
    names = [name for node in graph.node for name in node.input if name]
    inner = [a.g for node in graph.node for a in node.attribute if a.HasField("g")]
    outputs = [value.name for value in graph.output]
    return [*names, *outputs, *(name for g in inner for name in _outer_names(g))]


def _attribute(attribute: onnx.AttributeProto) -> Any:
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, onnx.TensorProto):
        return tensor_of(value)
    if isinstance(value, onnx.GraphProto | float | int):
        return value
    return [v.decode(errors="replace") if isinstance(v, bytes) else v for v in value]


def _title(node: onnx.NodeProto) -> str:
    return str(node.name) or next((str(o) for o in node.output if o), "unnamed")


def _scope(node: onnx.NodeProto) -> tuple[str, ...]:
    """Return the names of the modules that a node belongs to, the outermost one first.

    Exporters of torch write them in the metadata, or as a path in the name, in which each part
    repeats its parents: ``/features/features.0/Conv``.
    """
    scopes = {p.key: p.value for p in node.metadata_props}.get("pkg.torch.onnx.name_scopes")
    if scopes is not None:
        path = _listed(scopes)[:-1]
    else:
        path = str(node.name).strip("/").split("/")[:-1] if "/" in node.name else []
    parts: list[str] = []
    parent = ""
    for part in filter(None, path):
        own = part.removeprefix(f"{parent}.") if parent else part
        if part == parent:
            continue
        parts += [identifier(p) for p in own.split(".") if p]
        parent = part
    return tuple(parts)


def _listed(text: str) -> list[str]:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    return [str(part) for part in value] if isinstance(value, list) else []


def _own_name(node: onnx.NodeProto) -> str:
    name = str(node.name).rpartition("/")[2]
    return identifier(name or f"{node.op_type}_{_title(node)}")
