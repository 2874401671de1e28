"""Resolution of rules against a graph, and the errors and warnings of a project."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from workbench.deploy import boards
from workbench.errors import ErrorInfo, Place, WorkbenchError
from workbench.graph.snapshot import GraphSnapshot
from workbench.project import plugins, sources
from workbench.project.configs import QuantConfig
from workbench.project.frozen import Frozen
from workbench.project.model import PLUGIN_KINDS, name_of
from workbench.project.opened import OpenProject
from workbench.project.preprocessing import EXAMPLE
from workbench.project.rules import (
    ModuleRef,
    NodeRef,
    Resolution,
    ambiguous_classes,
    module_chains,
    resolve,
    unusable_patterns,
)
from workbench.results import GRAPH_FILE, PrepareResult, load_result
from workbench.targets import target_of
from workbench.text import listed
from workbench.toolchains import choice

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from workbench.pipeline.cache import Cache
    from workbench.pipeline.plan import Plan
    from workbench.project.model import Project, Rule


class Problem(Frozen):
    """An error or a warning that is shown before a run; errors prevent it."""

    level: Literal["error", "warning"]
    info: ErrorInfo


def float_graph(planned: Plan, cache: Cache) -> GraphSnapshot | None:
    """Return the exported graph if the plan found it in the cache."""
    stage = planned.of("export")
    if stage.state != "cached":
        return None
    return GraphSnapshot.load(cache.folder(stage.key) / GRAPH_FILE)


def prepared_result(planned: Plan, cache: Cache) -> PrepareResult | None:
    """Return the quantizer's report if the plan found it in the cache."""
    stage = planned.of("prepare")
    if stage.state != "cached":
        return None
    return load_result(PrepareResult, cache.folder(stage.key))


def taken_by_plugins(project: Project, prepared: PrepareResult) -> dict[str, str]:
    """Return the rule for each node that a plug-in's rule matched."""
    rules: dict[str, str] = {}
    for rule in project.rules:
        if rule.enabled and rule.kind in PLUGIN_KINDS:
            rules[rule.match if rule.kind == "finder" else str(rule.config)] = rule.id
    return {note.origin: rules[note.by] for note in prepared.annotations if note.by in rules}


def resolve_graph(
    project: Project, graph: GraphSnapshot, prepared: PrepareResult | None = None
) -> Resolution:
    """Return the effective config and deciding rule of every module and node of a graph.

    Matches of plug-in rules are known only from the quantizer's report.
    """
    modules = [ModuleRef(m.path, m.type_name) for m in graph.modules]
    chains = module_chains(modules)
    root = chains.get("", ())
    nodes = [
        NodeRef(
            id=node.id,
            target=node.op,
            modules=chains.get(node.module, root),
            is_io=node.kind in {"input", "output"},
        )
        for node in graph.nodes
        if node.kind not in {"parameter", "constant"}
    ]
    taken = taken_by_plugins(project, prepared) if prepared is not None else None
    return resolve(project, modules, nodes, taken)


def problems(
    opened: OpenProject, graph: GraphSnapshot | None, prepared: PrepareResult | None = None
) -> list[Problem]:
    """Return all problems of a project, errors first.

    Args:
        opened: The project.
        graph: The exported graph; without it, rule matches are not checked.
        prepared: The quantizer's report; without it, pinned ranges are not checked.
    """
    project = opened.project
    # A problem of several rules is reported once.
    infos = {info.message: info for info in reversed(list(_errors(opened)))}
    if graph is not None:
        types = [module.type_name for module in graph.modules]
        infos |= {info.message: info for info in ambiguous_classes(project, types)}
    errors = [Problem(level="error", info=info) for info in reversed(infos.values())]
    resolution = None if graph is None else resolve_graph(project, graph, prepared)
    known = warnings(opened, graph, resolution, prepared)
    warned = [Problem(level="warning", info=info) for info in known]
    warned += [Problem(level="warning", info=i) for i in boards.warnings_of(opened)]
    warned += [Problem(level="warning", info=info) for info in choice.warnings_of(project)]
    if graph is not None and prepared is not None:
        stale = stale_ranges(project, graph.nodes_by_id, prepared)
        warned += [Problem(level="warning", info=info) for info in stale]
    return errors + warned


def _errors(opened: OpenProject) -> Iterator[ErrorInfo]:
    project = opened.project
    missing = sources.missing(opened)
    if missing is not None:
        yield from missing.infos
    try:
        target = target_of(project.target.id)
    except WorkbenchError as error:
        yield from error.infos
        return
    yield from target.check(project.target, opened.folder)
    yield from boards.problems(opened)
    yield from choice.problems(project)
    yield from plugins.problems(opened)
    for rule in project.rules:
        if not rule.enabled:
            continue
        refusal = target.refusal(project.target, project.config_of(rule), rule.kind)
        if rule.keeps_off and rule.kind in {"io", "finder"}:
            refusal = "only named operators, modules and nodes can be kept off the NPU."
        if refusal:
            yield ErrorInfo(
                message=f"{rule_name(rule)}: {refusal}",
                hint="Choose another config for the rule or disable it.",
                where=Place(kind="rule", id=rule.id),
                code="rule-not-supported",
            )


def rule_name(rule: Rule) -> str:
    """Return the display name of a rule, e.g. ``module_name encoder.0``."""
    match = name_of(rule.config) if rule.kind == "quantizer" else rule.match
    return f"{rule.kind} {match}".rstrip()


def warnings(
    opened: OpenProject,
    graph: GraphSnapshot | None,
    resolution: Resolution | None,
    prepared: PrepareResult | None = None,
    named: Callable[[Rule], str] = rule_name,
) -> Iterator[ErrorInfo]:
    """Yield the warnings about a project, and the forecasts of its compiled program.

    Args:
        opened: The project.
        graph: The exported graph; without it, rule matches are not checked.
        resolution: What the rules decide for the graph.
        prepared: The quantizer's report; no forecasts are made for operators that it left in float.
        named: Gives the name of a rule in the messages.
    """
    project = opened.project
    if project.calibration is None:
        yield ErrorInfo(
            message="No calibration data: ranges come from the example input only.",
            hint="Choose a data set. About a hundred typical samples are enough.",
            where=Place(kind="option", id="calibration"),
            code="calibration-missing",
        )
    for option, source in (
        ("calibration", project.calibration),
        ("evaluation.data", project.evaluation.data),
    ):
        if source and source.preprocess is None and sources.is_folder(source.spec, opened.folder):
            yield ErrorInfo(
                message=f"{source.spec} is a folder of pictures without preprocess.",
                hint=f"Run: workbench preprocess PROJECT {EXAMPLE}",
                where=Place(kind="option", id=f"{option}.preprocess"),
                code="pictures-preprocess-missing",
            )
    if not any(rule.enabled for rule in project.rules):
        yield ErrorInfo(
            message="No rules: nothing will be quantized.",
            hint="Assign a8w8 to the whole model to start.",
            where=Place(kind="option", id="rules"),
            code="rules-missing",
        )
    yield from unusable_patterns(project)
    if graph is None or resolution is None:
        return
    yield from _rule_warnings(project.rules, resolution, graph, named)
    yield from _target_warnings(project, graph, resolution, named)
    yield from whole_refusals(project, graph, resolution, prepared)


def _rule_warnings(
    rules: Sequence[Rule], resolution: Resolution, graph: GraphSnapshot, named: Callable[[Rule], str]
) -> Iterator[ErrorInfo]:
    """Yield the rules that match nothing, and those that others override everywhere."""
    stronger: dict[str, set[str]] = {}
    for effective in [*resolution.modules.values(), *resolution.nodes.values()]:
        for beaten in effective.overridden if effective.rule else ():
            stronger.setdefault(beaten, set()).add(effective.rule or "")
    order = {rule.id: number for number, rule in enumerate(rules)}
    suggested = 0
    for rule in rules:
        count = resolution.counts.get(rule.id)
        where = Place(kind="rule", id=rule.id)
        if not rule.enabled or count is None:
            continue
        if not count.matched:
            suggested += 1
            yield ErrorInfo(
                message=f"{named(rule)} matches nothing in the model.",
                hint=_nearest(rule, resolution, graph) if suggested <= _MAX_SUGGESTED else _EXACT,
                where=where,
                code="rule-unmatched",
            )
        elif not count.wins:
            overriding = [rules[n] for n in sorted(order[i] for i in stronger.get(rule.id, ()))]
            names = [f"{named(other)} with {name_of(other.config)}" for other in overriding]
            yield ErrorInfo(
                message=f"{named(rule)} has no effect: {listed(names)} "
                f"{'override' if len(names) > 1 else 'overrides'} it everywhere.",
                hint="Move it up or remove it.",
                where=where,
                code="rule-overridden",
            )


def stale_ranges(project: Project, exported: Collection[str], prepared: PrepareResult) -> Iterator[ErrorInfo]:
    """Yield the pinned ranges and range methods whose tensor or module no longer exists.

    Args:
        project: Its ranges name nodes.
        exported: Nodes of the exported graph.
        prepared: The quantizer's report; it includes nodes that the quantizer created.
    """
    nodes = {note.node for note in prepared.annotations}
    modules = {note.module for note in prepared.annotations}
    for fixed in project.ranges:
        if fixed.tensor not in exported and fixed.tensor not in nodes:
            yield ErrorInfo(
                message=f"The fixed range of {fixed.tensor} has no effect: the model has no such tensor.",
                hint="The tensor was renamed or removed. Unpin its range or pin another tensor's range.",
                where=Place(kind="tensor", id=fixed.tensor),
                code="fixed-range-lost",
            )
    for chosen in (method for method in project.range_methods if method.scope != "all"):
        is_tensor = chosen.scope == "tensor"
        known = {*exported, *nodes} if is_tensor else modules
        if not any(chosen.speaks_of(name, name) for name in known):
            yield ErrorInfo(
                message=f"The method for the range of {chosen.scope_text} has no effect: "
                f"the model has no such {'tensor' if is_tensor else 'module'}.",
                hint="It was renamed or removed. Reset the choice in Ranges, page Chosen.",
                where=Place(kind="tensor" if is_tensor else "module", id=chosen.match),
                code="range-method-lost",
            )


def whole_refusals(
    project: Project, graph: GraphSnapshot, resolution: Resolution, prepared: PrepareResult | None = None
) -> Iterator[ErrorInfo]:
    """Yield the operators for which the toolchain rejects the program, or compiles it wrongly.

    Args:
        project: The project, whose rules give the precisions.
        graph: The exported graph.
        resolution: The config of each node.
        prepared: The quantizer's report; operators that it left in float are not rejected.
    """
    configs = {rule.id: project.config_of(rule) for rule in project.rules if not rule.keeps_off}
    wide, narrow, integer = set[str](), set[str](), set[str]()
    for name, effective in resolution.nodes.items():
        config = configs.get(effective.rule or "")
        if not isinstance(config, QuantConfig):
            continue
        if not effective.cpu_only:
            integer.add(name)
            if config.activation.dtype == "int16":
                wide.add(name)
        if config.weight.bits == 4 and config.weight.per_channel:
            narrow.add(name)
    if prepared is not None:
        quantized = {note.origin for note in prepared.annotations if note.quantized}
        wide, narrow, integer = wide & quantized, narrow & quantized, integer & quantized
    target = target_of(project.target.id)
    yield from target.forecast(project.target, graph, wide, narrow, integer)


_EXACT = "Names match exactly, without wildcards."
# The search for similar names takes the product of these, in about a second.
_MAX_SUGGESTED, _MAX_NAMES, _MAX_COMPARED = 20, 5_000, 200


def _nearest(rule: Rule, resolution: Resolution, graph: GraphSnapshot) -> str:
    import difflib

    if rule.kind in PLUGIN_KINDS:
        return "The plug-in's code decides what matches."
    types = {module.type_name for module in graph.modules}
    names = {
        "module_type": [*types, *(candidate.rpartition(".")[2] for candidate in types)],
        "module_name": [name for name in resolution.modules if name],
        "node_name": list(resolution.nodes),
    }.get(rule.kind, [])
    wanted = rule.match[:_MAX_COMPARED]
    close = difflib.get_close_matches(wanted, names[:_MAX_NAMES], n=3, cutoff=0.5)
    return f"Did you mean {', '.join(close)}?" if close else _EXACT


def _target_warnings(
    project: Project, graph: GraphSnapshot, resolution: Resolution, named: Callable[[Rule], str]
) -> Iterator[ErrorInfo]:
    target = target_of(project.target.id)
    operators: dict[str, list[str]] = {}
    for node in graph.nodes:
        effective = resolution.nodes.get(node.id)
        if effective is not None and effective.rule is not None:
            operators.setdefault(effective.rule, []).append(node.op)
    for rule in project.rules:
        config = project.config_of(rule)
        for text in target.warnings(project.target, config, operators.get(rule.id, [])):
            yield ErrorInfo(
                message=f"{named(rule)}: {text}",
                hint=target.remedy,
                where=Place(kind="rule", id=rule.id),
                code="rule-warning",
            )
