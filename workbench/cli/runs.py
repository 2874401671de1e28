"""``runs``: list, compare and restore runs of the history."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from workbench import api
from workbench.cli.output import EXIT_DONE, add_project, print_infos, print_json, print_table
from workbench.history.comparison import rules_line

if TYPE_CHECKING:
    import argparse

    from workbench.errors import ErrorInfo
    from workbench.history.runs import Run

_HEADER = (
    "run",
    "made",
    "rules",
    "accuracy",
    "SQNR [dB]",
    "cycles",
    "measured",
    "SRAM [KiB]",
    "verdict",
    "accurate",
    "best",
)


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
    opened = api.open(options.project)
    problem: ErrorInfo | None = None
    if options.diff:
        difference = api.compare_runs(opened, *options.diff)
        _print_difference(options, difference)
        problem = difference.problem
    elif options.restore is not None:
        _, run = api.restore_run(opened, options.restore)
        print(f"Restored the rules of run {run.number}: {rules_line(run)}.")
    else:
        history = api.history(opened)
        _print_runs(options, history)
        problem = history.problem
    if problem is not None:
        print_infos([problem], "warning")
    return EXIT_DONE


def _print_runs(options: argparse.Namespace, history: api.RunHistory) -> None:
    runs, best = history.runs, history.best
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
        run.accuracy_result.verdict if run.accuracy_result else "-",
        "*" if best else "",
    ]


def _print_difference(options: argparse.Namespace, difference: api.RunDifference) -> None:
    a, b = difference.before.number, difference.after.number
    if options.json:
        parts = {name: [asdict(change) for change in changes] for name, changes in difference.parts.items()}
        print_json({"a": a, "b": b, "warning": difference.warning, **parts})
        return
    if difference.warning:
        print(difference.warning, file=sys.stderr)
    for name, changes in difference.parts.items():
        if changes:
            print(f"{name}:")
            rows = [(change.what, change.before or "-", change.after or "-") for change in changes]
            print_table(("", f"run {a}", f"run {b}"), rows)
    if not any(difference.parts.values()):
        print("The two runs are equal.", file=sys.stderr)
