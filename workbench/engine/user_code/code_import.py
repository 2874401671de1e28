"""Imports of a project's code: from the bytes that were read and allowed, and from nowhere else.

While a project's code is installed, a folder below its folders serves only the files that were
read. Python's own bytecode files beside them are not used. The project's folders come last on the
search path, so that no file of a project replaces a module of Python or of the toolchain. A folder
that the code adds to the path must lie below the project's folder or in the environment.
"""

from __future__ import annotations

import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import sysconfig
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

from workbench.errors import Place, failure
from workbench.project.opened import OpenProject
from workbench.project.project_code import Code, CodeFolder, read_folder
from workbench.project.trust import named_code

if TYPE_CHECKING:
    from workbench.project.model import Project

_EXTENSIONS = tuple(importlib.machinery.EXTENSION_SUFFIXES)
_MODULE_SUFFIXES = importlib.machinery.all_suffixes()


def _environment() -> tuple[Path, ...]:
    """Return the folders of Python, of installed packages and of this program."""
    named = [sys.prefix, sys.base_prefix, sys.exec_prefix, *sysconfig.get_paths().values()]
    return tuple({Path(os.path.abspath(entry)) for entry in (*named, *sys.path) if entry})


@dataclass
class _State:
    """The code that is installed in this process.

    ``code`` is None outside of jobs: then nothing is refused. ``path`` and ``environment`` are the
    search path and the folders of installed packages without any project. ``is_own`` marks code
    that was read here, for a call outside of a job.
    """

    code: Code | None = None
    project: Project | None = None
    path: list[str] = field(default_factory=list)
    environment: tuple[Path, ...] = ()
    is_own: bool = False
    libraries: tempfile.TemporaryDirectory[str] | None = None


_state = _State()


def install_allowed(opened: OpenProject, digest: str) -> None:
    """Install the code of a project if it is the code that was allowed.

    Args:
        opened: The project.
        digest: The digest of the code that was allowed; "" for none.

    Raises:
        WorkbenchError: the project has other code.
    """
    code = named_code(opened)
    if code.digest != digest:
        raise failure(
            "The project's code is not the code that was allowed to run.",
            "It changed after it was allowed. Run again; the program asks for it.",
            code="code-not-trusted",
        )
    install(code)
    _state.project = opened.project


def allowed() -> dict[str, Any] | None:
    """Return the project of the installed code and its digest, for other processes; or None."""
    if _state.project is None:
        return None
    return {"project": _state.project.model_dump(mode="json"), "digest": installed().digest}


def install(code: Code) -> None:
    """Let this process import the code of one project and of no other, until ``uninstall``."""
    uninstall()
    _state.path = list(sys.path)
    _state.environment = _environment()
    sys.path_hooks.insert(0, _hook)
    _state.code, _state.project = code, None
    sys.path[:] = [*_state.path, *(str(folder) for folder in code.search)]
    sys.path_importer_cache.clear()


def uninstall() -> None:
    """Remove the code of a project, and the folders that it added to the search path."""
    if _state.code is None:
        return
    forget()
    _state.code, _state.project, _state.is_own = None, None, False
    sys.path_hooks.remove(_hook)
    sys.path[:] = _state.path
    sys.path_importer_cache.clear()


def installed() -> Code:
    """Return the code that is installed; none before the first job."""
    return _state.code or Code()


def is_trusted_program(data: bytes, path: Path) -> bool:
    """Return whether the user allowed a program of these bytes at this path."""
    digest = installed().places.get(str(path))
    return digest is not None and digest == hashlib.sha256(data).hexdigest()


def require_named(module: str, attribute: str) -> None:
    """Refuse a callable of a module that the allowed code does not name.

    Raises:
        WorkbenchError: a job runs, and its project did not name this callable when it was asked.
    """
    if _state.code is None or _state.is_own or f"{module}:{attribute}" in _state.code.callables:
        return
    raise failure(
        f"{module}:{attribute} is not part of the code that was allowed to run.",
        "Run again; the program asks for it.",
        code="code-not-trusted",
    )


def forget() -> None:
    """Remove all modules of projects from the import cache, so that edited files are read again."""
    for name, module in list(sys.modules.items()):
        if is_of_project(module):
            del sys.modules[name]


def is_of_project(module: ModuleType) -> bool:
    """Return whether a module was imported from a project's code."""
    # Not isinstance: loaders are abstract classes, which take their time for thousands of modules.
    loader = type(getattr(module, "__loader__", None))
    return loader is _SourceLoader or loader is _LibraryLoader


def import_file(path: Path, name: str) -> ModuleType:
    """Execute a file of the installed code as a module of this name.

    Raises:
        WorkbenchError: the file is not part of the code that may run.
    """
    path = Path(os.path.abspath(path))
    if _state.code is None or _state.is_own:
        # Outside of a job there is no command that carries an allowed digest.
        install(Code((), (read_folder(path.parent, [path]),), (path.parent,)))
        _state.is_own = True
    folder = _folder_of(path)
    relative = path.relative_to(folder.path).as_posix() if folder else ""
    if folder is None or relative not in folder.files:
        raise failure(
            f"{path.name} is not part of the code that was allowed to run.",
            "Run again; the program asks for it.",
            Place(kind="file", id=str(path)),
            code="code-not-trusted",
        )
    loader = _SourceLoader(name, path, folder.files[relative])
    spec = importlib.util.spec_from_loader(name, loader, origin=str(path))
    assert spec is not None
    spec.has_location = True
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


class _SourceLoader(importlib.abc.InspectLoader):
    """Compiles a module from the bytes that were read with the project's code."""

    def __init__(self, name: str, path: Path, source: bytes, *, is_package: bool = False) -> None:
        self._name, self._path, self._source = name, path, source
        self._is_package = is_package

    def get_filename(self, _name: str | None = None) -> str:
        """Return the file's path, for tracebacks."""
        return str(self._path)

    def is_package(self, _fullname: str) -> bool:
        return self._is_package

    def get_source(self, _fullname: str) -> str:
        return importlib.util.decode_source(self._source)

    def get_code(self, _fullname: str) -> CodeType:
        code: CodeType = self.source_to_code(self._source, str(self._path))
        return code


class _LibraryLoader(importlib.machinery.ExtensionFileLoader):
    """Loads a library from a private copy of the bytes whose digest was allowed."""

    def __init__(self, name: str, path: Path, digest: str) -> None:
        super().__init__(name, str(path))
        self._digest = digest

    def create_module(self, spec: Any) -> ModuleType:
        data = Path(self.path).read_bytes()
        if hashlib.sha256(data).hexdigest() != self._digest:
            raise ImportError(f"{Path(self.path).name} changed after it was allowed")
        if _state.libraries is None:
            _state.libraries = tempfile.TemporaryDirectory(prefix="workbench-code-")
        copy = Path(_state.libraries.name) / f"{self._digest[:16]}-{Path(self.path).name}"
        if not copy.exists():
            copy.write_bytes(data)
        spec.origin = str(copy)
        module: ModuleType = super().create_module(spec)
        return module


class _Finder(importlib.abc.PathEntryFinder):
    """Finds modules among the files of a project's code, for one folder of the search path."""

    def __init__(self, path: Path, folder: CodeFolder) -> None:
        self._path, self._folder = path, folder

    def find_spec(
        self, fullname: str, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        del target
        path_of_module = self._path / fullname.rpartition(".")[2]
        inside = path_of_module.relative_to(self._folder.path).as_posix()
        files = self._folder.files
        for suffix in _MODULE_SUFFIXES:
            if f"{inside}/__init__{suffix}" in files:
                return _spec(fullname, self._folder, f"{inside}/__init__{suffix}", path_of_module)
            if f"{inside}{suffix}" in files:
                return _spec(fullname, self._folder, f"{inside}{suffix}", None)
        if any(name.startswith(f"{inside}/") for name in files):
            spec = importlib.machinery.ModuleSpec(fullname, None, is_package=True)
            spec.submodule_search_locations = [str(path_of_module)]
            return spec
        return None


class _Outside(importlib.abc.PathEntryFinder):
    """Refuses modules of a folder that is neither the project's nor the environment's."""

    def __init__(self, path: str) -> None:
        self._path = path

    def find_spec(
        self, fullname: str, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        del target
        path_of_module = os.path.join(self._path, fullname.rpartition(".")[2])
        if not any(os.path.exists(f"{path_of_module}{suffix}") for suffix in ("", *_MODULE_SUFFIXES)):
            return None
        raise ImportError(
            f"{fullname} lies in {self._path}, outside of the project's folder. Save the project "
            "in a folder that holds all its code, or name the module's folder in PYTHONPATH."
        )


def _hook(entry: str) -> importlib.abc.PathEntryFinder:
    """Return the finder of a folder; raises ImportError to leave it to Python."""
    path = Path(os.path.abspath(entry))
    if (folder := _folder_of(path)) is not None and not _is_environment(path, folder.path):
        return _Finder(path, folder)
    if _is_environment(path, None) or not installed().folders or not path.is_dir():
        raise ImportError(entry)
    return _Outside(str(path))


def _folder_of(path: Path) -> CodeFolder | None:
    """Return the innermost folder of the installed code that holds a path."""
    folders = [folder for folder in installed().folders if path.is_relative_to(folder.path)]
    return max(folders, key=lambda folder: len(folder.path.parts), default=None)


def _is_environment(path: Path, inside: Path | None) -> bool:
    """Return whether a path belongs to the environment; one may lie ``inside`` a project."""
    return any(
        path.is_relative_to(own)
        for own in _state.environment
        if inside is None or (own != inside and own.is_relative_to(inside))
    )


def _spec(
    fullname: str, folder: CodeFolder, name: str, package: Path | None
) -> importlib.machinery.ModuleSpec | None:
    path = folder.path / name
    loader: _SourceLoader | _LibraryLoader
    if name.endswith(_EXTENSIONS):
        loader = _LibraryLoader(fullname, path, folder.files[name].decode())
    elif name.endswith(".py"):
        loader = _SourceLoader(fullname, path, folder.files[name], is_package=package is not None)
    else:
        return None
    locations = [str(package)] if package is not None else None
    return importlib.util.spec_from_file_location(
        fullname, path, loader=loader, submodule_search_locations=locations
    )
