"""Recipes: complete projects as starting points for the user's own model and data."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.errors import Place, failure
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
from workbench.project.store import save_new

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue

_FOLDER = resources() / "recipes"
# The line of a decoder's file that says how many tokens a call reads.
_ONE_TOKEN = "TOKENS = 1\n"


@dataclass(frozen=True)
class Caches:
    """One form of a decoder's caches: further rules and target options, and a line of the model.

    ``line`` is a line of the recipe's Python file, and the line in its place; empty for none.
    """

    rules: tuple[tuple[RuleKind, str, str], ...] = ()
    options: dict[str, JsonValue] = field(default_factory=dict)
    line: tuple[str, str] | tuple[()] = ()


@dataclass(frozen=True)
class Choice:
    """What a user chooses for a recipe; "" selects the first of what the recipe offers.

    ``prompt_tokens`` is how many tokens of a prompt a call of the program reads; 1 is the program
    that also writes the answer.
    """

    mode: str = ""
    scope: str = ""
    caches: str = ""
    prompt_tokens: int = 1


@dataclass(frozen=True)
class Recipe:
    """One recipe: its purpose and the contents of its project.

    ``modes`` and ``scopes`` are modes and scopes of ExecuTorch's export of language models,
    ``caches`` forms of a decoder's caches; the first of each is the default. A mode is a config, a
    scope the target of a rule. ``files`` are in the recipes folder; ``code`` is the Python file
    there, "" for that named as the recipe, and ``lines`` are lines of it with the lines in their
    place. ``length`` is the sequence length of its text data; ``limit`` is the number of evaluated
    samples. ``evaluation`` names callables of the recipe's Python file, and a metric: the fields of
    the project's evaluation.
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
    code: str = ""
    lines: list[tuple[str, str]] = field(default_factory=list)
    evaluation: dict[str, str] = field(default_factory=dict)

    def chosen(self, choice: Choice) -> Chosen:
        """Return what a choice selects.

        Raises:
            WorkbenchError: the recipe has no such mode, scope or caches, or reads no prompts.
        """
        mode, scope, caches = (
            self._offered(name, getattr(choice, name), offered)
            for name, offered in (("mode", self.modes), ("scope", self.scopes), ("caches", self.caches))
        )
        form = self.caches.get(caches, Caches())
        lines = [*self.lines, *([form.line] if form.line else []), *self._prompt_lines(choice.prompt_tokens)]
        if not self.modes:
            return Chosen(self.rules, self.options, lines)
        kind, match = self.scopes[scope]
        rules = [(kind, match, self.modes[mode]), *form.rules, *self.rules]
        return Chosen(rules, self.options | form.options, lines)

    def _offered(self, name: str, chosen: str, offered: Mapping[str, object]) -> str:
        if chosen and chosen not in offered:
            known = f"Available: {', '.join(offered)}." if offered else "It has none."
            raise failure(
                f"The recipe {self.title} has no {name} {chosen!r}.",
                known,
                Place(kind="option", id=name),
                code="recipe-option-unknown",
            )
        return chosen or next(iter(offered), "")

    def text(self) -> str:
        """Return the recipe's Python file."""
        return (_FOLDER / (self.code or f"{self.id}.py")).read_text(encoding="utf-8")

    @property
    def most_prompt_tokens(self) -> int:
        """How many tokens a call of its program can read."""
        return self.length - 1 if _ONE_TOKEN in self.text() else 1

    def _prompt_lines(self, tokens: int) -> list[tuple[str, str]]:
        """Return the line of the Python file that says how many tokens a call reads, and the new one."""
        if tokens == 1:
            return []
        most = self.most_prompt_tokens
        if not 1 <= tokens <= most:
            raise failure(
                f"A call of the recipe {self.title} cannot read {tokens} tokens of a prompt.",
                f"Choose 1 to {most}."
                if most > 1
                else "Use one whose caches are handed on: llm_decoder_static, llm_decoder_text.",
                Place(kind="option", id="prompt-tokens"),
                code="recipe-option-unknown",
            )
        return [(_ONE_TOKEN, f"TOKENS = {tokens}\n")]


@dataclass(frozen=True)
class Chosen:
    """Rules and target options of a project, and lines of its model; see ``Recipe``."""

    rules: list[tuple[RuleKind, str, str]]
    options: dict[str, JsonValue]
    lines: list[tuple[str, str]]


def recipes() -> dict[str, Recipe]:
    """Return all recipes by id."""
    rows = tomllib.loads((_FOLDER / "recipes.toml").read_text(encoding="utf-8"))
    return {name: _recipe(name, row) for name, row in rows.items()}


def _recipe(name: str, row: dict[str, Any]) -> Recipe:
    caches = {form: Caches(**fields) for form, fields in row.pop("caches", {}).items()}
    lines = [(before, after) for before, after in row.pop("lines", [])]
    return Recipe(id=name, caches=caches, lines=lines, **row)


def begin(recipe: Recipe, path: Path, choice: Choice = Choice(), *, overwrite: bool = False) -> Project:
    """Write a project with its files, and return it.

    Args:
        recipe: The recipe.
        path: The project file; the Python file is written beside it as ``NAME_model.py``, the
            recipe's files as ``NAME_weights.safetensors`` and so on.
        choice: What of the recipe's offers.
        overwrite: Whether existing files may be replaced.

    Raises:
        WorkbenchError: a file exists or cannot be written, or a choice is unknown.
    """
    chosen = recipe.chosen(choice)
    text = recipe.text()
    for before, after in chosen.lines:
        text = text.replace(before, after)
    code = path.with_name(f"{path.stem}_model.py")
    files = {code: text.encode()}
    beside = {}
    for role, name in recipe.files.items():
        beside[role] = path.with_name(f"{path.stem}_{role}{Path(name).suffix}")
        files[beside[role]] = (_FOLDER / name).read_bytes()
    project = _project(recipe, path.stem, code, beside)
    options = TargetChoice(id=recipe.target, options=chosen.options)
    project = project.model_copy(update={"target": options})
    for kind, match, config in chosen.rules:
        project = edits.assign(project, kind, match, config)
    save_new(project, path, files, overwrite=overwrite)
    return project


def _evaluation(recipe: Recipe, code: Path, data: DataSource | None) -> Evaluation:
    named = {field: f"{code.name}:{name}" for field, name in recipe.evaluation.items() if field != "metric"}
    if "data" in named:
        data = DataSource(spec=named.pop("data"))
    metric = recipe.evaluation.get("metric")
    return Evaluation(data=data, limit=recipe.limit, metric=metric, **named)


def _project(recipe: Recipe, name: str, code: Path, beside: Mapping[str, Path]) -> Project:
    tokenizer = beside["tokenizer"].name if "tokenizer" in beside else ""

    def text(role: str) -> DataSource | None:
        if role not in beside:
            return None
        tokens = Tokenization(length=recipe.length, tokenizer=tokenizer)
        return DataSource(spec=beside[role].name, tokens=tokens)

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
