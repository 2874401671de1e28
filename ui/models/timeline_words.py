"""Sentences about a timeline: where its figures come from, sums, and what the CPU does."""

from __future__ import annotations

from collections.abc import Sequence

from ui.figures import count, percent
from workbench.analysis.timeline import CpuStop, Timeline
from workbench.graph.labels import operator_name
from workbench.results import CpuNode, LowerResult
from workbench.text import plural

_MOST_LINES = 12


def origin_sentence(lowered: LowerResult, shown: Timeline, origin: str) -> str:
    """Return what the lanes show and what nobody knows.

    ``origin`` is how the cycles came about, e.g. ``estimated (Vela 5.1.0)``.
    """
    where = f"{lowered.target}, {lowered.system_config}, {lowered.memory_mode}"
    said = [f"{origin[:1].upper()}{origin[1:]} for {where}."]
    if shown.is_measured:
        said.append("A mean over the inferences. Memories are not measured by operation.")
        without = sum(1 for span in shown.spans if span.measured is None)
        if without:
            without_length = plural(without, "operation")
            said.append(f"Not measured by itself, so without a length here: {without_length}.")
    elif shown.spans:
        said.append(
            "Darker: computing. When in an operation a memory is busy is not known: it is drawn "
            "from the start."
        )
    else:
        said.append("Nothing runs on the NPU.")
    if shown.stops:
        said.append("\u25c6 operators on the CPU: Vela does not say how long they take.")
    if shown.unplaced:
        number = len(shown.unplaced)
        said.append(f"Of {count(number)} on the CPU it is not known when they run.")
    return " ".join(said)


def sums_sentence(shown: Timeline, places: Sequence[int], nodes: Sequence[CpuNode]) -> str:
    """Return the figures of operations, and how many operators on the CPU; "" for nothing."""
    said = []
    if places:
        sums = shown.sums(places)
        kind = "measured" if shown.is_measured else "estimated"
        parts = [
            f"{plural(sums.operations, 'operation')} on the NPU: {count(sums.cycles)} cycles "
            f"{kind}, {percent(sums.share)} of all"
        ]
        if shown.is_measured:
            parts.append(f"{count(sums.estimated)} estimated")
        parts.append(f"computing {count(sums.npu)}, SRAM {count(sums.sram)}, external memory "
                     f"{count(sums.external)} cycles estimated")  # fmt: skip
        parts.append(f"{count(sums.macs)} MACs")
        most_first = sorted(sums.bounds.items(), key=lambda pair: -pair[1])
        if most_first:
            parts.append("bound by " + ", ".join(f"{what} ({count(n)})" for what, n in most_first))
        said.append("; ".join(parts) + ".")
    if nodes:
        names = ", ".join(dict.fromkeys(operator_name(node.op) for node in nodes[:_MOST_LINES]))
        said.append(f"{plural(len(nodes), 'operator')} on the CPU, length unknown: {names}.")
    return " ".join(said)


def describe_stop(stop: CpuStop) -> str:
    """Return what the CPU does at a stop, in lines."""
    lines = [f"{plural(len(stop.nodes), 'operator')} on the CPU, length unknown"]
    for node in stop.nodes[:_MOST_LINES]:
        lines.append(f"{operator_name(node.op)}  {node.module}".rstrip())
        if node.reason:
            lines.append(f"    {node.reason}")
    if len(stop.nodes) > _MOST_LINES:
        lines.append(f"and {count(len(stop.nodes) - _MOST_LINES)} more")
    return "\n".join(lines)
