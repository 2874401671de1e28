"""Sensitivity: what quantizing one module costs, and what sparing one gains."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from workbench.project import edits
from workbench.project.frozen import Frozen

if TYPE_CHECKING:
    from workbench.project.model import Project

DEFAULT_SAMPLES = 16


class Noise(Frozen):
    """Sums over all output elements: float squared, and float minus quantized squared.

    ``hits`` counts the samples whose greatest output is that of the label.
    """

    signal: float = 0.0
    noise: float = 0.0
    hits: int = 0

    @property
    def sqnr_db(self) -> float | None:
        """10 log10(signal / noise); None when both sides are equal or there is no signal."""
        if self.noise <= 0.0 or self.signal <= 0.0:
            return None
        return 10.0 * math.log10(self.signal / self.noise)

    def plus(self, other: Noise) -> Noise:
        """Return the sums of both."""
        return Noise(
            signal=self.signal + other.signal,
            noise=self.noise + other.noise,
            hits=self.hits + other.hits,
        )


class Unit(Frozen):
    """What can only be quantized together: modules that the device fuses, or single operators.

    ``kind`` and ``matches`` are the rules that speak of it.
    """

    name: str
    kind: Literal["module_name", "node_name"]
    matches: tuple[str, ...]
    operators: tuple[str, ...]
    weights: int = 0


class UnitSensitivity(Frozen):
    """One unit: the output's quality with only it quantized, and with all but it."""

    unit: Unit
    only: Noise = Field(default_factory=Noise)
    without: Noise = Field(default_factory=Noise)


class SensitivityResult(Frozen):
    """All units in the order of the program, over the samples seen so far.

    ``quantized`` is the whole model quantized, ``floating`` the float model's hits. The figures
    come from one converted program whose quantizers are switched. Sparing a unit of modules equals
    a real conversion (proven to 0.01 dB); a unit alone is within 1 dB of one, because unquantized
    operators are not decomposed there. Where a rule regroups quantizers, or names an operator
    that is decomposed before rules are looked at, only the order is meant.
    """

    data: str
    samples: int
    total: int
    labelled: bool
    quantized: Noise = Field(default_factory=Noise)
    floating: Noise = Field(default_factory=Noise)
    units: tuple[UnitSensitivity, ...] = ()

    def gain_db(self, unit: UnitSensitivity) -> float | None:
        """Return by how much sparing a unit betters the output's SQNR [dB]."""
        spared, all_of_it = unit.without.sqnr_db, self.quantized.sqnr_db
        return None if spared is None or all_of_it is None else spared - all_of_it

    def worst_first(self) -> list[UnitSensitivity]:
        """Return the units, the one whose sparing gains most first."""
        return sorted(self.units, key=lambda u: -(self.gain_db(u) or 0.0))


def give(project: Project, unit: Unit, config: str) -> Project:
    """Return the project in which a unit has a config."""
    return edits.assign_many(project, unit.kind, list(unit.matches), config)
