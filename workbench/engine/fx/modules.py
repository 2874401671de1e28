"""Module locations of operations, from torch.fx's ``nn_module_stack``."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import torch
from torch.export import ExportedProgram

from workbench.graph.lineage import Lineage
from workbench.graph.snapshot import GraphSnapshot, Module
from workbench.results import GRAPH_FILE, IntegerQuality, NodeAnnotation, TensorQuality, TensorRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from workbench.engine.runtime.context import StageContext


_CALL = re.compile(r"@(\d+)$")
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<name>\S+)\n\s*(?P<code>.*)')
_TORCH = re.compile(r"[\\/]site-packages[\\/]torch[\\/]")
CODE_LENGTH = 120


@dataclass(frozen=True, slots=True)
class Location:
    """A location in the module tree: dotted module name, call index, and group path."""

    module: str = ""
    call: int = 0
    group: tuple[str, ...] = ()


def frames(stack: dict[str, Any] | None) -> list[tuple[str, int, str]]:
    """Return (module path, call index, type name) from the outermost module to the innermost.

    The stack's key has the call index after an ``@``; its value's path does not. The wrapper module
    that ``torch.export`` adds around an already exported module is omitted.
    """
    locations = []
    for key, (path, type_name) in (stack or {}).items():
        name = type_name if isinstance(type_name, str) else _qualified(type_name)
        if "_aot_export_non_strict" in name:
            continue
        call = _CALL.search(str(key))
        locations.append((str(path), int(call.group(1)) if call else 0, name))
    return locations


def locate(stack: dict[str, Any] | None) -> Location | None:
    """Return the location of a module stack, or None if it is empty."""
    levels = frames(stack)
    if not levels:
        return None
    group: list[str] = []
    parent = ""
    for path, call, _ in levels:
        if path == parent:
            continue
        group.extend(_steps(parent, path))
        if call:
            group[-1] += f"@{call}"
        parent = path
    return Location(levels[-1][0], levels[-1][1], tuple(group))


def _steps(parent: str, path: str) -> list[str]:
    """Return the levels from ``parent`` to ``path``, including ModuleLists.

    A module that is also registered under another parent (an alias) is one level.
    """
    if not parent:
        return path.split(".")
    if path.startswith(f"{parent}."):
        return path[len(parent) + 1 :].split(".")
    return [path.rpartition(".")[2]]


def common(locations: list[Location]) -> Location:
    """Return the deepest location that contains all ``locations``; the root if there are none."""
    if not locations:
        return Location()
    first, *others = locations
    if all(other.group == first.group for other in others):
        return first
    depth = min(len(location.group) for location in locations)
    shared = 0
    while shared < depth and all(o.group[shared] == first.group[shared] for o in others):
        shared += 1
    modules = [location.module.split(".") if location.module else [] for location in locations]
    owner: list[str] = []
    for parts in zip(*modules, strict=False):
        if len(set(parts)) > 1:
            break
        owner.append(parts[0])
    return Location(".".join(owner), 0, first.group[:shared])


def source_line(stack_trace: str | None, *, own: bool = False) -> str:
    """Return the user's line of Python, e.g. ``net.py:12 in forward: x = self.relu(x)``.

    Folders are omitted. The innermost frame outside torch is used; without one, that of torch, or
    none if ``own``.
    """
    frames = [match for match in _FRAME.finditer(stack_trace or "") if match["file"][0] != "<"]
    if not frames:
        return ""
    users = [match for match in frames if not _TORCH.search(match["file"])]
    if own and not users:
        return ""
    frame = (users or frames)[-1]
    file = re.split(r"[\\/]", frame["file"])[-1]
    code = frame["code"].strip()
    if len(code) > CODE_LENGTH:
        code = code[:CODE_LENGTH] + "…"
    return f"{file}:{frame['line']} in {frame['name']}: {code}"


def _qualified(cls: Any) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


Program: TypeAlias = "ExportedProgram | torch.fx.GraphModule"


def list_modules(
    program: Program, modules: torch.nn.Module | Sequence[Module] | None, types: dict[str, str]
) -> tuple[Module, ...]:
    """Return every module: of the model or list if given, otherwise those in ``types``."""
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
            path,
            types.get(path, ""),
            path.rpartition(".")[0],
            sum(size for name, size in sizes.items() if not path or name.startswith(f"{path}.")),
        )
        for path in sorted(paths)
    )


def _type_name(module: torch.nn.Module) -> str:
    return f"{type(module).__module__}.{type(module).__qualname__}"


def _parameter_count(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


_NAME = "origins"
_FLOAT, _PREPARED = "float", "prepared"
Row = TypeVar("Row", IntegerQuality, NodeAnnotation, TensorQuality, TensorRange)


def keep_origins(context: StageContext, floating: GraphSnapshot, prepared: GraphSnapshot) -> None:
    """Record the origin of the nodes of a prepared graph."""
    lineage = Lineage({_FLOAT: floating, _PREPARED: prepared})
    keys = {node.id: lineage.key(_PREPARED, node.id) for node in prepared.nodes}
    origins = {name: key.root for name, key in keys.items() if key is not None}
    context.store.keep(_NAME, context.plan.key("prepare"), origins)


def with_origins(context: StageContext, rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return rows with their origin; "" if unknown."""
    key = context.plan.key("prepare")
    if context.store.get(_NAME, key) is None:
        folders = context.path("export"), context.path("prepare")
        keep_origins(context, *(GraphSnapshot.load(folder / GRAPH_FILE) for folder in folders))
    known: Mapping[str, str] = context.store.get(_NAME, key)
    return tuple(row.model_copy(update={"origin": known.get(_node(row), "")}) for row in rows)


def _node(row: IntegerQuality | NodeAnnotation | TensorQuality | TensorRange) -> str:
    return row.tensor if isinstance(row, IntegerQuality | TensorQuality) else row.node


def name_sources(program: ExportedProgram, module: torch.nn.Module, name: str) -> None:
    """Write the ONNX node of each operation where a line of Python otherwise is.

    The number of the line is that of the node among those that compute something.

    Args:
        program: The exported program, which is changed.
        module: The module that it was made from; others than converted ones change nothing.
        name: The file.
    """
    nodes: dict[str, tuple[int, str, str]] = getattr(module, "onnx_nodes", {})
    if not nodes:
        return
    for node in program.graph.nodes:
        for path, _, _ in reversed(frames(node.meta.get("nn_module_stack"))):
            if path in nodes:
                line, title, operator = nodes[path]
                node.meta["stack_trace"] = (
                    f'File "{PurePath(name).name}", line {line}, in {title}\n    {operator}'
                )
                break
