"""The tables of the TFLite panel: layers, causes, sums, CPU operators and outputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from PySide6.QtCore import QObject

from ui.shared.number_format import count, decibel, milliseconds, size
from ui.shared.sortable_table import Column, FigureTableModel
from workbench.studies.tflite import (
    CAUSES,
    ComparedLayer,
    CpuOperator,
    LayerSide,
    OutputAgreement,
    SideTotals,
    TfliteComparison,
)
from workbench.text import plural

_NONE = "\u2013"


@dataclass(frozen=True)
class CauseRow:
    """A cause with the cycles that the program takes more for it, and in how many layers."""

    title: str
    meaning: str
    cycles: int
    layers: int


@dataclass(frozen=True)
class FigureRow:
    """A figure of both programs, as texts."""

    title: str
    program: str
    tflite: str


def causes_of(result: TfliteComparison) -> list[CauseRow]:
    """Return the rows of the causes, largest first."""
    return [CauseRow(*CAUSES[cause], cycles, layers) for cause, cycles, layers in result.causes()]


def figures_of(result: TfliteComparison) -> list[FigureRow]:
    """Return the sums of both programs."""
    sides = result.program, result.tflite
    rows = zip(_figures(sides[0]), _figures(sides[1]), strict=True)
    return [FigureRow(title, ours, theirs) for (title, ours), (_, theirs) in rows]


def _figures(side: SideTotals) -> Iterator[tuple[str, str]]:
    yield "NPU cycles", count(side.cycles)
    yield "as Vela says", _NONE if side.cycles_vela is None else count(side.cycles_vela)
    yield "NPU time", _NONE if side.inference_ms is None else milliseconds(side.inference_ms)
    yield "SRAM", size(side.sram_bytes)
    yield "Constants", size(side.constant_bytes)
    yield "MACs", count(side.macs)
    yield "NPU operations", count(side.operations)
    yield "Delegates", count(side.delegates)
    yield "CPU operators", count(sum(side.cpu.values()))


def layer_columns() -> list[Column[ComparedLayer]]:
    """Return the columns of the layers."""
    return [
        Column("Layer", lambda row: _name(row.ours), gives_way=True),
        Column("TensorFlow Lite", lambda row: _name(row.theirs), gives_way=True),
        Column("Cycles", lambda row: _cycles(row.ours), lambda row: row.ours.cycles if row.ours else None),
        Column(
            "There", lambda row: _cycles(row.theirs), lambda row: row.theirs.cycles if row.theirs else None
        ),
        Column(
            "More",
            lambda row: _signed(row.difference),
            lambda row: row.difference,
            "The cycles that the program takes more than TensorFlow Lite",
        ),
        Column("Causes", _causes),
    ]


def layer_tip(row: ComparedLayer) -> str:
    """Return both sides of a layer in full."""
    lines = []
    for title, side in (("Program", row.ours), ("TensorFlow Lite", row.theirs)):
        if side is None:
            lines.append(f"{title}: no such layer")
            continue
        shape = " x ".join(map(str, side.output_shape))
        fused = f", with {', '.join(side.fused)}" if side.fused else ""
        operators = ", ".join(side.operators) or "no operation of its own"
        lines += [f"{title}: {side.name}", f"  {operators}{fused}; output {shape}; {count(side.macs)} MACs"]
    lines += [f"{CAUSES[share.cause][0]}: {_signed(share.cycles)} cycles" for share in row.shares]
    return "\n".join(lines)


def cause_columns() -> list[Column[CauseRow]]:
    """Return the columns of the causes."""
    return [
        Column("Cause", lambda row: row.title, gives_way=True),
        Column("More cycles", lambda row: _signed(row.cycles), lambda row: row.cycles),
        Column("In", lambda row: plural(row.layers, "layer"), lambda row: row.layers),
        Column("What it means", lambda row: row.meaning, gives_way=True),
    ]


def totals_model(parent: QObject) -> FigureTableModel[FigureRow]:
    """Return the table of the sums."""
    columns = [
        Column[FigureRow]("", lambda row: row.title),
        Column[FigureRow]("Program", lambda row: row.program, lambda row: row.program),
        Column[FigureRow]("TensorFlow Lite", lambda row: row.tflite, lambda row: row.tflite),
    ]
    return FigureTableModel(columns, lambda row: row.title, parent)


def on_cpu_model(parent: QObject) -> FigureTableModel[CpuOperator]:
    """Return the table of the program's CPU operators."""
    columns = [
        Column[CpuOperator]("Operator", lambda row: row.op, gives_way=True),
        Column[CpuOperator]("Module", lambda row: row.module, gives_way=True),
        Column[CpuOperator]("Cycles, roughly", lambda row: count(row.cycles), lambda row: row.cycles),
        Column[CpuOperator]("Reason", lambda row: row.reason),
    ]
    return FigureTableModel(columns, lambda row: row.reason, parent)


def outputs_model(parent: QObject) -> FigureTableModel[OutputAgreement]:
    """Return the table of the outputs."""
    columns = [
        Column[OutputAgreement]("Output", lambda row: row.name, gives_way=True),
        _decibels("Program to float", "program_db"),
        _decibels("TensorFlow Lite to float", "tflite_db"),
        _decibels("Program to TensorFlow Lite", "between_db"),
    ]
    return FigureTableModel(columns, lambda row: f"{row.name}: {count(row.elements)} elements", parent)


def _decibels(title: str, figure: str) -> Column[OutputAgreement]:
    def text(row: OutputAgreement) -> str:
        value: float | None = getattr(row, figure)
        return "equal" if value is None else decibel(value)

    return Column(title, text, lambda row: getattr(row, figure), "SQNR of the output on the samples")


def _name(side: LayerSide | None) -> str:
    return side.name if side is not None else _NONE


def _cycles(side: LayerSide | None) -> str:
    return count(side.cycles) if side is not None else _NONE


def _signed(cycles: int) -> str:
    return f"{cycles:+,}" if cycles else "="


def _causes(row: ComparedLayer) -> str:
    return ", ".join(f"{CAUSES[share.cause][0].lower()} {share.cycles:+,}" for share in row.shares)
