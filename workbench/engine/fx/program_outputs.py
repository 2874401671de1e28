"""The outputs of a program: tensors only, in tuples, lists and dictionaries.

This file depends on torch only, because generated scripts contain it.
"""

import dataclasses
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.export.graph_signature import OutputKind, OutputSpec, TensorArgument
from torch.nn.modules import transformer
from torch.utils import _pytree


def exported_program(
    model: torch.nn.Module, inputs: tuple[torch.Tensor, ...], *, strict: bool
) -> torch.export.ExportedProgram:
    """Export a model, whose outputs may lie in objects of classes that torch does not know.

    Dataclasses, other dictionaries and lists, and objects with attributes are told to torch, which
    then takes their values in order.

    Raises:
        Exception: Whatever torch raises for a model that it cannot export.
    """
    try:
        with causal_where_said():
            return torch.export.export(model, inputs, strict=strict)
    except Exception as error:
        kind = class_of_output(error)
        # Objects of some classes of C have no attributes of their own.
        if kind is None or kind in _pytree.SUPPORTED_NODES or not kind.__dictoffset__:
            raise
        register_output(kind)
        return exported_program(model, inputs, strict=strict)


@contextmanager
def causal_where_said() -> Iterator[None]:
    """Let torch's transformers take a mask for causal in the block only where the call says so.

    They compare its values otherwise, which an export does not have. A causal mask leads to another
    kernel, and to the same values.
    """
    stock = transformer._detect_is_causal_mask  # noqa: SLF001 - its only name
    transformer._detect_is_causal_mask = lambda mask, is_causal=None, size=None: is_causal is True  # noqa: SLF001
    try:
        yield
    finally:
        transformer._detect_is_causal_mask = stock  # noqa: SLF001


def class_of_output(error: Exception) -> Any:
    """Return the class of an output that torch does not know; None for other errors."""
    unknown = re.search(r"Found <class '([^']+)'> in output, which is not a known type", str(error))
    if not unknown:
        return None
    home, _, name = unknown[1].rpartition(".")
    return getattr(sys.modules.get(home), name, None)


def register_output(kind: Any) -> None:
    """Let torch take the values of an object apart: fields, items or attributes, in order."""
    if dataclasses.is_dataclass(kind):
        torch.export.register_dataclass(kind)
    elif issubclass(kind, dict):
        _pytree.register_pytree_node(
            kind,
            lambda value: (list(value.values()), list(value)),
            lambda values, keys: kind(zip(keys, values, strict=True)),
        )
    elif issubclass(kind, list):
        _pytree.register_pytree_node(kind, lambda value: (list(value), None), lambda values, _: kind(values))
    else:
        _pytree.register_pytree_node(
            kind,
            lambda value: (list(vars(value).values()), list(vars(value))),
            lambda values, names: _with_attributes(kind, dict(zip(names, values, strict=True))),
        )


def _with_attributes(kind: Any, attributes: dict[str, Any]) -> Any:
    value = object.__new__(kind)
    vars(value).update(attributes)
    return value


def with_tensor_outputs(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return a program whose outputs are tensors, in tuples, lists and dictionaries.

    Other outputs, such as the ``None`` that attention without weights returns, are left out:
    runtimes, test vectors and comparisons take tensors. Containers of other types, such as the
    ``ModelOutput`` of transformers or a dataclass, become one tuple of all tensors in order: their
    class would have to be registered with torch in every process that loads the program.
    """
    specs = program.graph_signature.output_specs
    kept = [index for index, spec in enumerate(specs) if not _is_left_out(spec)]
    signature = program.module_call_graph[0].signature
    assert signature is not None
    if len(kept) < len(specs):
        output = program.graph.output_node()
        values = tuple(output.args[0])  # type: ignore[arg-type]
        output.args = (tuple(values[index] for index in kept),)
        program.graph_signature.output_specs = [specs[index] for index in kept]
        program.graph_module.recompile()
    users = [s.arg for s in program.graph_signature.output_specs if s.kind == _USER]
    if len(kept) < len(specs) or not _is_plain(signature.out_spec):
        leaves = tuple(range(len(users)))
        signature.outputs = users
        signature.out_spec = _pytree.tree_structure(leaves)
    return program


def outputs_left_out(program: torch.export.ExportedProgram) -> list[int]:
    """Return the positions of outputs that are no tensors."""
    users = [s for s in program.graph_signature.output_specs if s.kind == _USER]
    return [position for position, spec in enumerate(users) if _is_left_out(spec)]


_USER = OutputKind.USER_OUTPUT


def _is_left_out(spec: OutputSpec) -> bool:
    return spec.kind == _USER and not isinstance(spec.arg, TensorArgument)


def _is_plain(spec: Any) -> bool:
    return spec.type in {None, tuple, list, dict} and all(map(_is_plain, spec.children()))
