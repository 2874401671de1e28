"""How a run ended, as one sentence, and everything it told, as a report."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING

from workbench.fvp import counters, finding
from workbench.results.simulation import Diagnosis, Pool, SimulationReport
from workbench.words import plural

if TYPE_CHECKING:
    from workbench.fvp.job import Job
    from workbench.fvp.process import Ending
    from workbench.fvp.uart import UartReader


def ended_well(ending: Ending, reader: UartReader, *, serve: bool) -> bool:
    """Return whether a start did what it was started for."""
    if ending.by == "served":
        return True
    done = reader.completed or (serve and reader.served > 0)
    return ending.by == "itself" and ending.code == 0 and done and reader.model_ok is not False


def report_of(
    job: Job,
    reader: UartReader,
    ending: Ending,
    outputs: Sequence[object],
    notes: list[str],
) -> SimulationReport:
    """Return the report of a run."""
    succeeded = ended_well(ending, reader, serve=job.serves)
    if job.serves:
        succeeded = succeeded and len(outputs) == len(job.samples)
    measurements = reader.measurements
    simulator = job.device.simulator
    explanation = (
        counters.explain(measurements[0], simulator, fast=job.fast) if measurements else ()
    )
    return SimulationReport(
        simulator=simulator.binary,
        version=finding.version_of(job.installed) if succeeded else "",
        target=job.device.target,
        fast=job.fast,
        succeeded=succeeded,
        exit_reason=_reason(job, reader, ending, succeeded=succeeded),
        exit_code=ending.code,
        samples=len(job.samples),
        measurements=measurements,
        pools=tuple(_pools(job, reader)),
        bundle=tuple(reader.bundle),
        diagnoses=tuple(_diagnoses(reader, ending)),
        explanation=explanation,
        notes=tuple(notes),
        lines=reader.lines,
        last_lines=tuple(reader.last_lines),
    )


def _pools(job: Job, reader: UartReader) -> list[Pool]:
    """Return the pools that were told, and those the ELF has without telling."""
    untold = (p for p in job.runner.pools.items() if p[0] not in reader.pools)
    return [*reader.pools.values(), *(Pool(name=name, given=given) for name, given in untold)]


def _diagnoses(reader: UartReader, ending: Ending) -> list[Diagnosis]:
    if ending.by in {"not started", "cancelled"} or reader.runner_lines or reader.diagnoses:
        return reader.diagnoses
    nothing = Diagnosis(
        line="(the runner printed nothing)",
        cause="The simulator did not get as far as the first line of the runner: its installation "
        "is not complete, or the runner stopped with a fault before its serial port was set up.",
        remedy="Start the simulator alone with --version; then check that the runner was built "
        "for this NPU and memory mode.",
    )
    return [*reader.diagnoses, nothing]


def _reason(job: Job, reader: UartReader, ending: Ending, *, succeeded: bool) -> str:
    """Return the first sentence that is true."""
    count, code = len(job.samples), _code(ending)
    stopped = ending.by == "timeout" or reader.out_of_time
    sentences = (
        (ending.by == "not started", f"The simulator could not be started: {ending.error}."),
        (ending.by == "cancelled", "The run was cancelled; the simulator was ended."),
        (not reader.lines, f"The simulator never printed anything.{code}"),
        (
            not reader.runner_lines and not stopped,
            f"The simulator started, but the runner never printed anything.{code}",
        ),
        (stopped, f"The simulation did not finish within {job.timeout_s:g} s and was stopped."),
        (
            succeeded and job.serves,
            f"All {count} samples were computed in one start; the simulator was then ended.",
        ),
        (succeeded, "The program ran to its end."),
        (
            reader.model_ok is False,
            "The program ran to its end, but the runner found its outputs wrong.",
        ),
        (
            reader.served > 0,
            f"The simulator ended after {reader.served} of {plural(count, 'sample')}.{code}",
        ),
    )
    early = f"The simulator ended before the program had finished.{code}"
    return next((sentence for holds, sentence in sentences if holds), early)


def _code(ending: Ending) -> str:
    if not ending.code or ending.by != "itself":
        return ""
    if ending.code < 0:
        known = -ending.code in signal.valid_signals()
        name = signal.Signals(-ending.code).name if known else "?"
        return f" It was killed by signal {-ending.code} ({name})."
    return f" Its exit code was {ending.code}."
