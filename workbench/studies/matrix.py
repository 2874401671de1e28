"""One model on several devices in several precisions: verified, or why not."""

from __future__ import annotations

from workbench.project.frozen import Frozen

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
