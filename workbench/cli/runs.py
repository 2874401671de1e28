"""``runs``: list, compare and restore runs of the history."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from workbench.cli.output import (
    EXIT_DONE,
    add_project,
    open_project,
    print_infos,
    print_json,
    print_table,
)
from workbench.history.comparison import (
    Change,
    difference,
    estimate_warning,
    front_of,
    lowered_of,
    module_changes,
    rules_line,
)
from workbench.history.store import History, history_path
from workbench.pipeline.cache import Cache, default_root
from workbench.project import store
from workbench.project.edits import restore_rules

if TYPE_CHECKING:
    import argparse

    from workbench.history.runs import Run
    from workbench.project.model import Project

_HEADER = ("run", "made", "rules", "accuracy", "SQNR [dB]", "cycles", "measured", "SRAM [KiB]",
           "verdict", "best")  # fmt: skip


def add(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "runs",
        help="list, compare and restore runs of the history",
        description="Without an option: list all runs; those on the Pareto front are marked. "
        "Cycles and SRAM are estimated by Vela; measured cycles come from a "
        "simulator.",
    )
    add_project(verb)
    choice = verb.add_mutually_exclusive_group()
    choice.add_argument("--diff", nargs=2, type=int, metavar=("A", "B"), help="compare two runs")
    choice.add_argument("--restore", type=int, metavar="N", help="restore the rules of a run")
    verb.set_defaults(perform=_perform)


def _perform(options: argparse.Namespace) -> int:
    open_project(options)
    history = History(history_path(options.project))
    try:
        if options.diff:
            _print_difference(options, *(history.run(number) for number in options.diff))
        elif options.restore is not None:
            run = history.run(options.restore)
            store.edit(options.project, lambda project: _restored(project, run))
            print(f"Restored the rules of run {run.number}: {rules_line(run)}.")
        else:
            _print_runs(options, history.runs())
        if history.problem is not None:
            print_infos([history.problem], "warning")
    finally:
        history.close()
    return EXIT_DONE


def _restored(project: Project, run: Run) -> Project:
    return restore_rules(project, run)


def _print_runs(options: argparse.Namespace, runs: list[Run]) -> None:
    best = front_of(runs)
    if options.json:
        rows = [{**r.model_dump(mode="json"), "best": r.number in best} for r in runs]
        print_json({"runs": rows})
    elif not runs:
        print("No runs yet. 'workbench run' adds every configuration that it evaluates.")
    else:
        print_table(_HEADER, [_row(run, run.number in best) for run in runs])


def _row(run: Run, best: bool) -> list[str]:
    cost = run.cost
    accuracy = "-" if run.accuracy is None else f"{run.accuracy:.4g} {run.accuracy_name}"
    return [
        str(run.number),
        run.made[:19].replace("T", " "),
        rules_line(run),
        accuracy,
        "-" if run.quality.sqnr_db is None else f"{run.quality.sqnr_db:.2f}",
        f"{cost.cycles:,}" if cost else "-",
        f"{run.simulated.cycles:,.0f}" if run.simulated and run.simulated.cycles else "-",
        f"{cost.sram_bytes / 1024:.1f}" if cost else "-",
        run.gate.verdict if run.gate else "-",
        "*" if best else "",
    ]


def _print_difference(options: argparse.Namespace, a: Run, b: Run) -> None:
    parts = dict(difference(a, b).parts)
    lowered = [lowered_of(run, Cache(default_root())) for run in (a, b)]
    if lowered[0] is not None and lowered[1] is not None:
        parts["modules"] = tuple(module_changes(lowered[0], lowered[1]))
    warning = estimate_warning(a, b)
    if options.json:
        said = {name: [_values(each) for each in changes] for name, changes in parts.items()}
        print_json({"a": a.number, "b": b.number, "warning": warning, **said})
        return
    if warning:
        print(warning, file=sys.stderr)
    for name, changes in parts.items():
        if changes:
            print(f"{name}:")
            print_table(
                ("", f"run {a.number}", f"run {b.number}"),
                [(each.what, each.before or "-", each.after or "-") for each in changes],
            )
    if not any(parts.values()):
        print("The two runs are equal.", file=sys.stderr)


def _values(change: Change) -> dict[str, str]:
    return {"what": change.what, "before": change.before, "after": change.after}
