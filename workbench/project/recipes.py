"""Recipes: whole projects to begin with, to be filled with the user's own model and data."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.errors import Place, failure
from workbench.project import edits
from workbench.project.model import (
    DataSource,
    ModelSource,
    Project,
    RuleKind,
    TargetChoice,
    Verification,
)
from workbench.project.store import save, write_atomically

if TYPE_CHECKING:
    from pydantic import JsonValue

_FOLDER = Path(__file__).parents[2] / "resources" / "recipes"


@dataclass(frozen=True)
class Recipe:
    """One template: what it is for, and what its project says."""

    id: str
    title: str
    description: str
    target: str
    rules: list[tuple[RuleKind, str, str]]
    options: dict[str, JsonValue]
    samples: int


def recipes() -> dict[str, Recipe]:
    """Return all recipes by id."""
    rows = tomllib.loads((_FOLDER / "recipes.toml").read_text(encoding="utf-8"))
    return {name: Recipe(id=name, **row) for name, row in rows.items()}


def begin(recipe: Recipe, path: Path, *, overwrite: bool = False) -> Project:
    """Write a project and its Python file, and return the project.

    Args:
        recipe: What to begin with.
        path: The project's file; the Python file is written beside it, ``NAME_model.py``.
        overwrite: Whether files that are there may be replaced.

    Raises:
        WorkbenchError: a file is there already, or cannot be written.
    """
    code = path.with_name(f"{path.stem}_model.py")
    there = [file.name for file in (path, code) if file.exists()]
    if there and not overwrite:
        raise failure(
            f"{', '.join(there)} exists already.", "Choose another name or folder.",
            Place(kind="file", id=str(path)),
        )  # fmt: skip
    project = Project(
        name=path.stem,
        model=ModelSource(spec=f"{code.name}:model"),
        calibration=DataSource(spec=f"{code.name}:calibration"),
        target=TargetChoice(id=recipe.target, options=recipe.options),
        verification=Verification(samples=recipe.samples),
        notes=f"Begun with the recipe {recipe.title}: weights and samples are random until you "
        f"replace them in {code.name}.",
    )
    for kind, match, config in recipe.rules:
        project = edits.assign(project, kind, match, config)
    try:
        write_atomically(code, (_FOLDER / f"{recipe.id}.py").read_bytes())
    except OSError as error:
        raise failure(
            f"{path.parent} cannot be written: {error.strerror or error}.",
            where=Place(kind="file", id=str(path.parent)),
        ) from error
    save(project, path)
    return project
