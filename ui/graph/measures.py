"""Numbers of operations that results hold: measured quality and estimated cost."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ui.graph.levels import DEVICE, QUANTIZED
from workbench.graph.lineage import attribute

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ui.graph.overlay import Merge
    from workbench.graph.lineage import Lineage
    from workbench.results import EvaluateResult, LowerResult, SimulationResult, VelaOperation


@dataclass(frozen=True)
class Measure:
    """A number per operation of one level.

    ``how`` says how it came about; ``log`` is None where a logarithmic scale says nothing, else
    whether to begin with one; ``told`` is the part of the whole that operations could be told for.
    ``middle`` is the value that a diverging scale turns at; ``exact`` has the values of levels
    that the numbers need not be carried to.
    """

    id: str
    title: str
    how: str
    values: dict[str, float]
    level: str
    merge: Merge
    log: bool | None = None
    told: float = 1.0
    middle: float | None = None
    exact: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def legend(self) -> str:
        """The title of the legend."""
        part = "" if self.told > 0.995 else f", {math.floor(self.told * 100)} % assigned"
        return f"{self.title}, {self.how}{part}"

    def at(self, level: str, lineage: Lineage) -> dict[str, float]:
        """Return the values by the operations of another level."""
        if level in self.exact:
            return dict(self.exact[level])
        return lineage.carry(self.values, self.level, level)


def quality(result: EvaluateResult, lineage: Lineage) -> list[Measure]:
    """Return what an evaluation measured at each tensor; tensors without an error have infinity."""
    level = lineage.level_of([t.tensor for t in result.tensors], QUANTIZED) or lineage.first
    sqnr = {t.tensor: math.inf if t.sqnr_db is None else t.sqnr_db for t in result.tensors}
    error = {t.tensor: t.max_abs_error for t in result.tensors if t.max_abs_error is not None}
    return [
        Measure("sqnr", "SQNR [dB]", "measured", sqnr, level, "lowest"),
        Measure("error", "Max error", "measured", error, level, "highest", log=True),
    ]


@dataclass(frozen=True)
class CompiledRow:
    """A row of the compiler's table: the float operation and the device's operator it is of."""

    row: VelaOperation
    owner: str | None
    device: str | None


def compiled_rows(
    result: LowerResult | None, lineage: Lineage, *, by_name: bool = True
) -> tuple[CompiledRow, ...] | None:
    """Return the compiler's rows for all delegates; None if nothing was compiled.

    A row bears the name of a tensor of its delegate's TOSA program, whose operator has the float
    operation on record. Rows without are told by their module, and so are all if not ``by_name``,
    because the TOSA program at hand is not the one of the rows.
    """
    if result is None:
        return None
    rows = [(f"delegate_{r.delegate}/{row.name}", row) for r in result.vela for row in r.operations]
    guessed = owners([row for _, row in rows], lineage)
    program = lineage.levels.get(DEVICE)
    known = program.nodes_by_id if program and by_name else {}
    found = []
    for (name, row), guess in zip(rows, guessed, strict=True):
        key = lineage.key(DEVICE, name) if name in known else None
        owner = key.root if key is not None and key.role == "operation" else guess
        found.append(CompiledRow(row, owner, name if name in known else None))
    return tuple(found)


def cost(rows: Sequence[CompiledRow], level: str, peak: int = 0) -> list[Measure]:
    """Return what the compiler estimates, summed over the rows of each operation.

    ``peak`` is the most multiply-accumulates of the device in a cycle, 0 if unknown.
    """
    found = []
    for name, title, how in (
        ("cycles", "Cycles", "estimated"), ("macs", "MACs", "computed"),
        ("staging_bytes", "SRAM [bytes]", "estimated"),
        ("external_cycles", "Cycles outside SRAM", "estimated"),
    ):  # fmt: skip
        amounts = [float(getattr(row.row, name)) for row in rows]
        values = _summed([row.owner for row in rows], amounts)
        exact = _summed([row.device for row in rows], amounts)
        total = math.fsum(amounts)
        part = math.fsum(values.values()) / total if total else 1.0
        device = {DEVICE: exact} if exact else {}
        found.append(Measure(name, title, how, values, level, "sum", False, part, exact=device))
    found = [measure for measure in found if any(measure.values.values())]
    return [*found, *_utilisation(found, peak)]


def traced(result: SimulationResult, rows: Sequence[CompiledRow], level: str) -> list[Measure]:
    """Return what a simulator measured of each operation, and how far the estimate was off."""
    pairs = [
        (row, found) for row, found in zip(rows, result.traced, strict=False)
        if (row.row.name, row.row.operator) == (found.name, found.operator)
        and found.cycles is not None
    ]  # fmt: skip
    if not pairs:
        return []

    def measure(
        name: str, title: str, merge: Merge, amounts: Sequence[float], middle: float | None = None
    ) -> Measure:
        values = _summed([row.owner for row, _ in pairs], amounts)
        exact = _summed([row.device for row, _ in pairs], amounts)
        log = False if middle is None else None
        return Measure(name, title, "measured", values, level, merge, log, middle=middle,
                       exact={DEVICE: exact} if exact else {})  # fmt: skip

    cycles = [found.cycles or 0.0 for _, found in pairs]
    more = [found.difference or 0.0 for _, found in pairs]
    return [
        measure("measured", "FVP cycles", "sum", cycles),
        measure("more", "FVP cycles above the estimate", "farthest", more, 0.0),
    ]


def _utilisation(found: Sequence[Measure], peak: int) -> list[Measure]:
    """Return what part of the device's multiply-accumulates each operation uses [%].

    MACs / (cycles x MACs of the device per cycle), both from Vela's rows; MACs per cycle where the
    device is unknown.
    """
    known = {measure.id: measure for measure in found}
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


def _ratio(
    over: Mapping[str, float], under: Mapping[str, float], factor: float
) -> dict[str, float]:
    return {name: factor * value / under[name] for name, value in over.items() if under.get(name)}


def differences(mine: Sequence[Measure], others: Sequence[Measure]) -> list[Measure]:
    """Return how much more each number is than in another run, on a scale that turns at zero."""
    known = {measure.id: measure for measure in others}
    found = []
    for measure in mine:
        other = known.get(measure.id)
        if other is None or measure.level != other.level:
            continue
        values = {
            name: value - other.values[name]
            for name, value in measure.values.items()
            if math.isfinite(value) and math.isfinite(other.values.get(name, math.nan))
        }
        if values:
            title = f"{measure.title}, more than beside"
            found.append(
                Measure(f"{measure.id}_more", title, measure.how, values, measure.level, "farthest",
                        middle=0.0)
            )  # fmt: skip
    return found


def _summed(names: Sequence[str | None], amounts: Sequence[float]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, amount in zip(names, amounts, strict=True):
        if name is not None:
            found[name] = found.get(name, 0.0) + amount
    return found


def owners(rows: Sequence[VelaOperation], lineage: Lineage) -> tuple[str | None, ...]:
    """Return the float operation that each row belongs to, as its module and operator tell."""
    if lineage.first not in lineage.levels:
        return (None,) * len(rows)
    return attribute([(row.module, row.operator) for row in rows], lineage.levels[lineage.first])
