"""Run the compiled program of a project on a board, and compare its outputs."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.api.history import record_run
from workbench.deploy.firmware_files import file_stem
from workbench.deploy.simulators import board
from workbench.deploy.simulators.discovery import BoardLink, load_settings
from workbench.errors import ErrorInfo, Place, failure
from workbench.escaping import html_table
from workbench.history.runs import Simulated, run_of
from workbench.pipeline.cache import Cache, default_root
from workbench.pipeline.plan import plan
from workbench.results import LowerResult, VerifyResult, load_result
from workbench.results.simulation import SimulationReport

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from workbench.project.opened import OpenProject

_Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Difference:
    """Outputs of the board against those of a model.

    Attributes:
        against: What they are compared with.
        elements: Number of compared values.
        equal: Number of equal ones.
        largest: Largest difference: in codes (LSB) for integer outputs, else absolute.
    """

    against: str
    elements: int
    equal: int
    largest: float


@dataclass(frozen=True)
class BoardRun:
    """What a board gave.

    Attributes:
        report: The run, as that of a simulator.
        outputs: The outputs that the firmware printed; None for one that is incomplete.
        differences: The outputs against the functional simulator and the quantized model.
        equals_tosa: Whether *verify* found the functional simulator equal to the TOSA reference
            model; None if it was not verified.
        cycles: NPU cycles per inference from the performance monitor; None if not reported.
        estimated_cycles: Vela's.
        history_problem: Why the run could not be kept in the history beside the project.
    """

    report: SimulationReport
    outputs: tuple[_Array | None, ...]
    differences: tuple[Difference, ...]
    equals_tosa: bool | None
    cycles: float | None
    estimated_cycles: int
    history_problem: ErrorInfo | None = None

    def document(self) -> dict[str, Any]:
        """Return the run as ``board run --json`` prints it."""
        return {
            **self.report.model_dump(mode="json"),
            "cycles": self.cycles,
            "estimated_cycles": self.estimated_cycles,
            "equals_tosa": self.equals_tosa,
            "differences": [vars(difference) for difference in self.differences],
            "outputs": [None if output is None else output.tolist() for output in self.outputs],
        }

    def _repr_html_(self) -> str:
        rows = [(d.against, d.elements, d.equal, d.largest) for d in self.differences]
        return html_table(self.report.exit_reason, ("against", "values", "equal", "largest"), rows)


def run_on_board(
    opened: OpenProject,
    link: BoardLink | None = None,
    *,
    log: Path | None = None,
    cancelled: Callable[[], bool] = lambda: False,
    live: Callable[[list[str]], object] = lambda _: None,
) -> BoardRun:
    """Flash the board, run the first test vector of the deliverables, and compare its outputs.

    Computes nothing before: the present settings of the project must have been run up to package.

    Args:
        opened: The project. The measured cycles are kept in the history beside its file.
        link: The board; by default the one of this machine's settings.
        log: Path of the log of the serial port; by default it is not kept.
        cancelled: Polled many times a second.
        live: Receives the firmware's lines.

    Raises:
        WorkbenchError: There is no board, no deliverables, the port or the flash command fails, or
            the program does not end.
    """
    known = link or load_settings().board
    if known is None:
        raise failure(
            "No board is set up on this machine.",
            "Run: workbench board set --port PORT --flash COMMAND",
            Place(kind="tool", id="board"),
            code="board-not-configured",
        )
    cache = Cache(default_root())
    planned = plan(opened, cache)
    folder = _deliverables(cache, planned.key("package"))
    stem = file_stem(opened.project.name)
    program = board.program_of(folder, stem, known, opened.project.target.id)
    with tempfile.TemporaryDirectory(prefix="board-") as scratch:
        outcome = board.run(known, program, log or Path(scratch) / "uart.log", cancelled, live)
    board.require(outcome)
    differences = _compared(outcome, folder)
    cycles = [m.cycles_per_inference for m in outcome.report.measurements]
    counted = [cycle for cycle in cycles if cycle is not None]
    measured = sum(counted) / len(counted) if counted else None
    lowered = load_result(LowerResult, cache.folder(planned.key("lower")))
    estimated = sum(report.cycles_total for report in lowered.vela)
    record, problem = run_of(opened.project, planned, cache), None
    if record is not None and opened.path is not None:
        simulated = _simulated(outcome.report, differences, measured, estimated)
        problem = record_run(opened.path, record.model_copy(update={"simulated": simulated}))
    tosa = _equals_tosa(cache, planned.key("verify"))
    return BoardRun(outcome.report, outcome.outputs, differences, tosa, measured, estimated, problem)


def _equals_tosa(cache: Cache, key: str) -> bool | None:
    """Return whether *verify* found the executed program equal to its TOSA; None if unknown."""
    if not key or not cache.has(key):
        return None
    compiled = load_result(VerifyResult, cache.folder(key)).compiled
    return None if compiled is None or compiled.refused else compiled.equal == compiled.elements


def _deliverables(cache: Cache, key: str) -> Path:
    if not key or not cache.has(key):
        raise failure(
            "The project has no deliverables for its present settings.",
            "Run: workbench run PROJECT",
            Place(kind="stage", id="package"),
            code="package-missing",
        )
    return cache.folder(key)


def _compared(outcome: board.BoardOutcome, folder: Path) -> tuple[Difference, ...]:
    """Compare the outputs with those of the functional simulator and of the quantized model."""
    # Imported here: every verb of the command line imports this module, few need the simulator.
    from workbench.npu.program import load

    if any(output is None for output in outcome.outputs):
        return ()
    bundle = next(folder.glob("*.bpte"))
    program = load(bundle)
    if not program.cases:
        return ()
    case = program.cases[0]
    computed = program.run(list(case.inputs)).outputs
    return (
        _difference("functional simulator", outcome.outputs, computed),
        _difference("quantized model", outcome.outputs, case.expected),
    )


def _difference(against: str, outputs: Sequence[_Array | None], expected: Sequence[_Array]) -> Difference:
    elements = equal = 0
    largest = 0.0
    for mine, other in zip(outputs, expected, strict=True):
        assert mine is not None
        distance = np.abs(mine.astype(np.float64).ravel() - other.astype(np.float64).ravel())
        # The firmware prints floats with six decimals.
        close = distance == 0 if mine.dtype.kind in "iub" else distance <= 1e-6
        elements, equal = elements + distance.size, equal + int(close.sum())
        largest = max(largest, float(distance.max(initial=0.0)))
    return Difference(against, elements, equal, largest)


def _simulated(
    report: SimulationReport, differences: tuple[Difference, ...], cycles: float | None, estimated: int
) -> Simulated:
    first = differences[0] if differences else None
    return Simulated(
        simulator=report.simulator,
        version="",
        runner="firmware",
        samples=1,
        cycles=cycles,
        estimated_cycles=estimated,
        exact=first.equal / first.elements if first and first.elements else None,
        max_lsb=round(first.largest) if first else 0,
        argmax_equal=0,
    )
