"""The engine's server in this process: real stages without the seconds of a fresh start."""

from __future__ import annotations

import os
import shutil
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from workbench.engine.server import Server
from workbench.pipeline.cache import Cache
from workbench.pipeline.plan import plan
from workbench.project import edits
from workbench.project.model import DataSource, ModelSource, Project, TargetChoice
from workbench.project.trust import named_code
from workbench.protocol import (
    JobFinished,
    RunStudy,
    RunUntil,
    Shutdown,
    StageFailed,
    StageFinished,
    decode_event,
    encode_command,
)
from workbench.results import RESULTS, load_result

NETWORKS = Path(__file__).parent / "networks.py"
WIDE_NETWORKS = NETWORKS.with_name("wide_networks.py")


def project(model: str, config: str = "a8w8", target: str = "ethos-u55-128", **fields) -> Project:
    """Return a project for a network of ``networks.py``, or of the file that is named."""
    made = Project(
        name=model.rpartition(":")[2],
        model=ModelSource(spec=model if ":" in model else f"networks.py:{model}"),
        target=TargetChoice(id=target),
        **fields,
    )
    return edits.assign(made, "global", "", config)


def without(made: Project, *corrections: str) -> Project:
    """Return a project with corrections switched off."""
    options = {**made.target.options, **dict.fromkeys(corrections, False)}
    return edits.set_target(made, TargetChoice(id=made.target.id, options=options))


def allowed(command):
    """Return a command with the code of its project allowed as it is now."""
    if not isinstance(command, RunUntil | RunStudy) or command.code:
        return command
    code = named_code(command.project, Path(command.folder))
    return command.model_copy(update={"code": code.digest})


@dataclass
class Engine:
    """One server in a thread; ``run`` returns the events of a job."""

    folder: Path
    events: list = field(default_factory=list)

    def __post_init__(self) -> None:
        for path in (NETWORKS, WIDE_NETWORKS):
            shutil.copy(path, self.folder)
        self.cache = Cache(self.folder / "cache")
        read, self._write = os.pipe()
        self._read, write = os.pipe()
        self._thread = threading.Thread(target=Server(read, write, time.monotonic()).serve)
        self._thread.start()
        self._lines = os.fdopen(self._read, "rb")

    def run(self, project: Project, until: str, *skip: str, accelerate: bool = True) -> str:
        """Run a job and return its outcome."""
        command = RunUntil(
            job="test", project=project, folder=str(self.folder), until=until, skip=skip,
            cache_root=str(self.cache.root), accelerate=accelerate,
        )  # fmt: skip
        self.events = []
        self.send(command)
        return self.follow()

    def send(self, command) -> None:
        os.write(self._write, encode_command(allowed(command)))

    def follow(self) -> str:
        for line in self._lines:
            event = decode_event(line)
            self.events.append(event)
            if isinstance(event, JobFinished):
                return event.outcome
        raise AssertionError("the server ended")

    @property
    def failure(self):
        """The first problem that stopped the job."""
        return self.failures[0]

    @property
    def failures(self):
        """The problems that stopped the job."""
        failed = [e for e in self.events if isinstance(e, StageFailed)]
        assert failed, self.events
        return failed[0].infos

    @property
    def computed(self) -> list[str]:
        return [e.stage for e in self.events if isinstance(e, StageFinished) and not e.cached]

    def result(self, project: Project, stage: str):
        return load_result(RESULTS[stage], self.path(project, stage))

    def path(self, project: Project, stage: str) -> Path:
        return self.cache.folder(plan(project, self.folder, self.cache).key(stage))

    def close(self) -> None:
        self.send(Shutdown())
        self._thread.join(30)
        self._lines.close()
        os.close(self._write)


CALIBRATED = {"calibration": DataSource(spec="networks.py:samples")}
