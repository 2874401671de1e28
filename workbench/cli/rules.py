"""Verbs on the precision of modules: ``rules`` and ``ranges``."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import api
from workbench.analysis.ranges import METHOD_TITLES, title_of
from workbench.cli.output import (
    EXIT_DONE,
    ProgressPrinter,
    add_engine,
    add_project,
    opened_cache,
    print_infos,
    print_json,
    print_table,
)
from workbench.errors import not_written
from workbench.files import write_file
from workbench.project.model import RULE_CALLS, RuleKind
from workbench.targets.formats.pass_args import toml_of

if TYPE_CHECKING:
    import argparse

    from workbench.project.configs import MethodScope


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
        raise not_written(options.file, error) from error
    if options.json:
        print_json({"file": str(options.file), "pass_args": args})
    else:
        print(f"Wrote {options.file}.")
    return EXIT_DONE


_KINDS: dict[str, RuleKind] = {name.replace("_", "-"): name for name in RULE_CALLS}


def add_rules(verbs: Any) -> None:
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
    verb.set_defaults(perform=_show_rules)
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
    new.set_defaults(perform=_add_rule, edits=True)
    gone = actions.add_parser("remove", help="remove a rule")
    gone.add_argument("rule", metavar="RULE")
    gone.set_defaults(perform=_remove_rule, edits=True)
    move = actions.add_parser("move", help="move a rule in the call order")
    move.add_argument("rule", metavar="RULE")
    move.add_argument("--position", type=int, required=True, help="0 is the weakest")
    move.set_defaults(perform=_move_rule, edits=True)
    for name, help_text in (("enable", "enable a rule"), ("disable", "disable a rule")):
        switch = actions.add_parser(name, help=help_text)
        switch.add_argument("rule", metavar="RULE")
        switch.set_defaults(perform=_switch_rule, edits=True)
    add_actions(actions)


def _show_rules(options: argparse.Namespace) -> int:
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


def _add_rule(options: argparse.Namespace) -> int:
    kind = _KINDS[options.kind]
    opened = api.open(options.project)
    return _save_rules(options, api.add_rule(opened, kind, options.match, options.config, options.position))


def _remove_rule(options: argparse.Namespace) -> int:
    return _save_rules(options, api.remove_rule(api.open(options.project), options.rule))


def _move_rule(options: argparse.Namespace) -> int:
    return _save_rules(options, api.move_rule(api.open(options.project), options.rule, options.position))


def _switch_rule(options: argparse.Namespace) -> int:
    enabled = options.action == "enable"
    return _save_rules(options, api.enable_rule(api.open(options.project), options.rule, enabled=enabled))


def _save_rules(options: argparse.Namespace, opened: api.OpenProject) -> int:
    """Write the project, and show its rules."""
    return _print_rules(options, api.save(opened))


def add_ranges(verbs: Any) -> None:
    """Add the verb and its actions."""
    verb = verbs.add_parser(
        "ranges",
        help="show, compare and pin the ranges of tensors",
        description="Without an action: list the calibrated and the pinned ranges.",
    )
    add_project(verb)
    verb.set_defaults(perform=_show_ranges)
    actions = verb.add_subparsers(dest="action", metavar="ACTION")
    fix = actions.add_parser("set", help="pin the range of a tensor, without a new calibration")
    fix.add_argument("tensor", metavar="TENSOR", help="the node that produces it")
    fix.add_argument("minimum", metavar="MIN", type=float)
    fix.add_argument("maximum", metavar="MAX", type=float)
    fix.set_defaults(perform=_set_range, edits=True)
    free = actions.add_parser("free", help="use the calibrated range again")
    free.add_argument("tensors", metavar="TENSOR", nargs="*", help="remove all choices")
    scope = free.add_mutually_exclusive_group()
    scope.add_argument("--module", help="remove the method of a module")
    scope.add_argument("--all", action="store_true", help="remove the method for all activations")
    free.set_defaults(perform=_free_range, edits=True)
    _add_comparing(actions)
    for name, words in (("drop", "exclude samples from calibration"), ("restore", "include samples again")):
        samples = actions.add_parser(name, help=words)
        samples.add_argument("samples", metavar="SAMPLE", type=int, nargs="+")
        samples.set_defaults(perform=_choose_samples, edits=True)


def _add_comparing(actions: Any) -> None:
    compare = actions.add_parser("compare", help="show the predicted result of each method")
    compare.add_argument("tensor", metavar="TENSOR")
    compare.set_defaults(perform=_compare_ranges)
    choose = actions.add_parser("choose", help="set the method that computes ranges")
    choose.add_argument("--method", required=True, choices=METHOD_TITLES)
    scope = choose.add_mutually_exclusive_group(required=True)
    scope.add_argument("--tensor", help="one tensor")
    scope.add_argument("--module", help="all tensors of a module and its children")
    scope.add_argument("--all", action="store_true", help="all activations")
    choose.set_defaults(perform=_choose_ranges, edits=True)


def _show_ranges(options: argparse.Namespace) -> int:
    return _print_ranges(options, api.open(options.project))


def _print_ranges(options: argparse.Namespace, opened: api.OpenProject) -> int:
    project, ranges = opened.project, api.ranges(opened)
    rows = ranges.tensors or ()
    if options.json:
        print_json({
            "project": project.name,
            "calibrated": ranges.tensors is not None,
            "fixed": [fixed.model_dump(mode="json") for fixed in project.ranges],
            "methods": [method.model_dump(mode="json") for method in project.range_methods],
            "chosen": {tensor: list(ends) for tensor, ends in ranges.chosen.items()},
            "tensors": [row.model_dump(mode="json") for row in rows],
        })  # fmt: skip
        return EXIT_DONE
    ends = project.fixed_ranges()
    ends |= {
        row.node: ranges.chosen.get(row.node, (row.minimum, row.maximum))
        for row in rows if row.node in ranges.methods
    }  # fmt: skip
    texts = {
        node: f"{low:.6g} to {high:.6g}" + (f" ({ranges.methods[node]})" if node in ranges.methods else "")
        for node, (low, high) in ends.items()
    }
    by_id = {row.id: row for row in rows}
    table: list[tuple[str, ...]] = [
        (title_of(r, by_id), r.kind, r.dtype,
         f"{r.minimum:.6g}", f"{r.maximum:.6g}", f"{r.scale:.6g}",
         texts.pop(r.node, "") if r.kind == "activation" else "", r.problem)
        for r in rows
    ]  # fmt: skip
    table += [(tensor, "", "", "", "", "", text, "") for tensor, text in texts.items()]
    print_table(("tensor", "kind", "type", "min", "max", "step", "chosen", ""), table)
    for method in project.range_methods:
        print(f"{METHOD_TITLES[method.method]} for {method.scope_text}")
    return EXIT_DONE


def _compare_ranges(options: argparse.Namespace) -> int:
    opened = api.open(options.project)
    choices = api.compare_methods(opened, options.tensor)
    if options.json:
        print_json(
            {
                "project": opened.project.name,
                "tensor": options.tensor,
                "choices": [asdict(choice) for choice in choices],
            }
        )
        return EXIT_DONE
    table = (
        (
            c.method,
            f"{c.minimum:.6g}",
            f"{c.maximum:.6g}",
            f"{c.grid.scale:.6g}",
            f"{100 * c.clipped:.3g} %",
            "" if c.sqnr_db is None else f"{c.sqnr_db:.2f} dB",
        )
        for c in choices
    )
    print_table(("method", "min", "max", "step", "clipped", "SQNR, predicted"), table)
    return EXIT_DONE


def _choose_ranges(options: argparse.Namespace) -> int:
    scope: MethodScope = "all" if options.all else "tensor" if options.tensor else "module"
    match = options.tensor or options.module or ""
    return _save_ranges(options, api.choose_method(api.open(options.project), scope, match, options.method))


def _set_range(options: argparse.Namespace) -> int:
    opened = api.open(options.project)
    return _save_ranges(options, api.pin_range(opened, options.tensor, options.minimum, options.maximum))


def _free_range(options: argparse.Namespace) -> int:
    opened = api.open(options.project)
    if options.tensors or not (options.all or options.module):
        return _save_ranges(options, api.unpin_ranges(opened, options.tensors or None))
    scope: MethodScope = "all" if options.all else "module"
    return _save_ranges(options, api.reset_method(opened, scope, options.module or ""))


def _choose_samples(options: argparse.Namespace) -> int:
    edit = api.exclude_samples if options.action == "drop" else api.include_samples
    return _save_ranges(options, edit(api.open(options.project), options.samples))


def _save_ranges(options: argparse.Namespace, opened: api.OpenProject) -> int:
    """Write the project, and show its ranges."""
    return _print_ranges(options, api.save(opened))
