"""Measured times of a project's program, kept among the user's own rows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from workbench.analysis.silicon import SiliconRow, add_row, checked_row, row_of_run
from workbench.errors import Place, failure
from workbench.pipeline.cache import Cache, default_root
from workbench.pipeline.plan import plan
from workbench.results import PROGRAM_FILE, LowerResult, load_result

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from workbench.project.opened import OpenProject
    from workbench.results.simulation import SimulationReport

__all__ = ["checked_row", "compiled_program", "measured_row", "remember_program", "remember_run"]


def measured_row(
    opened: OpenProject,
    source: str,
    milliseconds: float | None = None,
    cycles: float | None = None,
    row_id: str = "",
    beats: Mapping[str, float] | None = None,
) -> tuple[str, SiliconRow]:
    """Return the board and the row of a measured run of a project's compiled program.

    Args:
        opened: The project; its program must be compiled with the present settings.
        source: Who measured it, and how.
        milliseconds: The time of one inference.
        cycles: NPU cycles of one inference.
        row_id: The row's id; by default the project's name and the start of the program's digest.
        beats: Counted AXI beats by event.

    Raises:
        WorkbenchError: The project has no board or no compiled program, or a figure is invalid.
    """
    if not opened.project.board:
        raise failure(
            "The project has no board.",
            "Run: workbench boards BOARD --put PROJECT",
            Place(kind="option", id="board"),
            code="board-not-set",
        )
    lowered, path = compiled_program(opened)
    program = path.read_bytes()
    measured = (milliseconds, cycles)
    row = row_of_run(lowered, program, opened.project.name, source, measured, beats)
    return opened.project.board, row.model_copy(update={"id": row_id} if row_id else {})


def compiled_program(opened: OpenProject) -> tuple[LowerResult, Path]:
    """Return the result of compiling a project, and the file of its program.

    Raises:
        WorkbenchError: It is not compiled with the present settings.
    """
    cache = Cache(default_root())
    key = plan(opened, cache).key("lower")
    if not key or not cache.has(key):
        raise failure(
            "The project has no compiled program for its present settings.",
            "Run: workbench run PROJECT",
            Place(kind="stage", id="lower"),
            code="lower-missing",
        )
    return load_result(LowerResult, cache.folder(key)), cache.folder(key) / PROGRAM_FILE


def remember_run(
    opened: OpenProject, report: SimulationReport, kind: Literal["silicon", "fvp"] = "silicon"
) -> Path:
    """Write the measured cycles of a run on the project's board; return the user's file.

    Args:
        opened: The project, whose compiled program was run.
        report: What was counted.
        kind: "fvp" for a simulator.

    Raises:
        WorkbenchError: as for ``measured_row``, or the firmware counted no cycles.
    """
    cycles, beats = _counted(report)
    where = f"{report.simulator} {report.version}".strip() if kind == "fvp" else "own board"
    source = f"{where}, {datetime.now(UTC):%Y-%m-%d}"
    board, row = measured_row(opened, source, cycles=cycles, beats=beats)
    return add_row(board, row.model_copy(update={"kind": kind}))


def remember_program(program: bytes, name: str, report: SimulationReport) -> Path:
    """Write the cycles that a simulator counted for a program; return the user's file.

    The estimate is that of the cached result with the same bytes.

    Raises:
        WorkbenchError: There is no such result, it has no board, or nothing was counted.
    """
    cycles, beats = _counted(report)
    for path in sorted((default_root() / "results").glob(f"*/*/{PROGRAM_FILE}")):
        if path.stat().st_size == len(program) and path.read_bytes() == program:
            lowered = load_result(LowerResult, path.parent)
            if lowered.board:
                source = f"{report.simulator} {report.version}, {datetime.now(UTC):%Y-%m-%d}"
                row = row_of_run(lowered, program, name, source, (None, cycles), beats)
                return add_row(lowered.board, row.model_copy(update={"kind": "fvp"}))
    raise failure(
        "No compiled result with a board has these bytes.",
        "Name the project: --remember PROJECT. It needs a board (workbench boards BOARD --put).",
        code="silicon-program-unknown",
    )


def _counted(report: SimulationReport) -> tuple[float, dict[str, float]]:
    """Return the mean NPU cycles of an inference, and the AXI beats by event."""
    counted = [m for m in report.measurements if m.cycles_per_inference is not None]
    if not counted:
        raise failure(
            "No cycles were counted, so there is nothing to remember.",
            "Build the firmware with the performance monitor; a fast simulator counts none.",
            code="silicon-not-measured",
        )
    cycles = sum(m.cycles_per_inference or 0.0 for m in counted) / len(counted)
    beats: dict[str, float] = {}
    for measurement in counted:
        for counter in measurement.counters:
            if "BEAT" in counter.event and counter.total:
                share = counter.total / max(1, measurement.inferences) / len(counted)
                beats[counter.event] = beats.get(counter.event, 0.0) + share
    return cycles, beats
