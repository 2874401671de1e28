"""Rules of a project: add, order, switch, resolve, and exchange with MASE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.api.jobs import JobFailedError, run_job
from workbench.api.projects import allowed_code
from workbench.errors import ErrorInfo, Place, WorkbenchError, failure, invalid_values
from workbench.escaping import html_table
from workbench.pipeline import resolution
from workbench.pipeline.cache import Cache, default_root
from workbench.pipeline.plan import plan
from workbench.project import edits
from workbench.project.configs import PRESETS_BY_ID, Config, PluginRole
from workbench.project.model import PLUGIN_KINDS, Rule, RuleKind
from workbench.project.opened import OpenProject
from workbench.project.plugins import offered
from workbench.protocol import RunUntil
from workbench.targets import target_of
from workbench.targets.formats.pass_args import pass_args_of, read_args, taken

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from workbench.graph.snapshot import GraphSnapshot
    from workbench.pipeline.plan import Plan
    from workbench.project.rules import Resolution
    from workbench.protocol import Event


@dataclass(frozen=True)
class ResolvedRules:
    """The config of every module and node, and the rule that decides it.

    Attributes:
        resolution: The effective config of every module and node, and the wins of every rule.
        types: The class name of every module by its path.
        plugins_pending: Whether matches of plug-in rules are missing, because the stage prepare
            has no result yet.
    """

    resolution: Resolution
    types: Mapping[str, str]
    plugins_pending: bool

    def _repr_html_(self) -> str:
        rows = [
            (path, self.types[path], effective.label, effective.rule or "none")
            for path, effective in self.resolution.modules.items()
        ]
        return html_table("Resolved rules", ("module", "type", "config", "rule"), rows)


def rules(opened: OpenProject) -> Sequence[Rule]:
    """Return the rules, weakest first."""
    return opened.project.rules


def set_global(opened: OpenProject, config: str | Config) -> OpenProject:
    """Set the config of the whole model."""
    return _assigned(opened, "global", "", config)


def set_io(opened: OpenProject, config: str | Config) -> OpenProject:
    """Set the config of the inputs and outputs."""
    return _assigned(opened, "io", "", config)


def set_module_name(opened: OpenProject, name: str, config: str | Config) -> OpenProject:
    """Set the config of one module and all inside it, by its path in the model."""
    return _assigned(opened, "module_name", name, config)


def set_module_type(opened: OpenProject, name: str, config: str | Config) -> OpenProject:
    """Set the config of every module of a class."""
    return _assigned(opened, "module_type", name, config)


def _assigned(opened: OpenProject, kind: RuleKind, match: str, config: str | Config) -> OpenProject:
    return opened.edited(lambda project: edits.assign(project, kind, match, config))


def add_rule(
    opened: OpenProject, kind: RuleKind, match: str, config: str | Config, position: int | None = None
) -> OpenProject:
    """Add a rule; one with the same kind and match is replaced.

    Args:
        opened: The project.
        kind: What the rule matches: a module's name or type, a node, an operator ...
        match: The name; "" for the whole model and for inputs and outputs.
        config: A config, the id of a preset, a config as JSON, or the name of a plug-in's item.
        position: The place in the call order, 0 is the weakest; by default the strongest.

    Raises:
        WorkbenchError: The config is unknown, or the target has no use for it.
    """
    role: PluginRole = "quantizer" if kind == "quantizer" else "config"
    if isinstance(config, str):
        config = _config(config, opened, role)
    if kind == "finder":
        match = _of_plugin(match, opened, "finder")
    project = edits.assign(opened.project, kind, match, config)
    wanted = (kind, match, config)
    rule = next(r for r in project.rules if (r.kind, r.match, r.config) == wanted)
    refusal = target_of(project.target.id).refusal(project.target, project.config_of(rule), kind)
    if refusal:
        raise failure(refusal, where=Place(kind="rule", id=rule.id), code="rule-not-supported")
    if position is not None:
        project = edits.move_rule(project, rule.id, position)
    return opened.edited(lambda _: project)


def _config(text: str, opened: OpenProject, role: PluginRole) -> str | Config:
    if not text.lstrip().startswith("{"):
        own = [*PRESETS_BY_ID] if role == "config" else []
        known = [*own, *opened.project.presets]
        return text if text in known else _of_plugin(text, opened, role, known)
    from pydantic import ValidationError

    kind: type[Config] = target_of(opened.project.target.id).config_type
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        raise WorkbenchError(
            ErrorInfo(
                message=f"Invalid config, {value.field or 'as a whole'}: {value.message}",
                where=Place(kind="option", id="config"),
                code="config-invalid",
            )
            for value in invalid_values(error)
        ) from error


def _of_plugin(text: str, opened: OpenProject, role: PluginRole, others: Sequence[str] = ()) -> str:
    """Return the reference of a plug-in item, given by name or by full reference."""
    items = offered(opened, role)
    references = [item.reference for item in items if text in (item.name, item.reference)]
    if len(references) == 1:
        return references[0]
    if references:
        raise failure(
            f"Several plug-ins have a {role} {text}.",
            f"Use {' or '.join(references)}.",
            code="plugin-item-ambiguous",
        )
    known = ", ".join([*others, *(item.name for item in items)]) or "none; add a plug-in first"
    raise failure(f"Unknown {role} {text!r}.", f"Known: {known}.", code=f"{role}-unknown")


def remove_rule(opened: OpenProject, rule: str) -> OpenProject:
    """Remove a rule by its id; raises WorkbenchError if there is none."""
    return opened.edited(lambda project: edits.remove_rule(project, rule))


def move_rule(opened: OpenProject, rule: str, position: int) -> OpenProject:
    """Move a rule to a place in the call order; 0 is the weakest."""
    return opened.edited(lambda project: edits.move_rule(project, rule, position))


def enable_rule(opened: OpenProject, rule: str, *, enabled: bool = True) -> OpenProject:
    """Enable a rule, or disable it without removing it."""
    return opened.edited(lambda project: edits.enable_rule(project, rule, enabled=enabled))


def resolve_rules(
    opened: OpenProject,
    *,
    trust: bool = False,
    cache: Cache | None = None,
    accelerate: bool = True,
    on_event: Callable[[Event], None] | None = None,
) -> ResolvedRules:
    """Return the config of every module and the rule that decides it.

    An engine exports the model first if the cache has no export of it.

    Args:
        opened: The project.
        trust: Allow the Python code that the project names to run, this time.
        cache: Where results are kept; by default the user's cache.
        accelerate: Whether the toolchain may be accelerated.
        on_event: Called with every event of the engine.

    Raises:
        JobFailedError: The export failed.
        TrustRequiredError: The project names code that is not trusted.
    """
    results = cache or Cache(default_root())
    project = opened.project
    planned = plan(opened, results)
    graph = resolution.float_graph(planned, results)
    if graph is None:
        graph = _exported(opened, planned, results, trust, accelerate, on_event)
    prepared = resolution.prepared_result(planned, results)
    pending = prepared is None and any(rule.kind in PLUGIN_KINDS for rule in project.rules)
    return ResolvedRules(
        resolution.resolve_graph(project, graph, prepared),
        {module.path: module.type_name for module in graph.modules},
        pending,
    )


def _exported(
    opened: OpenProject,
    planned: Plan,
    cache: Cache,
    trust: bool,
    accelerate: bool,
    on_event: Callable[[Event], None] | None,
) -> GraphSnapshot:
    command = RunUntil(
        job="rules",
        project=opened.project,
        folder=str(opened.folder),
        until="export",
        plan=planned,
        cache_root=str(cache.root),
        accelerate=accelerate,
        code=allowed_code(opened, trust=trust).digest,
    )
    job = run_job(command, on_event)
    graph = resolution.float_graph(planned.looked_up(cache), cache)
    if graph is None:
        raise JobFailedError(info for event in job.failures for info in event.infos)
    return graph


def import_pass_args(
    opened: OpenProject, file: Path, *, mase_compatible: bool = False
) -> tuple[OpenProject, Sequence[ErrorInfo]]:
    """Replace the rules by MASE's ``pass_args``, and return notes on what has no equal here.

    Args:
        opened: A project for the number formats.
        file: TOML, JSON or a Python dict.
        mase_compatible: Use MASE's form of every format that it has.

    Raises:
        WorkbenchError: The file cannot be read or is not valid.
    """
    imported = taken(opened.project, read_args(file), mase_compatible=mase_compatible)
    return opened.edited(lambda _: imported.project), imported.notes


def export_pass_args(opened: OpenProject) -> dict[str, Any]:
    """Return the rules as MASE's ``pass_args``; raises WorkbenchError if they have no equal."""
    return pass_args_of(opened.project)
