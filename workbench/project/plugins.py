"""Plug-in contents, read from their source without running it.

A plug-in is a Python file, or an installed module that a package names as an entry point of
``GROUP``. It lists what it provides in up to four top-level lists of names::

    CONFIGS = [narrow]          # functions, ``narrow(*, is_qat) -> QuantizationConfig``
    OBSERVERS = [SkipsFirst]    # classes of torchao's observers
    FINDERS = [FirstLayers]     # classes of ExecuTorch's ``NodeFinder``, made without arguments
    QUANTIZERS = [Rows]         # classes of torchao's ``Quantizer``, made without arguments

The first line of their docstrings is their title. ``engine/quantization/plugins.py`` has the types and loads
them.
"""

from __future__ import annotations

import ast
import importlib.metadata
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.errors import ErrorInfo, Place, WorkbenchError, failure, reason_of
from workbench.files import MAX_SOURCE_BYTES, read_limited
from workbench.project import sources
from workbench.project.opened import OpenProject
from workbench.text import parse_python

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.project.configs import PluginRole

GROUP = "quantization_workbench.plugins"
TABLES: dict[str, PluginRole] = {
    "CONFIGS": "config",
    "OBSERVERS": "observer",
    "FINDERS": "finder",
    "QUANTIZERS": "quantizer",
}
_OPTION = "plugins"


@dataclass(frozen=True)
class PluginItem:
    """One item of a plug-in; ``reference`` is ``FILE.py:name`` or ``module:name``."""

    role: PluginRole
    reference: str
    title: str

    @property
    def name(self) -> str:
        """Its name inside the plug-in."""
        return self.reference.rpartition(":")[2]

    @property
    def words(self) -> str:
        """The name and its title."""
        return f"{self.name}: {self.title}" if self.title else self.name


@cache
def installed() -> tuple[str, ...]:
    """Return the modules that installed packages register as plug-ins."""
    return tuple(sorted({point.value for point in importlib.metadata.entry_points(group=GROUP)}))


def items_of(plugin: str, folder: Path) -> tuple[PluginItem, ...]:
    """Return the items of a plug-in, in its own order.

    Args:
        plugin: ``FILE.py``, or the name of an installed module.
        folder: Base of the project's relative paths.

    Raises:
        WorkbenchError: it does not exist, is not Python, or its lists contain more than names.
    """
    path = sources.callable_reference(f"{plugin}:plugin", folder, _OPTION).path
    where = Place(kind="option", id=_OPTION)
    try:
        state = path.stat() if path is not None else None
    except OSError:
        state = None
    if path is None or state is None:
        raise failure(
            f"The plug-in {plugin} does not exist.",
            "Correct its path or install it.",
            where,
            code="plugin-missing",
        )
    items = _read(path, state.st_mtime_ns, state.st_size)
    if isinstance(items, str):
        message = f"The plug-in {Path(plugin).name} cannot be read: {items}"
        raise failure(
            message, "The guide describes the contents of a plug-in.", where, code="plugin-unreadable"
        )
    return tuple(PluginItem(role, f"{plugin}:{name}", title) for role, name, title in items)


def offered(opened: OpenProject, role: PluginRole) -> list[PluginItem]:
    """Return the readable items of a role from the project's and installed plug-ins."""
    items: list[PluginItem] = []
    for plugin in (*opened.project.plugins, *installed()):
        try:
            items += [item for item in items_of(plugin, opened.folder) if item.role == role]
        except WorkbenchError:
            continue
    return items


def problems(opened: OpenProject) -> Iterator[ErrorInfo]:
    """Yield the problems of plug-ins and of rules that use them."""
    for plugin in opened.project.plugins:
        try:
            items_of(plugin, opened.folder)
        except WorkbenchError as error:
            yield from error.infos
    for rule, role, reference in opened.project.taken_from_plugins():
        yield from _absent(role, reference, opened.folder, Place(kind="rule", id=rule))


def _absent(role: PluginRole, reference: str, folder: Path, where: Place) -> Iterator[ErrorInfo]:
    plugin, _, name = reference.rpartition(":")
    try:
        known = [item.name for item in items_of(plugin, folder) if item.role == role]
    except WorkbenchError as error:
        yield from (info.model_copy(update={"where": where}) for info in error.infos)
        return
    if name not in known:
        table = next(table for table, of in TABLES.items() if of == role)
        yield ErrorInfo(
            message=f"The plug-in {Path(plugin).name} has no {role} {name}.",
            hint=f"Available: {', '.join(known)}." if known else f"It has no list {table}.",
            where=where,
            code="plugin-item-unknown",
        )


@lru_cache(maxsize=64)
def _read(path: Path, modified_ns: int, size: int) -> tuple[tuple[PluginRole, str, str], ...] | str:
    """Return role, name and title of every item in a file, or an error message."""
    del modified_ns, size
    try:
        tree = parse_python(read_limited(path, MAX_SOURCE_BYTES))
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}."
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        return f"{reason_of(error)}."
    titles = {
        node.name: (ast.get_docstring(node) or "").split("\n")[0].rstrip(".")
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    items = []
    for table, value in _tables(tree):
        if not isinstance(value, ast.List | ast.Tuple):
            return f"line {value.lineno}: {table} is not a list of names."
        for element in value.elts:
            if not isinstance(element, ast.Name):
                return f"line {element.lineno}: {table} contains more than names."
            items.append((TABLES[table], element.id, titles.get(element.id, "")))
    return tuple(items) or f"it has none of {', '.join(TABLES)}."


def _tables(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            targets = [node.target]
        for target in targets:
            if isinstance(target, ast.Name) and target.id in TABLES:
                assert isinstance(node, ast.Assign | ast.AnnAssign)
                assert node.value is not None
                yield target.id, node.value
