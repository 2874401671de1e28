"""``compare``: a run against a baseline, for continuous integration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import api
from workbench.cli.output import EXIT_DIFFERS, EXIT_DONE, add_json, print_infos, print_json, print_table
from workbench.errors import ErrorInfo, Place, failure
from workbench.files import write_file
from workbench.project.gate import FIGURES
from workbench.project.model import PROJECT_SUFFIX
from workbench.text import whole_number

if TYPE_CHECKING:
    import argparse

_OPERAND = (
    "PROJECT.qwb (the results of its present settings), PROJECT.qwb@N (run N of its history), "
    "manifest.json or its folder, or a file with the output of 'workbench run --json'"
)


def add(verbs: Any) -> None:
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
    verb.set_defaults(perform=_perform)


def _perform(options: argparse.Namespace) -> int:
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
        _print(comparison)
    for sentence in comparison.broken:
        print_infos([ErrorInfo(message=sentence, code="limit-broken")], "broken")
    return EXIT_DONE if comparison.passed else EXIT_DIFFERS


def _write(path: Path, text: str) -> None:
    try:
        write_file(path, text.encode())
    except OSError as error:
        raise failure(
            f"{path} cannot be written: {error.strerror or error}.",
            where=Place(kind="file", id=str(path)),
            code="file-not-writable",
        ) from error


def _print(comparison: api.Comparison) -> None:
    rows = []
    for figure in comparison.figures:
        change = "" if figure.change is None else f"{figure.change:+,.6g}" if figure.change else "="
        percent = "" if figure.percent is None else f"{figure.percent:+.2f} %"
        texts = ["-" if v is None else f"{v:,.6g}" for v in (figure.baseline, figure.value)]
        rows.append((figure.name, *texts, change, percent))
    print_table(("figure", "baseline", "now", "change", ""), rows)
    for name, part in comparison.parts.items():
        if part and name != "figures":
            print(f"{name}:")
            print_table(("", "baseline", "now"), [(c.what, c.before or "-", c.after or "-") for c in part])
    print("Passed." if comparison.passed else "Failed.")
