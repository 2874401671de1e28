"""References to models, data and metrics, by file or module name; no code is run."""

from __future__ import annotations

import ast
import contextlib
import importlib.machinery
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from workbench.errors import ErrorInfo, Place, WorkbenchError, failure
from workbench.files import MAX_SOURCE_BYTES, MAX_TEXT_BYTES, read_limited
from workbench.project.checkpoints import foreign, weight_files
from workbench.project.model import BUILT_IN_METRICS
from workbench.project.onnx_files import external_files
from workbench.project.opened import OpenProject
from workbench.text import parse_python

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.project.model import DataSource, Project

ARRAY_SUFFIXES = (".npz", ".npy", ".pt")
TEXT_SUFFIX = ".txt"
ONNX_SUFFIX = ".onnx"
# Models in one file, which hold no code that has to run.
MODEL_SUFFIXES = (".pt2", ONNX_SUFFIX)
# The labels of pictures that lie in one folder for each class.
LABELS_OF_FOLDERS = "folders"
PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
# Texts of YOLO, one for each picture, and masks.
LABEL_SUFFIXES = (".txt", ".png")
_SUFFIXES = {"pictures": PICTURE_SUFFIXES, "labels": LABEL_SUFFIXES}
_MAX_NAME_BYTES, _MAX_PATH_BYTES = 255, 4000
# Of a folder of pictures: a walk over more takes minutes.
_MAX_ENTRIES = 1_000_000
# The most files that one file imports, directly or not.
_MAX_IMPORTED = 5_000
# The most Python that is parsed to find what one file imports; that takes seconds.
_MAX_PARSED_BYTES = 4 << 20


@dataclass(frozen=True)
class Reference:
    """A parsed reference: its kind, location and attribute name."""

    kind: Literal["program", "onnx", "file", "package", "array", "pictures", "labels", "text", "weights"]
    path: Path | None
    module: str = ""
    attribute: str = ""

    @property
    def runs_code(self) -> bool:
        """Whether using it runs the user's Python code."""
        return self.kind in {"file", "package"}


def callable_reference(spec: str, folder: Path, option: str) -> Reference:
    """Return the reference for ``FILE.py:callable`` or ``package.module:callable``."""
    head, colon, attribute = spec.rpartition(":")
    where = Place(kind="option", id=option)
    if not colon or not attribute.isidentifier() or not head:
        raise failure(
            f"{spec!r} does not name a callable.",
            "Write FILE.py:name or package.module:name."
            + (f" Or {', '.join(BUILT_IN_METRICS)}." if option == "evaluation.metric" else ""),
            where,
            code="callable-not-named",
        )
    if head.endswith(".py"):
        return Reference("file", absolute(folder, head), "", attribute)
    if all(part.isidentifier() for part in head.split(".")):
        return Reference("package", _package_file(head, folder), head, attribute)
    raise failure(
        f"{head!r} is neither a .py file nor a module name.",
        "Write FILE.py:name or package.module:name.",
        where=where,
        code="callable-invalid",
    )


def model_reference(spec: str, folder: Path) -> Reference:
    """Return the reference for a model SPEC; no code is run."""
    if spec.endswith(".pt2"):
        return Reference("program", absolute(folder, spec))
    if spec.endswith(ONNX_SUFFIX):
        return Reference("onnx", absolute(folder, spec))
    if ":" not in spec[2:]:
        if (problem := foreign(absolute(folder, spec), "model.spec")) is not None:
            raise WorkbenchError([problem])
        raise failure(
            f"{spec!r} is not a model reference.",
            "Give FILE.pt2, FILE.onnx, FILE.py:callable or package.module:callable.",
            Place(kind="option", id="model.spec"),
            code="model-spec-invalid",
        )
    return callable_reference(spec, folder, "model.spec")


def data_reference(spec: str, folder: Path, option: str) -> Reference:
    """Return the reference for a data SPEC."""
    if spec.endswith(ARRAY_SUFFIXES):
        return Reference("array", absolute(folder, spec))
    if spec.endswith(TEXT_SUFFIX):
        return Reference("text", absolute(folder, spec))
    if ".py:" in spec:
        return callable_reference(spec, folder, option)
    path = absolute(folder, spec)
    if os.path.isdir(path):
        return Reference("pictures", path)
    if ":" in spec[2:] and not os.path.exists(path):
        return callable_reference(spec, folder, option)
    raise failure(
        f"No data at {spec!r}.",
        "Give FILE.npz, FILE.npy, FILE.pt, FILE.txt, a folder of pictures, or FILE.py:callable.",
        Place(kind="option", id=option),
        code="data-missing",
    )


def labels_reference(spec: str, folder: Path, option: str) -> Reference:
    """Return the reference for labels: arrays, a .json file, or a folder of texts or masks."""
    if spec.endswith(".json"):
        return Reference("array", absolute(folder, spec))
    path = absolute(folder, spec)
    if os.path.isdir(path):
        return Reference("labels", path)
    return data_reference(spec, folder, option)


def tokenizer_reference(spec: str, folder: Path, option: str) -> Reference:
    """Return the reference for a tokenizer: a ``tokenizer.json``, or a callable."""
    if spec.endswith(".json"):
        return Reference("array", absolute(folder, spec))
    return callable_reference(spec, folder, option)


def reads_text(project: Project) -> bool:
    """Return whether the calibration samples are tokens of a text."""
    return project.calibration is not None and project.calibration.spec.endswith(TEXT_SUFFIX)


def pictures(folder: Path, most: int = _MAX_ENTRIES) -> list[Path]:
    """Return the pictures below a folder, as ``files_below`` does."""
    return files_below(folder, PICTURE_SUFFIXES, most)


def files_below(folder: Path, suffixes: tuple[str, ...], most: int = _MAX_ENTRIES) -> list[Path]:
    """Return the files with these endings below a folder, sorted.

    Folders on other file systems and links to folders are left out.

    Raises:
        WorkbenchError: the folder holds more than ``most`` files and folders; no more are listed.
    """
    files: list[Path] = []
    entries, device, waiting = 0, folder.stat().st_dev, [folder]
    while waiting:
        parent = waiting.pop()
        folders, names = _listed(parent, most + 1 - entries)
        entries += len(names) + len(folders)
        if entries > most:
            raise failure(
                f"{folder} holds more than {most:,} files.",
                "Choose the folder that holds the data only.",
                Place(kind="file", id=str(folder)),
                code="data-folder-too-large",
            )
        waiting += [path for name in folders if _is_on(path := parent / name, device)]
        files += [parent / name for name in names if name.lower().endswith(suffixes)]
    return sorted(files, key=lambda p: p.relative_to(folder).as_posix())


def _listed(folder: Path, most: int) -> tuple[list[str], list[str]]:
    """Return the names of folders, without links to some, and of files in a folder, ``most`` at most."""
    folders, names = [], []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in islice(entries, most):
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            elif not (entry.is_symlink() and os.path.isdir(entry.path)):
                names.append(entry.name)
    return folders, names


def _is_on(folder: Path, device: int) -> bool:
    try:
        return folder.lstat().st_dev == device
    except OSError:
        return False


def files_of(reference: Reference) -> list[Path]:
    """Return every file whose content determines the referenced object.

    For code: the file and, recursively, the modules beside it that it imports.
    """
    if reference.path is None:
        return []
    if reference.kind in _SUFFIXES:
        return files_below(reference.path, _SUFFIXES[reference.kind])
    if reference.kind == "weights":
        return weight_files(reference.path)
    if reference.kind == "onnx":
        return [reference.path, *external_files(reference.path)]
    is_source = reference.path.suffix == ".py"
    if reference.kind == "file" or (reference.kind == "package" and is_source):
        return sorted(_import_closure(reference.path))
    return [reference.path]


def data_references(data: DataSource, folder: Path, option: str) -> Iterator[tuple[str, Reference]]:
    """Yield the references of a data source, each with the name of its option.

    Raises:
        WorkbenchError: one is invalid.
    """
    for name, parse in _parsers_of_data(data, folder, option):
        yield name, parse()


def references(opened: OpenProject) -> Iterator[tuple[str, Reference]]:
    """Yield every reference of the project with the name of its option.

    Raises:
        WorkbenchError: one is invalid.
    """
    for option, parse in _parsers(opened):
        yield option, parse()


def valid_references(opened: OpenProject) -> Iterator[tuple[str, Reference]]:
    """Yield every reference of the project that is valid; nothing can be loaded by the others."""
    for option, parse in _parsers(opened):
        with contextlib.suppress(WorkbenchError):
            yield option, parse()


_Parser = Callable[[], Reference]


def _parsers_of_data(data: DataSource, folder: Path, option: str) -> Iterator[tuple[str, _Parser]]:
    name = f"{option}.spec"
    yield name, partial(data_reference, data.spec, folder, name)
    if data.labels and data.labels != LABELS_OF_FOLDERS:
        name = f"{option}.labels"
        yield name, partial(labels_reference, data.labels, folder, name)
    if data.tokens and data.tokens.tokenizer:
        name = f"{option}.tokens.tokenizer"
        yield name, partial(tokenizer_reference, data.tokens.tokenizer, folder, name)


def _parsers(opened: OpenProject) -> Iterator[tuple[str, _Parser]]:
    """Yield the name of every option that refers to something, and what parses its reference."""
    project, folder = opened.project, opened.folder
    model = project.model
    yield "model.spec", partial(model_reference, model.spec, folder)
    if model.inputs:
        yield "model.inputs", partial(_file_reference, "array", model.inputs, folder)
    if model.weights:
        yield "model.weights", partial(_file_reference, "weights", model.weights, folder)
    if project.trained_weights:
        option = "trained_weights"
        yield option, partial(_file_reference, "array", project.trained_weights, folder)
    if project.training_function:
        option = "training_function"
        yield option, partial(callable_reference, project.training_function, folder, option)
    for spec in dict.fromkeys(spec for _, _, spec in project.taken_from_plugins()):
        yield "plugins", partial(callable_reference, spec, folder, "plugins")
    if project.calibration:
        yield from _parsers_of_data(project.calibration, folder, "calibration")
    if project.evaluation.data:
        yield from _parsers_of_data(project.evaluation.data, folder, "evaluation.data")
    evaluation = project.evaluation
    for option, code in (
        ("evaluation.metric", evaluation.own_metric),
        ("evaluation.decode", evaluation.decode),
    ):
        if code:
            yield option, partial(callable_reference, code, folder, option)


def _file_reference(kind: Literal["array", "weights"], name: str, folder: Path) -> Reference:
    return Reference(kind, absolute(folder, name))


def missing(opened: OpenProject) -> WorkbenchError | None:
    """Return one error that lists everything the project names and the disk lacks."""
    infos: list[ErrorInfo] = []
    try:
        for option, reference in references(opened):
            if reference.path is not None and not os.path.exists(reference.path):
                infos.extend(
                    failure(
                        f"{reference.path.name} does not exist.",
                        f"Searched in {reference.path.parent.name or '.'}/. Correct the path.",
                        Place(kind="option", id=option),
                        code="source-file-missing",
                    ).infos
                )
            elif reference.kind == "package" and reference.path is None:
                infos.extend(
                    failure(
                        f"The module {reference.module} is not installed.",
                        "Install it in the workbench's environment or correct the name.",
                        Place(kind="option", id=option),
                        code="module-not-installed",
                    ).infos
                )
    except WorkbenchError as error:
        infos.extend(error.infos)
    return WorkbenchError(infos) if infos else None


def is_folder(spec: str, folder: Path) -> bool:
    """Return whether a data SPEC names a folder, which holds pictures."""
    return os.path.isdir(absolute(folder, spec))


def absolute(folder: Path, name: str) -> Path:
    """Return a path of the project as an absolute one; links are not resolved.

    Raises:
        WorkbenchError: no file system can hold a file of that name.
    """
    path = Path(os.path.normpath(folder / name))
    parts = [os.fsencode(part) for part in path.parts]
    if max(map(len, parts)) > _MAX_NAME_BYTES or sum(map(len, parts)) > _MAX_PATH_BYTES:
        raise failure(
            f"The path {name[:60]}... is too long for a file.",
            "Correct the path.",
            Place(kind="file", id=name[:60]),
            code="path-too-long",
        )
    return path


def _package_file(module: str, folder: Path) -> Path | None:
    """Find a module's file as the engine would, but without importing its parents.

    Installed modules come first, the project's folder last, the current folder not at all.
    """
    search = [Path(entry) for entry in sys.path if os.path.isabs(entry)]
    search.append(Path(os.path.abspath(folder)))
    file: Path | None = None
    for part in module.split("."):
        file, search = _module_in(search, part)
    return file


def _module_in(search: list[Path], name: str) -> tuple[Path | None, list[Path]]:
    """Return a module's file, None for a namespace package, and where its submodules are."""
    namespaces: list[Path] = []
    for folder in search:
        inside = folder / name
        for suffix in importlib.machinery.all_suffixes():
            if os.path.isfile(file := inside / f"__init__{suffix}"):
                return file, [inside]
            if os.path.isfile(file := folder / f"{name}{suffix}"):
                return file, []
        if os.path.isdir(inside):
            namespaces.append(inside)
    return None, namespaces


def _import_closure(start: Path) -> set[Path]:
    """Return a file and what it imports beside it; at most ``_MAX_IMPORTED`` files.

    Sources beyond ``_MAX_PARSED_BYTES`` are searched for words instead of being parsed.
    """
    done: set[Path] = set()
    queue, left = [start], _MAX_PARSED_BYTES
    while queue and len(done) < _MAX_IMPORTED:
        path = queue.pop()
        if path in done:
            continue
        done.add(path)
        try:
            state = path.stat()
        except OSError:
            continue
        left -= state.st_size
        key = (state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino)
        queue.extend(_local_imports(path, key, is_parsed=left >= 0))
    return done


def _local_imports(path: Path, state: tuple[int, ...], *, is_parsed: bool) -> Iterator[Path]:
    for name in _imported_names(path, state, is_parsed):
        stem = path.parent / Path(*name.split("."))
        for candidate in (stem.with_suffix(".py"), stem / "__init__.py"):
            if os.path.isfile(candidate):
                yield candidate


# An import at the beginning of a line or behind a semicolon, with its names.
_IMPORT = re.compile(rb"(?:^|;)[ \t]*(?:from|import)[ \t]([^;\n#]*)", re.MULTILINE)


def _words_of_imports(source: bytes) -> Iterator[str]:
    """Yield what a source may import, without parsing it: every dotted name of its imports."""
    for match in _IMPORT.finditer(source):
        words = re.findall(r"[\w.]+", match[1].decode(errors="replace"))
        yield from (word.strip(".") for word in words)
        # The second word of a from-import is "import".
        yield from (f"{words[0]}.{word}".strip(".") for word in words[2:])


@lru_cache(maxsize=512)
def _imported_names(path: Path, state: tuple[int, ...], is_parsed: bool) -> tuple[str, ...]:
    """Return the modules a file imports that may lie beside it; every plan asks."""
    del state
    try:
        source = read_limited(path, MAX_TEXT_BYTES)
        if not is_parsed or len(source) > MAX_SOURCE_BYTES:
            return tuple(dict.fromkeys(_words_of_imports(source)))
        tree = parse_python(source)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            names += [base, *(f"{base}.{alias.name}".lstrip(".") for alias in node.names)]
    return tuple(n for n in names if n and n.split(".")[0] not in sys.stdlib_module_names)
