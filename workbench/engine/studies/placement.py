"""Placement study: predict the operators that each kind of device supports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.engine.targets import device_of
from workbench.errors import WorkbenchError
from workbench.studies.matrix import DevicePlacement, Placement, one_of_each_kind

if TYPE_CHECKING:
    from workbench.engine.studies.study import StudyContext
    from workbench.project.model import TargetChoice


def run(study: StudyContext) -> None:
    """Write the placement for each kind of device, the project's own first.

    Raises:
        WorkbenchError: the target has no NPU.
    """
    asked = one_of_each_kind(study.stage.project.target)
    devices: list[DevicePlacement] = []
    for number, (kind, choice) in enumerate(asked):
        study.tell(Placement(devices=tuple(devices)), number, len(asked), kind)
        devices.append(_placement(study, kind, choice))
    study.tell(Placement(devices=tuple(devices), is_done=True), len(asked), len(asked), "done")


def _placement(study: StudyContext, kind: str, choice: TargetChoice) -> DevicePlacement:
    try:
        npu, cpu = device_of(study.stage).preview_placement(study.stage, choice)
    except WorkbenchError as error:
        reason = " ".join(info.message for info in error.infos)
        return DevicePlacement(kind=kind, target=choice.id, problem=reason)
    return DevicePlacement(kind=kind, target=choice.id, npu=npu, cpu=cpu)
