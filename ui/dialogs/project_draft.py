"""A project in the making: what a form holds, and what is still wrong with it."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from ui.edit_step import translated
from ui.relocate import relative_to
from workbench.deploy import boards
from workbench.errors import ErrorInfo, Place, WorkbenchError
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
from workbench.project.sources import missing
from workbench.targets import target_of


@dataclass(frozen=True)
class Draft:
    """The texts of the form; paths as typed, absolute or relative to ``folder``."""

    folder: Path
    target: TargetChoice
    name: str = ""
    model: str = ""
    attribute: str = ""
    shapes: str = ""
    weights: str = ""
    data: str = ""
    size: str = ""
    mean: str = "0"
    std: str = "1"
    labels: str = ""
    tokenizer: str = ""
    length: int = 0
    metric: str = ""
    preset: str = "a8w8"
    board: str = ""


def callables_of(path: Path) -> list[str]:
    """Return the functions, then the classes, that a Python file defines; nothing is run."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return []
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    names = functions + [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    return [name for name in names if not name.startswith("_")]


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


def build(draft: Draft) -> Project:
    """Return the project that a draft describes.

    Raises:
        WorkbenchError: everything that is wrong with it, each with its field.
    """
    problems: list[ErrorInfo] = []
    if not draft.model:
        problems.append(_problem("model.spec", "Choose a model."))
    try:
        shapes = parse_shapes(draft.shapes)
    except ValueError as error:
        shapes = ()
        problems.append(_problem("model.input_shapes", f"{error} is not a shape like 1x3x224x224."))
    preprocess = None
    if draft.size:
        try:
            preprocess = _preprocess(draft)
        except ValueError:
            message = "Size is e.g. 224x224; mean and standard deviation are numbers."
            problems.append(_problem("calibration.preprocess", message))
    if problems:
        raise WorkbenchError(problems)
    try:
        project = _assemble(draft, shapes, preprocess)
    except ValidationError as error:
        raise translated(error) from None
    problems = list(target_of(project.target.id).check(project.target, draft.folder))
    problems += boards.problems(project, draft.folder)
    if (lacking := missing(project, draft.folder)) is not None:
        problems += lacking.infos
    if problems:
        raise WorkbenchError(problems)
    return project


def _assemble(
    draft: Draft, shapes: tuple[tuple[int, ...], ...], preprocess: Preprocess | None
) -> Project:
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
    weights = _relative(draft.weights, draft.folder) if draft.weights else None
    project = Project(
        name=draft.name or Path(draft.model.split(":")[0]).stem or "project",
        model=ModelSource(spec=spec, input_shapes=shapes, weights=weights),
        calibration=data,
        evaluation=Evaluation(metric=draft.metric or None),
        target=target_of(draft.target.id).complete(draft.target, draft.folder),
        board=draft.board,
    )
    return assign(project, "global", "", draft.preset)


def _preprocess(draft: Draft) -> Preprocess:
    (size,) = parse_shapes(draft.size)
    height, width = size
    mean = tuple(float(part) for part in draft.mean.split(","))
    std = tuple(float(part) for part in draft.std.split(","))
    return Preprocess(size=(height, width), mean=mean, std=std)


def _relative(text: str, folder: Path) -> str:
    head, colon, attribute = text.rpartition(":")
    code = bool(colon) and attribute.isidentifier() and head.endswith(".py")
    name = head if code else text
    path = Path(name)
    if path.is_absolute():
        name = relative_to(path, folder)
    return f"{name}:{attribute}" if code else name


def _problem(option: str, message: str) -> ErrorInfo:
    return ErrorInfo(message=message, where=Place(kind="option", id=option))
