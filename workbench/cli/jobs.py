"""Runs one job on its own engine until it ends."""

from __future__ import annotations

import signal
import sys
import threading
from collections import deque
from contextlib import closing
from typing import TYPE_CHECKING

from workbench.cli.output import Progress, check_trust, print_infos
from workbench.engine_process import EngineProcess
from workbench.errors import Cancelled, ErrorInfo, Place
from workbench.history.runs import run_of
from workbench.history.store import History, history_path
from workbench.protocol import (
    EngineExit,
    Event,
    JobFinished,
    LogLine,
    Ready,
    RunStudy,
    RunUntil,
    StageFailed,
    StageFinished,
    StageProgress,
    StageSkipped,
    StageStarted,
    StudyProgress,
)
from workbench.studies.documents import Document, load_study, study_folder, study_key

if TYPE_CHECKING:
    import argparse
    from pathlib import Path
    from types import FrameType

    from pydantic import JsonValue

    from workbench.pipeline.cache import Cache
    from workbench.pipeline.plan import Plan
    from workbench.project.model import Project


_KEPT_LINES = 40


class Job:
    """Runs one command on a fresh engine; ``events`` are its stage events."""

    def __init__(self, *, verbose: bool = False) -> None:
        self.events: list[StageFinished | StageSkipped | StageFailed] = []
        self._progress = Progress()
        self._tail: deque[str] = deque(maxlen=_KEPT_LINES)
        self._verbose = verbose
        self._interrupted = False

    def run(self, command: RunUntil | RunStudy) -> str:
        """Return the outcome: "done" or "failed".

        Raises:
            Cancelled: Ctrl-C was pressed; the engine and its processes have ended.
        """
        engine = EngineProcess()
        log = engine.run_log(self._note)
        before = self._on_interrupt(engine)
        outcome = ""
        try:
            for event in engine.events():
                if isinstance(event, Ready):
                    engine.send(command)
                elif isinstance(event, JobFinished):
                    outcome = event.outcome
                    engine.stop()
                self._hear(event, command)
        finally:
            signal.signal(signal.SIGINT, before)
            engine.stop()
            log.join(1.0)
        if self._interrupted or outcome == "cancelled":
            raise Cancelled
        return "done" if outcome == "done" else "failed"

    def _on_interrupt(self, engine: EngineProcess) -> signal._HANDLER:
        def interrupt(number: int, frame: FrameType | None) -> None:
            del number, frame
            self._interrupted = True
            threading.Thread(target=engine.stop, daemon=True).start()

        return signal.signal(signal.SIGINT, interrupt)

    def _note(self, line: str) -> None:
        self._tail.append(line)
        if self._verbose:
            print(line, file=sys.stderr)

    def _hear(self, event: Event, command: RunUntil | RunStudy) -> None:
        match event:
            case StageStarted():
                self._progress.update(event.stage, None, "")
            case StageProgress():
                self._progress.update(event.stage, event.fraction, event.message)
            case StudyProgress():
                share = event.done / event.total if event.total else None
                self._progress.update(event.study, share, event.message)
            case StageFinished():
                self.events.append(event)
                state = "cached" if event.cached else "done"
                self._progress.line(f"{event.stage:>12}  {state:<7} {event.elapsed_s:7.2f} s")
            case StageSkipped():
                self.events.append(event)
                self._progress.line(f"{event.stage:>12}  skipped  {event.reason}")
            case StageFailed():
                self.events.append(event)
                self._progress.line(f"{event.stage:>12}  failed  {event.elapsed_s:7.2f} s")
            case LogLine() if event.level in {"warning", "error"} or self._verbose:
                self._progress.line(f"{event.level}: {event.text}")
            case EngineExit() if not event.expected:
                self._crashed(event, command)
            case _:
                pass

    def _crashed(self, event: EngineExit, command: RunUntil | RunStudy) -> None:
        stage = event.stage or (command.until if isinstance(command, RunUntil) else "")
        info = ErrorInfo(
            message=event.sentence,
            hint="Finished stages stay in the cache. Run again to continue.",
            where=Place(kind="stage", id=stage),
            details="\n".join(self._tail),
            code="engine-ended",
        )
        failed = StageFailed(job=command.job, stage=stage, key="", elapsed_s=0.0, infos=(info,))
        self.events.append(failed)


def run_study(
    study: str, kind: type[Document], opened: tuple[Project, Path], cache: Cache,
    options: argparse.Namespace, asked: dict[str, JsonValue],
) -> Document | None:  # fmt: skip
    """Run a study and return its result; problems are printed, and None is returned.

    ``opened`` is a project with the base folder of its paths, ``asked`` the study's options.

    Raises:
        Cancelled: Ctrl-C was pressed; partial results are kept.
        TrustRequiredError: the project's code is not allowed to run.
    """
    project, folder = opened
    check_trust(options, project, folder)
    key = study_key(study, project, folder, cache, asked)
    job = Job()
    outcome = job.run(
        RunStudy(
            job=study,
            study=study,
            project=project,
            folder=str(folder),
            options=asked,
            cache_root=str(cache.root),
            accelerate=not options.no_acceleration,
        )
    )
    for event in job.events:
        if isinstance(event, StageFailed):
            print_infos(event.infos, f"{event.stage} failed")
    return load_study(kind, study_folder(cache, key)) if outcome == "done" else None


def keep_run(path: Path, project: Project, planned: Plan, cache: Cache, origin: str = "") -> None:
    """Store the run in the history beside ``path``; an unusable history is reported once."""
    run = run_of(project, planned, cache, origin)
    if run is None:
        return
    with closing(History(history_path(path))) as history:
        history.record(run)
        if history.problem is not None:
            print_infos([history.problem], "warning")
