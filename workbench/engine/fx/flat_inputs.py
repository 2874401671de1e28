"""Inputs of a model in dictionaries, lists, tuples and dataclasses, or given by name.

A program takes tensors one by one; what else a call takes is fixed. This file stands on torch
alone, because a generated script carries it along.
"""

import dataclasses
import functools
import inspect
import itertools
import keyword
import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.export.graph_signature import InputKind, TensorArgument
from torch.utils import _pytree

# Where a tensor lies in the arguments: keys, numbers and names of fields from the outside in.
Steps = tuple[Any, ...]


def arguments_of(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments, by position and by name, that example inputs or a sample stand for."""
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    return (tuple(inputs), {}) if isinstance(inputs, tuple | list) else ((inputs,), {})


def values_of_arguments(args: tuple[Any, ...], named: dict[str, Any]) -> dict[Steps, Any]:
    """Return the values in arguments by where they lie; the first step is 0 or 1 for those by name."""
    for kind in set(_dataclasses((args, named))) - _pytree.SUPPORTED_NODES.keys():
        torch.export.register_dataclass(kind)
    pairs, _ = _pytree.tree_flatten_with_path((args, named))
    return {tuple(map(_step, path)): value for path, value in pairs}


def with_flat_inputs(
    model: torch.nn.Module, args: tuple[Any, ...], named: dict[str, Any]
) -> tuple[tuple[torch.Tensor, ...], list[Steps]]:
    """Let a model take the tensors in its arguments one by one.

    Args:
        model: A model, which is changed if its arguments are not tensors by position alone.
        args: Its example inputs by position, in any containers.
        named: Those by name.

    Returns:
        The tensors, and where they lie in a sample that has the form of the example inputs; no
        places if these are tensors alone.
    """
    values = values_of_arguments(args, named)
    tensors = {steps: value for steps, value in values.items() if isinstance(value, torch.Tensor)}
    if not named and all(isinstance(value, torch.Tensor) for value in args):
        return tuple(tensors.values()), []
    _, spec = _pytree.tree_flatten((args, named))
    names = _input_names(model, list(tensors))
    kind, own_forward = type(model), model.__dict__.pop("forward", None)

    def forward(self: Any, *flat: torch.Tensor) -> Any:
        left = iter(flat)
        filled = [next(left) if steps in tensors else value for steps, value in values.items()]
        positions, by_name = _pytree.tree_unflatten(filled, spec)
        call = own_forward or functools.partial(kind.forward, self)
        return call(*positions, **by_name)

    parameters = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in ("self", *names)]
    forward.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    forward.__wrapped__ = own_forward or kind.forward  # type: ignore[attr-defined]
    fields = {"forward": forward, "__module__": kind.__module__, "__qualname__": kind.__qualname__}
    model.__class__ = type(kind.__name__, (kind,), fields)
    return tuple(tensors.values()), _places_of(tensors)


def with_flat_signature(
    program: torch.export.ExportedProgram,
) -> tuple[tuple[torch.Tensor, ...], list[Steps]]:
    """Let a program take the tensors in its example inputs one by one.

    Args:
        program: An exported program with example inputs, which is changed if these are not tensors by
            position alone.

    Returns:
        The tensors and their places, as ``with_flat_inputs`` does.
    """
    args, named = program.example_inputs
    values = values_of_arguments(args, named)
    tensors = {steps: value for steps, value in values.items() if isinstance(value, torch.Tensor)}
    if not named and all(isinstance(value, torch.Tensor) for value in args):
        return tuple(tensors.values()), []
    signature, inputs = program.graph_signature, program.graph.find_nodes(op="placeholder")
    left = [isinstance(spec.arg, TensorArgument) for spec in signature.input_specs]
    for node in [node for node, is_tensor in zip(inputs, left, strict=True) if not is_tensor]:
        program.graph.erase_node(node)
    program.graph_module.recompile()
    signature.input_specs = list(itertools.compress(signature.input_specs, left))
    call: Any = program.module_call_graph[0].signature
    call.inputs = [s.arg for s in signature.input_specs if s.kind is InputKind.USER_INPUT]
    call.in_spec = _pytree.tree_structure((tuple(range(len(tensors))), {}))
    call.forward_arg_names = None
    program._example_inputs = tuple(tensors.values()), {}  # noqa: SLF001 - it has no public setter
    program._guards_code = []  # noqa: SLF001 - they name the inputs as they were
    return tuple(tensors.values()), _places_of(tensors)


def _places_of(tensors: dict[Steps, torch.Tensor]) -> list[Steps]:
    """Return where tensors lie in a sample; it has arguments by position and by name only if both are due."""
    first = {steps[0] for steps in tensors}
    return [steps[len(first) == 1 :] for steps in tensors]


def sample_at(item: Any, places: list[Steps]) -> tuple[tuple[Any, ...], Any] | None:
    """Return the inputs that lie at places of a sample, and its label; None if it has another form."""
    forms = [(item, None), ((item,), None)]
    if isinstance(item, tuple | list) and len(item) == _WITH_LABEL:
        forms = [(item[0], item[1]), ((item[0],), item[1]), *forms]
    for inputs, label in forms:
        try:
            values = tuple(functools.reduce(_below, steps, inputs) for steps in places)
        except (LookupError, AttributeError, TypeError):
            continue
        if all(hasattr(value, "__array__") or isinstance(value, int | float) for value in values):
            return values, label
    return None


_WITH_LABEL = 2


def _below(value: Any, step: Any) -> Any:
    if isinstance(value, Mapping) or (isinstance(value, tuple | list) and isinstance(step, int)):
        return value[step]
    if hasattr(value, "__array__"):
        raise TypeError
    return getattr(value, step)


def _dataclasses(value: Any) -> Iterator[type]:
    """Yield the dataclasses whose objects lie in a value."""
    parts: Any = value if isinstance(value, tuple | list) else ()
    if isinstance(value, dict):
        parts = value.values()
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield type(value)
        parts = [getattr(value, field.name) for field in dataclasses.fields(value)]
    for part in parts:
        yield from _dataclasses(part)


def _step(key: Any) -> Any:
    """Return a step of a path of torch: a key, a number or the name of a field."""
    return next(getattr(key, name) for name in ("idx", "key", "name") if hasattr(key, name))


def _input_names(model: torch.nn.Module, places: list[Steps]) -> list[str]:
    """Return names of parameters for tensors in arguments, after the parameters of ``forward``."""
    parameters = list(inspect.signature(model.forward).parameters.values())
    by_position = [p.name for p in parameters if p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD}]
    names = list[str]()
    for is_named, first, *rest in places:
        is_known = not is_named and first < len(by_position)
        parts = [by_position[first] if is_known else first if is_named else f"args_{first}", *rest]
        name = re.sub(r"\W", "_", "_".join(map(str, parts)))
        name = name if name.isidentifier() and not keyword.iskeyword(name) else f"input_{name}"
        while name in {"self", *names}:
            name += "_"
        names.append(name)
    return names
