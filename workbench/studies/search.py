"""A search for precisions under limits: what was tried, and what it takes to try one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from workbench.history.comparison import pareto_front
from workbench.project import edits
from workbench.project.frozen import Frozen
from workbench.studies.sensitivity import Unit, give

if TYPE_CHECKING:
    from collections.abc import Mapping

    from workbench.project.model import Project, Rule

CHOICES = ("a8w8", "a16w8", "a8w4", "float")
DEFAULT_TRIALS = 40
# Accuracy, cycles, SRAM [bytes], operators on the CPU.
Figures = tuple[float, float, float, float]
Origin = Literal["staircase", "search"]


class Limits(Frozen):
    """What a configuration must keep; None asks for nothing.

    ``accuracy`` is in the unit of the figure runs are compared by: the user's metric, else top-1
    as a share, else SQNR [dB]. ``sram`` is in bytes. ``cpu`` is how many operators may stay on the
    CPU, whose time Vela does not count; None allows as many as with everything in 8 bits.
    """

    accuracy: float | None = None
    cycles: float | None = None
    sram: float | None = None
    cpu: int | None = None

    def excesses(self, figures: Figures) -> Figures:
        """Return by how much each limit is broken; nothing above 0 when all are kept."""
        accuracy, cycles, sram, cpu = figures
        return (
            (self.accuracy - accuracy) if self.accuracy is not None else 0.0,
            (cycles - self.cycles) / max(self.cycles, 1.0) if self.cycles is not None else 0.0,
            (sram - self.sram) / max(self.sram, 1.0) if self.sram is not None else 0.0,
            (cpu - self.cpu) if self.cpu is not None else 0.0,
        )

    def hold(self, figures: Figures) -> bool:
        """Return whether all limits are kept."""
        return all(excess <= 0.0 for excess in self.excesses(figures))


class Candidate(Frozen):
    """One configuration that was tried: what each unit got, and what came of it.

    ``choices`` maps the names of units to configs; ``problem`` says why there are no figures.
    """

    number: int
    origin: Origin
    choices: dict[str, str]
    accuracy: float | None = None
    accuracy_name: str = ""
    cycles: int | None = None
    sram_bytes: int | None = None
    cpu_nodes: int | None = None
    is_within: bool = False
    problem: str = ""

    @property
    def figures(self) -> Figures | None:
        """What limits are about; None where it could not be measured."""
        known = (self.accuracy, self.cycles, self.sram_bytes, self.cpu_nodes)
        if any(value is None for value in known):
            return None
        accuracy, cycles, sram, cpu = (float(value or 0) for value in known)
        return accuracy, cycles, sram, cpu


class SearchResult(Frozen):
    """All candidates so far; the first has everything in the first choice."""

    limits: Limits
    total: int
    units: tuple[Unit, ...]
    candidates: tuple[Candidate, ...] = ()

    def measured(self) -> list[Candidate]:
        """Return the candidates with figures."""
        return [each for each in self.candidates if each.figures is not None]

    @property
    def enforced(self) -> Limits:
        """The limits with that on operators on the CPU filled in."""
        if self.limits.cpu is not None or not self.measured():
            return self.limits
        measured = self.measured()
        plain = [each for each in measured if set(each.choices.values()) == {CHOICES[0]}]
        return self.limits.model_copy(update={"cpu": (plain or measured)[0].cpu_nodes})

    def front(self) -> list[Candidate]:
        """Return the candidates that no other beats, the quickest first.

        Those with more operators on the CPU than allowed are out: their cycles tell too little.
        """
        most = self.enforced.cpu
        measured = [c for c in self.measured() if most is None or (c.cpu_nodes or 0) <= most]
        points = [c.figures[:3] if c.figures is not None else None for c in measured]
        best = [measured[place] for place in pareto_front(points)]
        return sorted(best, key=lambda each: (each.cycles or 0, each.number))

    def best(self) -> Candidate | None:
        """Return the quickest candidate within the limits, the most accurate of equals."""
        within = [each for each in self.measured() if each.is_within]
        return min(within, key=lambda c: (c.cycles or 0, -(c.accuracy or 0.0)), default=None)


def with_choices(project: Project, units: tuple[Unit, ...], choices: Mapping[str, str]) -> Project:
    """Return the project in which units have what was chosen for them.

    One config that most units share becomes the global rule, so that the rules stay few.
    """
    if not choices:
        return project
    named = [choices[unit.name] for unit in units if unit.name in choices]
    general = max(dict.fromkeys(named), key=named.count)
    kept = tuple(rule for rule in project.rules if rule.kind == "io" or rule.keeps_off)
    made = edits.assign(edits.revise(project, rules=()), "global", "", general)
    for unit in units:
        if choices.get(unit.name, general) != general:
            made = give(made, unit, choices[unit.name])
    return edits.revise(made, rules=(*made.rules, *_renumbered(kept, made)))


def _renumbered(rules: tuple[Rule, ...], project: Project) -> tuple[Rule, ...]:
    taken = {rule.id for rule in project.rules}
    free = (f"r{n}" for n in range(1, len(taken) + len(rules) + 1) if f"r{n}" not in taken)
    named = zip(rules, free, strict=False)
    return tuple(rule.model_copy(update={"id": name}) for rule, name in named)
