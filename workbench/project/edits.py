"""Every verb of the user as a pure function from project to project."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from workbench.errors import Place, failure
from workbench.project.configs import (
    IMPROVERS,
    Config,
    FixedRange,
    ImproverId,
    MethodId,
    MethodScope,
    RangeMethod,
    range_fault,
)
from workbench.project.model import DataSource, ModelSource, Project, Rule, RuleKind, TargetChoice
from workbench.project.sources import TEXT_SUFFIX

if TYPE_CHECKING:
    from workbench.project.configs import Config


# General before specific, borders last: each later call beats the earlier ones.
_ORDER: tuple[RuleKind, ...] = (
    "global", "module_type", "module_name", "node_target", "pattern", "finder", "node_name",
    "quantizer", "io",
)  # fmt: skip


def revise(project: Project, **changes: Any) -> Project:
    """Return the project with some fields replaced, validated as a whole."""
    fields = {name: getattr(project, name) for name in type(project).model_fields}
    return Project(**{**fields, **changes})


def _strength(rule: Rule) -> tuple[int, int]:
    depth = rule.match.count(".") if rule.kind == "module_name" else 0
    return _ORDER.index(rule.kind), depth


def next_rule_id(project: Project) -> str:
    """Return an id no rule of the project has."""
    taken = {rule.id for rule in project.rules}
    number = 1
    while f"r{number}" in taken:
        number += 1
    return f"r{number}"


def find_rule(project: Project, rule_id: str) -> Rule:
    """Return the rule with this id.

    Raises:
        WorkbenchError: there is none.
    """
    for rule in project.rules:
        if rule.id == rule_id:
            return rule
    known = ", ".join(rule.id for rule in project.rules) or "none"
    raise failure(
        f"No rule {rule_id}.",
        f"Rules: {known}.",
        Place(kind="rule", id=rule_id),
        code="rule-unknown",
    )


def assign(project: Project, kind: RuleKind, match: str, config: str | Config) -> Project:
    """Return the project in which ``kind`` and ``match`` get ``config``.

    A rule for the same thing is replaced in place; a new one is put behind all that are as
    general or more general, so that it is stronger than those. Rules for precision and rules that
    keep off the NPU stand beside each other.
    """
    new = Rule(id=next_rule_id(project), kind=kind, match=match, config=config)
    for index, rule in enumerate(project.rules):
        same = (rule.kind, rule.match) == (kind, match) and rule.keeps_off == new.keeps_off
        if same and (kind != "quantizer" or rule.config == config):
            changed = rule.model_copy(update={"config": config, "enabled": True})
            rules = [*project.rules[:index], changed, *project.rules[index + 1 :]]
            return revise(project, rules=tuple(rules))
    at = 0
    for index, rule in enumerate(project.rules):
        if _strength(rule) <= _strength(new):
            at = index + 1
    return revise(project, rules=(*project.rules[:at], new, *project.rules[at:]))


def assign_many(
    project: Project, kind: RuleKind, matches: list[str], config: str | Config
) -> Project:
    """Return the project in which each of several things gets ``config``."""
    for match in matches:
        project = assign(project, kind, match, config)
    return project


def remove_rule(project: Project, rule_id: str) -> Project:
    """Return the project without one rule."""
    find_rule(project, rule_id)
    return revise(project, rules=tuple(r for r in project.rules if r.id != rule_id))


def move_rule(project: Project, rule_id: str, position: int) -> Project:
    """Return the project with one rule at another place of the call order; 0 is the weakest."""
    rule = find_rule(project, rule_id)
    rest = [r for r in project.rules if r.id != rule_id]
    position = max(0, min(position, len(rest)))
    return revise(project, rules=(*rest[:position], rule, *rest[position:]))


def enable_rule(project: Project, rule_id: str, *, enabled: bool) -> Project:
    """Return the project with one rule switched on or off."""
    find_rule(project, rule_id)
    rules = tuple(
        r.model_copy(update={"enabled": enabled}) if r.id == rule_id else r for r in project.rules
    )
    return revise(project, rules=rules)


def set_target(project: Project, target: TargetChoice) -> Project:
    """Return the project for another device."""
    return revise(project, target=target)


def set_board(project: Project, board: str, target: TargetChoice) -> Project:
    """Return the project for a board, with the target that it makes; "" is no board."""
    return revise(project, board=board, target=target)


def set_model(project: Project, model: ModelSource) -> Project:
    """Return the project with another float model."""
    return revise(project, model=model)


def data_at(project: Project, spec: str) -> DataSource:
    """Return data at a place; a text is read as those of the project are."""
    present = (project.evaluation.data, project.calibration)
    tokens = next((data.tokens for data in present if data and data.tokens), None)
    return DataSource(spec=spec, tokens=tokens if spec.endswith(TEXT_SUFFIX) else None)


def set_calibration(project: Project, data: DataSource | None) -> Project:
    """Return the project with other calibration samples."""
    return revise(project, calibration=data)


def set_evaluation(project: Project, data: DataSource | None, metric: str | None) -> Project:
    """Return the project with other evaluation samples and metric."""
    evaluation = project.evaluation
    changed = type(evaluation)(data=data, metric=metric, limit=evaluation.limit)
    return revise(project, evaluation=changed)


def set_improver(project: Project, improver: ImproverId, *, on: bool) -> Project:
    """Return the project with an improver of the weights on or off."""
    wanted = {*project.improvers, improver} if on else {*project.improvers} - {improver}
    return revise(project, improvers=tuple(i.id for i in IMPROVERS if i.id in wanted))


def train_by(project: Project, function: str | None) -> Project:
    """Return the project that is trained by the user's own function; None for the built-in one."""
    return revise(project, training_function=function or None)


def use_trained(project: Project, weights: str | None) -> Project:
    """Return the project with weights that training left, a file's name; None for the model's."""
    return revise(project, trained_weights=weights)


def offer_plugin(project: Project, plugin: str) -> Project:
    """Return the project whose forms offer what a plug-in's file adds."""
    if plugin in project.plugins:
        return project
    return revise(project, plugins=(*project.plugins, plugin))


def withdraw_plugin(project: Project, plugin: str) -> Project:
    """Return the project whose forms do not offer a plug-in's file any more; rules stay.

    Raises:
        WorkbenchError: they never did.
    """
    if plugin not in project.plugins:
        known = ", ".join(project.plugins) or "none"
        raise failure(
            f"The project does not use the plug-in {plugin}.",
            f"Plug-ins of the project: {known}.",
            code="plugin-not-in-project",
        )
    return revise(project, plugins=tuple(p for p in project.plugins if p != plugin))


def save_preset(project: Project, name: str, config: Config) -> Project:
    """Return the project with a config kept under a name."""
    return revise(project, presets={**project.presets, name: config})


def fix_range(project: Project, tensor: str, minimum: float, maximum: float) -> Project:
    """Return the project in which a tensor has a range of its own, in numbers, and no method.

    Raises:
        WorkbenchError: it is inverted, excludes zero or is not finite.
    """
    if fault := range_fault(minimum, maximum):
        raise failure(
            f"{fault[:1].upper()}{fault[1:]}.",
            "A range must contain zero, with its minimum below its maximum.",
            Place(kind="tensor", id=tensor),
            code="fixed-range-invalid",
        )
    new = FixedRange(tensor=tensor, minimum=minimum, maximum=maximum)
    fixed = {**{known.tensor: known for known in project.ranges}, tensor: new}
    methods = (m for m in project.range_methods if (m.scope, m.match) != ("tensor", tensor))
    return revise(project, ranges=tuple(fixed.values()), range_methods=tuple(methods))


def choose_method(project: Project, scope: MethodScope, match: str, method: MethodId) -> Project:
    """Return the project in which ranges of a tensor, a module or all are taken by a method.

    What was chosen for the same before is replaced, numbers of that tensor too; narrower choices
    and numbers of other tensors stay, and beat it.
    """
    new = RangeMethod(scope=scope, match=match, method=method)
    kept = [m for m in project.range_methods if (m.scope, m.match) != (scope, match)]
    ordered = tuple(sorted([*kept, new], key=lambda each: each.strength))
    ranges = tuple(r for r in project.ranges if scope != "tensor" or r.tensor != match)
    return revise(project, range_methods=ordered, ranges=ranges)


def free_ranges(project: Project, tensors: Iterable[str]) -> Project:
    """Return the project in which nothing is chosen for the range of some tensors themselves.

    Raises:
        WorkbenchError: nothing was chosen for one of them.
    """
    gone = set(tensors)
    of_one = {m.match for m in project.range_methods if m.scope == "tensor"}
    chosen = of_one | {fixed.tensor for fixed in project.ranges}
    if unknown := sorted(gone - chosen):
        known = ", ".join(sorted(chosen)) or "none"
        where = Place(kind="tensor", id=unknown[0])
        raise failure(
            f"No range or method is set for {unknown[0]}.",
            f"Set for: {known}.",
            where,
            code="range-method-unknown",
        )
    methods = (m for m in project.range_methods if m.scope != "tensor" or m.match not in gone)
    ranges = tuple(r for r in project.ranges if r.tensor not in gone)
    return revise(project, ranges=ranges, range_methods=tuple(methods))


def drop_methods(project: Project, methods: Iterable[RangeMethod]) -> Project:
    """Return the project without some of its methods for ranges."""
    gone = set(methods)
    return revise(project, range_methods=tuple(m for m in project.range_methods if m not in gone))


def drop_samples(project: Project, indices: Iterable[int]) -> Project:
    """Return the project that leaves some samples out of calibration.

    Raises:
        WorkbenchError: there is no calibration data.
    """
    data = _calibration_of(project)
    dropped = tuple(sorted({*data.dropped, *indices}))
    return revise(project, calibration=data.model_copy(update={"dropped": dropped}))


def restore_samples(project: Project, indices: Iterable[int]) -> Project:
    """Return the project that calibrates on samples that were left out.

    Raises:
        WorkbenchError: there is no calibration data.
    """
    data = _calibration_of(project)
    dropped = tuple(sorted(set(data.dropped) - set(indices)))
    return revise(project, calibration=data.model_copy(update={"dropped": dropped}))


def _calibration_of(project: Project) -> DataSource:
    if project.calibration is None:
        where = Place(kind="option", id="calibration")
        raise failure(
            "No calibration data, so there are no samples to leave out.",
            where=where,
            code="calibration-absent",
        )
    return project.calibration


def rename(project: Project, name: str) -> Project:
    """Return the project under another name."""
    return revise(project, name=name)


def set_notes(project: Project, notes: str) -> Project:
    """Return the project with other notes."""
    return revise(project, notes=notes)


# The fields that a project and a run of it share: what was decided.
DECIDED = ("rules", "improvers", "trained_weights", "ranges", "range_methods")


class Kept(Protocol):
    """A configuration that was kept, with all fields of ``DECIDED``."""

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules, general first."""

    @property
    def presets(self) -> dict[str, Config]:
        """Named configs that rules may use."""


def restore_rules(project: Project, kept: Kept) -> Project:
    """Return the project with the rules, weights and choices of ranges of a former configuration.

    Presets of the project stay, save those of the same name that the rules use.
    """
    named = {rule.config for rule in kept.rules if isinstance(rule.config, str)}
    wanted = {name: config for name, config in kept.presets.items() if name in named}
    decided = {name: getattr(kept, name) for name in DECIDED}
    return revise(project, presets={**project.presets, **wanted}, **decided)
