"""The Python code of a project: every importable file below its folders, read once, with a digest.

A project runs code of the folder that holds it, as a whole: which of the files are imported is
known only when they run. Code elsewhere is read with the folder that holds it. Links to files are
read like files; links to folders are not followed, and nothing below them can be imported.

A reference that is invalid loads nothing, and a file that cannot be read, or is no regular file, is
no part of the code: the engine serves only what was read here. So neither hides other code from
the question, and neither refuses the rest of it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib.machinery
import json
import os
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.errors import Place, failure
from workbench.files import file_digest, read_limited
from workbench.installation import resources
from workbench.project import pt2, sources
from workbench.project.checkpoints import CONVERT_MODULE, form_of
from workbench.project.opened import OpenProject

if TYPE_CHECKING:
    from workbench.project.sources import Reference

# The program's own samples and recipes; copies of them are asked for like any code.
SAMPLES = resources() / "samples"
_BUNDLED = (SAMPLES, resources() / "recipes")
MODULE_SUFFIXES = (".py", *importlib.machinery.EXTENSION_SUFFIXES)
# Larger folders contribute only the files that the named code imports.
MAX_FILES = 5_000
_MAX_ENTRIES = 300_000
# Sources are kept as they were read; of libraries only the digest is.
_MAX_SOURCES_BYTES = 64 << 20
_MAX_LIBRARIES_BYTES = 1 << 30
_SKIPPED = {"__pycache__", "node_modules", "site-packages"}


@dataclass(frozen=True)
class CodeUse:
    """One piece of user code: the option that refers to it, its files, and why it runs.

    ``instead`` says how to do without it.
    """

    option: str
    files: tuple[Path, ...]
    why: str
    instead: str = ""


@dataclass(frozen=True)
class CodeFolder:
    """A folder with code.

    ``files`` maps paths relative to it, with slashes, to contents; a library that is no Python
    source is given by its digest only. ``unread`` maps those that cannot be imported to why.
    """

    path: Path
    files: Mapping[str, bytes] = field(repr=False)
    unread: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def digests(self) -> dict[str, str]:
        """The sha256 of every file, in hex."""
        return {
            name: hashlib.sha256(data).hexdigest() if name.endswith(".py") else data.decode()
            for name, data in sorted(self.files.items())
        }

    @cached_property
    def digest(self) -> str:
        """One digest of all files; it changes when one is added, changed, renamed or removed."""
        return hashlib.sha256(json.dumps(self.digests).encode()).hexdigest()


@dataclass(frozen=True)
class Code:
    """The code of a project.

    ``places`` are what the user is asked about: folders, programs that may run code, and callables
    of installed packages, each with the digest of its content. ``search`` are the folders that hold
    the named files; imports look there last. ``callables`` are those of modules that the project
    names, ``module:name``: no other is loaded. ``named`` are the files that it names.
    """

    uses: tuple[CodeUse, ...] = ()
    folders: tuple[CodeFolder, ...] = ()
    search: tuple[Path, ...] = ()
    places: Mapping[str, str] = field(default_factory=dict)
    callables: frozenset[str] = frozenset()
    named: tuple[Path, ...] = ()

    @cached_property
    def digest(self) -> str:
        """One digest of everything that is asked about; "" if there is nothing to ask."""
        if not self.places:
            return ""
        return hashlib.sha256(json.dumps(sorted(self.places.items())).encode()).hexdigest()

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file that is asked about, those that the project names first."""
        named = [file for use in self.uses for file in use.files]
        below = [f.path / name for f in self.folders if str(f.path) in self.places for name in f.files]
        return tuple(dict.fromkeys([*named, *below]))


def code_used(opened: OpenProject) -> list[CodeUse]:
    """Return all code that a run executes and that the user is asked about."""
    uses = []
    for option, reference in sources.valid_references(opened):
        path = reference.path
        if path is not None and is_bundled(path):
            continue
        if reference.runs_code:
            imported = (p for p in sources.files_of(reference) if os.path.isfile(p))
            files = tuple(sorted(imported, key=lambda file: file != path))
            name = reference.module or (path.name if path else "")
            uses.append(CodeUse(option, files, f"runs {name}, function {reference.attribute}"))
        elif reference.kind == "weights" and path is not None:
            pickled = tuple(p for p in sources.files_of(reference) if form_of(p) == "module")
            if pickled:
                instead = CONVERT_MODULE.replace("{name}", path.name)
                why = f"unpickles the module in {path.name}"
                uses.append(CodeUse(option, pickled, why, instead))
        elif reference.kind == "program" and path is not None:
            uses.extend(CodeUse(option, (path,), f"{path.name} {risk}") for risk in pt2.risks(path))
    return uses


def read_code(opened: OpenProject) -> Code:
    """Return the code of a project whose paths are relative to ``folder``.

    Raises:
        WorkbenchError: the code that the project names and what it imports are too large.
    """
    home = Path(os.path.abspath(opened.folder))
    named: dict[Path, list[Path]] = {}
    digests: dict[str, str] = {}
    callables = set()
    references = list(sources.valid_references(opened))
    for _, reference in references:
        root = _root_of(reference, home)
        if root is not None and reference.path is not None:
            named.setdefault(root, []).append(reference.path)
        if reference.kind == "package":
            callables.add(f"{reference.module}:{reference.attribute}")
            if root is None:
                digests[f"{reference.module}:{reference.attribute}"] = _package_digest(reference)
    read = {root: read_folder(root, files) for root, files in named.items()}
    uses = code_used(opened)
    options = {option for option, r in references if r.kind in {"program", "weights"}}
    for use in uses:
        if use.option in options:
            digests.update({str(file): _digest(file) for file in use.files})
    digests.update({str(root): code.digest for root, code in read.items() if not is_bundled(root)})
    paths = [file for files in named.values() for file in files]
    search = tuple(dict.fromkeys([*read, *(file.parent for file in paths)]))
    folders = tuple(read.values())
    return Code(tuple(uses), folders, search, digests, frozenset(callables), tuple(paths))


def read_folder(root: Path, named: list[Path] | None = None) -> CodeFolder:
    """Return the code below a folder.

    Args:
        root: The folder.
        named: Files that the project names. A folder with more than ``MAX_FILES`` files, or with
            more than the most bytes of code, contributes these and what they import.

    Raises:
        WorkbenchError: the named files and what they import are too large.
    """
    names = _names_below(root)
    if names is not None:
        names += _other_spellings(root, names, named or [])
        if (code := _read_files(root, names)) is not None:
            return code
    closure = {file for path in named or () for file in sources.files_of(sources.Reference("file", path))}
    names = sorted(f.relative_to(root).as_posix() for f in closure if f.is_relative_to(root))
    code = _read_files(root, names)
    if code is None:
        raise failure(
            f"The code below {root} takes more than {_MAX_SOURCES_BYTES >> 20} MiB of Python or "
            f"{_MAX_LIBRARIES_BYTES >> 20} MiB of libraries.",
            "Move the project and its code to a folder of their own.",
            Place(kind="file", id=str(root)),
            code="code-folder-too-large",
        )
    return code


def _other_spellings(root: Path, names: list[str], named: list[Path]) -> list[str]:
    """Return the names of listed files as the project spells them, where the system takes both.

    Some file systems ignore case, or list the letters of a name in another normal form.
    """
    spellings: list[str] = []
    for path in {Path(os.path.abspath(path)) for path in named}:
        name = path.relative_to(root).as_posix() if path.is_relative_to(root) else ""
        if name and name not in names:
            alike = (root / listed for listed in names if _folded(listed) == _folded(name))
            with contextlib.suppress(OSError):
                spellings += [name for listed in alike if os.path.samefile(listed, path)]
    return spellings


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _read_files(root: Path, names: list[str]) -> CodeFolder | None:
    """Return what can be read of some files below a folder; None if it is too much."""
    files: dict[str, bytes] = {}
    unread: dict[str, str] = {}
    left = {".py": _MAX_SOURCES_BYTES, "library": _MAX_LIBRARIES_BYTES}
    for name in names:
        path = root / name
        kind = ".py" if name.endswith(".py") else "library"
        try:
            if kind == ".py":
                files[name] = read_limited(path, left[kind])
                left[kind] -= len(files[name])
            else:
                size = path.stat().st_size
                left[kind] -= size
                if left[kind] < 0:
                    return None
                files[name] = file_digest(path, size).encode()
        except OSError as error:
            if error.errno == errno.EFBIG:
                return None
            if os.path.lexists(path):
                unread[name] = error.strerror or str(error)
    return CodeFolder(root, files, unread)


def is_bundled(path: Path) -> bool:
    """Return whether a file belongs to the program's own samples and recipes.

    A link to a sample, or below a sample, does not.
    """
    path = Path(os.path.abspath(path))
    for own in _BUNDLED:
        if path.is_relative_to(own):
            inner = (part for part in (path, *path.parents) if part.is_relative_to(own))
            return not any(part.is_symlink() for part in inner if part != own)
    return False


def _root_of(reference: Reference, home: Path) -> Path | None:
    """Return the folder that is read for a reference; None if it names no file of the user."""
    if not reference.runs_code or reference.path is None:
        return None
    path = Path(os.path.abspath(reference.path))
    if is_bundled(path):
        return path.parent
    if path.is_relative_to(home):
        return home
    return path.parent if reference.kind == "file" else None


def _names_below(root: Path) -> list[str] | None:
    """Return the importable files below a folder, sorted; None if there are too many."""
    names: list[str] = []
    for entries, name in enumerate(_walk(root)):
        if entries > _MAX_ENTRIES or len(names) > MAX_FILES:
            return None
        if name.endswith(MODULE_SUFFIXES):
            names.append(name)
    return sorted(names)


def _walk(root: Path) -> Iterator[str]:
    """Yield the names of all files and folders below a folder, folders with a slash.

    Hidden folders and environments are left out.
    """
    waiting = [""]
    while waiting:
        prefix = waiting.pop()
        try:
            with os.scandir(root / prefix) as iterator:
                entries = list(iterator)
        except OSError:
            continue
        if prefix and any(entry.name == "pyvenv.cfg" for entry in entries):
            continue
        for entry in entries:
            name = f"{prefix}{entry.name}"
            if not entry.is_dir(follow_symlinks=False):
                yield name
            elif entry.name not in _SKIPPED and not entry.name.startswith("."):
                yield f"{name}/"
                waiting.append(f"{name}/")


def _package_digest(reference: Reference) -> str:
    """Return one digest of an installed module and what it imports beside it."""
    sha = hashlib.sha256()
    for file in sources.files_of(reference):
        sha.update(f"{file}\0{_digest(file)}\0".encode())
    return sha.hexdigest()


def _digest(path: Path) -> str:
    """Return the digest of a file, or why it cannot be read, which no file has as its digest."""
    try:
        return file_digest(path)
    except OSError as error:
        return f"unreadable: {error.strerror or error}"
