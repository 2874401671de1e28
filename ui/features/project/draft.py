"""What the form of a new project means: its callables, shapes, pictures, and the project itself."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from ui.state.document import translated
from ui.state.relocate import relative_to
from workbench.deploy import boards
from workbench.errors import ErrorInfo, Place, WorkbenchError
from workbench.files import MAX_SOURCE_BYTES, read_limited
from workbench.project.edits import assign
from workbench.project.model import (
    DataSource,
    Evaluation,
    ModelSource,
    Preprocess,
    Project,
    TargetChoice,
    Tokenization,
)
from workbench.project.opened import OpenProject
from workbench.project.preprocessing import preprocess_of
from workbench.project.sources import LABELS_OF_FOLDERS, missing
from workbench.targets import target_of
from workbench.text import parse_python

_NO_FUNCTION = (
    "{} has no function without arguments that gives samples. Write one that yields inputs, or "
    "(inputs, label)."
)
# Longest chain of base classes that is followed in one file.
_DEEPEST = 8


@dataclass(frozen=True)
class Draft:
    """The texts of the form. Paths are absolute or relative to ``folder``."""

    folder: Path
    target: TargetChoice
    name: str = ""
    model: str = ""
    attribute: str = ""
    shapes: str = ""
    weights: str = ""
    data: str = ""
    evaluation: str = ""
    has_classes: bool = False
    size: str = ""
    crop: str = ""
    mean: str = ""
    std: str = ""
    labels: str = ""
    tokenizer: str = ""
    length: int = 0
    metric: str = ""
    preset: str = "a8w8"
    board: str = ""


def callables_of(path: Path) -> list[str]:
    """Return the callables of a Python file that may return the model, without running it.

    First those that need no arguments: functions that return a network of the file with its example
    inputs, classes with a ``forward`` that no other class of the file uses, other classes with one,
    functions. Then the rest in the same order.
    """
    body = _statements(path)
    classes = {node.name: node for node in body if isinstance(node, ast.ClassDef)}
    used = {
        inner.id
        for name, node in classes.items()
        for inner in ast.walk(node)
        if isinstance(inner, ast.Name) and inner.id != name
    }
    nodes = [n for n in body if isinstance(n, ast.ClassDef | ast.FunctionDef)]
    ordered = sorted(nodes, key=lambda node: _rank(node, classes, used))
    return [n.name for n in ordered if not n.name.startswith("_")]


def is_class(path: Path, name: str) -> bool:
    """Return whether a Python file defines a class of that name, without running it."""
    return any(isinstance(node, ast.ClassDef) and node.name == name for node in _statements(path))


def samples_functions_of(path: Path) -> list[str]:
    """Return the functions of a Python file that may give samples, without running it.

    They need no arguments. Those that yield come first.
    """
    functions = [
        node
        for node in _statements(path)
        if isinstance(node, ast.FunctionDef)
        and not node.name.startswith("_")
        and not _needs_arguments(node.args)
    ]
    functions.sort(key=lambda node: not any(isinstance(n, ast.Yield | ast.YieldFrom) for n in ast.walk(node)))
    return [node.name for node in functions]


def _statements(path: Path) -> list[ast.stmt]:
    """Return the statements of a Python file; none if it cannot be read."""
    try:
        return parse_python(read_limited(path, MAX_SOURCE_BYTES)).body
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _rank(
    node: ast.ClassDef | ast.FunctionDef, classes: Mapping[str, ast.ClassDef], used: Collection[str]
) -> tuple[bool, int]:
    """Return whether a callable needs arguments, and the order of its kind."""
    if isinstance(node, ast.FunctionDef):
        return _needs_arguments(node.args), -1 if _returns_inputs(node, classes) else 2
    methods = _methods(node, classes)
    init = methods.get("__init__")
    needs = init is not None and _needs_arguments(init.args, bound=1)
    order = 0 if node.name not in used else 1
    return needs, order if "forward" in methods else 3


def _returns_inputs(node: ast.FunctionDef, classes: Mapping[str, ast.ClassDef]) -> bool:
    """Return whether a function returns ``(model, inputs)``, and its model is a network of the file."""
    networks = {name for name, kind in classes.items() if "forward" in _methods(kind, classes)}
    inside = list(ast.walk(node))
    has_network = any(isinstance(n, ast.Name) and n.id in networks for n in inside)
    return has_network and any(
        isinstance(n, ast.Return) and isinstance(n.value, ast.Tuple) and len(n.value.elts) == 2
        for n in inside
    )


def _methods(
    node: ast.ClassDef, classes: Mapping[str, ast.ClassDef], depth: int = 0
) -> dict[str, ast.FunctionDef]:
    """Return the methods of a class, including those of its bases in the same file."""
    methods: dict[str, ast.FunctionDef] = {}
    for base in reversed(node.bases):
        if isinstance(base, ast.Name) and base.id in classes and depth < _DEEPEST:
            methods |= _methods(classes[base.id], classes, depth + 1)
    return methods | {n.name: n for n in node.body if isinstance(n, ast.FunctionDef)}


def _needs_arguments(arguments: ast.arguments, bound: int = 0) -> bool:
    """Return whether a call must pass arguments; the first ``bound`` are passed anyway."""
    positional = [*arguments.posonlyargs, *arguments.args]
    required = len(positional) - len(arguments.defaults) - bound
    return required > 0 or any(default is None for default in arguments.kw_defaults)


def parse_shapes(text: str) -> tuple[tuple[int, ...], ...]:
    """Return shapes from e.g. ``1x3x224x224; 1x10``.

    Raises:
        ValueError: a part is not a shape.
    """
    shapes = []
    for part in filter(None, (p.strip() for p in text.split(";"))):
        if not re.fullmatch(r"\d+([x\u00d7]\d+)*", part):
            raise ValueError(part)
        shapes.append(tuple(int(size) for size in re.split(r"[x\u00d7]", part)))
    return tuple(shapes)


def build(draft: Draft) -> OpenProject:
    """Return the project that a draft describes.

    Raises:
        WorkbenchError: all errors, each with its field.
    """
    problems: list[ErrorInfo] = []
    if not draft.model:
        problems.append(_problem("model.spec", "Choose a model."))
    try:
        shapes = parse_shapes(draft.shapes)
    except ValueError as error:
        shapes = ()
        problems.append(_problem("model.input_shapes", f"{error} is not a shape, e.g. 1x3x224x224."))
    problems += [*_without_callable(draft), *_without_function(draft)]
    preprocess = None
    if draft.size:
        try:
            preprocess = _preprocess(draft)
        except WorkbenchError as error:
            message = f"{error.infos[0].message} Example: size 256, crop 224, mean 0.5, std 0.5."
            problems.append(_problem("calibration.preprocess", message))
    if problems:
        raise WorkbenchError(problems)
    try:
        project = _assemble(draft, shapes, preprocess)
    except ValidationError as error:
        raise translated(error) from None
    problems = list(target_of(project.target.id).check(project.target, draft.folder))
    opened = OpenProject(project, draft.folder)
    problems += boards.problems(opened)
    if (lacking := missing(opened)) is not None:
        problems += lacking.infos
    if problems:
        raise WorkbenchError(problems)
    return opened


def _without_callable(draft: Draft) -> list[ErrorInfo]:
    """Return the problem of a model in a Python file of which no callable was chosen."""
    if not draft.model.endswith(".py") or draft.attribute:
        return []
    file = draft.folder / draft.model
    lack = (_syntax_error(file) or "has no class or function") if os.path.isfile(file) else "does not exist"
    return [_problem("model.spec", f"{file.name} {lack}.")]


def _syntax_error(file: Path) -> str:
    """Return that a Python file cannot be parsed, with the line; "" if it can, or cannot be read."""
    try:
        parse_python(read_limited(file, MAX_SOURCE_BYTES))
    except SyntaxError as error:
        return f"is no valid Python: line {error.lineno}, {error.msg}"
    except (OSError, ValueError, RecursionError, MemoryError):
        return ""
    return ""


def _without_function(draft: Draft) -> list[ErrorInfo]:
    """Return the problems of data from Python files of which no function was chosen."""
    spec_by_option = {"calibration.spec": draft.data, "evaluation.data.spec": draft.evaluation}
    return [
        _problem(option, _NO_FUNCTION.format(Path(text).name))
        for option, text in spec_by_option.items()
        if text.endswith(".py")
    ]


def _assemble(draft: Draft, shapes: tuple[tuple[int, ...], ...], preprocess: Preprocess | None) -> Project:
    spec = _relative(draft.model, draft.folder)
    if spec.endswith(".py"):
        spec = f"{spec}:{draft.attribute}"
    data = None
    if draft.data:
        spec_of_data = _relative(draft.data, draft.folder)
        if draft.length:
            tokenizer = _relative(draft.tokenizer, draft.folder) if draft.tokenizer else ""
            tokens = Tokenization(tokenizer=tokenizer, length=draft.length)
            data = DataSource(spec=spec_of_data, tokens=tokens)
        else:
            labels = _relative(draft.labels, draft.folder) if draft.labels else None
            data = DataSource(spec=spec_of_data, labels=labels, preprocess=preprocess)
    evaluated = None
    if draft.evaluation:
        path = _relative(draft.evaluation, draft.folder)
        is_folder = os.path.isdir(draft.folder / path)
        labels = _relative(draft.labels, draft.folder) if draft.labels else None
        labels = labels or (LABELS_OF_FOLDERS if is_folder and draft.has_classes else None)
        evaluated = DataSource(spec=path, labels=labels, preprocess=preprocess if is_folder else None)
        if data is not None and data.tokens is None:
            data = data.model_copy(update={"labels": None})
    weights = _relative(draft.weights, draft.folder) if draft.weights else None
    project = Project(
        name=draft.name or Path(draft.model.split(":")[0]).stem or "project",
        model=ModelSource(spec=spec, input_shapes=shapes, weights=weights),
        calibration=data,
        evaluation=Evaluation(data=evaluated, metric=draft.metric or None),
        target=target_of(draft.target.id).complete(draft.target, draft.folder),
        board=draft.board,
    )
    return assign(project, "global", "", draft.preset)


def _preprocess(draft: Draft) -> Preprocess:
    given = {"size": draft.size, "crop": draft.crop, "mean": draft.mean, "std": draft.std}
    slashed = {name: "/".join(re.split(r"[\s,/]+", text)) for name, text in given.items() if text}
    return preprocess_of(",".join(f"{name}={text}" for name, text in slashed.items()))


def _relative(text: str, folder: Path) -> str:
    head, colon, attribute = text.rpartition(":")
    code = bool(colon) and attribute.isidentifier() and head.endswith(".py")
    name = head if code else text
    path = Path(name)
    if path.is_absolute():
        name = relative_to(path, folder)
    return f"{name}:{attribute}" if code else name


def _problem(option: str, message: str) -> ErrorInfo:
    return ErrorInfo(message=message, where=Place(kind="option", id=option), code="new-project-invalid")
