"""``ranges``: show calibrated ranges, pin ranges, exclude samples."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from workbench.analysis.ranges import (
    METHOD_TITLES,
    WEIGHT_REFUSAL,
    RangeTaker,
    activations,
    choices,
    histogram_of,
    methods_of,
    read_chosen,
    title_of,
)
from workbench.cli.output import EXIT_DONE, add_project, open_project, print_json, print_table
from workbench.errors import Place, failure
from workbench.pipeline.cache import Cache, default_root
from workbench.pipeline.plan import plan
from workbench.project import edits, store
from workbench.project.rules import is_within
from workbench.results import CalibrateResult, TensorRange, load_arrays, load_result

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from pathlib import Path

    from workbench.project.configs import MethodScope
    from workbench.project.model import Project


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
    for name, words in (
        ("drop", "exclude samples from calibration"),
        ("restore", "include samples again"),
    ):
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


def _calibrated(options: argparse.Namespace) -> tuple[Project, CalibrateResult | None, Path]:
    """Return the project and its calibration result, if there is one."""
    project, folder = open_project(options)
    cache = Cache(default_root())
    stage = plan(project, folder, cache).of("calibrate")
    path = cache.folder(stage.key) if stage.key else folder
    found = load_result(CalibrateResult, path) if stage.state == "cached" else None
    return project, found, path


def _needed(options: argparse.Namespace) -> tuple[Project, CalibrateResult, Mapping[str, Any]]:
    project, found, path = _calibrated(options)
    if found is None:
        raise failure(
            "No calibration for the current project.",
            f"Run: workbench run {options.project} --until calibrate",
            Place(kind="stage", id="calibrate"),
            code="calibration-outdated",
        )
    return project, found, load_arrays(path)


def _show(options: argparse.Namespace) -> int:
    project, found, path = _calibrated(options)
    rows = found.ranges if found is not None else ()
    chosen = project.fixed_ranges()
    range_texts = {tensor: f"{low:.6g} to {high:.6g}" for tensor, (low, high) in chosen.items()}
    if found is not None:
        chosen = read_chosen(project, path, RangeTaker())[0]
        for row, taken in methods_of(rows, project):
            low, high = chosen.get(row.node, (row.minimum, row.maximum))
            range_texts[row.node] = f"{low:.6g} to {high:.6g} ({taken.method})"
    if options.json:
        print_json({
            "project": project.name,
            "calibrated": found is not None,
            "fixed": [fixed.model_dump(mode="json") for fixed in project.ranges],
            "methods": [chosen.model_dump(mode="json") for chosen in project.range_methods],
            "chosen": {tensor: list(ends) for tensor, ends in chosen.items()},
            "tensors": [row.model_dump(mode="json") for row in rows],
        })  # fmt: skip
        return EXIT_DONE
    by_id = {row.id: row for row in rows}
    table: list[tuple[str, ...]] = [
        (title_of(r, by_id), r.kind, r.dtype,
         f"{r.minimum:.6g}", f"{r.maximum:.6g}", f"{r.scale:.6g}",
         range_texts.pop(r.node, "") if r.kind == "activation" else "", r.problem)
        for r in rows
    ]  # fmt: skip
    table += [(tensor, "", "", "", "", "", text, "") for tensor, text in range_texts.items()]
    print_table(("tensor", "kind", "type", "min", "max", "step", "chosen", ""), table)
    for method in project.range_methods:
        print(f"{METHOD_TITLES[method.method]} for {method.place}")
    return EXIT_DONE


def _compare(options: argparse.Namespace) -> int:
    project, found, arrays = _needed(options)
    row = next((r for r in activations(found.ranges) if r.node == options.tensor), None)
    if row is None:
        _refuse_weight(options.tensor, found)
        raise _unknown(options.tensor, found)
    histogram = histogram_of(row, arrays)
    offered = choices(row, histogram) if histogram is not None else []
    if options.json:
        print_json({
            "project": project.name, "tensor": options.tensor,
            "choices": [asdict(choice) for choice in offered],
        })  # fmt: skip
        return EXIT_DONE
    table = (
        (c.method, f"{c.minimum:.6g}", f"{c.maximum:.6g}", f"{c.grid.scale:.6g}",
         f"{100 * c.clipped:.3g} %", "" if c.sqnr_db is None else f"{c.sqnr_db:.2f} dB")
        for c in offered
    )  # fmt: skip
    print_table(("method", "min", "max", "step", "clipped", "SQNR, predicted"), table)
    return EXIT_DONE


def _choose(options: argparse.Namespace) -> int:
    project, found, _ = _needed(options)
    scope: MethodScope = "all" if options.all else "tensor" if options.tensor else "module"
    match = options.tensor or options.module or ""
    if scope == "tensor":
        _refuse_weight(match, found)
    if not any(_is_wanted(row, options) for row in activations(found.ranges)):
        raise _unknown(match or "anything", found)
    return _save(options, edits.choose_method(project, scope, match, options.method))


def _is_wanted(row: TensorRange, options: argparse.Namespace) -> bool:
    if options.tensor:
        return row.node == str(options.tensor)
    return bool(options.all or (options.module and is_within(row.module, options.module)))


def _refuse_weight(name: str, found: CalibrateResult | None) -> None:
    """Raise if the tensor is a weight, whose range cannot be set."""
    rows = found.ranges if found is not None else ()
    if any(row.node == name and row.kind == "weight" for row in rows):
        what, _, instead = WEIGHT_REFUSAL.partition(". ")
        place = Place(kind="tensor", id=name)
        raise failure(f"{what}.", instead, place, code="range-of-weight")


def _unknown(name: str, found: CalibrateResult) -> Exception:
    import difflib

    names = [row.node for row in activations(found.ranges)]
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    listing = "Run workbench ranges PROJECT for a list."
    hint = f"Did you mean {', '.join(close)}?" if close else listing
    return failure(
        f"No quantized activation {name}.",
        hint,
        Place(kind="tensor", id=name),
        code="activation-unknown",
    )


def _set(options: argparse.Namespace) -> int:
    project, found, _ = _calibrated(options)
    _refuse_weight(options.tensor, found)
    return _save(
        options, edits.fix_range(project, options.tensor, options.minimum, options.maximum)
    )


def _free(options: argparse.Namespace) -> int:
    project, _ = open_project(options)
    if not (options.all or options.module or options.tensors):
        return _save(options, edits.revise(project, ranges=(), range_methods=()))
    if options.tensors:
        return _save(options, edits.free_ranges(project, options.tensors))
    wanted = ("all", "") if options.all else ("module", options.module)
    gone = [m for m in project.range_methods if (m.scope, m.match) == wanted]
    if not gone:
        known = ", ".join(m.place for m in project.range_methods) or "none"
        raise failure(
            f"No method is set for {wanted[1]}.",
            f"Set for: {known}.",
            Place(kind="module", id=wanted[1]),
            code="range-method-not-set",
        )
    return _save(options, edits.drop_methods(project, gone))


def _samples(options: argparse.Namespace) -> int:
    edit = edits.drop_samples if options.action == "drop" else edits.restore_samples
    return _save(options, edit(open_project(options)[0], options.samples))


def _save(options: argparse.Namespace, project: Project) -> int:
    """Validate and write the project, and show its ranges."""
    store.parse(store.dump(project).encode(), str(options.project))
    store.save(project, options.project)
    return _show(options)
