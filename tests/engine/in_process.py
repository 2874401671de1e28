"""The engine's server in this process: real stages without the seconds of a fresh start."""

from __future__ import annotations

import os
import shutil
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from workbench.engine.jobs.server import Server
from workbench.engine.runtime.context import LiveObjectCache
from workbench.pipeline.cache import Cache
from workbench.pipeline.plan import plan
from workbench.project import edits
from workbench.project.model import DataSource, Evaluation, ModelSource, Project, TargetChoice
from workbench.project.opened import OpenProject
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
from workbench.targets.ethos_u.rewrites import REWRITES

NETWORKS = Path(__file__).parent / "networks.py"
# What these stages compute depends on nothing but their keys: no simulator, board or compiler that
# the machine may have.
SHARED_STAGES = frozenset(("import_model", "export", "prepare", "calibrate", "convert", "evaluate"))
SHARED_FOR_ETHOS_U = SHARED_STAGES | {"lower", "verify"}
WIDE_NETWORKS = NETWORKS.with_name("wide_networks.py")
JOINING_NETWORKS = NETWORKS.with_name("joining_networks.py")


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


def as_written(rewritten: Project) -> Project:
    """Return a project whose network is compiled as it is written.

    Rewrites avoid some of the faults that corrections mend.
    """
    return without(rewritten, *(rewrite.id for rewrite in REWRITES))


def allowed(command):
    """Return a command with the code of its project allowed as it is now."""
    if not isinstance(command, RunUntil | RunStudy) or command.code:
        return command
    code = named_code(OpenProject(command.project, Path(command.folder)))
    return command.model_copy(update={"code": code.digest})


@dataclass(frozen=True)
class Shared:
    """What engines of several tests have computed: results, and live objects of stages."""

    cache: Cache
    store: LiveObjectCache = field(default_factory=lambda: LiveObjectCache(capacity=64))


@dataclass
class Engine:
    """One server in a thread; ``run`` returns the outcome of a job.

    With ``shared``, what another test has computed under the same key is taken from there, and
    what is new is put there: for the stages that depend on nothing else, but for ``own`` ones.
    """

    folder: Path
    shared: Shared | None = None
    own: frozenset[str] = frozenset()
    events: list = field(default_factory=list)
    _asked: Project | None = None

    def __post_init__(self) -> None:
        for path in (NETWORKS, WIDE_NETWORKS, JOINING_NETWORKS):
            shutil.copy(path, self.folder)
        self.cache = Cache(self.folder / "cache")
        read, self._write = os.pipe()
        self._read, write = os.pipe()
        server = Server(read, write, time.monotonic())
        # What jobs leave in memory is a matter of engines that run for long.
        server._free = lambda _memory: None
        if self.shared:
            server._store = self.shared.store
        self._thread = threading.Thread(target=server.serve)
        self._thread.start()
        self._lines = os.fdopen(self._read, "rb")

    def run(self, project: Project, until: str, *skip: str, accelerate: bool = True) -> str:
        """Run a job and return its outcome."""
        command = RunUntil(
            job="test",
            project=project,
            folder=str(self.folder),
            until=until,
            skip=skip,
            cache_root=str(self.cache.root),
            accelerate=accelerate,
        )
        self.events = []
        # What is compared with the plain toolchain is computed by an engine of its own.
        assert accelerate or not self.shared
        self.send(command)
        return self.follow()

    def _take(self, project: Project) -> None:
        """Link the shared results of a project into the own cache."""
        planned = plan(OpenProject(project, self.folder), self.cache)
        for stage in planned.stages:
            if stage.id in self._shared_stages(project):
                _link(stage.key, self.shared.cache, self.cache)

    def _share(self, project: Project) -> None:
        """Link what the last job computed into the shared cache."""
        for event in self.events:
            if isinstance(event, StageFinished) and event.stage in self._shared_stages(project):
                _link(event.key, self.cache, self.shared.cache)

    def _shared_stages(self, project: Project) -> frozenset[str]:
        """Return the stages whose results are shared; that of NNPA asks the machine's compiler."""
        is_ethos_u = project.target.id.startswith("ethos-u")
        return (SHARED_FOR_ETHOS_U if is_ethos_u else SHARED_STAGES) - self.own

    def send(self, command) -> None:
        if self.shared and isinstance(command, RunUntil | RunStudy):
            self._asked = command.project
            self._take(command.project)
        os.write(self._write, encode_command(allowed(command)))

    def follow(self) -> str:
        for line in self._lines:
            event = decode_event(line)
            self.events.append(event)
            if isinstance(event, JobFinished):
                if self._asked:
                    self._share(self._asked)
                return event.outcome
        raise AssertionError("the server ended")

    def lowered(self, project: Project):
        """Return the result of ``lower``, computed without the evaluation."""
        assert self.run(project, "lower", "evaluate") == "done", self.failure
        return self.result(project, "lower")

    def verified(self, project: Project):
        """Return the result of ``verify``, computed without the evaluation."""
        assert self.run(project, "verify", "evaluate") == "done", self.failure
        return self.result(project, "verify")

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
        return self.cache.folder(plan(OpenProject(project, self.folder), self.cache).key(stage))

    def close(self) -> None:
        self.send(Shutdown())
        self._thread.join(30)
        self._lines.close()
        os.close(self._write)


def _link(key: str, source: Cache, target: Cache) -> None:
    """Give a cache a result of another one, unless it has it."""
    if source.has(key) and not target.has(key):
        shutil.copytree(source.folder(key), target.folder(key), copy_function=os.link)


CALIBRATED = {"calibration": DataSource(spec="networks.py:samples")}
# All samples serve calibration and evaluation, for tests that compute the same from all of them.
ALL_SAMPLES = {**CALIBRATED, "evaluation": Evaluation(hold_out=False)}
