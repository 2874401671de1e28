"""The target table: one row per system a model can be quantized for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.errors import Place, WorkbenchError, failure
from workbench.project import edits
from workbench.project.model import name_of
from workbench.targets.base import TargetSpec
from workbench.targets.ethos_u import ETHOS_U
from workbench.targets.formats import Formats
from workbench.targets.nnpa import Nnpa

if TYPE_CHECKING:
    from workbench.ids import StageId
    from workbench.project.model import Project, Rule, TargetChoice

TARGETS: tuple[TargetSpec, ...] = (ETHOS_U, Nnpa(), Formats())


def target_of(variant_id: str) -> TargetSpec:
    """Return the target that a device id belongs to.

    Raises:
        WorkbenchError: no target has such a device.
    """
    for target in TARGETS:
        if any(variant.id == variant_id for variant in target.variants):
            return target
    known = ", ".join(v.id for target in TARGETS for v in target.variants)
    raise failure(
        f"Unknown target {variant_id!r}.",
        f"Known: {known}.",
        Place(kind="option", id="target.id"),
        code="target-unknown",
    )


def has_stage(project: Project, stage: StageId) -> bool:
    """Return whether the project's target has a stage; an unknown target has all."""
    try:
        return stage in target_of(project.target.id).stages
    except WorkbenchError:
        return True


def why_unestimated(variant_id: str) -> str:
    """Return why the cost of programs for a target is unknown; "" where it is known."""
    try:
        target = target_of(variant_id)
    except WorkbenchError as error:
        return error.infos[0].message
    if target.estimator:
        return ""
    return f"No cost estimates for {target.title}: it has no compiler with an estimator."


def need_estimates(variant_id: str) -> None:
    """Refuse a target that no compiler on this machine says anything about.

    Raises:
        WorkbenchError: nothing estimates programs for it.
    """
    if why := why_unestimated(variant_id):
        hint = "Use Sensitivity and Runs to compare configurations."
        raise failure(why, hint, Place(kind="option", id="target.id"), code="target-without-estimator")


def macs_per_cycle(variant_id: str) -> int:
    """Return the most multiply-accumulates of a device in a cycle; 0 if the device is unknown."""
    for target in TARGETS:
        if any(variant.id == variant_id for variant in target.variants):
            return target.macs_per_cycle(variant_id)
    return 0


# What a rule becomes for which the target has no config at all.
OFF = "off"


@dataclass(frozen=True)
class Conversion:
    """What becomes of one rule: its name, its config, and the config afterwards, or ``OFF``."""

    name: str
    before: str
    after: str


def convert_rules(project: Project, choice: TargetChoice) -> tuple[Project, tuple[Conversion, ...]]:
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
