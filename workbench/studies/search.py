"""Search for precisions under limits: options, candidates and results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field, JsonValue

from workbench.errors import Place, failure
from workbench.files import MAX_PROGRAM_BYTES, read_limited, write_file
from workbench.history.comparison import pareto_front
from workbench.project import edits
from workbench.project.configs import IMPROVER_PRESETS
from workbench.project.frozen import Finite, Frozen
from workbench.studies.sensitivity import Unit, give

if TYPE_CHECKING:
    from collections.abc import Mapping

    from workbench.project.configs import ImproverId
    from workbench.project.model import Project, Rule
    from workbench.results import ChannelLayer

CHOICES = ("a8w8", "a16w8", "a8w4", "a8w8-per-tensor", "float")
# Weight transforms to choose from, by name.
TRANSFORMS: Mapping[str, tuple[ImproverId, ...]] = {
    "none": (),
    "gptq": ("gptq",),
    "rounding": ("rounding",),
    **{preset.id: preset.improvers for preset in IMPROVER_PRESETS},
}
DEFAULT_TRIALS = 40
# Accuracy, cycles, SRAM [bytes], CPU operators.
Figures = tuple[float, float, float, float]
Origin = Literal["staircase", "search"]


class Limits(Finite):
    """Limits of a configuration; None means no limit.

    ``accuracy`` has the unit of the figure that runs are compared by: the user's metric, else top-1
    as a share, else SQNR [dB]. ``sram`` is in bytes. ``cpu`` is the number of CPU operators, which
    Vela's cycles do not include; None allows as many as with all modules in 8 bits.
    """

    accuracy: float | None = None
    cycles: float | None = None
    sram: float | None = None
    cpu: int | None = None

    def excesses(self, figures: Figures) -> Figures:
        """Return the excess over each limit; no value is above 0 if all limits hold."""
        accuracy, cycles, sram, cpu = figures
        return (
            (self.accuracy - accuracy) if self.accuracy is not None else 0.0,
            (cycles - self.cycles) / max(self.cycles, 1.0) if self.cycles is not None else 0.0,
            (sram - self.sram) / max(self.sram, 1.0) if self.sram is not None else 0.0,
            (cpu - self.cpu) if self.cpu is not None else 0.0,
        )

    def are_met(self, figures: Figures) -> bool:
        """Return whether all limits hold."""
        return all(excess <= 0.0 for excess in self.excesses(figures))


class Candidate(Frozen):
    """One evaluated configuration: the config of each unit, and the figures.

    ``choices`` maps unit names to configs, ``channels`` modules to the output channels that they
    keep, if the search has widths, ``transforms`` a name of ``TRANSFORMS``, if it has those;
    ``weights`` is a file in the study's folder, "" if the candidate was not trained. ``cpu_cycles``
    is the rough estimate of the CPU operators, which ``cycles`` leave out; ``flash_bytes`` are
    weights and constants, which have no limit; ``problem`` is why there are no figures.
    """

    number: int
    origin: Origin
    choices: dict[str, str]
    channels: dict[str, int] = Field(default_factory=dict)
    transforms: str = ""
    weights: str = ""
    accuracy: float | None = None
    accuracy_name: str = ""
    cycles: int | None = None
    sram_bytes: int | None = None
    flash_bytes: int | None = None
    cpu_nodes: int | None = None
    cpu_cycles: int = 0
    is_within: bool = False
    problem: str = ""

    @property
    def figures(self) -> Figures | None:
        """The figures that limits apply to; None if not measured."""
        known = (self.accuracy, self.cycles, self.sram_bytes, self.cpu_nodes)
        if any(value is None for value in known):
            return None
        accuracy, cycles, sram, cpu = (float(value or 0) for value in known)
        return accuracy, cycles, sram, cpu


class SearchResult(Frozen):
    """All candidates so far; the first one uses the first choice everywhere.

    ``widths`` are the numbers of channels to choose from, by module, the present one first; empty
    for a search of precisions alone. ``transforms`` are the names of weight transforms to choose
    from, if the search has them. ``is_exhausted`` is whether no other candidate was found before
    there were ``total``.
    """

    limits: Limits
    total: int
    units: tuple[Unit, ...]
    widths: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    transforms: tuple[str, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    is_exhausted: bool = False

    def measured(self) -> list[Candidate]:
        """Return the candidates with figures."""
        return [candidate for candidate in self.candidates if candidate.figures is not None]

    @property
    def enforced(self) -> Limits:
        """The limits with the limit of CPU operators filled in."""
        if self.limits.cpu is not None or not self.measured():
            return self.limits
        measured = self.measured()
        plain = [candidate for candidate in measured if set(candidate.choices.values()) == {CHOICES[0]}]
        return self.limits.model_copy(update={"cpu": (plain or measured)[0].cpu_nodes})

    def front(self) -> list[Candidate]:
        """Return the candidates on the Pareto front, fastest first.

        Candidates with more CPU operators than allowed are excluded, because their cycles are
        incomplete.
        """
        most = self.enforced.cpu
        measured = [c for c in self.measured() if most is None or (c.cpu_nodes or 0) <= most]
        points = [c.figures[:3] if c.figures is not None else None for c in measured]
        best = [measured[index] for index in pareto_front(points)]
        return sorted(best, key=lambda candidate: (candidate.cycles or 0, candidate.number))

    def best(self) -> Candidate | None:
        """Return the fastest candidate within the limits; ties go to the most accurate."""
        within = [candidate for candidate in self.measured() if candidate.is_within]
        return min(within, key=lambda c: (c.cycles or 0, -(c.accuracy or 0.0)), default=None)


# The NPU computes output channels in blocks of this size (``suggestions`` has the measurement).
_BLOCK = 8
_MOST_WIDTHS = 4


def widths_of(layers: tuple[ChannelLayer, ...]) -> dict[str, tuple[int, ...]]:
    """Return the numbers of channels to try, by module; joined modules have one entry.

    The present number, and up to three smaller multiples of the NPU's block.
    """
    widths: dict[str, tuple[int, ...]] = {}
    for layer in layers:
        if layer.fixed or any(partner in widths for partner in layer.partners):
            continue
        blocks = range((layer.channels - 1) // _BLOCK, 0, -1)
        step = max(1, -(-len(blocks) // (_MOST_WIDTHS - 1)))
        smaller = tuple(block * _BLOCK for block in blocks[::step])
        if smaller:
            widths[layer.module] = (layer.channels, *smaller)
    return widths


def axis_options(*, widths: bool, train: int, transforms: bool = False) -> dict[str, JsonValue]:
    """Return the options of a search of more than precisions; none for precisions alone."""
    channels: dict[str, JsonValue] = {"widths": True, "train": train} if widths else {}
    return channels | ({"transforms": True} if transforms else {})


def take_weights(candidate: Candidate, study: Path, folder: Path) -> None:
    """Copy the weights of a candidate from the study's folder beside a project.

    Raises:
        WorkbenchError: the folder is not writable, or the weights are gone.
    """
    try:
        name = Path(candidate.weights).name
        write_file(folder / name, read_limited(study / name, MAX_PROGRAM_BYTES))
    except OSError as error:
        raise failure(
            f"The trained weights could not be copied: {error.strerror or error}.",
            "Save the project in a writable folder; search again if the cache was emptied.",
            Place(kind="option", id="trained_weights"),
            code="trained-weights-not-writable",
        ) from error


def with_candidate(
    project: Project, search: SearchResult, candidate: Candidate, folder: Path | None = None
) -> Project:
    """Return the project with the precisions, transforms, channels and weights of a candidate.

    Args:
        project: The project.
        search: The search that the candidate is of.
        candidate: The candidate.
        folder: Where its weights are; None if they are beside the project.
    """
    changed = with_choices(project, search.units, candidate.choices)
    if search.transforms:
        changed = edits.revise(changed, improvers=TRANSFORMS[candidate.transforms])
    if not search.widths:
        return changed
    for module, count in candidate.channels.items():
        kept = count if count < search.widths[module][0] else 0
        changed = edits.compress(changed, module, channels=kept)
    weights = candidate.weights or None
    return edits.use_trained(changed, str(folder / weights) if folder and weights else weights)


def with_choices(project: Project, units: tuple[Unit, ...], choices: Mapping[str, str]) -> Project:
    """Return the project with the chosen config of every unit.

    The config of most units becomes the global rule, so that there are few rules.
    """
    if not choices:
        return project
    named = [choices[unit.name] for unit in units if unit.name in choices]
    general = max(dict.fromkeys(named), key=named.count)
    kept = tuple(rule for rule in project.rules if rule.kind == "io" or rule.keeps_off)
    changed = edits.assign(edits.revise(project, rules=()), "global", "", general)
    for unit in units:
        if choices.get(unit.name, general) != general:
            changed = give(changed, unit, choices[unit.name])
    return edits.revise(changed, rules=(*changed.rules, *_renumbered(kept, changed)))


def _renumbered(rules: tuple[Rule, ...], project: Project) -> tuple[Rule, ...]:
    taken = {rule.id for rule in project.rules}
    free = (f"r{n}" for n in range(1, len(taken) + len(rules) + 1) if f"r{n}" not in taken)
    named = zip(rules, free, strict=False)
    return tuple(rule.model_copy(update={"id": name}) for rule, name in named)
