"""Numbers of operations that results hold: measured quality and estimated cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.graph.attribution import attribute

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ui.graph.marks import Merge
    from workbench.graph.lineage import Lineage
    from workbench.results import EvaluateResult, LowerResult, VelaOperation

QUANTIZED = "convert"


@dataclass(frozen=True)
class Measure:
    """A number per operation of one level.

    ``how`` says how it came about; ``log`` is None where a logarithmic scale says nothing, else
    whether to begin with one; ``told`` is the part of the whole that operations could be told for.
    """

    id: str
    title: str
    how: str
    values: dict[str, float]
    level: str
    merge: Merge
    log: bool | None = None
    told: float = 1.0

    @property
    def legend(self) -> str:
        """The title of the legend."""
        part = "" if self.told > 0.995 else f", {math.floor(self.told * 100)} % assigned"
        return f"{self.title}, {self.how}{part}"

    def at(self, level: str, lineage: Lineage) -> dict[str, float]:
        """Return the values by the operations of another level."""
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


def operations(result: LowerResult | None) -> tuple[VelaOperation, ...]:
    """Return the compiler's rows for all delegates."""
    return tuple(row for report in result.vela for row in report.operations) if result else ()


def cost(rows: Sequence[VelaOperation], owners: Sequence[str | None], level: str) -> list[Measure]:
    """Return what the compiler estimates, summed over the rows of each operation."""
    found = []
    for name, title, how in (
        ("cycles", "Cycles", "estimated"), ("macs", "MACs", "computed"),
    ):  # fmt: skip
        values: dict[str, float] = {}
        told = 0.0
        for row, owner in zip(rows, owners, strict=True):
            amount = float(getattr(row, name))
            if owner is not None:
                values[owner] = values.get(owner, 0.0) + amount
                told += amount
        total = math.fsum(float(getattr(row, name)) for row in rows)
        part = told / total if total else 1.0
        found.append(Measure(name, title, how, values, level, "sum", False, part))
    return [measure for measure in found if measure.values]


def owners(rows: Sequence[VelaOperation], lineage: Lineage) -> tuple[str | None, ...]:
    """Return the float operation that each row of the compiler's table belongs to."""
    if lineage.first not in lineage.levels:
        return (None,) * len(rows)
    return attribute([(row.module, row.operator) for row in rows], lineage.levels[lineage.first])
