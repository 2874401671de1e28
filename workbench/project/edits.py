"""All project edits as pure functions from project to project."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import ValidationError

from workbench.errors import ErrorInfo, Place, WorkbenchError, failure, invalid_values
from workbench.project.configs import (
    IMPROVER_PRESETS,
    IMPROVERS,
    Config,
    FixedRange,
    ImproverId,
    ImproverPresetId,
    Improving,
    MethodId,
    MethodScope,
    RangeMethod,
    range_fault,
)
from workbench.project.model import (
    Compression,
    DataSource,
    ModelSource,
    Project,
    Rule,
    RuleKind,
    TargetChoice,
)
from workbench.project.sources import TEXT_SUFFIX

if TYPE_CHECKING:
    from workbench.project.configs import Config


# From general to specific, inputs and outputs last: later calls override earlier ones.
_ORDER: tuple[RuleKind, ...] = (
    "global",
    "module_type",
    "module_name",
    "node_target",
    "pattern",
    "finder",
    "node_name",
    "quantizer",
    "io",
)


def revise(project: Project, **changes: Any) -> Project:
    """Return the project with some fields replaced; the result is validated."""
    fields = {name: getattr(project, name) for name in type(project).model_fields}
    return Project(**{**fields, **changes})


def _strength(rule: Rule) -> tuple[int, int]:
    depth = rule.match.count(".") if rule.kind == "module_name" else 0
    return _ORDER.index(rule.kind), depth


def next_rule_id(project: Project) -> str:
    """Return an unused rule id."""
    taken = {rule.id for rule in project.rules}
    number = 1
    while f"r{number}" in taken:
        number += 1
    return f"r{number}"


def find_rule(project: Project, rule_id: str) -> Rule:
    """Return the rule with this id.

    Raises:
        WorkbenchError: there is no such rule.
    """
    for rule in project.rules:
        if rule.id == rule_id:
            return rule
    known = ", ".join(rule.id for rule in project.rules) or "none"
    raise failure(
        f"No rule {rule_id}.", f"Rules: {known}.", Place(kind="rule", id=rule_id), code="rule-unknown"
    )


def assign(project: Project, kind: RuleKind, match: str, config: str | Config) -> Project:
    """Return the project in which ``kind`` and ``match`` get ``config``.

    A rule with the same kind and match is replaced in place. A new rule is inserted after all rules
    that are as general or more general, so that it overrides them. Precision rules and rules that
    keep a part off the NPU coexist.
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


def assign_many(project: Project, kind: RuleKind, matches: list[str], config: str | Config) -> Project:
    """Return the project in which each of several matches gets ``config``."""
    for match in matches:
        project = assign(project, kind, match, config)
    return project


def remove_rule(project: Project, rule_id: str) -> Project:
    """Return the project without one rule."""
    find_rule(project, rule_id)
    return revise(project, rules=tuple(r for r in project.rules if r.id != rule_id))


def move_rule(project: Project, rule_id: str, position: int) -> Project:
    """Return the project with one rule moved in the call order; 0 is the weakest position."""
    rule = find_rule(project, rule_id)
    rest = [r for r in project.rules if r.id != rule_id]
    position = max(0, min(position, len(rest)))
    return revise(project, rules=(*rest[:position], rule, *rest[position:]))


def match_rule(project: Project, rule_id: str, match: str) -> Project:
    """Return the project in which one rule is for another match; its strength is kept."""
    find_rule(project, rule_id)
    rules = tuple(r.model_copy(update={"match": match}) if r.id == rule_id else r for r in project.rules)
    return revise(project, rules=rules)


def enable_rule(project: Project, rule_id: str, *, enabled: bool) -> Project:
    """Return the project with one rule enabled or disabled."""
    find_rule(project, rule_id)
    rules = tuple(r.model_copy(update={"enabled": enabled}) if r.id == rule_id else r for r in project.rules)
    return revise(project, rules=rules)


def set_target(project: Project, target: TargetChoice) -> Project:
    """Return the project for another device."""
    return revise(project, target=target)


def set_toolchain(project: Project, name: str, versions: str) -> Project:
    """Return the project for another toolchain, with the versions that it has; "" for none."""
    return revise(project, toolchain=name, toolchain_versions=versions)


def set_board(project: Project, board: str, target: TargetChoice) -> Project:
    """Return the project with a board and its target; "" removes the board."""
    return revise(project, board=board, target=target)


def set_model(project: Project, model: ModelSource) -> Project:
    """Return the project with another float model."""
    return revise(project, model=model)


def data_at(project: Project, spec: str) -> DataSource:
    """Return a data source for a path; text settings are taken from the project."""
    present = (project.evaluation.data, project.calibration)
    tokens = next((data.tokens for data in present if data and data.tokens), None)
    return DataSource(spec=spec, tokens=tokens if spec.endswith(TEXT_SUFFIX) else None)


def set_calibration(project: Project, data: DataSource | None) -> Project:
    """Return the project with another calibration data source."""
    return revise(project, calibration=data)


def set_evaluation(project: Project, data: DataSource | None, metric: str | None) -> Project:
    """Return the project with another evaluation data source and metric."""
    changed = project.evaluation.model_copy(update={"data": data, "metric": metric})
    return revise(project, evaluation=changed)


def set_improver(project: Project, improver: ImproverId, *, on: bool) -> Project:
    """Return the project with an improver enabled or disabled.

    Of the improvers that choose the rounding of weights, an enabled one replaces the others.
    """
    chosen = next(i for i in IMPROVERS if i.id == improver)
    replaced = {i.id for i in IMPROVERS if i.rounds} if on and chosen.rounds else {improver}
    wanted = {*project.improvers} - replaced | ({improver} if on else set())
    return revise(project, improvers=tuple(i.id for i in IMPROVERS if i.id in wanted))


def use_improver_preset(project: Project, preset: ImproverPresetId) -> Project:
    """Return the project with the improvers of a preset, instead of others."""
    wanted = next(p.improvers for p in IMPROVER_PRESETS if p.id == preset)
    return revise(project, improvers=tuple(i.id for i in IMPROVERS if i.id in wanted))


def set_improving(project: Project, **settings: int | None) -> Project:
    """Return the project with other settings of its improvers: fields of ``Improving``.

    Raises:
        WorkbenchError: a value is out of range.
    """
    try:
        improving = Improving(**{**project.improving.model_dump(), **settings})
    except ValidationError as error:
        raise WorkbenchError(
            [
                ErrorInfo(
                    message=f"The setting {value.field} of improvers is invalid: {value.message}",
                    hint="See the project file's page of the guide: improving.",
                    where=Place(kind="option", id="improvers"),
                    code="improving-invalid",
                )
                for value in invalid_values(error)
            ]
        ) from error
    return revise(project, improving=improving)


def compress(
    project: Project, module: str, *, channels: int | None = None, clusters: int | None = None
) -> Project:
    """Return the project with another size of a layer.

    Args:
        project: The project.
        module: A convolution or linear; "" for every other layer, which takes clusters only.
        channels: The number of output channels that stay; 0 for all, None for no change.
        clusters: The number of distinct weights; 0 for no limit, None for no change.

    Raises:
        WorkbenchError: A number is out of range, or channels are set for no module.
    """
    before = next((c for c in project.compressions if c.module == module), None)
    others = [entry for entry in project.compressions if entry.module != module]
    channels = before.channels if channels is None and before else channels
    clusters = before.clusters if clusters is None and before else clusters
    if channels or clusters:
        try:
            entry = Compression(module=module, channels=channels or None, clusters=clusters or None)
        except ValidationError as error:
            wrong = next(invalid_values(error)).message
            raise failure(
                f"The size of {module or 'every layer'} is invalid: {wrong}",
                "Channels are 1 or more, for one module; clusters are 3 to 255.",
                Place(kind="option", id="compressions"),
                code="compression-invalid",
            ) from error
        others.append(entry)
    return revise(project, compressions=tuple(sorted(others, key=lambda entry: entry.module)))


def train_by(project: Project, function: str | None) -> Project:
    """Return the project with a training function of the user; None selects the built-in one."""
    return revise(project, training_function=function or None)


def use_trained(project: Project, weights: str | None) -> Project:
    """Return the project with trained weights from a file; None selects the model's own."""
    return revise(project, trained_weights=weights)


def split_outputs(project: Project, positions: Iterable[int]) -> Project:
    """Return the project that returns what these outputs join one by one, in addition."""
    return revise(project, split_outputs=tuple(sorted({*project.split_outputs, *positions})))


def divide_output(project: Project, position: int, factors: Iterable[float]) -> Project:
    """Return the project that divides the parts of an output by these factors."""
    rows = list(project.output_factors)
    rows += [()] * (position + 1 - len(rows))
    rows[position] = tuple(factors)
    return revise(project, output_factors=tuple(rows))


def offer_plugin(project: Project, plugin: str) -> Project:
    """Return the project with a plug-in file added."""
    if plugin in project.plugins:
        return project
    return revise(project, plugins=(*project.plugins, plugin))


def withdraw_plugin(project: Project, plugin: str) -> Project:
    """Return the project without a plug-in file; rules that use it are kept.

    Raises:
        WorkbenchError: the project does not use the plug-in.
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
    """Return the project with a config saved under a name."""
    return revise(project, presets={**project.presets, name: config})


def fix_range(project: Project, tensor: str, minimum: float, maximum: float) -> Project:
    """Return the project with the range of a tensor pinned; its range method is removed.

    Raises:
        WorkbenchError: the range is inverted, excludes zero or is not finite.
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
    """Return the project with a range method for a tensor, a module or all activations.

    An earlier choice for the same scope is replaced, including a pinned range of the tensor.
    Narrower choices and pinned ranges of other tensors are kept and take precedence.
    """
    new = RangeMethod(scope=scope, match=match, method=method)
    kept = [m for m in project.range_methods if (m.scope, m.match) != (scope, match)]
    ordered = tuple(sorted([*kept, new], key=lambda entry: entry.strength))
    ranges = tuple(r for r in project.ranges if scope != "tensor" or r.tensor != match)
    return revise(project, range_methods=ordered, ranges=ranges)


def free_ranges(project: Project, tensors: Iterable[str]) -> Project:
    """Return the project without pinned ranges and methods of some tensors.

    Raises:
        WorkbenchError: a tensor has neither.
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
    """Return the project without some of its range methods."""
    gone = set(methods)
    return revise(project, range_methods=tuple(m for m in project.range_methods if m not in gone))


def drop_samples(project: Project, indices: Iterable[int]) -> Project:
    """Return the project with some calibration samples excluded.

    Raises:
        WorkbenchError: there is no calibration data.
    """
    data = _calibration_of(project)
    dropped = tuple(sorted({*data.dropped, *indices}))
    return revise(project, calibration=data.model_copy(update={"dropped": dropped}))


def restore_samples(project: Project, indices: Iterable[int]) -> Project:
    """Return the project with some excluded calibration samples included again.

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
            "Set the calibration data first.",
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


# The fields that a run in the history restores.
DECIDED = (
    "rules",
    "improvers",
    "improving",
    "compressions",
    "trained_weights",
    "split_outputs",
    "output_factors",
    "ranges",
    "range_methods",
)


class SavedConfiguration(Protocol):
    """A saved configuration with all fields of ``DECIDED``."""

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules, from general to specific."""

    @property
    def presets(self) -> dict[str, Config]:
        """Named configs that the rules may use."""


def restore_rules(project: Project, saved: SavedConfiguration) -> Project:
    """Return the project with the rules, weights and ranges of a saved configuration.

    Presets of the project are kept, except those with a name that the rules use.
    """
    named = {rule.config for rule in saved.rules if isinstance(rule.config, str)}
    wanted = {name: config for name, config in saved.presets.items() if name in named}
    decided = {name: getattr(saved, name) for name in DECIDED}
    return revise(project, presets={**project.presets, **wanted}, **decided)
