"""The modules of a model, whether or not a program calls them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch.export import ExportedProgram

from workbench.graph.snapshot import Module

if TYPE_CHECKING:
    from collections.abc import Sequence

Program: TypeAlias = "ExportedProgram | torch.fx.GraphModule"


def list_modules(
    program: Program, modules: torch.nn.Module | Sequence[Module] | None, types: dict[str, str]
) -> tuple[Module, ...]:
    """Return every module: of the model or list if given, otherwise those named in ``types``."""
    if isinstance(modules, torch.nn.Module):
        return tuple(
            Module(path, _type_name(module), path.rpartition(".")[0], _parameter_count(module))
            for path, module in modules.named_modules(remove_duplicate=False)
        )
    if modules is not None:
        return tuple(modules)
    sizes: dict[str, int] = {}
    if isinstance(program, ExportedProgram):
        for name, tensor in program.named_parameters():
            sizes[name] = math.prod(tensor.shape)
    paths = {""}
    for path in types:
        parts = path.split(".")
        paths.update(".".join(parts[:count]) for count in range(1, len(parts) + 1))
    return tuple(
        Module(
            path, types.get(path, ""), path.rpartition(".")[0],
            sum(size for name, size in sizes.items() if not path or name.startswith(f"{path}.")),
        )
        for path in sorted(paths)
    )  # fmt: skip


def _type_name(module: torch.nn.Module) -> str:
    return f"{type(module).__module__}.{type(module).__qualname__}"


def _parameter_count(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
