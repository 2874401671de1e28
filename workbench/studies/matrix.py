"""Matrix study: one model on several devices in several precisions, each verified."""

from __future__ import annotations

from typing import Literal

from workbench.analysis.accuracy import AccuracyVerdict
from workbench.analysis.gate import Verdict
from workbench.errors import Place, failure
from workbench.project.frozen import Frozen
from workbench.project.model import TargetChoice
from workbench.results import CpuNode
from workbench.targets import target_of

# Suffix of a config name: the weights are trained with this config first.
TRAINED = "-qat"
QAT_EPOCHS, QAT_SAMPLES = 5, 16


def config_of(name: str) -> str:
    """Return the config for a column name."""
    return name.removesuffix(TRAINED)


class Cell(Frozen):
    """One device with one config for all modules.

    ``problem`` is why there is no verified program, "" if there is one; ``warned`` is whether the
    workbench reports it before compiling. ``max_lsb`` and ``exact`` (a share) compare the program
    on the TOSA reference model with the quantized model. ``verdict`` is the gate's, with the
    compiled program executed on the functional simulator; "" without a program. ``accuracy`` is
    the verdict on the integer program against the float model. ``gain_db`` is the
    predicted gain of quantization-aware training; 0 if no epoch improved, None if nothing was
    trained.
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
    verdict: Verdict | Literal[""] = ""
    accuracy: AccuracyVerdict | Literal[""] = ""
    gain_db: float | None = None


class MatrixResult(Frozen):
    """The cells so far; ``total`` is their final number."""

    total: int
    cells: tuple[Cell, ...] = ()


class DevicePlacement(Frozen):
    """The placement on one kind of device; ``problem`` is why the device cannot run the model.

    ``npu`` counts the operators on the NPU; ``cpu`` are the others.
    """

    kind: str
    target: str
    npu: int = 0
    cpu: tuple[CpuNode, ...] = ()
    problem: str = ""


class Placement(Frozen):
    """The placement on every kind of device so far."""

    devices: tuple[DevicePlacement, ...] = ()
    is_done: bool = False


def one_of_each_kind(choice: TargetChoice) -> list[tuple[str, TargetChoice]]:
    """Return one device per kind of a target, the chosen one first.

    Raises:
        WorkbenchError: the target has no NPU.
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
    choices = {kinds[choice.id]: choice}
    for device, kind in kinds.items():
        choices.setdefault(kind, TargetChoice(id=device, options=dict(choice.options)))
    return list(choices.items())
