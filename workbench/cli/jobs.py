"""Progress of jobs on the terminal, and studies run for a verb."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from workbench import api
from workbench.cli.output import Progress
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

if TYPE_CHECKING:
    import argparse

    from workbench.errors import ErrorInfo
    from workbench.pipeline.cache import Cache


class ProgressPrinter:
    """Prints the events of a job on stderr."""

    def __init__(self, *, verbose: bool = False) -> None:
        self._progress = Progress()
        self._verbose = verbose

    def starting(self) -> None:
        """Show that the engine starts, which takes seconds and sends no events."""
        self._progress.line(f"{'engine':>12}  starting")

    def warning(self, info: ErrorInfo) -> None:
        """Print a warning of the project."""
        self._progress.line(f"warning: {info}")

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


def job_options(options: argparse.Namespace, cache: Cache) -> api.JobOptions:
    """Return how a study of a verb runs, with its progress on stderr."""
    printer = ProgressPrinter()
    printer.starting()
    return {
        "trust": options.trust,
        "cache": cache,
        "accelerate": not options.no_acceleration,
        "on_event": printer.event,
    }
