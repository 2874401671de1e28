"""Rewrites the relative paths of a project that is saved in another folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from workbench.project.board_files import SUFFIX
from workbench.project.configs import Config, QuantConfig, is_reference
from workbench.project.edits import revise
from workbench.project.model import DataSource, Project, Rule, TargetChoice
from workbench.project.opened import OpenProject
from workbench.targets.ethos_u.vela_ini import BOARD_PREFIX, OPTION


def relative_to(path: Path, folder: Path) -> str:
    """Return ``path`` relative to ``folder`` if both are on one drive."""
    try:
        return Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:
        return path.as_posix()


def relocate(opened: OpenProject, new: Path) -> Project:
    """Return the project with the same files, named relative to the folder ``new``."""
    project, old = opened.project, opened.folder
    if old.resolve() == new.resolve():
        return project

    def data(source: DataSource | None) -> DataSource | None:
        if source is None:
            return None
        return source.model_copy(update={"spec": moved(source.spec), "labels": moved(source.labels)})

    moved = partial(_moved, old=old, new=new)
    model, evaluation, target = project.model, project.evaluation, project.target
    if own := str(target.options.get(OPTION) or ""):
        options = {**target.options, OPTION: _moved_ini(own, old, new)}
        target = TargetChoice(id=target.id, options=options)
    return revise(
        project,
        board=moved(project.board) if project.board.endswith(SUFFIX) else project.board,
        target=target,
        model=model.model_copy(
            update={"spec": moved(model.spec), "inputs": moved(model.inputs), "weights": moved(model.weights)}
        ),
        rules=tuple(_moved_rule(rule, moved) for rule in project.rules),
        presets={name: _moved_config(c, moved) for name, c in project.presets.items()},
        plugins=tuple(moved(plugin) for plugin in project.plugins),
        training_function=moved(project.training_function),
        trained_weights=moved(project.trained_weights),
        calibration=data(project.calibration),
        evaluation=evaluation.model_copy(
            update={
                "data": data(evaluation.data),
                "metric": moved(evaluation.own_metric) or evaluation.metric,
                "decode": moved(evaluation.decode),
            }
        ),
    )


def _moved_rule(rule: Rule, moved: Callable[[str], str | None]) -> Rule:
    """Return a rule whose plug-in references are relocated."""
    changes: dict[str, object] = {}
    if rule.kind == "finder":
        changes["match"] = moved(rule.match)
    if not isinstance(rule.config, str):
        changes["config"] = _moved_config(rule.config, moved)
    elif is_reference(rule.config):
        changes["config"] = moved(rule.config)
    return rule.model_copy(update=changes)


def _moved_config(config: Config, moved: Callable[[str], str | None]) -> Config:
    """Return a config whose plug-in observer is relocated."""
    if not isinstance(config, QuantConfig) or not config.activation.observer.plugin:
        return config
    observer = config.activation.observer
    observer = observer.model_copy(update={"plugin": moved(observer.plugin)})
    activation = config.activation.model_copy(update={"observer": observer})
    return config.model_copy(update={"activation": activation})


def _moved_ini(reference: str, old: Path, new: Path) -> str | None:
    """Return the relocated path of a custom .ini; the .ini of a known board is unchanged."""
    if not reference.startswith(BOARD_PREFIX):
        return _moved(reference, old=old, new=new)
    path = reference.removeprefix(BOARD_PREFIX)
    if SUFFIX not in path:
        return reference
    return f"{BOARD_PREFIX}{_moved(path, old=old, new=new)}"


def _moved(spec: str | None, *, old: Path, new: Path) -> str | None:
    """Return the relocated path or ``FILE.py:callable``."""
    if not spec:
        return spec
    head, colon, attribute = spec.rpartition(":")
    is_code = bool(colon) and attribute.isidentifier()
    if is_code and not head.endswith(".py"):
        return spec
    name = head if is_code else spec
    if Path(name).is_absolute():
        return spec
    return relative_to(old / name, new) + (f":{attribute}" if is_code else "")
