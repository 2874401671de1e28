"""One model on several devices in several precisions: verified, or why not."""

from __future__ import annotations

from workbench.project.frozen import Frozen


class Cell(Frozen):
    """One device with one config for everything.

    ``problem`` is the sentence that tells why there is no verified program, "" if there is one;
    ``warned`` says whether the workbench told of it before anything was computed. ``max_lsb`` and
    ``exact`` (a share) compare the program on the TOSA reference model with the quantized model.
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


class MatrixResult(Frozen):
    """Cells as they come; ``total`` are wanted."""

    total: int
    cells: tuple[Cell, ...] = ()
