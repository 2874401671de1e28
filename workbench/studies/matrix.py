"""One model on several devices in several precisions: verified, or why not."""

from __future__ import annotations

from workbench.errors import Place, failure
from workbench.project.frozen import Frozen
from workbench.project.model import TargetChoice
from workbench.results import CpuNode
from workbench.targets import target_of

# Behind the name of a config: the weights are trained with it in view before it is used.
TRAINED = "-qat"
QAT_EPOCHS, QAT_SAMPLES = 5, 16


def config_of(name: str) -> str:
    """Return the config that the name of a column stands for."""
    return name.removesuffix(TRAINED)


class Cell(Frozen):
    """One device with one config for everything.

    ``problem`` is the sentence that tells why there is no verified program, "" if there is one;
    ``warned`` says whether the workbench tells of it before anything is compiled. ``max_lsb`` and
    ``exact`` (a share) compare the program on the TOSA reference model with the quantized model.
    ``gain_db`` is what training with quantization in view gained, predicted; 0 where no epoch was
    better than none and the model's own weights stayed, None where nothing was trained.
    """

    target: str
    config: str
    problem: str = ""
    warned: bool = False
    delegates: int = 0
    cpu_nodes: int = 0
    cycles: int = 0
    max_lsb: int = 0
    exact: float | None = None
    gain_db: float | None = None


class MatrixResult(Frozen):
    """Cells as they come; ``total`` are wanted."""

    total: int
    cells: tuple[Cell, ...] = ()


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
            f"{target.title} has no NPU.",
            "Choose an Ethos-U to see what would run on it.",
            Place(kind="option", id="target.id"),
            code="target-without-npu",
        )
    found = {kinds[choice.id]: choice}
    for device, kind in kinds.items():
        found.setdefault(kind, TargetChoice(id=device, options=dict(choice.options)))
    return list(found.items())
