"""Tables of the compiled program: NPU operations, CPU operators and deliverables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from PySide6.QtCore import QObject

from ui.shared.number_format import DASH, count, percent, size
from ui.shared.sortable_table import Column, FigureTableModel
from workbench.graph.labels import operator_name
from workbench.graph.snapshot import Node
from workbench.results import CpuNode, Deliverable, LowerResult, VelaOperation
from workbench.targets import macs_per_cycle
from workbench.targets.ethos_u.cycle_corrections import CYCLE_CORRECTIONS_BY_ID
from workbench.targets.ethos_u.efficiency import CAUSES

UNMATCHED = "(no module)"


@dataclass(frozen=True)
class OperationRow:
    """One operation of one delegate. ``share`` is its fraction of all cycles.

    ``use`` is the fraction of the device's peak MACs, ``bandwidth`` the memory traffic
    [bytes/s], ``node`` its node in the float graph, if known.
    """

    index: int
    delegate: int
    operation: VelaOperation
    share: float | None
    use: float | None = None
    bandwidth: float | None = None
    node: Node | None = None

    @property
    def line(self) -> str:
        """Its source line."""
        return self.node.source if self.node else ""


@dataclass(frozen=True)
class ModuleCost:
    """The summed cost of the operations of a module; "" is operations without a module."""

    module: str
    cycles: int
    operations: int
    share: float | None

    @property
    def name(self) -> str:
        """The module's name, or a placeholder for none."""
        return self.module or UNMATCHED


def operation_rows(lowered: LowerResult, nodes: Mapping[str, Node] | None = None) -> list[OperationRow]:
    """Return the operations of every delegate, in the order they run.

    Args:
        lowered: The compiled program.
        nodes: Nodes of the float graph by id.
    """
    pairs = [(report, o) for report in lowered.vela for o in report.operations]
    total = sum(operation.cycles for _, operation in pairs)
    peak = macs_per_cycle(lowered.target)
    rows = []
    for index, (report, operation) in enumerate(pairs):
        cycles = operation.cycles
        clock = report.cycles_total / report.inference_ms * 1e3 if report.inference_ms else 0.0
        moved = operation.sram_traffic + operation.external_traffic
        rows.append(
            OperationRow(
                index,
                report.delegate,
                operation,
                cycles / total if total else None,
                operation.macs / (cycles * peak) if cycles and peak and operation.macs else None,
                moved * clock / cycles if cycles and moved else None,
                (nodes or {}).get(operation.root),
            )
        )
    return rows


def roll_up(rows: Iterable[OperationRow], depth: int) -> list[ModuleCost]:
    """Return the cost by module in execution order, with names cut to ``depth`` parts."""
    cycles: dict[str, int] = {}
    counts: dict[str, int] = {}
    for row in rows:
        name = ".".join(row.operation.module.split(".")[:depth])
        cycles[name] = cycles.get(name, 0) + row.operation.cycles
        counts[name] = counts.get(name, 0) + 1
    total = sum(cycles.values())
    return [
        ModuleCost(name, spent, counts[name], spent / total if total else None)
        for name, spent in cycles.items()
    ]


def depths(rows: Iterable[OperationRow]) -> int:
    """Return the greatest number of parts of a module name, at least 1."""
    return max((row.operation.module.count(".") + 1 for row in rows), default=1)


def describe_operation(row: OperationRow) -> str:
    """Return the figures of an operation, one per line."""
    operation = row.operation
    lines = (
        f"{operation.operator}  {operation.name}",
        operation.module or "not matched to a module",
        f"{count(operation.cycles)} cycles, {percent(row.share)} of all",
        *corrected_cycles(operation),
        f"NPU {count(operation.npu_cycles)}, SRAM {count(operation.sram_cycles)}, "
        f"external memory {count(operation.external_cycles)} cycles",
        f"bound by {operation.bound}" if operation.bound else "",
        f"{count(operation.macs)} MACs, {size(operation.staging_bytes)} of SRAM in use",
        f"{size(operation.sram_traffic)} through SRAM, {size(operation.external_traffic)} through "
        f"external memory",
        row.line,
        f"{operation.tosa}, delegate {row.delegate}".removeprefix(", "),
        "estimated by Vela" + (", corrected" if operation.corrections else ""),
    )
    return "\n".join(line for line in lines if line)


def corrected_cycles(operation: VelaOperation) -> list[str]:
    """Return what Vela says of an operation's cycles, and why another figure is shown."""
    if not operation.corrections:
        return []
    titles = (CYCLE_CORRECTIONS_BY_ID[id_].title.lower() for id_ in operation.corrections)
    return [f"Vela says {count(operation.cycles_vela)} cycles; corrected: {', '.join(titles)}"]


OPERATION_COLUMNS: tuple[Column[OperationRow], ...] = (
    Column("#", lambda r: str(r.index), lambda r: r.index, "Execution order"),
    Column("Operator", lambda r: r.operation.operator),
    Column("Module", lambda r: r.operation.module or DASH),
    Column(
        "Cycles",
        lambda r: count(r.operation.cycles),
        lambda r: r.operation.cycles,
        "Estimated cycles, memory included; corrected where Vela is known to be wrong",
    ),
    Column(
        "Share",
        lambda r: percent(r.share),
        lambda r: r.share,
        "Fraction of all cycles",
        share=lambda r: r.share,
    ),
    Column(
        "Efficiency",
        lambda r: percent(r.operation.efficiency, 0),
        lambda r: r.operation.efficiency,
        "Limit of the device for its products and bytes, as a part of the cycles",
    ),
    Column(
        "Lost to", lambda r: CAUSES.get(r.operation.cause, DASH), None, "Why the efficiency is below one half"
    ),
    Column("MACs", lambda r: count(r.operation.macs), lambda r: r.operation.macs, "Multiply-accumulates"),
    Column(
        "Bound by",
        lambda r: r.operation.bound or DASH,
        None,
        "Bottleneck: MACs, output write, command issue, weight decoding or a memory",
    ),
    Column(
        "Utilisation",
        lambda r: percent(r.use, 0),
        lambda r: r.use,
        "Fraction of the device's peak MACs, including memory stalls",
    ),
    Column(
        "Bandwidth",
        lambda r: DASH if r.bandwidth is None else f"{r.bandwidth / 1e9:.2f} GB/s",
        lambda r: r.bandwidth,
        "Traffic of all memories",
    ),
    Column(
        "Weights",
        lambda r: count(r.operation.weights) if r.operation.weights else DASH,
        lambda r: r.operation.weights,
        "Number of weights before encoding",
    ),
    Column(
        "Encoded [B]",
        lambda r: count(r.operation.weight_bytes) if r.operation.weight_bytes else DASH,
        lambda r: r.operation.weight_bytes,
        "Size of the encoded weights",
    ),
    Column(
        "Vela says",
        lambda r: count(r.operation.cycles_vela),
        lambda r: r.operation.cycles_vela,
        "Cycles of Vela's own estimate",
    ),
    Column(
        "NPU cycles",
        lambda r: count(r.operation.npu_cycles),
        lambda r: r.operation.npu_cycles,
        "Without memory stalls",
    ),
    Column(
        "SRAM cycles",
        lambda r: count(r.operation.sram_cycles),
        lambda r: r.operation.sram_cycles,
        "Cycles with SRAM accesses",
    ),
    Column(
        "External cycles",
        lambda r: count(r.operation.external_cycles),
        lambda r: r.operation.external_cycles,
        "Cycles with flash or DRAM accesses",
    ),
    Column(
        "Staging [B]",
        lambda r: count(r.operation.staging_bytes),
        lambda r: r.operation.staging_bytes,
        "SRAM in use during the operation",
    ),
    Column("Delegate", lambda r: str(r.delegate), lambda r: r.delegate),
    Column("TOSA", lambda r: operator_name(r.operation.tosa) or DASH),
    Column("ATen", lambda r: operator_name(r.node.op) if r.node else DASH),
    Column("Line", lambda r: r.line or DASH),
    Column("Name", lambda r: r.operation.name),
)
CPU_COLUMNS: tuple[Column[CpuNode], ...] = (
    Column("Operator", lambda r: operator_name(r.op)),
    Column("Reason", lambda r: r.reason),
    Column("Module", lambda r: r.module or DASH),
    Column("Node", lambda r: r.node),
)
FILE_COLUMNS: tuple[Column[Deliverable], ...] = (
    Column("File", lambda r: r.name),
    Column("Size [B]", lambda r: count(r.bytes), lambda r: r.bytes, "Measured: the file on disk"),
    Column("Description", lambda r: r.purpose),
    Column("SHA-256", lambda r: r.sha256, gives_way=True),
)


SHARE, DELEGATE = (
    next(place for place, column in enumerate(OPERATION_COLUMNS) if column.title == title)
    for title in ("Share", "Delegate")
)


class OperationTableModel(FigureTableModel[OperationRow]):
    """The operations on the NPU."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(OPERATION_COLUMNS, describe_operation, parent)


class CpuTableModel(FigureTableModel[CpuNode]):
    """The operators on the CPU."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(CPU_COLUMNS, lambda r: f"{r.node}\n{r.op}\n{r.reason}", parent)


class FileTableModel(FigureTableModel[Deliverable]):
    """The files of the deliverables."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(FILE_COLUMNS, lambda r: f"{r.name}: {r.purpose}\n{r.sha256}", parent)
