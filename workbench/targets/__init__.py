"""The target table: one row per system a model can be quantized for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.errors import Place, WorkbenchError, failure
from workbench.targets.base import TargetSpec
from workbench.targets.ethos_u import EthosU
from workbench.targets.formats import Formats
from workbench.targets.nnpa import Nnpa

if TYPE_CHECKING:
    from workbench.ids import StageId
    from workbench.project.model import Project

TARGETS: tuple[TargetSpec, ...] = (EthosU(), Nnpa(), Formats())


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
        raise failure(
            why, hint, Place(kind="option", id="target.id"), code="target-without-estimator"
        )


def macs_per_cycle(variant_id: str) -> int:
    """Return the most multiply-accumulates of a device in a cycle; 0 if the device is unknown."""
    for target in TARGETS:
        if any(variant.id == variant_id for variant in target.variants):
            return target.macs_per_cycle(variant_id)
    return 0
