"""NPU event counters: meaning, trace and bottleneck of a run.

Source: Arm Ethos-U55, U65 and U85 technical reference manuals (PMU events), as selected by
ExecuTorch's ``arm_perf_monitor.cpp``.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import gzip
import itertools
import json
import mmap
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

from workbench.files import open_regular, read_limited
from workbench.results.simulation import TracedOperation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from workbench.deploy.simulators.discovery import Simulator
    from workbench.results import VelaOperation, VelaReport
    from workbench.results.simulation import Measurement


EVENTS = {
    "AXI0_RD_DATA_BEAT_RECEIVED": "beats read from SRAM (tensors)",
    "AXI0_WR_DATA_BEAT_WRITTEN": "beats written to SRAM (tensors)",
    "AXI1_RD_DATA_BEAT_RECEIVED": "beats read from flash or DRAM (mostly weights)",
    "SRAM_RD_DATA_BEAT_RECEIVED": "beats read from SRAM",
    "SRAM_WR_DATA_BEAT_WRITTEN": "beats written to SRAM",
    "EXT_RD_DATA_BEAT_RECEIVED": "beats read from external memory (weights; tensors if dedicated)",
    "EXT_WR_DATA_BEAT_WRITTEN": "beats written to external memory",
    "NPU_IDLE": "idle cycles: stalls and switches between jobs",
    "MAC_ACTIVE": "cycles in which the MAC array computed",
    "WD_ACTIVE": "cycles in which weights were decoded",
}
_BUSY = 0.5
_BOUNDS = (
    ("MAC_ACTIVE", "The MAC array is busy for {share:.0%} of the cycles: compute-bound."),
    (
        "WD_ACTIVE",
        "Weights are decoded for {share:.0%} of the cycles: pruned or 4-bit weights would be faster.",
    ),
    (
        "EXT_RD_DATA_BEAT_RECEIVED",
        "External memory delivers {share:.2f} beats per cycle: bound by its reads. A "
        "larger cache or smaller weights help.",
    ),
    ("SRAM_RD_DATA_BEAT_RECEIVED", "SRAM delivers {share:.2f} beats per cycle: bound by reading tensors."),
    (
        "AXI1_RD_DATA_BEAT_RECEIVED",
        "Flash or DRAM delivers {share:.2f} beats per cycle: bound by reading weights.",
    ),
    ("AXI0_RD_DATA_BEAT_RECEIVED", "SRAM delivers {share:.2f} beats per cycle: bound by reading tensors."),
)


def explain(measurement: Measurement, simulator: Simulator, *, fast: bool) -> tuple[str, ...]:
    """Return sentences about one measurement: each counter, then the bottleneck."""
    return tuple(_sentences(measurement, simulator, fast=fast))


def _sentences(measurement: Measurement, simulator: Simulator, *, fast: bool) -> Iterator[str]:
    if fast:
        yield "Run with --fast: outputs are exact, cycles and counters are meaningless."
        return
    cycles = measurement.npu_cycles or 0
    for counter in measurement.counters:
        meaning = EVENTS.get(counter.event)
        if meaning is None:
            continue
        per_inference = counter.total / max(1, measurement.inferences)
        sentence = f"{counter.event}: {per_inference:,.0f} per inference, {meaning}"
        if "BEAT" in counter.event:
            size = per_inference * simulator.bus_bytes / 1024
            sentence += f"; {size:,.1f} KiB if a beat is {simulator.bus_bytes} bytes wide"
        yield f"{sentence}."
    if cycles:
        yield _bound(measurement, cycles)


def _bound(measurement: Measurement, cycles: int) -> str:
    idle = (measurement.of("NPU_IDLE") or 0) / cycles
    if idle > _BUSY:
        return f"The NPU is idle for {idle:.0%} of the cycles, waiting for memory or between jobs."
    shares = [((measurement.of(event) or 0) / cycles, text) for event, text in _BOUNDS]
    share, text = max(shares, key=lambda pair: pair[0])
    if share < _BUSY:
        return "No counter exceeds half of the cycles: no bottleneck among the counted events."
    return text.format(share=share)


TRACK, WORD_BYTES = "qread", 4
_CHUNK, _LONGEST_EVENT = 1 << 20, 16 << 20


@dataclass(frozen=True)
class Reading:
    """The NPU's read position [bytes from the first command] at a time [cycles]."""

    offset: int
    cycle: int


@dataclass
class Trace:
    """Invocations of delegates in sequence; ``problem`` is an error message."""

    invocations: list[list[Reading]] = field(default_factory=list)
    problem: str = ""


# What Python raises for a trace of another structure; OverflowError: a time that is infinite.
_DAMAGED = (
    OSError,
    EOFError,
    zlib.error,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    OverflowError,
    RecursionError,
)
_MOST_READINGS = 2_000_000
_MOST_EVENT_BYTES = 64 << 20


def read_trace(path: Path) -> Trace:
    """Return the contents of a trace; for a damaged trace, the part before the damage."""
    trace = Trace()
    try:
        with (
            open_regular(path) as packed,
            gzip.open(packed, "rt", encoding="utf-8", errors="replace") as file,
        ):
            for event in itertools.islice(_events(file), _MOST_READINGS):
                _take(event, trace)
    except FileNotFoundError:
        trace.problem = "The simulator wrote no trace of its operations."
    except _DAMAGED:
        trace.problem = "The trace of the operations is damaged and incomplete."
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
    """Yield the trace's events one at a time, because traces may exceed the memory."""
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
    """Return the duration of each command in one invocation [cycles].

    Args:
        readings: Read positions of the NPU, in order.
        offsets: Offsets of the commands, ascending.

    Returns:
        One value per command; None for a command that was read together with the one before, or
        that the invocation did not reach.
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
        # Work after the last read position belongs to no command.
        taken[-1] += readings[-1].cycle - begun
    return taken


def traced(
    invocations: Sequence[Sequence[Reading]], reports: Sequence[VelaReport]
) -> tuple[TracedOperation, ...]:
    """Return the measured cycles of all delegates' operations, means over the inferences.

    An inference invokes the delegates in sequence; an incomplete inference is ignored. Returns
    nothing without a complete inference.
    """
    whole = len(invocations) // len(reports) * len(reports) if reports else 0
    if not whole:
        return ()
    return tuple(
        TracedOperation(
            delegate=report.delegate,
            operator=row.operator,
            name=row.name,
            module=row.module,
            estimated=row.cycles,
            cycles=cycles,
        )
        for index, report in enumerate(reports)
        for row, cycles in _measured(invocations[index : whole : len(reports)], report)
    )


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


FILE = "etdump.bin"
_PRINTED = re.compile(rb'^echo "([A-Za-z0-9+/=]+)" \| base64 -d >etdump\.bin', re.MULTILINE)


def recorded(folder: Path, log: Path) -> bytes:
    """Return the ETDump data of one start; empty if there is none.

    Args:
        folder: Folder of the runner's files.
        log: The output: runners without file access print the events in base64.
    """
    with contextlib.suppress(OSError):
        return read_limited(folder / FILE, _MOST_EVENT_BYTES)
    return printed_events(log)


def printed_events(log: Path) -> bytes:
    """Return the ETDump data that a runner printed in base64; empty if there is none."""
    value = None
    # An empty log cannot be memory-mapped.
    with (
        contextlib.suppress(OSError, ValueError),
        log.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text,
    ):
        match = _PRINTED.search(text)
        value = match[1] if match else None
    with contextlib.suppress(binascii.Error):
        return base64.b64decode(value or b"")
    return b""
