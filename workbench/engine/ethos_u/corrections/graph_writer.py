"""Writes nodes into the graph of a float program, with the shapes and the origin that they have."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch.fx.traceback import NodeSource

_ATEN = torch.ops.aten


class Writer:
    """Makes nodes before a node, in its module and with its origin, with the shapes they have."""

    def __init__(self, module: fx.GraphModule, node: fx.Node) -> None:
        self._module, self._node = module, node
        self._meta = {key: node.meta[key] for key in _KEPT if key in node.meta}
        self._meta["from_node"] = [NodeSource(node)]

    def __call__(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        """Add a call of an operator, and return its node."""
        with self._module.graph.inserting_before(self._node):
            node = self._module.graph.call_function(target, args, kwargs)
        values = fx.map_arg(args, lambda argument: argument.meta["val"])
        node.meta = {**self._meta, "val": target(*values, **kwargs)}
        return node

    def called(self, call: fx.Node, value: fx.Node) -> fx.Node:
        """Add a call like another one, of a value in place of its first argument."""
        return self(call.target, value, *call.args[1:], **call.kwargs)

    def at(self, node: fx.Node) -> "Writer":
        """Return a writer before another node of the module."""
        return Writer(self._module, node)

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

    def held(self, node: Any) -> Any:
        """Return the tensor that a node reads from the module; None for any other node."""
        return constant_of(self._module, node)

    @property
    def readers(self) -> list[fx.Node]:
        """The nodes that read the node."""
        return list(self._node.users)

    @property
    def target(self) -> Any:
        """The operator of the node."""
        return self._node.target

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


def constant_of(module: fx.GraphModule, node: Any) -> Any:
    """Return the tensor that a node reads from the module; None for any other node."""
    if not isinstance(node, fx.Node) or node.op != "get_attr":
        return None
    owner, _, name = str(node.target).rpartition(".")
    value = getattr(module.get_submodule(owner), name, None)
    if not isinstance(value, torch.Tensor) or is_written(node):
        return None
    return value.detach()


# Functions of one value, which Vela computes in the operation of the convolution before them.
_FUSED = {
    _ATEN.relu.default,
    _ATEN.relu_.default,
    _ATEN.relu6.default,
    _ATEN.hardtanh.default,
    _ATEN.hardtanh_.default,
    _ATEN.clamp.default,
    _ATEN.gelu.default,
    _ATEN.tanh.default,
    _ATEN.sigmoid.default,
    _ATEN.elu.default,
}


def fused_reader(node: fx.Node) -> fx.Node:
    """Return the function that a convolution computes too, or the convolution."""
    readers = list(node.users)
    is_fused = len(readers) == 1 and readers[0].target in _FUSED
    return readers[0] if is_fused and readers[0].all_input_nodes == [node] else node


def floating_calls(module: fx.GraphModule, *targets: Any) -> Iterator[fx.Node]:
    """Yield the calls of operators whose result is of floats."""
    for node in list(module.graph.nodes):
        if node.op == "call_function" and node.target in targets and is_floating(node):
            yield node


def quantized_nodes(
    module: fx.GraphModule, quantizer: Any, activation: torch.dtype | None = None
) -> set[fx.Node]:
    """Return the nodes whose strongest rule is that of a configuration.

    Those that a plug-in's quantizer may take are left out: it knows operators as they are written.

    Args:
        module: The exported graph.
        quantizer: The quantizer with its rules.
        activation: The type that the configuration has for activations; None for any.
    """
    decided, quantized = set[fx.Node](), set[fx.Node]()
    for one in quantizer.quantizer.quantizers:
        finder = getattr(one, "node_finder", None)
        if finder is None:
            if hasattr(one, "own"):
                return set()
            continue
        nodes = set(finder.find_nodes(module)) - decided
        decided |= nodes
        config = one.quantization_config
        if config is not None and (activation is None or _type_of(config.input_activation) is activation):
            quantized |= nodes
    return quantized


def _type_of(spec: Any) -> torch.dtype | None:
    return spec.dtype if spec is not None else None


def is_floating(node: fx.Node) -> bool:
    """Return whether the value of a node, or the first of several, is of floats."""
    value = node.meta.get("val")
    first = value[0] if isinstance(value, tuple | list) else value
    return isinstance(first, torch.Tensor) and first.is_floating_point()


def is_written(node: fx.Node) -> bool:
    """Return whether something writes to a value in place."""
    schemas = (getattr(reader.target, "_schema", None) for reader in node.users)
    return any(schema is not None and schema.is_mutable for schema in schemas)


def finished(module: fx.GraphModule, done: list[str]) -> list[str]:
    """Drop nodes that nothing reads if any was replaced; return the names of those that were."""
    if done:
        module.graph.eliminate_dead_code()
        module.recompile()
    return done
