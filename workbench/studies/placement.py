"""Which operators would go to the NPU of each kind of device, and why the others would not."""

from __future__ import annotations

from workbench.errors import Place, failure
from workbench.project.frozen import Frozen
from workbench.project.model import TargetChoice
from workbench.results import CpuNode
from workbench.targets import target_of


class DevicePlacement(Frozen):
    """What one kind of device would take; ``problem`` says why it would take nothing at all.

    ``npu`` counts the operators that would go to it, ``cpu`` are those that would not.
    """

    kind: str
    target: str
    npu: int = 0
    cpu: tuple[CpuNode, ...] = ()
    problem: str = ""


class Placement(Frozen):
    """Every kind of device that was asked so far."""

    devices: tuple[DevicePlacement, ...] = ()
    is_done: bool = False


def one_of_each_kind(choice: TargetChoice) -> list[tuple[str, TargetChoice]]:
    """Return a device of each kind that a target has, the chosen one first.

    Raises:
        WorkbenchError: the target places nothing on a device.
    """
    target = target_of(choice.id)
    kinds = {variant.id: variant.kind for variant in target.variants if variant.kind}
    if not kinds:
        raise failure(
            f"{target.title} places nothing on an NPU.",
            "Choose an Ethos-U to see what would run on it.",
            Place(kind="option", id="target.id"),
        )
    found = {kinds[choice.id]: choice}
    for device, kind in kinds.items():
        found.setdefault(kind, TargetChoice(id=device, options=dict(choice.options)))
    return list(found.items())
