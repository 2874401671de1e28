"""What a simulator measured: operations beside Vela's estimate, samples, events."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QObject

from ui.figures import DASH, count, percent
from ui.models.figure_table import Column, FigureTableModel
from workbench.results import RuntimeEvent, SimulationResult, TracedOperation


def excess(row: TracedOperation) -> float | None:
    """Return how much longer than estimated it took, as part of the estimate."""
    more = row.difference
    return None if more is None or not row.estimated else more / row.estimated


def _signed(value: float | None) -> str:
    return DASH if value is None else f"{'+' if value > 0 else ''}{count(value)}"


def _signed_percent(value: float | None) -> str:
    return DASH if value is None else f"{'+' if value > 0 else ''}{percent(value, 0)}"


def _describe(row: TracedOperation) -> str:
    lines = (
        f"{row.operator}  {row.name}",
        row.module or "not matched to a module",
        f"{count(row.estimated)} cycles estimated (Vela)",
        f"{count(row.cycles)} cycles measured (FVP)" if row.cycles is not None
        else "not measured: its commands were read together with those of another operation",
    )  # fmt: skip
    return "\n".join(lines)


TRACED_COLUMNS: tuple[Column[TracedOperation], ...] = (
    Column("Operator", lambda r: r.operator),
    Column("Module", lambda r: r.module or DASH),
    Column("Estimated", lambda r: count(r.estimated), lambda r: r.estimated,
           "Cycles of one inference, estimated by Vela"),
    Column("Measured", lambda r: count(r.cycles) if r.cycles is not None else DASH,
           lambda r: r.cycles, "Cycles of one inference on the simulator, a mean"),
    Column("Difference", lambda r: _signed(r.difference), lambda r: r.difference,
           "Measured less estimated"),
    Column("Part", lambda r: _signed_percent(excess(r)), excess,
           "The difference as part of the estimate"),
    Column("Delegate", lambda r: str(r.delegate), lambda r: r.delegate),
    Column("Name", lambda r: r.name),
)  # fmt: skip


_KINDS = {"cpu": "CPU kernel", "npu": "NPU delegate", "runtime": "Runtime"}
EVENT_COLUMNS: tuple[Column[RuntimeEvent], ...] = (
    Column("Event", lambda r: r.name),
    Column("Where", lambda r: _KINDS.get(r.kind, r.kind)),
    Column("CPU cycles", lambda r: count(r.cycles), lambda r: r.cycles,
           "Of one call, a mean; a delegate's with the wait for the NPU"),
    Column("Calls", lambda r: count(r.calls), lambda r: r.calls),
)  # fmt: skip


class EventTableModel(FigureTableModel[RuntimeEvent]):
    """What the runtime recorded."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(EVENT_COLUMNS, lambda r: f"{r.name}\nmeasured (FVP, ETDump)", parent)


@dataclass(frozen=True)
class SampleRow:
    """One sample: how far its outputs are off [LSB], and whether the greatest is the same."""

    number: int
    to_reference: int
    to_quantized: int
    same_argmax: bool


def sample_rows(result: SimulationResult) -> list[SampleRow]:
    """Return a row for each sample whose outputs were compared."""
    reference, quantized = result.against_reference, result.against_quantized
    return [
        SampleRow(number, *figures)
        for number, figures in enumerate(
            zip(reference.sample_max_lsb, quantized.sample_max_lsb, quantized.sample_argmax,
                strict=False), 1,
        )
    ]  # fmt: skip


SAMPLE_COLUMNS: tuple[Column[SampleRow], ...] = (
    Column("Sample", lambda r: str(r.number), lambda r: r.number),
    Column("TOSA", lambda r: str(r.to_reference), lambda r: r.to_reference,
           "Largest difference to the TOSA reference model [LSB of the output]"),
    Column("Quantized", lambda r: str(r.to_quantized), lambda r: r.to_quantized,
           "Largest difference to the quantized model [LSB of the output]"),
    Column("Arg-max", lambda r: "same" if r.same_argmax else "other", None,
           "Whether the greatest output is the quantized model's"),
)  # fmt: skip


class SampleTableModel(FigureTableModel[SampleRow]):
    """All samples that were run."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(SAMPLE_COLUMNS, lambda r: f"Sample {r.number}\nmeasured (FVP)", parent)


class TracedTableModel(FigureTableModel[TracedOperation]):
    """All operations that were traced."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(TRACED_COLUMNS, _describe, parent)
