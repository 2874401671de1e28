"""Timeline of one inference: NPU operations in sequence, with the CPU operators between them.

Vela 5.1 estimates an operation as the maximum of three figures: compute, SRAM and external
memory cycles (verified for all inspected tables), so they overlap within the operation. It
estimates no time for CPU operators: theirs is the rough figure of ``CpuNode``, at one clock with
the NPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from workbench.graph.snapshot import GraphSnapshot
from workbench.results import CpuNode, LowerResult, TracedOperation, VelaOperation, VelaReport


@dataclass(frozen=True)
class Span:
    """An NPU operation from ``start`` to ``end`` [cycles from the first operation's start].

    ``index`` is the index over all delegates in running order; ``measured`` is None if it has no
    measurement of its own. ``commands`` are the offsets of its commands in the command stream.
    """

    index: int
    delegate: int
    operation: VelaOperation
    start: float
    end: float
    measured: float | None = None
    commands: tuple[int, ...] = ()


@dataclass(frozen=True)
class CpuStop:
    """Consecutive CPU operators from ``at`` to ``end`` [cycles]; no length if not estimated."""

    at: float
    nodes: tuple[CpuNode, ...]
    end: float


@dataclass(frozen=True)
class Slice:
    """A stretch of the NPU's time with one name, and its first and last operation."""

    name: str
    start: float
    end: float
    first: int
    last: int


@dataclass(frozen=True)
class Sums:
    """Sums over several operations [cycles]; ``cycles`` as in the timeline.

    ``share`` is their part of all cycles, None if there are none; ``bounds`` counts operations by
    bottleneck.
    """

    operations: int
    cycles: float
    share: float | None
    estimated: int
    npu: int
    sram: int
    external: int
    macs: int
    bounds: dict[str, int]


@dataclass(frozen=True)
class Timeline:
    """Spans in running order and the CPU stops between them, without gaps.

    ``unplaced`` are CPU operators whose position is unknown.
    """

    spans: tuple[Span, ...] = ()
    stops: tuple[CpuStop, ...] = ()
    unplaced: tuple[CpuNode, ...] = ()
    is_measured: bool = False

    @property
    def end(self) -> float:
        """When the last operation ends [cycles]."""
        last_stop = self.stops[-1].end if self.stops else 0.0
        return max(self.spans[-1].end if self.spans else 0.0, last_stop)

    @cached_property
    def npu_cycles(self) -> float:
        """The cycles of all NPU operations."""
        return float(np.diff(self.edges, axis=1).sum())

    @cached_property
    def edges(self) -> NDArray[np.float64]:
        """Start and end of every operation, [operations, 2], both ascending."""
        return np.asarray([(s.start, s.end) for s in self.spans], np.float64).reshape(-1, 2)

    def at(self, cycle: float) -> int | None:
        """Return the place of the operation running at a cycle."""
        index = int(np.searchsorted(self.edges[:, 0], cycle, side="right")) - 1
        return index if index >= 0 and cycle < self.edges[index, 1] else None

    def between(self, low: float, high: float) -> list[int]:
        """Return the places of operations running between two cycles."""
        starts, ends = self.edges.T
        length = ends > starts
        runs = np.where(length, (ends > low) & (starts < high), (starts >= low) & (starts < high))
        return [int(index) for index in np.flatnonzero(runs)]

    def stops_between(self, low: float, high: float) -> list[int]:
        """Return the places of stops that touch a stretch of cycles, both ends inclusive."""
        return [n for n, stop in enumerate(self.stops) if stop.end >= low and stop.at <= high]

    def stretches(self, indices: Iterable[int]) -> list[tuple[float, float]]:
        """Return start and end of operations, with consecutive ones merged."""
        spans: list[tuple[float, float]] = []
        before = None
        for index in sorted(set(indices)):
            span = self.spans[index]
            if before is not None and index == before + 1 and spans[-1][1] == span.start:
                spans[-1] = (spans[-1][0], span.end)
            else:
                spans.append((span.start, span.end))
            before = index
        return spans

    def sums(self, indices: Iterable[int]) -> Sums:
        """Return the sums over operations."""
        spans = [self.spans[index] for index in indices]
        chosen = [span.operation for span in spans]
        cycles = sum(span.end - span.start for span in spans)
        bounds: dict[str, int] = {}
        for operation in chosen:
            if operation.bound:
                bounds[operation.bound] = bounds.get(operation.bound, 0) + 1
        return Sums(
            operations=len(chosen),
            cycles=cycles,
            share=cycles / self.npu_cycles if self.npu_cycles else None,
            estimated=sum(o.cycles for o in chosen),
            npu=sum(o.npu_cycles for o in chosen),
            sram=sum(o.sram_cycles for o in chosen),
            external=sum(o.external_cycles for o in chosen),
            macs=sum(o.macs for o in chosen),
            bounds=bounds,
        )


def modules(shown: Timeline) -> list[Slice]:
    """Return the modules, one after another; operations of none are left out."""
    return _runs(shown, [_levels(span.operation.module) for span in shown.spans])


def layers(shown: Timeline) -> list[Slice]:
    """Return the layers: modules up to their first number, as ``blocks.3``, or their first name.

    What the paths of all modules begin with is not counted.
    """
    paths = [_levels(span.operation.module) for span in shown.spans]
    named = [path for path in paths if path]
    # Paths between the least and the greatest begin with what these two have in common.
    ends = zip(min(named), max(named), strict=False) if len(set(named)) > 1 else ()
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], ends))
    return _runs(shown, [_layer(path, same) for path in paths])


def commands(shown: Timeline) -> list[Slice]:
    """Return the commands of the NPU; those of one operation share its cycles equally."""
    slices = []
    for index, span in enumerate(shown.spans):
        step = (span.end - span.start) / max(len(span.commands), 1)
        slices += [
            Slice(f"{offset:#x}", span.start + n * step, span.start + (n + 1) * step, index, index)
            for n, offset in enumerate(span.commands)
            if step > 0
        ]
    return slices


def _levels(module: str) -> tuple[str, ...]:
    return tuple(module.split(".")) if module else ()


def _layer(path: tuple[str, ...], same: int) -> tuple[str, ...]:
    for depth in range(same, len(path)):
        if path[depth].isdigit():
            return path[: depth + 1]
    return path[: same + 1]


def _runs(shown: Timeline, paths: Sequence[tuple[str, ...]]) -> list[Slice]:
    """Return the slices of operations in a row that have one path."""
    runs: list[Slice] = []
    for index, (span, path) in enumerate(zip(shown.spans, paths, strict=True)):
        name = ".".join(path)
        if not name or span.end <= span.start:
            continue
        last = runs[-1] if runs else None
        if last is not None and (last.name, last.end) == (name, span.start):
            runs[-1] = replace(last, end=span.end, last=index)
        else:
            runs.append(Slice(name, span.start, span.end, index, index))
    return runs


def is_trace_of(traced: Sequence[TracedOperation], lowered: LowerResult) -> bool:
    """Return whether the measured cycles belong to exactly these operations."""
    rows = [(r.delegate, o.operator, o.name) for r in lowered.vela for o in r.operations]
    return rows == [(t.delegate, t.operator, t.name) for t in traced] and any(
        t.cycles is not None for t in traced
    )


def timeline(
    lowered: LowerResult,
    program: GraphSnapshot | None,
    traced: Sequence[TracedOperation] = (),
    *,
    cpu_time: bool = True,
) -> Timeline:
    """Return the timeline of one inference.

    Args:
        lowered: The compiled program with Vela's reports.
        program: Its graph; delegates and CPU operators run in node order. Without it the
            delegates run in sequence, and CPU operators have no position.
        traced: Measured cycles of the same operations; spans then have the measured length, and
            those without a measurement have length zero.
        cpu_time: Whether CPU operators take their roughly estimated time; else they take none.
    """
    draft = _Draft(traced, cpu_time)
    waiting = {node.node: node for node in lowered.cpu_nodes}
    reports = iter(lowered.vela)
    for node in program.nodes if program else ():
        # Names of nested nodes start with the delegate or branch and a slash.
        if node.kind == "delegate" and "/" not in node.id:
            if (report := next(reports, None)) is not None:
                draft.run(report)
        elif node.id in waiting:
            draft.stop(waiting.pop(node.id))
    for report in reports:
        draft.run(report)
    draft.close()
    return Timeline(tuple(draft.spans), tuple(draft.stops), tuple(waiting.values()), is_measured=bool(traced))


@dataclass
class _Draft:
    """A timeline under construction, up to ``now`` [cycles]."""

    traced: Sequence[TracedOperation]
    cpu_time: bool
    now: float = 0.0
    spans: list[Span] = field(default_factory=list)
    stops: list[CpuStop] = field(default_factory=list)
    _nodes: list[CpuNode] = field(default_factory=list)

    def run(self, report: VelaReport) -> None:
        """Add the operations of a delegate."""
        self.close()
        offsets: dict[int | None, list[int]] = {}
        for command in report.commands:
            offsets.setdefault(command.operation, []).append(command.offset)
        for number, operation in enumerate(report.operations):
            index = len(self.spans)
            measured = self.traced[index].cycles if self.traced else None
            length = (measured or 0.0) if self.traced else float(operation.cycles)
            end = self.now + length
            starts = tuple(offsets.get(number, ()))
            self.spans.append(Span(index, report.delegate, operation, self.now, end, measured, starts))
            self.now = end

    def stop(self, node: CpuNode) -> None:
        """Add a CPU operator."""
        self._nodes.append(node)

    def close(self) -> None:
        """Close the current run of CPU operators."""
        if self._nodes:
            cycles = sum(node.cycles for node in self._nodes) if self.cpu_time else 0
            self.stops.append(CpuStop(self.now, tuple(self._nodes), self.now + cycles))
            self._nodes, self.now = [], self.now + cycles
