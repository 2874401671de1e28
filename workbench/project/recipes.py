"""Recipes: complete projects as starting points for the user's own model and data."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.errors import Place, failure
from workbench.files import write_file
from workbench.installation import resources
from workbench.project import edits
from workbench.project.model import (
    DataSource,
    Evaluation,
    ModelSource,
    Project,
    RuleKind,
    TargetChoice,
    Tokenization,
    Verification,
)
from workbench.project.store import save

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue

_FOLDER = resources() / "recipes"


@dataclass(frozen=True)
class Caches:
    """One form of a decoder's caches: further rules and target options, and a line of the model.

    ``line`` is a line of the recipe's Python file, and the line in its place; empty for none.
    """

    rules: tuple[tuple[RuleKind, str, str], ...] = ()
    options: dict[str, JsonValue] = field(default_factory=dict)
    line: tuple[str, str] | tuple[()] = ()


@dataclass(frozen=True)
class Recipe:
    """One recipe: its purpose and the contents of its project.

    ``modes`` and ``scopes`` are modes and scopes of ExecuTorch's export of language models,
    ``caches`` forms of a decoder's caches; the first of each is the default. A mode is a config, a
    scope the target of a rule. ``files`` are in
    the recipes folder; ``length`` is the sequence length of its text data; ``limit`` is the number
    of evaluated samples. ``evaluation`` names callables of the recipe's Python file, and a metric:
    the fields of the project's evaluation.
    """

    id: str
    title: str
    description: str
    target: str
    rules: list[tuple[RuleKind, str, str]]
    options: dict[str, JsonValue]
    samples: int
    begins_with: str = "random weights and samples"
    length: int = 0
    limit: int = 256
    modes: dict[str, str] = field(default_factory=dict)
    scopes: dict[str, tuple[RuleKind, str]] = field(default_factory=dict)
    caches: dict[str, Caches] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    evaluation: dict[str, str] = field(default_factory=dict)

    def chosen(self, mode: str, scope: str, caches: str) -> Chosen:
        """Return what a mode, a scope and a form of caches select; "" selects the first.

        Raises:
            WorkbenchError: the recipe has no such mode, scope or caches.
        """
        chosen = []
        for name, given, offered in (
            ("mode", mode, self.modes),
            ("scope", scope, self.scopes),
            ("caches", caches, self.caches),
        ):
            if given and given not in offered:
                known = f"Available: {', '.join(offered)}." if offered else "It has none."
                raise failure(
                    f"The recipe {self.title} has no {name} {given!r}.",
                    known,
                    Place(kind="option", id=name),
                    code="recipe-option-unknown",
                )
            chosen.append(given or next(iter(offered), ""))
        if not self.modes:
            return Chosen(self.rules, self.options)
        kind, match = self.scopes[chosen[1]]
        form = self.caches.get(chosen[2], Caches())
        rules = [(kind, match, self.modes[chosen[0]]), *form.rules, *self.rules]
        return Chosen(rules, self.options | form.options, form.line)


@dataclass(frozen=True)
class Chosen:
    """Rules and target options of a project, and a line of its model; see ``Caches``."""

    rules: list[tuple[RuleKind, str, str]]
    options: dict[str, JsonValue]
    line: tuple[str, str] | tuple[()] = ()


def recipes() -> dict[str, Recipe]:
    """Return all recipes by id."""
    rows = tomllib.loads((_FOLDER / "recipes.toml").read_text(encoding="utf-8"))
    return {name: _recipe(name, row) for name, row in rows.items()}


def _recipe(name: str, row: dict[str, Any]) -> Recipe:
    caches = {form: Caches(**fields) for form, fields in row.pop("caches", {}).items()}
    return Recipe(id=name, caches=caches, **row)


def begin(
    recipe: Recipe, path: Path, *, overwrite: bool = False, mode: str = "", scope: str = "", caches: str = ""
) -> Project:
    """Write a project with its files, and return it.

    Args:
        recipe: The recipe.
        path: The project file; the Python file is written beside it as ``NAME_model.py``, the
            recipe's files as ``NAME_weights.safetensors`` and so on.
        overwrite: Whether existing files may be replaced.
        mode: One of the recipe's modes.
        scope: One of the recipe's scopes.
        caches: One of the recipe's forms of caches.

    Raises:
        WorkbenchError: a file exists or cannot be written, or a choice is unknown.
    """
    chosen = recipe.chosen(mode, scope, caches)
    code = path.with_name(f"{path.stem}_model.py")
    files = {code: _FOLDER / f"{recipe.id}.py"}
    beside = {}
    for role, name in recipe.files.items():
        beside[role] = path.with_name(f"{path.stem}_{role}{Path(name).suffix}")
        files[beside[role]] = _FOLDER / name
    there = [file.name for file in (path, *files) if os.path.exists(file)]
    if there and not overwrite:
        raise failure(
            f"Already exists: {', '.join(there)}.",
            "Choose another name or folder.",
            Place(kind="file", id=str(path)),
            code="file-exists",
        )
    project = _project(recipe, path.stem, code, beside)
    options = TargetChoice(id=recipe.target, options=chosen.options)
    project = project.model_copy(update={"target": options})
    for kind, match, config in chosen.rules:
        project = edits.assign(project, kind, match, config)
    try:
        for file, source in files.items():
            content = source.read_bytes()
            if file == code and chosen.line:
                before, after = chosen.line
                content = content.replace(before.encode(), after.encode())
            write_file(file, content)
    except OSError as error:
        raise failure(
            f"{path.parent} cannot be written: {error.strerror or error}.",
            where=Place(kind="file", id=str(path.parent)),
            code="folder-not-writable",
        ) from error
    save(project, path)
    return project


def _evaluation(recipe: Recipe, code: Path, data: DataSource | None) -> Evaluation:
    named = {field: f"{code.name}:{name}" for field, name in recipe.evaluation.items() if field != "metric"}
    if "data" in named:
        data = DataSource(spec=named.pop("data"))
    metric = recipe.evaluation.get("metric")
    return Evaluation(data=data, limit=recipe.limit, metric=metric, **named)


def _project(recipe: Recipe, name: str, code: Path, beside: Mapping[str, Path]) -> Project:
    def text(role: str) -> DataSource | None:
        if role not in beside:
            return None
        return DataSource(spec=beside[role].name, tokens=Tokenization(length=recipe.length))

    weights = beside["weights"].name if "weights" in beside else None
    return Project(
        name=name,
        model=ModelSource(spec=f"{code.name}:model", weights=weights),
        calibration=text("calibration") or DataSource(spec=f"{code.name}:calibration"),
        evaluation=_evaluation(recipe, code, text("evaluation")),
        target=TargetChoice(id=recipe.target, options=recipe.options),
        verification=Verification(samples=recipe.samples),
        notes=f"Created from the recipe {recipe.title} with its {recipe.begins_with}: "
        f"replace them, and the model in {code.name}.",
    )
