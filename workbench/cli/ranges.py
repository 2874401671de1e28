"""``ranges``: show calibrated ranges, pin ranges, exclude samples."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from workbench import api
from workbench.analysis.ranges import METHOD_TITLES, title_of
from workbench.cli.output import EXIT_DONE, add_project, print_json, print_table

if TYPE_CHECKING:
    import argparse

    from workbench.project.configs import MethodScope


def add(verbs: Any) -> None:
    """Add the verb and its actions."""
    verb = verbs.add_parser(
        "ranges",
        help="show, compare and pin the ranges of tensors",
        description="Without an action: list the calibrated and the pinned ranges.",
    )
    add_project(verb)
    verb.set_defaults(perform=_show)
    actions = verb.add_subparsers(dest="action", metavar="ACTION")
    fix = actions.add_parser("set", help="pin the range of a tensor, without a new calibration")
    fix.add_argument("tensor", metavar="TENSOR", help="the node that produces it")
    fix.add_argument("minimum", metavar="MIN", type=float)
    fix.add_argument("maximum", metavar="MAX", type=float)
    fix.set_defaults(perform=_set, edits=True)
    free = actions.add_parser("free", help="use the calibrated range again")
    free.add_argument("tensors", metavar="TENSOR", nargs="*", help="remove all choices")
    scope = free.add_mutually_exclusive_group()
    scope.add_argument("--module", help="remove the method of a module")
    scope.add_argument("--all", action="store_true", help="remove the method for all activations")
    free.set_defaults(perform=_free, edits=True)
    _add_comparing(actions)
    for name, words in (("drop", "exclude samples from calibration"), ("restore", "include samples again")):
        samples = actions.add_parser(name, help=words)
        samples.add_argument("samples", metavar="SAMPLE", type=int, nargs="+")
        samples.set_defaults(perform=_samples, edits=True)


def _add_comparing(actions: Any) -> None:
    compare = actions.add_parser("compare", help="show the predicted result of each method")
    compare.add_argument("tensor", metavar="TENSOR")
    compare.set_defaults(perform=_compare)
    choose = actions.add_parser("choose", help="set the method that computes ranges")
    choose.add_argument("--method", required=True, choices=METHOD_TITLES)
    scope = choose.add_mutually_exclusive_group(required=True)
    scope.add_argument("--tensor", help="one tensor")
    scope.add_argument("--module", help="all tensors of a module and its children")
    scope.add_argument("--all", action="store_true", help="all activations")
    choose.set_defaults(perform=_choose, edits=True)


def _show(options: argparse.Namespace) -> int:
    return _print(options, api.open(options.project))


def _print(options: argparse.Namespace, opened: api.OpenProject) -> int:
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
        print(f"{METHOD_TITLES[method.method]} for {method.place}")
    return EXIT_DONE


def _compare(options: argparse.Namespace) -> int:
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


def _choose(options: argparse.Namespace) -> int:
    scope: MethodScope = "all" if options.all else "tensor" if options.tensor else "module"
    match = options.tensor or options.module or ""
    return _save(options, api.choose_method(api.open(options.project), scope, match, options.method))


def _set(options: argparse.Namespace) -> int:
    opened = api.open(options.project)
    return _save(options, api.pin_range(opened, options.tensor, options.minimum, options.maximum))


def _free(options: argparse.Namespace) -> int:
    opened = api.open(options.project)
    if options.tensors or not (options.all or options.module):
        return _save(options, api.unpin_ranges(opened, options.tensors or None))
    scope: MethodScope = "all" if options.all else "module"
    return _save(options, api.reset_method(opened, scope, options.module or ""))


def _samples(options: argparse.Namespace) -> int:
    edit = api.exclude_samples if options.action == "drop" else api.include_samples
    return _save(options, edit(api.open(options.project), options.samples))


def _save(options: argparse.Namespace, opened: api.OpenProject) -> int:
    """Write the project, and show its ranges."""
    return _print(options, api.save(opened))
