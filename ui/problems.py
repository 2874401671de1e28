"""What is wrong with the project as it stands: listed with places, never popped up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ui.session import StageView
from ui.wording import rule_words
from workbench.deploy import boards
from workbench.errors import ErrorInfo, Place, WorkbenchError
from workbench.graph.labels import operator_name
from workbench.project import plugins
from workbench.project.model import Project
from workbench.project.rules import Resolution
from workbench.targets import target_of

if TYPE_CHECKING:
    from workbench.results import CpuNode


@dataclass(frozen=True)
class Problem:
    """One problem, with the stage or check it comes from."""

    severity: Literal["error", "warning"]
    message: str
    hint: str = ""
    where: Place | None = None
    source: str = ""
    details: str = ""


def of_info(info: ErrorInfo, source: str, severity: Literal["error", "warning"]) -> Problem:
    """Return an error's description as a problem."""
    return Problem(severity, info.message, info.hint, info.where, source, info.details)


def project_problems(
    project: Project, folder: Path, resolution: Resolution, operators: Sequence[str]
) -> Iterator[Problem]:
    """Yield what is wrong with the target and the rules; nothing is run.

    ``operators`` are those of the exported graph; without any, matches are not judged.
    """
    try:
        target = target_of(project.target.id)
    except WorkbenchError as error:
        yield from (of_info(info, "Target", "error") for info in error.infos)
        return
    checked = target.check(project.target, folder)
    found, oddities = boards.problems(project, folder), boards.oddities(project, folder)
    own = plugins.problems(project, folder)
    yield from (of_info(info, "Target", "error") for info in checked)
    yield from (of_info(info, "Board", "error") for info in found)
    yield from (of_info(info, "Board", "warning") for info in oddities)
    yield from (of_info(info, "Rules", "error") for info in own)
    for rule in project.rules:
        if not rule.enabled:
            continue
        where = Place(kind="rule", id=rule.id)
        what = rule_words(rule)
        config = project.config_of(rule)
        if reason := target.refusal(project.target, config, rule.kind):
            yield Problem("error", f"{what}: {reason}", "", where, "Rules")
        count = resolution.counts.get(rule.id)
        if not operators or count is None:
            continue
        if count.matched == 0:
            yield Problem(
                "warning", f"{what}: the rule matches nothing.",
                "Correct its match, or delete it.", where, "Rules",
            )  # fmt: skip
        elif count.wins == 0:
            yield Problem(
                "warning", f"{what}: the rule never wins, stronger ones cover all it matches.",
                "Move it up, or delete it.", where, "Rules",
            )  # fmt: skip
        if count.wins:
            for text in target.warnings(project.target, config, operators):
                yield Problem("warning", text, "", where, "Target")


def stage_problems(stages: Sequence[StageView]) -> Iterator[Problem]:
    """Yield what made stages fail, or keeps them from starting."""
    for view in stages:
        if view.state == "failed":
            yield from (of_info(info, view.title, "error") for info in view.infos)


def on_the_cpu(nodes: Sequence[CpuNode]) -> Iterator[Problem]:
    """Yield what stays on the CPU and why: operators alike in one row, which leads to the first."""
    alike: dict[tuple[str, str], list[CpuNode]] = {}
    for node in nodes:
        alike.setdefault((operator_name(node.op), node.reason), []).append(node)
    for (name, reason), found in alike.items():
        what = f"{len(found)} operators {name} stay" if len(found) > 1 else f"{name} stays"
        where = Place(kind="node", id=found[0].node)
        yield Problem("warning", f"{what} on the CPU: {reason}", "", where, "Lower")


def warnings_of(texts: Sequence[str], source: str) -> Iterator[Problem]:
    """Yield a stage's own warnings."""
    for text in texts:
        yield Problem("warning", text, source=source)
