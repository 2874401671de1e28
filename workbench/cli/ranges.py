"""``ranges``: show what calibration saw, fix ranges, and leave samples out."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from workbench.cli.arguments import add_project, open_project
from workbench.cli.output import EXIT_DONE, print_json, print_table
from workbench.errors import Place, failure
from workbench.numerics.methods import METHODS
from workbench.numerics.tensors import SEARCHED, activations, choices, histogram_of, replacements
from workbench.pipeline.cache import Cache, default_root
from workbench.pipeline.plan import plan
from workbench.project import edits, store
from workbench.project.fixed_range import FixedRange
from workbench.project.rules import is_within
from workbench.results import CalibrateResult, TensorRange, load_arrays, load_result

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from pathlib import Path

    from workbench.project.model import Project

_METHODS = (SEARCHED, *(method.id for method in METHODS))


def add(verbs: Any) -> None:
    """Add the verb and its actions."""
    verb = verbs.add_parser(
        "ranges",
        help="show, compare and fix the ranges of tensors",
        description="Without an action: the ranges calibration found, and those that are fixed.",
    )
    add_project(verb)
    verb.set_defaults(perform=_show)
    actions = verb.add_subparsers(dest="action", metavar="ACTION")
    fix = actions.add_parser("set", help="fix the range of a tensor, without calibrating again")
    fix.add_argument("tensor", metavar="TENSOR", help="the node that makes it")
    fix.add_argument("minimum", metavar="MIN", type=float)
    fix.add_argument("maximum", metavar="MAX", type=float)
    fix.set_defaults(perform=_set)
    free = actions.add_parser("free", help="go back to what calibration finds")
    free.add_argument("tensors", metavar="TENSOR", nargs="*", help="none for all that are fixed")
    free.set_defaults(perform=_free)
    _add_comparing(actions)
    for name, words in (
        ("drop", "leave samples out of calibration"),
        ("restore", "take samples in again"),
    ):
        samples = actions.add_parser(name, help=words)
        samples.add_argument("samples", metavar="SAMPLE", type=int, nargs="+")
        samples.set_defaults(perform=_samples)


def _add_comparing(actions: Any) -> None:
    compare = actions.add_parser("compare", help="what each method would give, predicted")
    compare.add_argument("tensor", metavar="TENSOR")
    compare.set_defaults(perform=_compare)
    choose = actions.add_parser("choose", help="fix ranges as a method takes them")
    choose.add_argument("--method", required=True, choices=_METHODS)
    scope = choose.add_mutually_exclusive_group(required=True)
    scope.add_argument("--tensor", help="one tensor")
    scope.add_argument("--module", help="all tensors of a module and those inside it")
    scope.add_argument("--all", action="store_true", help="all activations")
    choose.set_defaults(perform=_choose)


def _calibrated(options: argparse.Namespace) -> tuple[Project, CalibrateResult | None, Path]:
    """Return the project and what calibration left, if it has been run."""
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
            "The project has not been calibrated as it stands.",
            f"Run: workbench run {options.project} --until calibrate",
            Place(kind="stage", id="calibrate"),
        )
    return project, found, load_arrays(path)


def _show(options: argparse.Namespace) -> int:
    project, found, _ = _calibrated(options)
    rows = found.ranges if found is not None else ()
    if options.json:
        print_json({
            "project": project.name,
            "calibrated": found is not None,
            "fixed": [fixed.model_dump(mode="json") for fixed in project.ranges],
            "tensors": [row.model_dump(mode="json") for row in rows],
        })  # fmt: skip
        return EXIT_DONE
    fixed = {known.tensor: known for known in project.ranges}
    table: list[tuple[str, ...]] = [
        (r.node, r.kind, r.dtype, f"{r.minimum:.6g}", f"{r.maximum:.6g}", f"{r.scale:.6g}",
         _ends(fixed[r.node]) if r.node in fixed and r.kind == "activation" else "", r.problem)
        for r in rows
    ]  # fmt: skip
    seen = {r.node for r in rows if r.kind == "activation"}
    table += [(t, "", "", "", "", "", _ends(f), "") for t, f in fixed.items() if t not in seen]
    print_table(("tensor", "kind", "type", "min", "max", "step", "fixed", ""), table)
    return EXIT_DONE


def _ends(fixed: FixedRange) -> str:
    by = f" ({fixed.by})" if fixed.by else ""
    return f"{fixed.minimum:.6g} to {fixed.maximum:.6g}{by}"


def _compare(options: argparse.Namespace) -> int:
    project, found, arrays = _needed(options)
    row = next((r for r in activations(found.ranges) if r.node == options.tensor), None)
    if row is None:
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
    project, found, arrays = _needed(options)
    rows = [row for row in activations(found.ranges) if _is_wanted(row, options)]
    if not rows:
        raise _unknown(options.tensor or options.module or "anything", found)
    changes = list(replacements(rows, arrays, options.method))
    fixed = [new for _, new in changes if new is not None]
    freed = [tensor for tensor, new in changes if new is None]
    return _save(options, edits.replace_ranges(project, fixed, freed))


def _is_wanted(row: TensorRange, options: argparse.Namespace) -> bool:
    if options.tensor:
        return row.node == str(options.tensor)
    return bool(options.all) or is_within(row.module, options.module)


def _unknown(name: str, found: CalibrateResult) -> Exception:
    import difflib

    names = [row.node for row in activations(found.ranges)]
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    hint = f"Did you mean {', '.join(close)}?" if close else "workbench ranges PROJECT lists them."
    return failure(
        f"No quantized activation is called {name}.", hint, Place(kind="tensor", id=name)
    )


def _set(options: argparse.Namespace) -> int:
    project, _ = open_project(options)
    return _save(
        options, edits.fix_range(project, options.tensor, options.minimum, options.maximum)
    )


def _free(options: argparse.Namespace) -> int:
    project, _ = open_project(options)
    tensors = options.tensors or [fixed.tensor for fixed in project.ranges]
    return _save(options, edits.free_ranges(project, tensors))


def _samples(options: argparse.Namespace) -> int:
    edit = edits.drop_samples if options.action == "drop" else edits.restore_samples
    return _save(options, edit(open_project(options)[0], options.samples))


def _save(options: argparse.Namespace, project: Project) -> int:
    """Write the project if it reads back as valid, and show its ranges."""
    store.parse(store.dump(project).encode(), str(options.project))
    store.save(project, options.project)
    return _show(options)
