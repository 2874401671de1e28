"""Suggestions of one scale for each weight tensor, where every output channel has its own."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from workbench.project import edits
from workbench.suggestions.suggestion import ModuleSaving, Suggestion

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from workbench.project.model import Project, RuleKind
    from workbench.results import LowerResult
    from workbench.studies.sensitivity import SensitivityResult

_PER_CHANNEL, _PER_TENSOR = "a8w8", "a8w8-per-tensor"
# Below that a program has too few constants for the difference to matter [bytes].
_LEAST_CONSTANTS = 32 << 10
# The noise that the chosen modules may add, as a part of that of the quantized model: 0.5 dB.
_NOISE_BUDGET = 0.122
_ARM = (
    "Measured by Arm on Alif E8, U85-256, ResNet-50 with one scale for each tensor: 110 in place of "
    "151 ms (\u221227 %), 14.4 in place of 21.8 MB of flash (\u221234 %), 79.2 in place of 80.6 % top-1."
)


@dataclass(frozen=True)
class CoarserUnit:
    """What a unit of a sensitivity study loses with one scale for each of its weights.

    ``noise`` is the added noise of the outputs, as a part of that of the quantized model; ``kind``
    and ``matches`` are the rules that match the unit.
    """

    name: str
    kind: RuleKind
    matches: tuple[str, ...]
    noise: float
    sqnr_db: float | None
    points: float | None


def coarser_by(sensitivity: SensitivityResult) -> tuple[CoarserUnit, ...]:
    """Return what each unit loses, as a sensitivity study measured it."""
    whole = sensitivity.quantized.noise
    return tuple(
        CoarserUnit(
            name=row.unit.name,
            kind=row.unit.kind,
            matches=row.unit.matches,
            noise=(row.per_tensor.noise - whole) / whole,
            sqnr_db=sensitivity.per_tensor_db(row),
            points=sensitivity.per_tensor_points(row),
        )
        for row in sensitivity.units
        if row.per_tensor is not None and whole > 0.0
    )


def scales_per_tensor(
    project: Project, lowered: LowerResult, coarser: Sequence[CoarserUnit], labels: Mapping[str, str]
) -> Iterator[Suggestion]:
    """Yield the suggestion of one scale for each weight, where every channel has its own.

    It is to be tried: Vela compresses such weights better, and reads one scale for a layer. The
    trial says what each module saves; the modules that lose least are then tried alone.

    Args:
        project: The compiled project.
        lowered: The compiled program.
        coarser: What a sensitivity study measured.
        labels: The config of each module and operator, e.g. ``a8w8``.
    """
    rules = [rule for rule in project.rules if rule.enabled and rule.config == _PER_CHANNEL]
    if not rules or sum(report.flash_bytes for report in lowered.vela) < _LEAST_CONSTANTS:
        return
    known = [
        unit for unit in coarser if all(labels.get(m, _PER_CHANNEL) == _PER_CHANNEL for m in unit.matches)
    ]
    hint = "" if known else " Measure Sensitivity to see what each module loses, and to try some of them."
    yield Suggestion(
        id="per_tensor",
        title="Use one scale for each weight tensor",
        evidence=f"Each output channel of the 8-bit weights has a scale of its own. {_ARM}",
        expected=f"It costs accuracy. Weight transforms (equalization) win some of it back.{hint}",
        edit=partial(_with_scales_per_tensor, ids=frozenset(rule.id for rule in rules)),
        improves="size",
        per_module=partial(savings, units=known),
        then=partial(_of_some_modules, units=known),
    )


def _with_scales_per_tensor(project: Project, ids: frozenset[str]) -> Project:
    changed = (
        rule.model_copy(update={"config": _PER_TENSOR}) if rule.id in ids else rule for rule in project.rules
    )
    return edits.revise(project, rules=tuple(changed))


def savings(
    before: LowerResult, after: LowerResult, units: Sequence[CoarserUnit]
) -> tuple[ModuleSaving, ...]:
    """Return what each module saves in the second program, the most bytes first.

    Modules of one unit are one row, with what it loses; without units every module is a row.

    Args:
        before: The program with a scale for each channel.
        after: The same with one for each weight.
        units: What a sensitivity study measured.
    """
    names = {match: unit for unit in units for match in unit.matches}
    cycles, stored = defaultdict[str, int](int), defaultdict[str, int](int)
    for program, sign in ((before, 1), (after, -1)):
        for report in program.vela:
            for row in report.operations:
                unit = _unit_of(row.module, row.root, names)
                key = unit.name if unit is not None else row.module
                cycles[key] += sign * row.cycles
                stored[key] += sign * row.weight_bytes
    known = {unit.name: unit for unit in units}
    total = sum(report.cycles_total for report in before.vela)
    per_cycle = sum(report.inference_ms for report in before.vela) / total if total else 0.0
    rows = [
        ModuleSaving(
            name=name,
            cycles=cycles[name],
            ms=cycles[name] * per_cycle,
            bytes=stored[name],
            sqnr_db=known[name].sqnr_db if name in known else None,
            points=known[name].points if name in known else None,
        )
        for name in stored
        if name and (name in known if known else stored[name])
    ]
    return tuple(sorted(rows, key=lambda row: (-row.bytes, -row.cycles, row.name)))


def _unit_of(module: str, root: str, names: Mapping[str, CoarserUnit]) -> CoarserUnit | None:
    """Return the unit of an operation, by its node, its module or a parent of that."""
    if root in names:
        return names[root]
    while module and module not in names:
        module = module.rpartition(".")[0]
    return names.get(module)


def _of_some_modules(
    before: LowerResult, after: LowerResult, units: Sequence[CoarserUnit]
) -> Suggestion | None:
    """Return the suggestion for the modules that lose least for what they save.

    None where none, or all that save anything, lose little enough together.

    Args:
        before: The program with a scale for each channel.
        after: The same with one for each weight.
        units: What a sensitivity study measured.
    """
    rows = {row.name: row for row in savings(before, after, units)}
    saving = [u for u in units if u.name in rows and (rows[u.name].bytes > 0 or rows[u.name].cycles > 0)]
    saving.sort(key=lambda unit: unit.noise / max(rows[unit.name].bytes, 1))
    chosen, noise = list[CoarserUnit](), 0.0
    for unit in saving:
        if noise + unit.noise <= _NOISE_BUDGET:
            chosen.append(unit)
            noise += unit.noise
    if not chosen or len(chosen) == len(saving):
        return None
    return Suggestion(
        id="per_tensor_modules",
        title=f"Use one scale for each weight of {len(chosen)} of {len(units)} modules",
        evidence="These modules lose least for what they save. The others keep a scale for each channel.",
        expected="What each module loses was measured with only its weights on one scale, what it saves "
        "with all weights so.",
        edit=partial(_with_units, units=tuple(chosen)),
        improves="size",
        modules=tuple(rows[unit.name] for unit in chosen),
    )


def _with_units(project: Project, units: Sequence[CoarserUnit]) -> Project:
    for unit in units:
        project = edits.assign_many(project, unit.kind, list(unit.matches), _PER_TENSOR)
    return project
