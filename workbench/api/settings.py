"""Settings of a project by key, target options, and the preprocessing of pictures."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from workbench.api.projects import check
from workbench.deploy import boards
from workbench.errors import Place, WorkbenchError, failure
from workbench.escaping import html_table
from workbench.project import edits
from workbench.project import settings as project_settings
from workbench.project.model import DataSource, Preprocess, TargetChoice
from workbench.project.opened import OpenProject
from workbench.project.preprocessing import preprocess_of
from workbench.project.settings import SWITCH_WORDS
from workbench.project.sources import is_folder
from workbench.targets import target_of
from workbench.toolchains.registry import OWN_TITLE, title_of, tools_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pydantic import JsonValue

    from workbench.project.model import Project
    from workbench.targets.base import OptionSpec

_OPTIONS = "target.options."


@dataclass(frozen=True)
class Setting:
    """One setting of a project.

    Attributes:
        key: Its path in the project file, such as ``calibration.preprocess.size``.
        value: Its value; None where it is absent.
        takes: The type of its values in words.
    """

    key: str
    value: Any
    takes: str


@dataclass(frozen=True)
class Settings:
    """Every setting of a project, in the order of the project file."""

    rows: tuple[Setting, ...]

    def __getitem__(self, key: str) -> Any:
        """Return the value of a setting.

        Raises:
            KeyError: There is no such setting.
        """
        return self.values[key]

    @property
    def values(self) -> dict[str, Any]:
        """The value of every setting by its key."""
        return {row.key: row.value for row in self.rows}

    def _repr_html_(self) -> str:
        rows = [(row.key, row.value, row.takes) for row in self.rows]
        return html_table("Settings", ("key", "value", "takes"), rows)


def settings(opened: OpenProject) -> Settings:
    """Return every setting that the project form has, with the options of the target.

    Rules, presets, ranges and notes on the graph are no settings.
    """
    project = opened.project
    fields = project_settings.keys()
    rows: list[Setting] = []
    for key, value in project_settings.values(project).items():
        takes = project_settings.described(fields[key].annotation)
        rows.append(Setting(key, value, takes))
        if key == "target.id":
            rows += _option_rows(project.target, opened.folder)
    return Settings(tuple(rows))


def _option_rows(choice: TargetChoice, folder: Path) -> list[Setting]:
    complete = target_of(choice.id).complete(choice, folder).options
    return [
        Setting(
            f"{_OPTIONS}{spec.name}",
            complete.get(spec.name, spec.default),
            " or ".join(str(option.value) for option in spec.choices) or f"a {spec.kind}",
        )
        for spec in target_of(choice.id).options(choice, folder)
    ]


def set_settings(opened: OpenProject, values: Mapping[str, Any]) -> OpenProject:
    """Return the project with settings changed; nothing is written.

    Args:
        opened: The project.
        values: Values by key, typed or as text: ``{"calibration": "pics",
            "calibration.preprocess": "size=224,layout=bgr", "gate.lsb": None}``. The empty text
            restores a default. A new ``target.id`` completes its options anew, and a ``board`` sets
            the target that stands on it.

    Raises:
        WorkbenchError: A key is unknown, a value is invalid, or the project has a problem that it
            did not have before; all at once where they are independent.
    """
    before, folder = opened.project, opened.folder
    plain = {key: value for key, value in values.items() if not key.startswith(_OPTIONS)}
    options = {k.removeprefix(_OPTIONS): v for k, v in values.items() if k.startswith(_OPTIONS)}
    project = project_settings.changed(before, plain)
    if {"target", "target.id", "board"} & set(plain):
        project = _on_device(replace(opened, project=project), plain)
    if "toolchain" in plain:
        project = _in_toolchain(project)
    if options:
        choice = set_options(project.target, options, folder)
        project = edits.set_target(project, choice)
    changed = replace(opened, project=project)
    known = {info.message for info in check(opened).errors}
    if new := [info for info in check(changed).errors if info.message not in known]:
        raise WorkbenchError(new)
    return changed


def _in_toolchain(project: Project) -> Project:
    """Return the project with the versions of its toolchain, for other machines."""
    name = "" if project.toolchain == OWN_TITLE else project.toolchain
    return edits.set_toolchain(project, name, title_of(tools_of(name)) if name else "")


def _on_device(opened: OpenProject, changes: Mapping[str, Any]) -> Project:
    """Return the project with the options of its new device, and its new board."""
    project = opened.project
    target_of(project.target.id)
    named = "target" in changes or "target.id" in changes
    if "board" in changes and project.board:
        return boards.put(opened, project.board, project.target.id if named else "")
    choice = target_of(project.target.id).complete(TargetChoice(id=project.target.id), opened.folder)
    return edits.set_target(project, choice) if named else project


def set_options(choice: TargetChoice, values: Mapping[str, Any], folder: Path) -> TargetChoice:
    """Return a target with some options changed and all others completed.

    Args:
        choice: The target.
        values: Values by the option's name; texts are read in the option's type.
        folder: Where relative paths of the project start.

    Raises:
        WorkbenchError: An option is unknown, or its value is invalid.
    """
    target = target_of(choice.id)
    specs = {spec.name: spec for spec in target.options(choice, folder)}
    options = dict(choice.options)
    for name, value in values.items():
        if name not in specs:
            raise failure(
                f"{name!r} is not an option of {choice.id}.",
                f"Known: {', '.join(specs)}.",
                Place(kind="option", id=f"target.{name}"),
                code="target-option-invalid",
            )
        options[name] = _value(specs[name], value) if isinstance(value, str) else value
    changed = TargetChoice(id=choice.id, options=options)
    if infos := target.check(changed, folder):
        raise WorkbenchError(infos)
    return target.complete(changed, folder)


def _value(spec: OptionSpec, text: str) -> JsonValue:
    """Return a text in the option's type: text, or parsed as JSON."""
    if spec.kind in {"text", "file"}:
        return text
    if text == "":
        return spec.default
    if spec.kind == "switch" and text.lower() in SWITCH_WORDS:
        return SWITCH_WORDS[text.lower()]
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value


def set_preprocess(
    opened: OpenProject,
    preprocess: str | Preprocess | None,
    data: Sequence[str] = ("calibration", "evaluation"),
) -> OpenProject:
    """Return the project with the conversion of pictures to inputs; None removes it.

    Args:
        opened: The project.
        preprocess: The settings, or their text, such as
            ``size=224,mean=0.485/0.456/0.406,std=0.229/0.224/0.225,layout=rgb``.
        data: The data that it applies to: ``calibration``, ``evaluation`` or both. Data that the
            project does not have, and data that is no folder of pictures, is left out.

    Raises:
        WorkbenchError: The text is invalid, or none of the data is a folder of pictures.
    """
    chosen = preprocess_of(preprocess) if isinstance(preprocess, str) else preprocess
    project, reached = opened.project, False
    if "calibration" in data and _has_pictures(project.calibration, opened.folder):
        project = edits.set_calibration(project, _with(project.calibration, chosen))
        reached = True
    evaluation = project.evaluation
    if "evaluation" in data and _has_pictures(evaluation.data, opened.folder):
        source = _with(evaluation.data, chosen)
        project = edits.set_evaluation(project, source, evaluation.metric)
        reached = True
    if not reached:
        raise failure(
            f"The project has no folder of pictures for {' or '.join(data)}.",
            "Name the folder first: workbench settings PROJECT calibration=FOLDER.",
            Place(kind="option", id="calibration.spec"),
            code="pictures-missing",
        )
    return replace(opened, project=project)


def _has_pictures(source: DataSource | None, folder: Path) -> bool:
    return source is not None and is_folder(source.spec, folder)


def _with(source: DataSource | None, preprocess: Preprocess | None) -> DataSource | None:
    return source and source.model_copy(update={"preprocess": preprocess})
