"""Overlay data of the graph levels, computed from results in a worker thread."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from ui.shared.explanations import why
from workbench.errors import Cancelled, WorkbenchError
from workbench.graph.lineage import Lineage, attribute
from workbench.graph.snapshot import GraphSnapshot
from workbench.ids import StageId
from workbench.pipeline.stages import STAGES_BY_ID
from workbench.project.frozen import Frozen
from workbench.results import DEVICE_GRAPH_FILE, GRAPH_FILE
from workbench.targets import macs_per_cycle

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from ui.features.graph.marks import Merge
    from ui.state.results import ResultCache
    from workbench.graph.numbers_file import NumbersFile
    from workbench.project.model import Rule
    from workbench.project.rules import Effective
    from workbench.results import EvaluateResult, LowerResult, PrepareResult, SimulationResult, VelaOperation


@dataclass(frozen=True)
class Level:
    """One graph level: its stage, its file, its title and its description."""

    id: str
    stage: StageId
    file: str
    title: str
    words: str


LEVELS = (
    Level("export", "export", GRAPH_FILE, "Float", "The exported program"),
    Level("prepare", "prepare", GRAPH_FILE, "Prepared", "The program with observers"),
    Level(
        "convert", "convert", GRAPH_FILE, "Quantized", "The program with quantize and dequantize operators"
    ),
    Level("lower", "lower", GRAPH_FILE, "Edge", "The compiled program, NPU parts as groups"),
    Level("device", "lower", DEVICE_GRAPH_FILE, "TOSA", "The NPU parts as TOSA, the input of Vela"),
)
LEVELS_BY_ID = {level.id: level for level in LEVELS}


def how_to_make(level: str) -> str:
    """Return which stage makes the graph of a level, as an instruction."""
    return f"{STAGES_BY_ID[LEVELS_BY_ID[level].stage].title} to create it."


FLOAT, PREPARED, QUANTIZED, EDGE, DEVICE = (level.id for level in LEVELS)


@dataclass(frozen=True)
class Measure:
    """A number per operation of one level, for overlays and searches.

    ``how`` is its origin. ``log`` is None if a logarithmic scale makes no sense, else
    whether the initial scale is logarithmic. ``assigned`` is the assigned fraction of the total.
    ``middle`` is the centre of a diverging scale. ``exact`` has values by level that need no
    translation. ``weigher`` is the id of the measure by which the merge "mean" weighs.
    """

    id: str
    title: str
    how: str
    values: dict[str, float]
    level: str
    merge: Merge
    log: bool | None = None
    assigned: float = 1.0
    middle: float | None = None
    exact: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    weigher: str = ""

    @property
    def legend(self) -> str:
        """The title of the legend."""
        part = "" if self.assigned > 0.995 else f", {math.floor(self.assigned * 100)} % assigned"
        return f"{self.title}, {self.how}{part}"

    def at(self, level: str, lineage: Lineage) -> dict[str, float]:
        """Return the values translated to the operations of another level."""
        if level in self.exact:
            return dict(self.exact[level])
        return lineage.carry(self.values, self.level, level)


def quality(result: EvaluateResult, lineage: Lineage) -> list[Measure]:
    """Return SQNR, added error and maximum error of each tensor; equal ones have infinite SQNR."""
    level = lineage.level_of([t.tensor for t in result.tensors], QUANTIZED) or lineage.first
    sqnr = {t.tensor: math.inf if t.sqnr_db is None else t.sqnr_db for t in result.tensors}
    error = {t.tensor: t.max_abs_error for t in result.tensors if t.max_abs_error is not None}
    added = {t.tensor: 100.0 * t.added_share for t in result.tensors if t.added_share is not None}
    measures = [
        Measure("sqnr", "SQNR [dB]", "measured", sqnr, level, "lowest"),
        Measure("added", "Error added here [%]", "measured", added, level, "sum", False),
        Measure("error", "Max error", "measured", error, level, "highest", log=True),
    ]
    return [measure for measure in measures if measure.values or measure.id != "added"]


@dataclass(frozen=True)
class CompiledRow:
    """A row of Vela's table, with its float operation and its TOSA operator."""

    row: VelaOperation
    owner: str | None
    device: str | None


def compiled_rows(
    result: LowerResult | None, lineage: Lineage, *, by_name: bool = True
) -> tuple[CompiledRow, ...] | None:
    """Return Vela's rows of all delegates; None if not compiled.

    A row has the name of a tensor of its delegate's TOSA program, whose operator records the
    float operation. Rows without are matched by module, and so are all rows without ``by_name``,
    because they belong to another TOSA program.
    """
    if result is None:
        return None
    rows = [(f"delegate_{r.delegate}/{row.name}", row) for r in result.vela for row in r.operations]
    guessed = owners([row for _, row in rows], lineage)
    program = lineage.levels.get(DEVICE)
    known = program.nodes_by_id if program and by_name else {}
    compiled = []
    for (name, row), guess in zip(rows, guessed, strict=True):
        key = lineage.key(DEVICE, name) if name in known else None
        owner = key.root if key is not None and key.role == "operation" else guess
        compiled.append(CompiledRow(row, owner, name if name in known else None))
    return tuple(compiled)


def cost(rows: Sequence[CompiledRow], level: str, peak: int = 0) -> list[Measure]:
    """Return Vela's estimates, summed over the rows of each operation.

    ``peak`` is the peak MACs per cycle of the device; 0 if unknown.
    """
    measures = []
    for name, title, how in (
        ("cycles", "Cycles", "estimated"),
        ("macs", "MACs", "computed"),
        ("staging_bytes", "SRAM [bytes]", "estimated"),
        ("external_cycles", "Cycles outside SRAM", "estimated"),
    ):
        amounts = [float(getattr(row.row, name)) for row in rows]
        values = _summed([row.owner for row in rows], amounts)
        exact = _summed([row.device for row in rows], amounts)
        total = math.fsum(amounts)
        part = math.fsum(values.values()) / total if total else 1.0
        device = {DEVICE: exact} if exact else {}
        measures.append(Measure(name, title, how, values, level, "sum", False, part, exact=device))
    measures = [measure for measure in measures if any(measure.values.values())]
    return [*measures, *_utilisation(measures, peak), *_efficiency(rows, level)]


def _efficiency(rows: Sequence[CompiledRow], level: str) -> list[Measure]:
    """Return the part of the cycles that the device's limits need [%], and the cycles beyond it."""
    places = {"": [row.owner for row in rows], DEVICE: [row.device for row in rows]}

    def summed(amounts: Sequence[float]) -> dict[str, dict[str, float]]:
        return {place: _summed(names, amounts) for place, names in places.items()}

    cycles = summed([float(row.row.cycles) for row in rows])
    ideal = summed([float(row.row.ideal_cycles) for row in rows])
    lost = summed([float(max(row.row.cycles - row.row.ideal_cycles, 0)) for row in rows])
    if not any(ideal[""].values()):
        return []
    shares = {place: _ratio(ideal[place], cycles[place], 100.0) for place in places}

    def measure(name: str, title: str, values: Mapping[str, dict[str, float]], merge: Merge) -> Measure:
        exact = {DEVICE: values[DEVICE]} if values[DEVICE] else {}
        weigher = "cycles" if merge == "mean" else ""
        return Measure(
            name, title, "estimated", values[""], level, merge, False, exact=exact, weigher=weigher
        )

    return [
        measure("efficiency", "Efficiency [%]", shares, "mean"),
        measure("lost_cycles", "Cycles above the device's limit", lost, "sum"),
    ]


def traced(result: SimulationResult, rows: Sequence[CompiledRow], level: str) -> list[Measure]:
    """Return the measured cycles of each operation, and their excess over the estimate."""
    pairs = [
        (row, traced_row)
        for row, traced_row in zip(rows, result.traced, strict=False)
        if (row.row.name, row.row.operator) == (traced_row.name, traced_row.operator)
        and traced_row.cycles is not None
    ]
    if not pairs:
        return []

    def measure(
        name: str, title: str, merge: Merge, amounts: Sequence[float], middle: float | None = None
    ) -> Measure:
        values = _summed([row.owner for row, _ in pairs], amounts)
        exact = _summed([row.device for row, _ in pairs], amounts)
        log = False if middle is None else None
        return Measure(
            name,
            title,
            "measured",
            values,
            level,
            merge,
            log,
            middle=middle,
            exact={DEVICE: exact} if exact else {},
        )

    cycles = [traced_row.cycles or 0.0 for _, traced_row in pairs]
    more = [traced_row.difference or 0.0 for _, traced_row in pairs]
    return [
        measure("measured", "FVP cycles", "sum", cycles),
        measure("more", "FVP cycles above the estimate", "farthest", more, 0.0),
    ]


def _utilisation(measures: Sequence[Measure], peak: int) -> list[Measure]:
    """Return the MAC utilisation of each operation [%].

    MACs / (cycles x MACs of the device per cycle), both from Vela's rows; MACs per cycle where the
    device is unknown.
    """
    known = {measure.id: measure for measure in measures}
    if not {"cycles", "macs"} <= known.keys():
        return []
    cycles, macs = known["cycles"], known["macs"]
    factor = 100.0 / peak if peak else 1.0
    exact = {
        level: _ratio(macs.exact[level], cycles.exact[level], factor)
        for level in macs.exact.keys() & cycles.exact.keys()
    }
    values = _ratio(macs.values, cycles.values, factor)
    title = "Utilisation [%]" if peak else "MACs per cycle"
    return [Measure("use", title, "estimated", values, cycles.level, "highest", False, exact=exact)]


def _ratio(over: Mapping[str, float], under: Mapping[str, float], factor: float) -> dict[str, float]:
    return {name: factor * value / under[name] for name, value in over.items() if under.get(name)}


def differences(measures: Sequence[Measure], others: Sequence[Measure]) -> list[Measure]:
    """Return the differences from the numbers of another run, on a scale around zero."""
    known = {measure.id: measure for measure in others}
    rows = []
    for measure in measures:
        other = known.get(measure.id)
        if other is None or measure.level != other.level:
            continue
        values = {
            name: value - other.values[name]
            for name, value in measure.values.items()
            if math.isfinite(value) and math.isfinite(other.values.get(name, math.nan))
        }
        if values:
            title = f"{measure.title}, difference"
            rows.append(
                Measure(
                    f"{measure.id}_more", title, measure.how, values, measure.level, "farthest", middle=0.0
                )
            )
    return rows


def _summed(names: Sequence[str | None], amounts: Sequence[float]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for name, amount in zip(names, amounts, strict=True):
        if name is not None:
            sums[name] = sums.get(name, 0.0) + amount
    return sums


def owners(rows: Sequence[VelaOperation], lineage: Lineage) -> tuple[str | None, ...]:
    """Return the float operation of each row, matched by module and operator."""
    if lineage.first not in lineage.levels:
        return (None,) * len(rows)
    return attribute([(row.module, row.operator) for row in rows], lineage.levels[lineage.first])


def chips(lineage: Lineage, level: str, nodes: Mapping[str, Effective]) -> dict[str, Effective]:
    """Return the config of every operation of a level, from its float operation."""
    snapshot = lineage.levels.get(level)
    chips_by_node: dict[str, Effective] = {}
    for node in snapshot.nodes if snapshot else ():
        key = lineage.key(level, node.id) if node.kind == "call" else None
        if key is not None and key.role == "operation" and key.root in nodes:
            chips_by_node[node.id] = nodes[key.root]
    return chips_by_node


def wishes_of(configs: Mapping[str, Effective]) -> dict[str, str]:
    """Return the labels that were asked for and not applied, by operation."""
    return {name: effective.wish for name, effective in configs.items() if effective.wish}


def reasons(
    prepared: PrepareResult | None,
    lowered: LowerResult | None,
    lineage: Lineage,
    level: str,
    nodes: Mapping[str, Effective],
) -> dict[str, str]:
    """Return why operations of a level are not quantized or run on the CPU.

    Only operations that a rule quantizes are listed as not quantized.
    """
    reasons_by_node: dict[str, str] = {}
    for note in prepared.annotations if prepared else ():
        wanted = nodes.get(note.origin)
        if note.reason and not note.quantized and wanted and wanted.label != "float":
            for node_id in _same(lineage, PREPARED, note.node, level):
                reasons_by_node[node_id] = f"Not quantized: {note.reason}"
    for left in lowered.cpu_nodes if lowered else ():
        for node_id in _same(lineage, EDGE, left.node, level):
            before = f"{reasons_by_node[node_id]}\n" if node_id in reasons_by_node else ""
            reasons_by_node[node_id] = f"{before}On the CPU: {left.reason}"
    return reasons_by_node


def _same(lineage: Lineage, source: str, node_id: str, level: str) -> frozenset[str]:
    return lineage.translate(source, [node_id], level, with_owners=False)


Result = TypeVar("Result", bound=Frozen)


@dataclass(frozen=True)
class OverlayRequest:
    """A request for overlay data: the shown level, and its sources.

    ``files`` has the graph file of every level, ``results`` the folder of every stage's
    current result, ``first`` the float graph, which is already loaded. ``against`` has
    the results of the compared run.
    """

    level: str
    files: Mapping[str, Path]
    results: Mapping[str, Path]
    first: GraphSnapshot | None
    nodes: Mapping[str, Effective] = field(default_factory=dict)
    rules: Sequence[Rule] = ()
    dropped: Sequence[NumbersFile] = ()
    against: Mapping[str, Path] = field(default_factory=dict)
    applied: Mapping[str, Effective] = field(default_factory=dict)


@dataclass(frozen=True)
class OverlayData:
    """Overlay data: the lineage of all levels, and annotations of the shown level.

    ``chips`` and ``tips`` are the config label and description of operations, ``wishes`` the
    labels that were asked for and not applied; ``numbers`` has the values of each measure.
    """

    level: str = FLOAT
    lineage: Lineage = field(default_factory=lambda: Lineage({}))
    chips: Mapping[str, str] = field(default_factory=dict)
    wishes: Mapping[str, str] = field(default_factory=dict)
    tips: Mapping[str, str] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    rows: tuple[CompiledRow, ...] | None = None
    measures: Mapping[str, Measure] = field(default_factory=dict)
    numbers: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


class OverlayLoader:
    """Computes overlay data. Reads files once. Used by one thread at a time."""

    def __init__(self, parsed: ResultCache) -> None:
        self._parsed = parsed
        self._lineage = Lineage({})

    def snapshot(self, path: Path) -> GraphSnapshot | WorkbenchError:
        """Return the graph of a file, or the error."""
        try:
            return self._parsed.graph(path)
        except WorkbenchError as error:
            return error

    def answer(self, request: OverlayRequest, outdated: Callable[[], bool]) -> OverlayData:
        """Return the overlay data of a request.

        Raises:
            Cancelled: a newer request is waiting.
        """
        from workbench.results import EvaluateResult, LowerResult, PrepareResult, SimulationResult

        level, lineage = request.level, self._relate(request, outdated)
        lowered = self._result(LowerResult, request.results, "lower")
        prepared = self._result(PrepareResult, request.results, "prepare")
        evaluated = self._result(EvaluateResult, request.results, "evaluate")
        _stop_if(outdated)
        rows = compiled_rows(lowered, lineage)
        measures = quality(evaluated, lineage) if evaluated else []
        measures += cost(rows or (), lineage.first, _peak(lowered))
        simulated = self._result(SimulationResult, request.results, "run")
        if simulated is not None:
            measures += traced(simulated, rows or (), lineage.first)
        if request.against:
            measures += differences(measures, self._against(request, lineage))
        measures += [m for numbers in request.dropped for m in numbers_of(numbers, lineage, level)]
        _stop_if(outdated)
        nodes = request.applied
        effective = float_configs(request.first, nodes) if level == FLOAT else chips(lineage, level, nodes)
        known = lineage.levels[level].nodes_by_id if level in lineage.levels else {}
        tips = {i: why(e, request.rules, known[i].module) for i, e in effective.items() if i in known}
        return OverlayData(
            level,
            lineage,
            {i: e.chip for i, e in effective.items()},
            wishes_of(effective),
            tips,
            reasons(prepared, lowered, lineage, level, request.nodes),
            rows,
            {m.id: m for m in measures},
            {m.id: m.at(level, lineage) for m in measures},
        )

    def _against(self, request: OverlayRequest, lineage: Lineage) -> list[Measure]:
        """Return the numbers of the compared run, matched by module."""
        from workbench.results import EvaluateResult, LowerResult

        lowered = self._result(LowerResult, request.against, "lower")
        evaluated = self._result(EvaluateResult, request.against, "evaluate")
        rows = compiled_rows(lowered, lineage, by_name=False)
        return [
            *(quality(evaluated, lineage) if evaluated else ()),
            *cost(rows or (), lineage.first, _peak(lowered)),
        ]

    def _relate(self, request: OverlayRequest, outdated: Callable[[], bool]) -> Lineage:
        """Return the lineage of the levels; unreadable levels are skipped."""
        levels: dict[str, GraphSnapshot] = {}
        for level in LEVELS_BY_ID:
            _stop_if(outdated)
            read: object = request.first if level == FLOAT else None
            if level != FLOAT and level in request.files and request.first is not None:
                read = self.snapshot(request.files[level])
            if isinstance(read, GraphSnapshot):
                levels[level] = read
        known = self._lineage.levels
        if list(known) != list(levels) or any(known[s] is not levels[s] for s in levels):
            self._lineage = Lineage(levels)
        return self._lineage

    def _result(self, kind: type[Result], folders: Mapping[str, Path], stage: StageId) -> Result | None:
        folder = folders.get(stage)
        if folder is None:
            return None
        try:
            return self._parsed.load(kind, folder)
        except WorkbenchError:
            return None


def float_configs(snapshot: GraphSnapshot | None, nodes: Mapping[str, Effective]) -> dict[str, Effective]:
    """Return the config of every operation of the float graph."""
    calls = [n.id for n in snapshot.nodes if n.kind == "call"] if snapshot else []
    return {node_id: nodes[node_id] for node_id in calls if node_id in nodes}


def numbers_of(numbers: NumbersFile, lineage: Lineage, level: str) -> list[Measure]:
    """Return the columns of a dropped file, at the level whose operations it names."""
    measures = []
    for title, values in numbers.columns.items():
        at = lineage.level_of(values, level) or level
        name = measure_id(title)
        is_split = any(v < 0 for v in values.values()) and any(v > 0 for v in values.values())
        middle = 0.0 if is_split else None
        measures.append(
            Measure(
                name,
                title,
                f"from {numbers.name}",
                dict(values),
                at,
                "highest" if middle is None else "farthest",
                None if middle is not None else False,
                middle=middle,
            )
        )
    return measures


def measure_id(title: str) -> str:
    """Return the search name of a column, e.g. ``latency_ms``."""
    return re.sub(r"\W+", "_", title.strip().lower()).strip("_") or "number"


def _stop_if(outdated: Callable[[], bool]) -> None:
    if outdated():
        raise Cancelled


def _peak(lowered: LowerResult | None) -> int:
    """Return the peak MACs per cycle of the compiled device."""
    return macs_per_cycle(lowered.target) if lowered is not None else 0
