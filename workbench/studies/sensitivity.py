"""Sensitivity study: the effect of quantizing one module, or of all but one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from workbench.project import edits
from workbench.project.frozen import Finite, Frozen

if TYPE_CHECKING:
    from workbench.project.model import Project

DEFAULT_SAMPLES = 16


class Noise(Finite):
    """Sums over all output elements: float squared, and float minus quantized squared.

    ``hits`` counts the samples whose largest output is the label.
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
            signal=self.signal + other.signal, noise=self.noise + other.noise, hits=self.hits + other.hits
        )


class Unit(Frozen):
    """Modules or operators that are quantized together, e.g. because the device fuses them.

    ``kind`` and ``matches`` are the rules that match it.
    """

    name: str
    kind: Literal["module_name", "node_name"]
    matches: tuple[str, ...]
    operators: tuple[str, ...]
    weights: int = 0


class UnitSensitivity(Frozen):
    """One unit: the output's quality with only it quantized, and with only it in float.

    ``per_tensor`` is that of the quantized model with one scale for each weight of the unit; None
    where its weights have one already.
    """

    unit: Unit
    only: Noise = Field(default_factory=Noise)
    without: Noise = Field(default_factory=Noise)
    per_tensor: Noise | None = None


class SensitivityResult(Frozen):
    """All units in program order, over the samples so far; ``has_all`` if there are no more.

    ``quantized`` is the whole model quantized, ``floating`` the float model's hits. The figures
    come from one converted program whose quantizers are switched on and off. A unit of modules in
    float matches a real conversion to 0.01 dB; a single quantized unit matches within 1 dB, because
    unquantized operators are not decomposed there. If a rule regroups quantizers, or names an
    operator that is decomposed before rules apply, only the order of units is reliable.
    """

    data: str
    samples: int
    total: int
    labelled: bool
    quantized: Noise = Field(default_factory=Noise)
    floating: Noise = Field(default_factory=Noise)
    units: tuple[UnitSensitivity, ...] = ()
    has_all: bool = False

    def gain_db(self, unit: UnitSensitivity) -> float | None:
        """Return the gain of the output's SQNR when only this unit is in float [dB]."""
        spared, all_of_it = unit.without.sqnr_db, self.quantized.sqnr_db
        return None if spared is None or all_of_it is None else spared - all_of_it

    def per_tensor_db(self, unit: UnitSensitivity) -> float | None:
        """Return the change of the output's SQNR with one scale for each weight of this unit [dB]."""
        coarser = unit.per_tensor.sqnr_db if unit.per_tensor is not None else None
        all_of_it = self.quantized.sqnr_db
        return None if coarser is None or all_of_it is None else coarser - all_of_it

    def per_tensor_points(self, unit: UnitSensitivity) -> float | None:
        """Return the change of top-1 with one scale for each weight of this unit [points]."""
        if unit.per_tensor is None or not self.labelled or not self.samples:
            return None
        return 100.0 * (unit.per_tensor.hits - self.quantized.hits) / self.samples

    def worst_first(self) -> list[UnitSensitivity]:
        """Return the units by gain, largest first."""
        return sorted(self.units, key=lambda u: -(self.gain_db(u) or 0.0))


def give(project: Project, unit: Unit, config: str) -> Project:
    """Return the project in which a unit has a config."""
    return edits.assign_many(project, unit.kind, list(unit.matches), config)
