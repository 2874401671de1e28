"""``run``: run the stages of a project, up to the deliverables."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import api
from workbench.cli.jobs import ProgressPrinter
from workbench.cli.output import (
    EXIT_DIFFERS,
    EXIT_DONE,
    EXIT_FAILED,
    add_engine,
    add_project,
    opened_cache,
    print_infos,
    print_json,
    print_next,
)
from workbench.cli.run_summary import print_summary
from workbench.errors import ErrorInfo, Place
from workbench.pipeline.stages import STAGES, optional_stages
from workbench.project.gate import FIGURES
from workbench.targets import target_of
from workbench.targets.ethos_u.devices import EXTERNAL_WEIGHTS
from workbench.text import listed

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from workbench.analysis.accuracy import AccuracyPart


def add(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser("run", help="run the stages and write the deliverables")
    add_project(verb)
    verb.add_argument(
        "--until",
        choices=[stage.id for stage in STAGES],
        metavar="STAGE",
        help=f"last stage, default: the target's last:  {', '.join(stage.id for stage in STAGES)}",
    )
    verb.add_argument(
        "--skip",
        action="append",
        default=[],
        choices=list(optional_stages()),
        metavar="STAGE",
        help=f"skip a stage that no other needs: {', '.join(optional_stages())}",
    )
    verb.add_argument("--out", type=Path, metavar="DIR", help="folder for the deliverables")
    verb.add_argument(
        "--fail-if", action="append", default=[], metavar="CONDITION",
        help="a condition under which the program is not accepted, as \"lsb>2\"; it replaces the "
        f"project's limit of the same figure. Figures: {', '.join(FIGURES)}",
    )  # fmt: skip
    verb.add_argument(
        "--allow-differences",
        action="store_true",
        help="with --out: write the deliverables of a program that differs, or is not accurate "
        "enough, too; they say so",
    )
    verb.add_argument(
        "--external-weights", action="store_true",
        help="write the weights to a .ptd beside the program, overriding the project",
    )  # fmt: skip
    verb.add_argument("--verbose", action="store_true", help="print the toolchain's own output")
    add_engine(verb)
    verb.set_defaults(perform=_run)  # fmt: skip


def _run(options: argparse.Namespace) -> int:
    opened = api.open(options.project)
    if options.external_weights:
        choice = opened.project.target
        opened = api.set_target(opened, choice.id, {**choice.options, EXTERNAL_WEIGHTS: True})
    last = options.until or target_of(opened.project.target.id).stages[-1]
    printer = ProgressPrinter(verbose=options.verbose)
    with opened_cache(options) as cache:
        result = api.run(
            opened,
            last,
            skip=options.skip,
            out=options.out,
            fail_if=options.fail_if,
            allow_differences=options.allow_differences,
            trust=options.trust,
            cache=cache,
            accelerate=not options.no_acceleration,
            on_event=printer.event,
            on_output=printer.output,
            on_warning=printer.warning,
        )
        return _report(result, last, options.project, as_json=options.json)


_WITHHELD = ErrorInfo(
    message="The deliverables are not written, because the program differs or is not accurate enough.",
    hint="See the limits. --allow-differences with --out writes them all the same.",
    where=Place(kind="option", id="out"),
    code="deliverables-withheld",
)


def _lost(parts: Sequence[AccuracyPart], project: Path) -> ErrorInfo:
    """Return what to do about parts of outputs that are lost in the range of other parts."""
    names = listed([f"{part.name} of output {part.output}" for part in parts])
    return ErrorInfo(
        message=f"Lost in a range that is shared with larger values: {names}.",
        hint=f"workbench suggest {shlex.quote(str(project))} --apply split_output",
        where=Place(kind="stage", id="evaluate"),
        code="output-parts-lost",
    )


def _next_steps(result: api.RunResult, last: str, project: Path) -> list[str]:
    """Return the commands that follow a run."""
    name = shlex.quote(str(project))
    if not result.succeeded:
        return [f"workbench check {name}"] if result.document["stages"] else []
    if last in {"import_model", "export", "prepare", "calibrate", "convert", "evaluate"}:
        return [f"workbench run {name}"]
    steps = []
    if result.document.get("suggestions"):
        steps.append(f"workbench suggest {name}")
    if not result.document.get("package", {}).get("files"):
        steps.append(f"workbench run {name} --out dist")
    return [*steps, f"workbench report {name} --out {shlex.quote(project.stem)}-report.html"]


def _report(result: api.RunResult, last: str, project: Path, *, as_json: bool) -> int:
    for stage in result.stages:
        print_infos(stage.errors, f"{stage.id} failed")
    if result.history_problem is not None:
        print_infos([result.history_problem], "warning")
    if as_json:
        print_json(result.document)
    else:
        print_summary(result.document)
    if result.document.get("package", {}).get("withheld"):
        print_infos([_WITHHELD], "not written")
    if result.accuracy is not None and result.accuracy.lost_parts:
        print_infos([_lost(result.accuracy.lost_parts, project)], "not accurate enough")
    if not as_json:
        print_next(*_next_steps(result, last, project))
    if not result.succeeded or last not in {stage.id for stage in result.stages}:
        return EXIT_FAILED
    differs = result.gate is not None and result.gate.verdict == "differs"
    inaccurate = result.accuracy is not None and result.accuracy.refused
    return EXIT_DIFFERS if differs or inaccurate else EXIT_DONE
