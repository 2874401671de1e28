"""Progress of jobs on the terminal, and studies run for a verb."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from workbench import api
from workbench.cli.output import Progress, StudyFailedError, print_infos
from workbench.history.runs import run_of
from workbench.ids import StudyId
from workbench.protocol import (
    Event,
    LogLine,
    StageFailed,
    StageFinished,
    StageProgress,
    StageSkipped,
    StageStarted,
    StudyProgress,
)
from workbench.studies.documents import Document

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from pydantic import JsonValue

    from workbench.pipeline.cache import Cache
    from workbench.pipeline.plan import Plan
    from workbench.project.model import Project


class ProgressPrinter:
    """Prints the events of a job on stderr."""

    def __init__(self, *, verbose: bool = False) -> None:
        self._progress = Progress()
        self._verbose = verbose

    def starting(self, study: StudyId) -> None:
        """Show that the engine starts, which takes seconds and sends no events."""
        self._progress.line(f"{study:>12}  starting the engine")

    def output(self, line: str) -> None:
        """Print a line of the toolchain, if the user asked for them."""
        if self._verbose:
            print(line, file=sys.stderr)

    def event(self, event: Event) -> None:
        """Print an event, if it says something for people."""
        match event:
            case StageStarted():
                self._progress.update(event.stage, None, "")
            case StageProgress():
                self._progress.update(event.stage, event.fraction, event.message)
            case StudyProgress():
                share = event.done / event.total if event.total else None
                self._progress.update(event.study, share, event.message)
            case StageFinished():
                state = "cached" if event.cached else "done"
                self._progress.line(f"{event.stage:>12}  {state:<7} {event.elapsed_s:7.2f} s")
            case StageSkipped():
                self._progress.line(f"{event.stage:>12}  skipped  {event.reason}")
            case StageFailed():
                self._progress.line(f"{event.stage:>12}  failed  {event.elapsed_s:7.2f} s")
            case LogLine() if event.level in {"warning", "error"} or self._verbose:
                self._progress.line(f"{event.level}: {event.text}")
            case _:
                pass


def run_study(
    study: StudyId, kind: type[Document], opened: tuple[Project, Path], cache: Cache,
    options: argparse.Namespace, asked: dict[str, JsonValue],
) -> Document:  # fmt: skip
    """Run a study to its end and return its result.

    Args:
        study: The study's id.
        kind: The type of its result.
        opened: A project with the folder its paths start from.
        cache: Where results are kept.
        options: The verb's options.
        asked: The study's options.

    Raises:
        Cancelled: The user pressed Ctrl-C. What was found is kept.
        TrustRequiredError: The project's code may not run.
        StudyFailedError: The study failed.
    """
    printer = ProgressPrinter()
    printer.starting(study)
    found, ended = api.study(
        api.OpenProject(*opened),
        study,
        kind,
        asked,
        trust=options.trust,
        cache=cache,
        accelerate=not options.no_acceleration,
        on_event=printer.event,
    )
    if found is None:
        raise StudyFailedError(ended.errors)
    return found


def keep_run(path: Path, project: Project, planned: Plan, cache: Cache, origin: str = "") -> None:
    """Keep the run in the history beside ``path``; print why it cannot be kept."""
    problem = api.record_run(path, run_of(project, planned, cache, origin))
    if problem is not None:
        print_infos([problem], "warning")
