"""The outputs of a program: tensors only, in tuples, lists and dictionaries.

This file depends on torch only, because generated scripts contain it.
"""

from typing import Any

import torch
from torch.export.graph_signature import OutputKind, OutputSpec, TensorArgument


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
        signature.out_spec = torch.utils._pytree.tree_structure(leaves)  # noqa: SLF001
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
