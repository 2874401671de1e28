"""What results tell about the levels of a program, worked out away from the window's thread."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from ui.graph.levels import FLOAT, LEVELS_BY_ID
from ui.graph.marking import chips, reasons
from ui.graph.measures import (
    CompiledRow,
    Measure,
    compiled_rows,
    cost,
    differences,
    quality,
    traced,
)
from ui.wording import why
from workbench.errors import Cancelled, WorkbenchError
from workbench.graph.lineage import Lineage
from workbench.graph.snapshot import GraphSnapshot
from workbench.project.frozen import Frozen
from workbench.targets import macs_per_cycle

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from workbench.graph.numbers_file import NumbersFile
    from workbench.project.model import Rule
    from workbench.project.rules import Effective
    from workbench.results import LowerResult

Result = TypeVar("Result", bound=Frozen)
READINGS_KEPT = 12


@dataclass(frozen=True)
class Inquiry:
    """What is asked: the level that shows, and all that is known to answer from.

    ``files`` has the graph of every level there is, ``results`` the folder of every stage's
    current result, ``first`` the float program, which is read elsewhere already. ``against`` has
    the results of a run that stands beside.
    """

    level: str
    files: Mapping[str, Path]
    results: Mapping[str, Path]
    first: GraphSnapshot | None
    nodes: Mapping[str, Effective] = field(default_factory=dict)
    rules: Sequence[Rule] = ()
    dropped: Sequence[NumbersFile] = ()
    against: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class Survey:
    """The answer: how levels relate, and what is told about the operations of the one that shows.

    ``chips`` and ``tips`` are the config of each operation, short and in words; ``numbers`` has
    the values of each measure.
    """

    level: str = FLOAT
    lineage: Lineage = field(default_factory=lambda: Lineage({}))
    chips: Mapping[str, str] = field(default_factory=dict)
    tips: Mapping[str, str] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    rows: tuple[CompiledRow, ...] | None = None
    measures: Mapping[str, Measure] = field(default_factory=dict)
    numbers: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


class Surveyor:
    """Answers inquiries. Files are read once; used from one thread at a time."""

    def __init__(self) -> None:
        self._read: dict[tuple[Path, int], GraphSnapshot | WorkbenchError] = {}
        self._results: dict[Path, Frozen | None] = {}
        self._lineage = Lineage({})

    def snapshot(self, path: Path) -> GraphSnapshot | WorkbenchError:
        """Return the graph of a file, or why it cannot be had."""
        # A damaged result is computed anew in the same folder.
        key = (path, path.stat().st_mtime_ns if path.is_file() else 0)
        if key not in self._read:
            while len(self._read) >= READINGS_KEPT:
                del self._read[next(iter(self._read))]
            try:
                self._read[key] = GraphSnapshot.load(path)
            except WorkbenchError as error:
                self._read[key] = error
        return self._read[key]

    def answer(self, inquiry: Inquiry, outdated: Callable[[], bool]) -> Survey:
        """Return what results tell.

        Raises:
            Cancelled: a newer inquiry waits.
        """
        from workbench.results import EvaluateResult, LowerResult, PrepareResult, SimulationResult

        level, lineage = inquiry.level, self._relate(inquiry, outdated)
        lowered = self._result(LowerResult, inquiry.results, "lower")
        prepared = self._result(PrepareResult, inquiry.results, "prepare")
        evaluated = self._result(EvaluateResult, inquiry.results, "evaluate")
        _stop_if(outdated)
        rows = compiled_rows(lowered, lineage)
        found = quality(evaluated, lineage) if evaluated else []
        found += cost(rows or (), lineage.first, _peak(lowered))
        simulated = self._result(SimulationResult, inquiry.results, "run")
        if simulated is not None:
            found += traced(simulated, rows or (), lineage.first)
        if inquiry.against:
            found += differences(found, self._against(inquiry, lineage))
        found += [m for numbers in inquiry.dropped for m in numbers_of(numbers, lineage, level)]
        _stop_if(outdated)
        mine = self._configs(inquiry, lineage)
        known = lineage.levels[level].nodes_by_id if level in lineage.levels else {}
        tips = {i: why(e, inquiry.rules, known[i].module) for i, e in mine.items() if i in known}
        return Survey(
            level, lineage, {i: e.chip for i, e in mine.items()}, tips,
            reasons(prepared, lowered, lineage, level, inquiry.nodes), rows,
            {m.id: m for m in found}, {m.id: m.at(level, lineage) for m in found},
        )  # fmt: skip

    def _against(self, inquiry: Inquiry, lineage: Lineage) -> list[Measure]:
        """Return the numbers of the run beside, told by module: its TOSA is another program."""
        from workbench.results import EvaluateResult, LowerResult

        lowered = self._result(LowerResult, inquiry.against, "lower")
        evaluated = self._result(EvaluateResult, inquiry.against, "evaluate")
        rows = compiled_rows(lowered, lineage, by_name=False)
        return [
            *(quality(evaluated, lineage) if evaluated else ()),
            *cost(rows or (), lineage.first, _peak(lowered)),
        ]

    def _configs(self, inquiry: Inquiry, lineage: Lineage) -> Mapping[str, Effective]:
        if inquiry.level != FLOAT:
            return chips(lineage, inquiry.level, inquiry.nodes)
        return float_configs(inquiry.first, inquiry.nodes)

    def _relate(self, inquiry: Inquiry, outdated: Callable[[], bool]) -> Lineage:
        """Return how the levels relate; what cannot be read is left out."""
        levels: dict[str, GraphSnapshot] = {}
        for level in LEVELS_BY_ID:
            _stop_if(outdated)
            read: object = inquiry.first if level == FLOAT else None
            if level != FLOAT and level in inquiry.files and inquiry.first is not None:
                read = self.snapshot(inquiry.files[level])
            if isinstance(read, GraphSnapshot):
                levels[level] = read
        known = self._lineage.levels
        if list(known) != list(levels) or any(known[s] is not levels[s] for s in levels):
            self._lineage = Lineage(levels)
        return self._lineage

    def _result(self, kind: type[Result], folders: Mapping[str, Path], stage: str) -> Result | None:
        from workbench.results import load_result

        folder = folders.get(stage)
        if folder is None:
            return None
        if folder not in self._results:
            while len(self._results) >= READINGS_KEPT:
                del self._results[next(iter(self._results))]
            try:
                self._results[folder] = load_result(kind, folder)
            except WorkbenchError:
                return None
        found = self._results[folder]
        return found if isinstance(found, kind) else None


def float_configs(
    snapshot: GraphSnapshot | None, nodes: Mapping[str, Effective]
) -> dict[str, Effective]:
    """Return the config of every operation of the float program."""
    calls = [n.id for n in snapshot.nodes if n.kind == "call"] if snapshot else []
    return {node_id: nodes[node_id] for node_id in calls if node_id in nodes}


def numbers_of(numbers: NumbersFile, lineage: Lineage, level: str) -> list[Measure]:
    """Return the columns of a file that was dropped, by the level whose operations it names."""
    found = []
    for title, values in numbers.columns.items():
        at = lineage.level_of(values, level) or level
        name = measure_id(title)
        is_split = any(v < 0 for v in values.values()) and any(v > 0 for v in values.values())
        middle = 0.0 if is_split else None
        found.append(
            Measure(name, title, f"from {numbers.name}", dict(values), at,
                    "highest" if middle is None else "farthest",
                    None if middle is not None else False, middle=middle)
        )  # fmt: skip
    return found


def measure_id(title: str) -> str:
    """Return the name by which a column can be searched, e.g. ``latency_ms``."""
    return re.sub(r"\W+", "_", title.strip().lower()).strip("_") or "number"


def _stop_if(outdated: Callable[[], bool]) -> None:
    if outdated():
        raise Cancelled


def _peak(lowered: LowerResult | None) -> int:
    """Return how much the device that was compiled for can do in a cycle."""
    return macs_per_cycle(lowered.target) if lowered is not None else 0
