"""Rules for another target: those that it does not support get its first config."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.errors import WorkbenchError
from workbench.project import edits
from workbench.project.model import name_of
from workbench.targets import target_of

if TYPE_CHECKING:
    from workbench.project.model import Project, Rule, TargetChoice

# What a rule becomes for which the target has no config at all.
OFF = "off"


@dataclass(frozen=True)
class Conversion:
    """What becomes of one rule: its name, its config, and the config afterwards, or ``OFF``."""

    name: str
    before: str
    after: str


def convert_rules(
    project: Project, choice: TargetChoice
) -> tuple[Project, tuple[Conversion, ...]]:
    """Return the project on a target with rules that it supports, and what was converted.

    A rule whose config the target does not support gets the target's first config, or is switched
    off if the target does not support that either, e.g. for inputs and outputs.

    Args:
        project: The project, on any target.
        choice: The target.

    Raises:
        WorkbenchError: The target does not exist.
    """
    first = target_of(choice.id).first_config
    moved = edits.set_target(project, choice)
    rules: list[Rule] = []
    conversions: list[Conversion] = []
    for rule in project.rules:
        changed = rule
        if rule.enabled and not rule.keeps_off and _refused(moved, rule, choice):
            changed = rule.model_copy(update={"config": first})
            if _refused(moved, changed, choice):
                changed = rule.model_copy(update={"enabled": False})
            after = name_of(changed.config) if changed.enabled else OFF
            conversions.append(Conversion(_name(rule), name_of(rule.config), after))
        rules.append(changed)
    return edits.revise(moved, rules=tuple(rules)), tuple(conversions)


def _refused(project: Project, rule: Rule, choice: TargetChoice) -> bool:
    try:
        config = project.config_of(rule)
    except WorkbenchError:
        return False
    return bool(target_of(choice.id).refusal(choice, config, rule.kind))


def _name(rule: Rule) -> str:
    if rule.kind == "global":
        return "Whole model"
    return "Inputs and outputs" if rule.kind == "io" else name_of(rule.match)
