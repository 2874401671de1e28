"""The operations on the NPU with their cycles, as rows of tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ui.shared.number_format import count, percent, size
from workbench.graph.snapshot import Node
from workbench.results import LowerResult, ModuleCycles, VelaOperation
from workbench.targets import macs_per_cycle
from workbench.targets.ethos_u.cycle_corrections import CYCLE_CORRECTIONS_BY_ID
from workbench.targets.ethos_u.efficiency import CAUSES


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


def describe_operation(row: OperationRow) -> str:
    """Return the figures of an operation, one per line."""
    operation = row.operation
    lines = (
        f"{operation.operator}  {operation.name}",
        operation.module or "not matched to a module",
        f"{count(operation.cycles)} cycles, {percent(row.share)} of all",
        *efficiency_lines(operation),
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


def efficiency_lines(part: VelaOperation | ModuleCycles) -> list[str]:
    """Return how near an operation or module is to the device's limit, and what keeps it away."""
    if not part.ideal_cycles:
        return []
    cause = f"; lost to {CAUSES[part.cause]}" if part.cause else ""
    limit = f"the device needs at least {count(part.ideal_cycles)} cycles"
    return [f"efficiency {percent(part.efficiency, 0)}: {limit}{cause}"]


def corrected_cycles(operation: VelaOperation) -> list[str]:
    """Return what Vela says of an operation's cycles, and why another figure is shown."""
    if not operation.corrections:
        return []
    titles = (CYCLE_CORRECTIONS_BY_ID[id_].title.lower() for id_ in operation.corrections)
    return [f"Vela says {count(operation.cycles_vela)} cycles; corrected: {', '.join(titles)}"]
