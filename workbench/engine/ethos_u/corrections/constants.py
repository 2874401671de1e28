"""What depends on no input, computed ahead of time."""

import operator
from typing import Any

import torch
from executorch.backends.arm.quantizer import EthosUQuantizer
from torch import fx

from .graph_writer import Writer, constant_of, finished, is_written

_ATEN = torch.ops.aten


def folded_constants(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Compute what depends on no input ahead of time.

    Fault: Positions, relative positions and masks that a model makes from nothing are computed at
        every run, on the CPU or quantized like activations: an index of 4.99 that becomes an
        integer is 4. A constant in a stack stays a float, and ends lowering.
    Instead: Such values are computed once, and stand in the program as constants. What is larger
        than its parts is left alone, apart from weights of convolutions and linears. A stack with
        constants joins what has one dimension more.
    Right because: They are the same at every run.
    Network: embedding(torch.cumsum(torch.ones(1, 12), 1).long() - 1)
    Tools: executorch 1.5.1
    """
    del quantizer
    _write_without_changes(module)
    known, made_of = _known_values(module)
    if done := [node.name for node in list(module.graph.nodes) if _is_joined(module, node, known)]:
        known, made_of = _known_values(module)
    for node in [known_node for known_node in known if known_node.op == "call_function"]:
        readers = [reader for reader in node.users if reader not in made_of]
        small = known[node].numel() <= max(made_of[node], _SMALL) or all(_is_weight(node, r) for r in readers)
        if readers and small and (node.all_input_nodes or _name(node) in _COUNTING):
            write = Writer(module, node)
            constant = write.constant(f"{node.name}_folded", _unlimited(known[node].clone()))
            for reader in readers:
                reader.replace_input_with(node, constant)
            done.append(node.name)
    for node in [
        known_node for known_node in known if known_node.op == "get_attr" and _is_limited(known[known_node])
    ]:
        value = _unlimited(known[node].clone())
        node.replace_all_uses_with(Writer(module, node).constant("mask_folded", value))
        done.append(node.name)
    return finished(module, done)


def _known_values(module: fx.GraphModule) -> tuple[dict[fx.Node, torch.Tensor], dict[fx.Node, int]]:
    """Return the values that depend on no input, and the number of elements they are made of."""
    results = dict[fx.Node, Any]()
    made_of = dict[fx.Node, int]()
    for node in list(module.graph.nodes):
        value = constant_of(module, node)
        fill = _fill_of(node)
        if fill is not None:
            node = _filled(module, node, fill)  # noqa: PLW2901 - it stands in its place
        if value is not None:
            results[node], made_of[node] = value, value.numel()
        elif _is_foldable(node, results):
            args, kwargs = fx.map_arg((node.args, node.kwargs), results.__getitem__)
            results[node] = node.target(*args, **kwargs)
            made_of[node] = sum(made_of[source] for source in node.all_input_nodes)
    # An operator with several results is known by those that are taken of it.
    known = {node: value for node, value in results.items() if isinstance(value, torch.Tensor)}
    for node in reversed([source for source in known if source.op == "call_function"]):
        left = _is_masked(known[node]) and not _is_limited(known[node])
        if left and any(reader not in made_of for reader in node.users):
            del known[node], made_of[node]
    return known, made_of


def _is_joined(module: fx.GraphModule, node: fx.Node, known: dict[fx.Node, torch.Tensor]) -> bool:
    """Write a stack of floats, some of which are constants, as a join; return whether it is one."""
    if node.target is not _ATEN.stack.default or node in known or not node.meta["val"].is_floating_point():
        return False
    values, dim = (*node.args, 0)[:2]
    if not any(value in known for value in values):
        return False
    write = Writer(module, node)
    wider = [write(_ATEN.unsqueeze.default, value, dim) for value in values]
    write.replace(write(_ATEN.cat.default, wider, dim))
    return True


def _write_without_changes(module: fx.GraphModule) -> None:
    """Give an operator that changes its input a result of its own where nothing else reads it."""
    for node in module.graph.nodes:
        changed = node.args[0] if node.args else None
        if not isinstance(changed, fx.Node) or changed.op != "call_function":
            continue
        name, schema = _name(node), getattr(changed.target, "_schema", None)
        is_own = schema is not None and all(argument.alias_info is None for argument in schema.returns)
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


_WEIGHTED = ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "linear")


def _is_weight(node: fx.Node, reader: fx.Node) -> bool:
    """Return whether a value is the weights of a layer: the program has them as constants anyway."""
    return _name(reader) in _WEIGHTED and reader.args[1] is node and reader.args.count(node) == 1


_COUNTING = ("arange", "linspace", "eye", "tril_indices", "triu_indices")
_MAKING = (*_COUNTING, "full", "ones", "zeros", "scalar_tensor", "full_like", "ones_like", "zeros_like")


def _name(node: fx.Node) -> str:
    schema = getattr(node.target, "_schema", None)
    return schema.name.rpartition("::")[2] if schema is not None else ""


def _is_foldable(node: fx.Node, known: dict[fx.Node, Any]) -> bool:
    """Return whether a node is a function of constants, with the same result at every run."""
    if node.target is operator.getitem:
        return node.args[0] in known
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None or schema.is_mutable:
        return False
    if torch.Tag.nondeterministic_seeded in node.target.tags or is_written(node):
        return False
    inputs = node.all_input_nodes
    return all(source in known for source in inputs) and bool(inputs or _name(node) in _MAKING)
