"""``rules``: show, change and resolve the rules."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import api
from workbench.cli.jobs import ProgressPrinter
from workbench.cli.output import (
    EXIT_DONE,
    StudyFailedError,
    add_engine,
    add_project,
    allowed_code,
    open_project,
    opened_cache,
    print_infos,
    print_json,
    print_table,
)
from workbench.errors import Place, failure
from workbench.files import write_file
from workbench.pipeline.resolution import float_graph, prepared_result, resolve_graph
from workbench.project import edits, store
from workbench.project.configs import PRESETS_BY_ID, Config, PluginRole
from workbench.project.model import PLUGIN_KINDS, RULE_CALLS, Project, RuleKind
from workbench.project.plugins import offered
from workbench.project.rules import Resolution
from workbench.protocol import RunUntil
from workbench.targets import target_of
from workbench.targets.formats.pass_args import pass_args_of, read_args, taken, toml_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from workbench.graph.snapshot import GraphSnapshot
    from workbench.pipeline.cache import Cache


def add_actions(actions: Any) -> None:
    """Add both actions to those of the verb ``rules``."""
    take = actions.add_parser("take-mase", help="replace the rules by MASE's pass_args")
    take.add_argument("file", type=Path, metavar="FILE", help="TOML, JSON or a Python dict")
    take.add_argument(
        "--mase-compatible", action="store_true",
        help="use MASE's form of every format that it has",
    )  # fmt: skip
    take.set_defaults(perform=_take, edits=True)
    write = actions.add_parser("write-mase", help="write the rules as MASE's pass_args")
    write.add_argument("file", type=Path, metavar="FILE", help="FILE.toml or FILE.json")
    write.set_defaults(perform=_write)


def _take(options: argparse.Namespace) -> int:
    project, _ = open_project(options)
    args = read_args(options.file)
    found = taken(project, args, mase_compatible=options.mase_compatible)
    store.parse(store.dump(found.project).encode(), str(options.project))
    store.save(found.project, options.project)
    print_infos(found.notes, "note")
    if options.json:
        notes = [note.model_dump(mode="json") for note in found.notes]
        print_json({"rules": len(found.project.rules), "notes": notes})
    else:
        print(f"Imported {len(found.project.rules)} rules from {options.file}.")
    return EXIT_DONE


def _write(options: argparse.Namespace) -> int:
    project, _ = open_project(options)
    args = pass_args_of(project)
    text = json.dumps(args, indent=1) if options.file.suffix == ".json" else toml_of(args)
    try:
        write_file(options.file, text.encode())
    except OSError as error:
        place = Place(kind="file", id=str(options.file))
        raise failure(
            f"The file cannot be written: {error.strerror}.", where=place, code="file-not-writable"
        ) from error
    if options.json:
        print_json({"file": str(options.file), "pass_args": args})
    else:
        print(f"Wrote {options.file}.")
    return EXIT_DONE


_KINDS: dict[str, RuleKind] = {name.replace("_", "-"): name for name in RULE_CALLS}


def add(verbs: Any) -> None:
    """Add the verb and its actions."""
    verb = verbs.add_parser(
        "rules",
        help="show or change the rules",
        description="Without an action: list the rules, weakest first, in call order.",
    )
    add_project(verb)
    verb.add_argument(
        "--resolve", action="store_true", help="every module with its config and the deciding rule"
    )
    add_engine(verb)
    verb.set_defaults(perform=_show)
    actions = verb.add_subparsers(dest="action", metavar="ACTION")
    _add_actions(actions)


def _add_actions(actions: Any) -> None:
    new = actions.add_parser("add", help="add a rule; one with the same match is replaced")
    new.add_argument("--kind", required=True, choices=sorted(_KINDS))
    new.add_argument(
        "--match", default="", help="name of a module, class, operator, node or finder"
    )
    new.add_argument(
        "--config",
        required=True,
        help="name of a preset, a plug-in's config or quantizer, or a config as JSON",
    )
    new.add_argument("--position", type=int, help="position in the call order, 0 is the weakest")
    new.set_defaults(perform=_add, edits=True)
    gone = actions.add_parser("remove", help="remove a rule")
    gone.add_argument("rule", metavar="RULE")
    gone.set_defaults(perform=_remove, edits=True)
    move = actions.add_parser("move", help="move a rule in the call order")
    move.add_argument("rule", metavar="RULE")
    move.add_argument("--position", type=int, required=True, help="0 is the weakest")
    move.set_defaults(perform=_move, edits=True)
    for name, help_text in (("enable", "enable a rule"), ("disable", "disable a rule")):
        switch = actions.add_parser(name, help=help_text)
        switch.add_argument("rule", metavar="RULE")
        switch.set_defaults(perform=_switch, edits=True)
    add_actions(actions)


def _show(options: argparse.Namespace) -> int:
    project, folder = open_project(options)
    if not options.resolve:
        return _print_stack(options, project)
    with opened_cache(options) as cache:
        graph = _graph(options, project, folder, cache)
        prepared = prepared_result(project, folder, cache)
    if prepared is None and any(rule.kind in PLUGIN_KINDS for rule in project.rules):
        print("Matches of plug-in rules are known after: workbench run --until prepare",
              file=sys.stderr)  # fmt: skip
    return _print_resolution(options, project, resolve_graph(project, graph, prepared), graph)


def _print_stack(options: argparse.Namespace, project: Project) -> int:
    if options.json:
        rules = [{**r.model_dump(mode="json"), "call": RULE_CALLS[r.kind]} for r in project.rules]
        print_json({"project": project.name, "rules": rules})
        return EXIT_DONE
    rows = (
        (i, r.id, RULE_CALLS[r.kind], r.match, project.label_of(r), "" if r.enabled else "off")
        for i, r in enumerate(project.rules)
    )
    print_table(("#", "rule", "call", "match", "config", ""), rows)
    return EXIT_DONE


def _graph(
    options: argparse.Namespace, project: Project, folder: Path, cache: Cache
) -> GraphSnapshot:
    """Return the exported graph; an engine exports it if necessary.

    Raises:
        StudyFailedError: The export failed.
    """
    graph = float_graph(project, folder, cache)
    if graph is not None:
        return graph
    code = allowed_code(options, project, folder)
    command = RunUntil(
        job="rules", project=project, folder=str(folder), until="export",
        cache_root=str(cache.root), accelerate=not options.no_acceleration,
        code=code,
    )  # fmt: skip
    job = api.run_job(command, ProgressPrinter().event)
    graph = float_graph(project, folder, cache)
    if graph is None:
        raise StudyFailedError(info for event in job.failures for info in event.infos)
    return graph


def _print_resolution(
    options: argparse.Namespace, project: Project, resolution: Resolution, graph: GraphSnapshot
) -> int:
    types = {module.path: module.type_name for module in graph.modules}
    if options.json:
        print_json({
            "project": project.name,
            "modules": [
                {"module": path, "type": types[path], "config": e.label, "rule": e.rule,
                 "overridden": list(e.overridden)}
                for path, e in resolution.modules.items()
            ],
            "nodes": [
                {"node": name, "config": e.label, "rule": e.rule}
                for name, e in resolution.nodes.items()
            ],
            "rules": {
                name: {"wins": c.wins, "loses": c.loses} for name, c in resolution.counts.items()
            },
        })  # fmt: skip
        return EXIT_DONE
    rows = (
        (path or "(model)", types[path].rpartition(".")[2], e.label, e.rule or "none",
         ", ".join(e.overridden))
        for path, e in resolution.modules.items()
    )  # fmt: skip
    print_table(("module", "type", "config", "rule", "overrides"), rows)
    return EXIT_DONE


def _config(text: str, project: Project, folder: Path, role: PluginRole) -> str | Config:
    if not text.lstrip().startswith("{"):
        own = ([*PRESETS_BY_ID] if role == "config" else []) + [*project.presets]
        return text if text in own else _of_plugin(text, project, folder, role, own)
    from pydantic import ValidationError

    kind: type[Config] = target_of(project.target.id).config_type
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise failure(
            f"Invalid config: {place}: {first['msg']}.",
            where=Place(kind="option", id="config"),
            code="config-invalid",
        ) from error


def _of_plugin(
    text: str, project: Project, folder: Path, role: PluginRole, others: Sequence[str] = ()
) -> str:
    """Return the reference of a plug-in item, given by name or by full reference."""
    items = offered(project, folder, role)
    found = [item.reference for item in items if text in (item.name, item.reference)]
    if len(found) == 1:
        return found[0]
    if found:
        raise failure(
            f"Several plug-ins have a {role} {text}.",
            f"Use {' or '.join(found)}.",
            code="plugin-item-ambiguous",
        )
    known = ", ".join([*others, *(item.name for item in items)]) or "none; add a plug-in first"
    raise failure(f"Unknown {role} {text!r}.", f"Known: {known}.", code=f"{role}-unknown")


def _add(options: argparse.Namespace) -> int:
    project, folder = open_project(options)
    kind, match = _KINDS[options.kind], options.match
    config = _config(
        options.config, project, folder, "quantizer" if kind == "quantizer" else "config"
    )
    if kind == "finder":
        match = _of_plugin(match, project, folder, "finder")
    changed = edits.assign(project, kind, match, config)
    rule = next(r for r in changed.rules
                if (r.kind, r.match, r.config) == (kind, match, config))  # fmt: skip
    refusal = target_of(project.target.id).refusal(project.target, changed.config_of(rule), kind)
    if refusal:
        raise failure(refusal, where=Place(kind="rule", id=rule.id), code="rule-not-supported")
    if options.position is not None:
        changed = edits.move_rule(changed, rule.id, options.position)
    return _save(options, changed)


def _remove(options: argparse.Namespace) -> int:
    return _save(options, edits.remove_rule(open_project(options)[0], options.rule))


def _move(options: argparse.Namespace) -> int:
    project, _ = open_project(options)
    return _save(options, edits.move_rule(project, options.rule, options.position))


def _switch(options: argparse.Namespace) -> int:
    enabled = options.action == "enable"
    project, _ = open_project(options)
    return _save(options, edits.enable_rule(project, options.rule, enabled=enabled))


def _save(options: argparse.Namespace, project: Project) -> int:
    """Validate and write the project, and show its rules."""
    store.parse(store.dump(project).encode(), str(options.project))
    store.save(project, options.project)
    return _print_stack(options, project)
