"""What the NPU's counters mean, and what they say bounds a run.

Source: Arm Ethos-U55, U65 and U85 technical reference manuals (PMU events), as chosen by
ExecuTorch's ``arm_perf_monitor.cpp``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.fvp.simulators import Simulator
    from workbench.results.simulation import Measurement

EVENTS = {
    "AXI0_RD_DATA_BEAT_RECEIVED": "beats read from SRAM (tensors)",
    "AXI0_WR_DATA_BEAT_WRITTEN": "beats written to SRAM (tensors)",
    "AXI1_RD_DATA_BEAT_RECEIVED": "beats read from flash or DRAM (mostly weights)",
    "SRAM_RD_DATA_BEAT_RECEIVED": "beats read from SRAM",
    "SRAM_WR_DATA_BEAT_WRITTEN": "beats written to SRAM",
    "EXT_RD_DATA_BEAT_RECEIVED": "beats read from external memory (weights; tensors if dedicated)",
    "EXT_WR_DATA_BEAT_WRITTEN": "beats written to external memory",
    "NPU_IDLE": "cycles without work: stalls and changes between jobs",
    "MAC_ACTIVE": "cycles in which the MAC array computed",
    "WD_ACTIVE": "cycles in which weights were decoded",
}
_BUSY = 0.5
_BOUNDS = (
    ("MAC_ACTIVE", "The MAC array is busy for {share:.0%} of the cycles: computing bounds it."),
    ("WD_ACTIVE", "Weights are decoded for {share:.0%} of the cycles: pruned or 4-bit weights "
                  "would make it faster."),
    ("EXT_RD_DATA_BEAT_RECEIVED", "External memory delivers {share:.2f} beats a cycle: reading it "
                                  "bounds the run; a larger cache or smaller weights help."),
    ("SRAM_RD_DATA_BEAT_RECEIVED", "SRAM delivers {share:.2f} beats a cycle: reading tensors "
                                   "bounds the run."),
    ("AXI1_RD_DATA_BEAT_RECEIVED", "Flash or DRAM delivers {share:.2f} beats a cycle: reading "
                                   "weights bounds the run."),
    ("AXI0_RD_DATA_BEAT_RECEIVED", "SRAM delivers {share:.2f} beats a cycle: reading tensors "
                                   "bounds the run."),
)  # fmt: skip


def explain(measurement: Measurement, simulator: Simulator, *, fast: bool) -> tuple[str, ...]:
    """Return sentences about one measurement: each counter, then what bounds the run."""
    return tuple(_sentences(measurement, simulator, fast=fast))


def _sentences(measurement: Measurement, simulator: Simulator, *, fast: bool) -> Iterator[str]:
    if fast:
        yield "Run with --fast: outputs are exact, cycles and counters mean nothing."
        return
    cycles = measurement.npu_cycles or 0
    for counter in measurement.counters:
        meaning = EVENTS.get(counter.event)
        if meaning is None:
            continue
        each = counter.total / max(1, measurement.inferences)
        sentence = f"{counter.event}: {each:,.0f} an inference, {meaning}"
        if "BEAT" in counter.event:
            size = each * simulator.bus_bytes / 1024
            sentence += f"; {size:,.1f} KiB if a beat is {simulator.bus_bytes} bytes wide"
        yield f"{sentence}."
    if cycles:
        yield _bound(measurement, cycles)


def _bound(measurement: Measurement, cycles: int) -> str:
    idle = (measurement.of("NPU_IDLE") or 0) / cycles
    if idle > _BUSY:
        return f"The NPU is idle for {idle:.0%} of the cycles: it waits for memory or between jobs."
    shares = [((measurement.of(event) or 0) / cycles, text) for event, text in _BOUNDS]
    share, text = max(shares, key=lambda pair: pair[0])
    if share < _BUSY:
        return "No counter is above half of the cycles: nothing that is counted bounds the run."
    return text.format(share=share)
