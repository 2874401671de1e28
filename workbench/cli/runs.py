"""Verbs on results: ``runs``, ``compare``, ``report``, ``suggest``."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import api
from workbench.api.summary import entry_of
from workbench.cli.output import (
    EXIT_DIFFERS,
    EXIT_DONE,
    add_engine,
    add_json,
    add_project,
    job_options,
    opened_cache,
    print_infos,
    print_json,
    print_table,
)
from workbench.errors import ErrorInfo, not_written
from workbench.files import write_file
from workbench.history.comparison import rules_line
from workbench.project.gate import FIGURES
from workbench.project.model import PROJECT_SUFFIX
from workbench.suggestions import KINDS, module_cells
from workbench.text import whole_number

if TYPE_CHECKING:
    import argparse

    from workbench.history.runs import Run
    from workbench.suggestions import ExpectedGain, Suggestion


_RUNS_HEADER = (
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


def add_runs(verbs: Any) -> None:
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
    verb.set_defaults(perform=_runs)


def _runs(options: argparse.Namespace) -> int:
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
        print_table(_RUNS_HEADER, [_run_row(run, run.number in best) for run in runs])


def _run_row(run: Run, best: bool) -> list[str]:
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


_OPERAND = (
    "PROJECT.qwb (the results of its present settings), PROJECT.qwb@N (run N of its history), "
    "manifest.json or its folder, or a file with the output of 'workbench run --json'"
)


def add_compare(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "compare",
        help="compare a run with a baseline, for continuous integration",
        description="Computes nothing. Ends with 4 if a condition applies, or if the run's program "
        "differs from its model or is not accurate enough.",
    )
    verb.add_argument("run", metavar="RUN", help=_OPERAND)
    verb.add_argument("baseline", metavar="BASELINE", help="the same; N alone is run N of the project in RUN")
    verb.add_argument(
        "--fail-if",
        action="append",
        default=[],
        metavar="CONDITION",
        help='a condition under which the run is not accepted: "lsb>2", "cycles>+5%%", '
        f'"top1<baseline-0.01". Figures: {", ".join(FIGURES)}',
    )
    verb.add_argument("--junit", type=Path, metavar="FILE", help="write the result as JUnit XML")
    verb.add_argument("--markdown", type=Path, metavar="FILE", help="write it as Markdown")
    add_json(verb)
    verb.set_defaults(perform=_compare)


def _compare(options: argparse.Namespace) -> int:
    baseline = options.baseline
    stem, is_numbered, _ = options.run.partition(f"{PROJECT_SUFFIX}@")
    if whole_number(baseline) is not None and (is_numbered or options.run.endswith(PROJECT_SUFFIX)):
        file = f"{stem}{PROJECT_SUFFIX}" if is_numbered else options.run
        baseline = f"{file}@{baseline}"
    comparison = api.compare(baseline, options.run, fail_if=options.fail_if)
    for path, text in ((options.junit, comparison.junit), (options.markdown, comparison.markdown)):
        if path is not None:
            _write(path, text())
    if options.json:
        print_json(comparison.document())
    else:
        _print_comparison(comparison)
    for sentence in comparison.broken:
        print_infos([ErrorInfo(message=sentence, code="limit-broken")], "broken")
    return EXIT_DONE if comparison.passed else EXIT_DIFFERS


def _write(path: Path, text: str) -> None:
    try:
        write_file(path, text.encode())
    except OSError as error:
        raise not_written(path, error) from error


def _print_comparison(comparison: api.Comparison) -> None:
    rows = []
    for figure in comparison.figures:
        change = "" if figure.change is None else f"{figure.change:+,.6g}" if figure.change else "="
        percent = "" if figure.percent is None else f"{figure.percent:+.2f} %"
        if not figure.comparable:
            percent = "estimates of two releases of Vela: not comparable"
        texts = ["-" if v is None else f"{v:,.6g}" for v in (figure.baseline, figure.value)]
        rows.append((figure.name, *texts, change, percent))
    print_table(("figure", "baseline", "now", "change", ""), rows)
    for name, part in comparison.parts.items():
        if part and name != "figures":
            print(f"{name}:")
            print_table(("", "baseline", "now"), [(c.what, c.before or "-", c.after or "-") for c in part])
    print("Passed." if comparison.passed else "Failed.")


def add_report(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "report",
        help="write an HTML page: model, rules, ranges, accuracy, cost, runs, versions",
        description="Uses the cache and the history; computes nothing.",
    )
    add_project(verb)
    verb.add_argument("--out", type=Path, required=True, metavar="FILE.html")
    verb.set_defaults(perform=_report)


def _report(options: argparse.Namespace) -> int:
    text = api.report(api.open(options.project))
    _write(options.out, text)
    if options.json:
        print_json({"path": str(options.out.absolute()), "bytes": len(text.encode())})
    else:
        print(f"{options.out}: {len(text.encode()):,} bytes")
    return EXIT_DONE


_SUGGESTIONS_HEADER = ("id", "CPU operators", "cycles", "SQNR [dB]", "bytes", "known by", "what to do")
_MODULES_HEADER = ("module", "ms", "weight bytes", "SQNR [dB]", "top-1 [points]")
_UNKNOWN = "-"


def add_suggest(verbs: Any) -> None:
    """Add the verb."""
    kinds = "; ".join(f"{kind.id}: {kind.title}" for kind in KINDS)
    verb = verbs.add_parser(
        "suggest",
        help="list what would help the compiled program, or apply it",
        description="Compiles the project if it is not compiled, and lists suggestions, the "
        f"largest gain first. Kinds: {kinds}.",
    )
    add_project(verb)
    verb.add_argument(
        "--apply",
        metavar="ID",
        default="",
        help="change the project file: by one suggestion, or by all of a kind",
    )
    add_engine(verb)
    verb.set_defaults(perform=_suggest)


def _suggest(options: argparse.Namespace) -> int:
    opened = api.open(options.project)
    with opened_cache(options) as cache:
        offered = api.suggestions(opened, **job_options(options, cache))
    if options.apply:
        return _apply_suggestions(opened, offered, options)
    if options.json:
        entries = [entry_of(one).model_dump() for one in offered]
        print_json({"project": opened.project.name, "suggestions": entries, "applied": []})
    elif offered:
        _print_suggestions(offered)
    else:
        print("No suggestions.")
    return EXIT_DONE


def _apply_suggestions(
    opened: api.OpenProject, offered: tuple[Suggestion, ...], options: argparse.Namespace
) -> int:
    """Write the chosen suggestions to the project file."""
    _, applied = api.apply_suggestions(opened, offered, options.apply)
    api.update(opened, lambda fresh: api.apply_suggestions(fresh, offered, options.apply)[0])
    if options.json:
        entries = [entry_of(one).model_dump() for one in applied]
        print_json({"project": opened.project.name, "suggestions": [], "applied": entries})
        return EXIT_DONE
    for one in applied:
        print(f"Applied      {one.title}")
    print(f"Next         workbench run {shlex.quote(str(options.project))}")
    return EXIT_DONE


def _print_suggestions(offered: tuple[Suggestion, ...]) -> None:
    print_table(
        _SUGGESTIONS_HEADER, [(one.id, *_cells(one.gain), _origin(one), one.title) for one in offered]
    )
    for one in offered:
        print(f"\n{one.id}: {one.title}\n  {one.evidence}\n  {one.expected}")
        for line in one.written:
            print(f"  {line.place}: {line.instead}")
        if one.modules:
            rows = [[cell or _UNKNOWN for cell in module_cells(row)] for row in one.modules]
            print_table(_MODULES_HEADER, rows)


def _cells(gain: ExpectedGain) -> tuple[str, str, str, str]:
    """Return the figures as changes: what is saved has a minus."""
    db = _UNKNOWN if gain.sqnr_db is None else f"{gain.sqnr_db:+.1f}"
    if gain.of_tensors > 1 and gain.sqnr_db is not None:
        db += " (one tensor)"
    return _saved(gain.cpu_operators), _saved(gain.cycles), db, _saved(gain.bytes)


def _saved(value: int | None) -> str:
    if value is None:
        return _UNKNOWN
    return f"{-value:+,}" if value else "0"


def _origin(one: Suggestion) -> str:
    return "tried" if one.tried else "counted"
