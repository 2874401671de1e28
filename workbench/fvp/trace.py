"""The NPU's own trace of a run (``--pmu-trace``): cycles of each operation, measured.

The trace is a compressed JSON file of trace events. Those on the track ``qread`` tell how far the
NPU has read its commands, in words of 4 bytes, and when, in cycles. A command that computes has
ended when the NPU goes on to the next one. Source: ExecuTorch, ``examples/arm/visualize.py``.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

from workbench.results.simulation import TracedOperation

if TYPE_CHECKING:
    from pathlib import Path

    from workbench.results import VelaOperation, VelaReport

TRACK, WORD_BYTES = "qread", 4
_CHUNK, _LONGEST_EVENT = 1 << 20, 16 << 20


@dataclass(frozen=True)
class Reading:
    """How far the NPU had read [bytes from the first command], and when [cycles]."""

    offset: int
    cycle: int


@dataclass
class Trace:
    """One invocation of a delegate after the other; ``problem`` is what was wrong, in words."""

    invocations: list[list[Reading]] = field(default_factory=list)
    problem: str = ""


def read_trace(path: Path) -> Trace:
    """Return what a trace tells; what stands before a damage is kept."""
    trace = Trace()
    try:
        with gzip.open(path, "rt", encoding="utf-8", errors="replace") as file:
            for event in _events(file):
                _take(event, trace)
    except FileNotFoundError:
        trace.problem = "The simulator wrote no trace of its operations."
    except (OSError, EOFError, zlib.error, ValueError, TypeError, KeyError, RecursionError):
        trace.problem = "The trace of the operations is damaged from some point on."
    return trace


def _take(event: dict[str, Any], trace: Trace) -> None:
    if event.get("tid") != TRACK:
        return
    reading = Reading(WORD_BYTES * int(event["args"][TRACK]), int(float(event["ts"])))
    last = trace.invocations[-1] if trace.invocations else []
    if not last or reading.offset < last[-1].offset:
        trace.invocations.append(last := [])
    last.append(reading)


def _events(file: IO[str]) -> Iterator[dict[str, Any]]:
    """Yield the trace's events one at a time: whole traces need not fit the memory."""
    decoder, text = json.JSONDecoder(), file.read(_CHUNK)
    start = text.find("[", max(0, text.find('"traceEvents"')))
    if start < 0:
        raise ValueError
    at = start + 1
    while True:
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        if at < len(text) and text[at] == "]":
            return
        try:
            event, at = decoder.raw_decode(text, at)
        except ValueError:
            more = file.read(_CHUNK)
            if not more or len(text) - at > _LONGEST_EVENT:
                raise
            text, at = text[at:] + more, 0
        else:
            if isinstance(event, dict):
                yield event


def command_cycles(readings: Sequence[Reading], offsets: Sequence[int]) -> list[int | None]:
    """Return how long each command took in one invocation [cycles].

    Args:
        readings: What the NPU read, in order.
        offsets: Where the commands stand, ascending.

    Returns:
        One figure a command; None for one that was read at once with that before it, or that the
        invocation did not come to.
    """
    taken: list[int | None] = [None] * len(offsets)
    if not readings or not offsets:
        return taken
    begun, at = readings[0].cycle, 0
    ends = [*offsets[1:], offsets[-1] + 1]
    for reading in readings:
        if at < len(ends) and reading.offset >= ends[at]:
            taken[at] = reading.cycle - begun
            begun = reading.cycle
            while at < len(ends) and reading.offset >= ends[at]:
                at += 1
    if taken[-1] is not None:
        # What the NPU does after the last reading past it belongs to no command.
        taken[-1] += readings[-1].cycle - begun
    return taken


def traced(
    invocations: Sequence[Sequence[Reading]], reports: Sequence[VelaReport]
) -> tuple[TracedOperation, ...]:
    """Return the measured cycles of all delegates' operations, means over the inferences.

    An inference invokes the delegates one after the other; what is left of an inference that did
    not reach the last of them is not counted. Empty without a whole inference.
    """
    whole = len(invocations) // len(reports) * len(reports) if reports else 0
    if not whole:
        return ()
    return tuple(
        TracedOperation(
            delegate=report.delegate, operator=row.operator, name=row.name, module=row.module,
            estimated=row.cycles, cycles=cycles,
        )
        for index, report in enumerate(reports)
        for row, cycles in _measured(invocations[index : whole : len(reports)], report)
    )  # fmt: skip


def _measured(
    invocations: Sequence[Sequence[Reading]], report: VelaReport
) -> Iterator[tuple[VelaOperation, float | None]]:
    totals: list[float | None] = [None] * len(report.operations)
    offsets = [command.offset for command in report.commands]
    for readings in invocations:
        for command, cycles in zip(report.commands, command_cycles(readings, offsets), strict=True):
            if cycles is not None and command.operation is not None:
                totals[command.operation] = (totals[command.operation] or 0.0) + cycles
    for row, total in zip(report.operations, totals, strict=True):
        yield row, None if total is None else total / len(invocations)
