"""Real engine processes, warm from the fork server where there is one."""

import os
import shutil
import time
from pathlib import Path

import pytest

from tests.engine.in_process import CALIBRATED, NETWORKS, project
from workbench.engine_process import EngineProcess
from workbench.pipeline.cache import Cache
from workbench.project import store
from workbench.project.trust import named_code
from workbench.protocol import EngineExit, JobFinished, Ready, RunUntil

SAMPLES = Path(__file__).parents[2] / "resources" / "samples"


def wait_gone(pid, timeout_s):
    """Return whether a process has disappeared within the time."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.01)
    return False


class Lane:
    """Starts engines on one project and keeps what the last one said."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.project = store.load(path)
        self.cache = Cache(path.parent / "cache")
        self.events: list = []
        self.log: list[str] = []

    def run(self, until: str, on_event=lambda engine, event: None) -> EngineExit:
        """Run one job on a fresh engine; ``on_event`` may disturb it."""
        engine = EngineProcess(warm=True)
        reader = engine.run_log(self.log.append)
        self.events = []
        command = RunUntil(
            job="e2e", project=self.project, folder=str(self.path.parent), until=until,
            cache_root=str(self.cache.root),
            code=named_code(self.project, self.path.parent).digest,
        )  # fmt: skip
        for event in engine.events():
            self.events.append(event)
            if isinstance(event, Ready):
                engine.send(command)
            elif isinstance(event, JobFinished):
                engine.stop()
            on_event(engine, event)
        reader.join(5)
        self.pid = engine.pid
        return self.events[-1]

    def kinds(self, kind) -> list:
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture
def lane(tmp_path):
    """Engines on the smallest network."""
    shutil.copy(NETWORKS, tmp_path)
    store.save(project("small", **CALIBRATED), tmp_path / "small.qwb")
    return Lane(tmp_path / "small.qwb")


@pytest.fixture
def digits_lane(tmp_path):
    """Engines on the sample, of which each stage takes a while."""
    shutil.copytree(SAMPLES / "digits", tmp_path / "digits")
    return Lane(tmp_path / "digits" / "digits.qwb")
