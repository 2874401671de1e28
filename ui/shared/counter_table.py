"""Table of the operations that the functional simulator executed."""

from __future__ import annotations

from ui.shared.number_format import DASH, count, percent
from ui.shared.sortable_table import Column
from workbench.results.simulation import OperationCounters


def _accumulator(row: OperationCounters) -> str:
    bits = row.accumulator_bits
    return f"{count(row.accumulator_peak)} of {bits} bit" if bits else DASH


COUNTER_COLUMNS: tuple[Column[OperationCounters], ...] = (
    Column("Command", lambda r: r.command.removeprefix("NPU_OP_")),
    Column("Module", lambda r: r.module or DASH),
    Column(
        "Offset",
        lambda r: f"{r.offset:#x}",
        lambda r: r.offset,
        "Place of the command in the delegate's stream [bytes]",
    ),
    Column("Output", lambda r: "\u00d7".join(map(str, r.ofm)) or DASH),
    Column("MACs", lambda r: count(r.macs), lambda r: r.macs),
    Column(
        "Read",
        lambda r: count(r.read_bytes),
        lambda r: r.read_bytes,
        "Bytes read: feature maps once, encoded weights, scales, copies",
    ),
    Column("Written", lambda r: count(r.written_bytes), lambda r: r.written_bytes, "Bytes written"),
    Column(
        "Zero weights",
        lambda r: percent(r.zero_weights / r.weights, 0) if r.weights else DASH,
        lambda r: r.zero_weights / r.weights if r.weights else None,
    ),
    Column(
        "Saturated", lambda r: count(r.saturated), lambda r: r.saturated, "Outputs that the clamp changed"
    ),
    Column(
        "Accumulator",
        _accumulator,
        lambda r: r.accumulator_peak,
        "Largest magnitude in an accumulator, and its width",
    ),
    Column("Delegate", lambda r: str(r.delegate), lambda r: r.delegate),
)

MODULE, DELEGATE = 1, 10


def describe_counters(row: OperationCounters) -> str:
    """Return the tooltip of a row of the operations that the functional simulator executed."""
    return "\n".join(filter(None, (row.command, row.module, "executed on the simulator (no timing)")))
