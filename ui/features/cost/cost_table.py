"""Columns of the operations on the NPU and on the CPU, and of their modules."""

from __future__ import annotations

from collections.abc import Iterable

from ui.shared.npu_operations import OperationRow, efficiency_lines
from ui.shared.number_format import DASH, count, percent
from ui.shared.sortable_table import Column
from workbench.graph.labels import operator_name
from workbench.results import OUTSIDE_MODULES, CpuNode, ModuleCycles
from workbench.targets.ethos_u.efficiency import CAUSES
from workbench.text import plural


def module_name(cost: ModuleCycles) -> str:
    """Return the name of a module, or a placeholder for none."""
    return cost.module or OUTSIDE_MODULES


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
        lambda r: percent(r.operation.efficiency, 0) if r.operation.cycles else DASH,
        lambda r: r.operation.efficiency if r.operation.cycles else None,
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

MODULE_COLUMNS: tuple[Column[ModuleCycles], ...] = (
    Column("Module", module_name),
    Column("Operations", lambda m: count(m.operations), lambda m: m.operations, "Operations on the NPU"),
    Column("Cycles", lambda m: count(m.cycles), lambda m: m.cycles, "Estimated cycles, memory included"),
    Column(
        "Share",
        lambda m: percent(m.share),
        lambda m: m.share,
        "Fraction of all cycles",
        share=lambda m: m.share,
    ),
    Column(
        "Efficiency",
        lambda m: percent(m.efficiency, 0),
        lambda m: m.efficiency,
        "Limits of the device for its operations, one after another, as a part of its cycles",
    ),
    Column(
        "Above the limit",
        lambda m: count(m.cycles - m.ideal_cycles),
        lambda m: m.cycles - m.ideal_cycles,
        "Cycles beyond the limits of the device",
    ),
    Column("Lost to", lambda m: CAUSES.get(m.cause, DASH), None, "Why the efficiency is below one half"),
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
MODULE_SHARE = next(place for place, column in enumerate(MODULE_COLUMNS) if column.title == "Share")


def describe_cpu_node(row: CpuNode) -> str:
    """Return the tooltip of a row of the operators on the CPU."""
    return f"{row.node}\n{row.op}\n{row.reason}"


def describe_module(cost: ModuleCycles) -> str:
    """Return the figures of a module, one per line."""
    return "\n".join(
        (
            module_name(cost),
            f"{count(cost.cycles)} cycles, {percent(cost.share)} of all",
            *efficiency_lines(cost),
            f"{plural(cost.operations, 'operation')}, estimated by Vela",
        )
    )
