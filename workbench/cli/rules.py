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
    add_engine,
    add_project,
    opened_cache,
    print_infos,
    print_json,
    print_table,
)
from workbench.errors import Place, failure
from workbench.files import write_file
from workbench.project.model import RULE_CALLS, RuleKind
from workbench.targets.formats.pass_args import toml_of

if TYPE_CHECKING:
    import argparse


def add_actions(actions: Any) -> None:
    """Add both actions to those of the verb ``rules``."""
    take = actions.add_parser("take-mase", help="replace the rules by MASE's pass_args")
    take.add_argument("file", type=Path, metavar="FILE", help="TOML, JSON or a Python dict")
    take.add_argument(
        "--mase-compatible", action="store_true", help="use MASE's form of every format that it has"
    )
    take.set_defaults(perform=_take, edits=True)
    write = actions.add_parser("write-mase", help="write the rules as MASE's pass_args")
    write.add_argument("file", type=Path, metavar="FILE", help="FILE.toml or FILE.json")
    write.set_defaults(perform=_write)


def _take(options: argparse.Namespace) -> int:
    opened, notes = api.import_pass_args(
        api.open(options.project), options.file, mase_compatible=options.mase_compatible
    )
    api.save(opened)
    print_infos(notes, "note")
    if options.json:
        documents = [note.model_dump(mode="json") for note in notes]
        print_json({"rules": len(opened.project.rules), "notes": documents})
    else:
        print(f"Imported {len(opened.project.rules)} rules from {options.file}.")
    return EXIT_DONE


def _write(options: argparse.Namespace) -> int:
    args = api.export_pass_args(api.open(options.project))
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
    new.add_argument("--match", default="", help="name of a module, class, operator, node or finder")
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
    opened = api.open(options.project)
    if not options.resolve:
        return _print_rules(options, opened)
    with opened_cache(options) as cache:
        resolved = api.resolve_rules(
            opened,
            trust=options.trust,
            cache=cache,
            accelerate=not options.no_acceleration,
            on_event=ProgressPrinter().event,
        )
    if resolved.plugins_pending:
        print("Matches of plug-in rules are known after: workbench run --until prepare", file=sys.stderr)
    return _print_resolution(options, opened, resolved)


def _print_rules(options: argparse.Namespace, opened: api.OpenProject) -> int:
    project = opened.project
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


def _print_resolution(
    options: argparse.Namespace, opened: api.OpenProject, resolved: api.ResolvedRules
) -> int:
    resolution, types = resolved.resolution, resolved.types
    if options.json:
        print_json(
            {
                "project": opened.project.name,
                "modules": [
                    {
                        "module": path,
                        "type": types[path],
                        "config": e.label,
                        "rule": e.rule,
                        "overridden": list(e.overridden),
                    }
                    for path, e in resolution.modules.items()
                ],
                "nodes": [
                    {"node": name, "config": e.label, "rule": e.rule} for name, e in resolution.nodes.items()
                ],
                "rules": {name: {"wins": c.wins, "loses": c.loses} for name, c in resolution.counts.items()},
            }
        )
        return EXIT_DONE
    rows = (
        (
            path or "(model)",
            types[path].rpartition(".")[2],
            e.label,
            e.rule or "none",
            ", ".join(e.overridden),
        )
        for path, e in resolution.modules.items()
    )
    print_table(("module", "type", "config", "rule", "overrides"), rows)
    return EXIT_DONE


def _add(options: argparse.Namespace) -> int:
    kind = _KINDS[options.kind]
    opened = api.open(options.project)
    return _save(options, api.add_rule(opened, kind, options.match, options.config, options.position))


def _remove(options: argparse.Namespace) -> int:
    return _save(options, api.remove_rule(api.open(options.project), options.rule))


def _move(options: argparse.Namespace) -> int:
    return _save(options, api.move_rule(api.open(options.project), options.rule, options.position))


def _switch(options: argparse.Namespace) -> int:
    enabled = options.action == "enable"
    return _save(options, api.enable_rule(api.open(options.project), options.rule, enabled=enabled))


def _save(options: argparse.Namespace, opened: api.OpenProject) -> int:
    """Write the project, and show its rules."""
    return _print_rules(options, api.save(opened))
