"""Columns of the operations on the NPU and on the CPU, and their cost by module."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ui.shared.npu_operations import UNMATCHED, OperationRow
from ui.shared.number_format import DASH, count, percent
from ui.shared.sortable_table import Column
from workbench.graph.labels import operator_name
from workbench.results import CpuNode
from workbench.targets.ethos_u.efficiency import CAUSES


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

SHARE, DELEGATE = (
    next(place for place, column in enumerate(OPERATION_COLUMNS) if column.title == title)
    for title in ("Share", "Delegate")
)


def describe_cpu_node(row: CpuNode) -> str:
    """Return the tooltip of a row of the operators on the CPU."""
    return f"{row.node}\n{row.op}\n{row.reason}"
