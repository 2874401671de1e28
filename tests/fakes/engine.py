"""Engines that play events at the process boundary: no process, no torch."""

from __future__ import annotations

import queue
import threading
from pathlib import Path

from tests.fakes import studies
from tests.fakes.results import write_result
from workbench.pipeline.cache import Cache
from workbench.pipeline.plan import plan
from workbench.pipeline.stages import stages_until
from workbench.project.opened import OpenProject
from workbench.protocol import (
    Cancel,
    EngineExit,
    JobFinished,
    LogLine,
    Ready,
    RunStudy,
    RunUntil,
    Shutdown,
    StageFailed,
    StageFinished,
    StageProgress,
    StageSkipped,
    StageStarted,
)
from workbench.results import save_result


def leave_results(monkeypatch, **results):
    """Have engines leave these results, by stage, instead of the usual ones."""
    usual = write_result

    def leave(stage, folder):
        usual(stage, folder)
        if stage in results:
            save_result(results[stage], folder)

    monkeypatch.setattr(f"{__name__}.write_result", leave)


class Play:
    """What an engine does with a command; the usual one finishes every stage.

    ``hold`` stays in a stage, ``crash`` dies in it, ``fail`` fails it with problems.
    """

    def __init__(self, hold="", crash="", fail="", infos=()):
        self.hold, self.crash, self.fail, self.infos = hold, crash, fail, infos

    def __call__(self, command):
        cache, job = Cache(Path(command.cache_root)), command.job
        planned = command.plan or plan(OpenProject(command.project, Path(command.folder)), cache)
        for stage in stages_until(command.until):
            if stage in command.skip:
                yield StageSkipped(job=job, stage=stage, reason="left out as asked")
                continue
            key = planned.key(stage)
            if cache.has(key):
                yield StageFinished(job=job, stage=stage, key=key, cached=True, elapsed_s=0.0)
                continue
            yield StageStarted(job=job, stage=stage, key=key)
            yield StageProgress(job=job, stage=stage, fraction=0.5, message="half way")
            yield LogLine(level="info", text=f"at work on {stage}", stage=stage)
            if stage == self.hold:
                return
            if stage == self.crash:
                sentence = f"The engine was killed by signal 11 (SIGSEGV) while running {stage}."
                yield EngineExit(expected=False, sentence=sentence, job=job, stage=stage)
                return
            if stage == self.fail:
                yield StageFailed(job=job, stage=stage, key=key, elapsed_s=0.1, infos=tuple(self.infos))
                yield JobFinished(job=job, outcome="failed", elapsed_s=0.1)
                return
            with cache.writing(key) as folder:
                write_result(stage, folder)
            yield StageFinished(job=job, stage=stage, key=key, cached=False, elapsed_s=0.2)
        yield JobFinished(job=job, outcome="done", elapsed_s=0.5)


class FakeEngine:
    """One engine; ``cancel`` ends a held job as a real engine would."""

    def __init__(self, play, events=(), printed=()):
        self.commands = []
        self.printed = printed
        self.stopped = False
        self.hold_study_at = 0
        # Whether jobs stay for ever, and why studies and stages fail.
        self.is_held, self.refusal = False, ()
        self._play = play
        self._events = queue.Queue()
        self._events.put(Ready(pid=1, start_s=0.0))
        for event in events:
            self._events.put(event)

    def send(self, command):
        self.commands.append(command)
        if isinstance(command, RunStudy | RunUntil) and (self.is_held or self.refusal):
            self._refuse(command)
        elif isinstance(command, RunUntil):
            for event in self._play(command):
                self._events.put(event)
        elif isinstance(command, Shutdown):
            self._events.put(EngineExit(expected=True, sentence="The engine was stopped."))
        elif isinstance(command, RunStudy):
            for event in studies.play(command, self.hold_study_at):
                self._events.put(event)

    def say(self, event):
        """Send an event."""
        self._events.put(event)

    def _refuse(self, command):
        stage = command.study if isinstance(command, RunStudy) else command.until
        if self.refusal:
            self._events.put(
                StageFailed(job=command.job, stage=stage, key="", elapsed_s=0.1, infos=tuple(self.refusal))
            )
            self._events.put(JobFinished(job=command.job, outcome="failed", elapsed_s=0.1))

    def cancel(self, job):
        self.commands.append(Cancel(job=job))
        if job in {c.job for c in self.commands if isinstance(c, RunUntil | RunStudy)}:
            self._events.put(JobFinished(job=job, outcome="cancelled", elapsed_s=0.1))

    def stop(self):
        self.stopped = True
        self._events.put(EngineExit(expected=True, sentence="The engine was stopped."))

    def run_log(self, receive):
        log = threading.Thread(target=lambda: [receive(line) for line in self.printed])
        log.start()
        return log

    def events(self):
        while True:
            event = self._events.get()
            yield event
            if isinstance(event, EngineExit):
                return


class FakeEngines:
    """A factory that remembers its engines; ``plays`` are used one an engine, the last for all."""

    def __init__(self):
        self.made, self.toolchains = [], []
        self.plays = [Play()]
        self._is_held, self._refusal = False, ()

    def __call__(self, toolchain=""):
        self.toolchains.append(toolchain)
        play = self.plays.pop(0) if len(self.plays) > 1 else self.plays[0]
        self.made.append(FakeEngine(play))
        self._tell()
        return self.made[-1]

    def play(self, play):
        """Let every engine, those that run included, do this from now on."""
        self.plays = [play]
        for engine in self.made:
            engine._play = play

    def refuse(self, infos):
        """Let every job from now on fail with these problems."""
        self._is_held, self._refusal = False, tuple(infos)
        self._tell()

    def hold(self):
        """Let every job from now on stay until it is cancelled."""
        self._is_held, self._refusal = True, ()
        self._tell()

    def go_on(self):
        """Let jobs finish again."""
        self._is_held, self._refusal = False, ()
        self._tell()

    def _tell(self):
        for engine in self.made:
            engine.is_held, engine.refusal = self._is_held, self._refusal

    @property
    def commands(self):
        """Every command of every engine."""
        return [command for engine in self.made for command in engine.commands]
