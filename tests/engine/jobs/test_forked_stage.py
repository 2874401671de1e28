"""A stage in a copy of the engine: same result, and no process left however it ends."""

import os
import signal
import threading
import time

import pytest

from tests.engine.in_process import CALIBRATED, allowed, project
from tests.engine.own_processes import children
from workbench.engine.jobs.forked_stage import ForkedStage
from workbench.engine.jobs.job import EngineJob
from workbench.engine.runtime.context import LiveObjectCache
from workbench.engine.stages import evaluate
from workbench.errors import Cancelled
from workbench.project.model import Evaluation
from workbench.protocol import RunUntil, StageFailed, StageFinished, StageProgress, StageStarted

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("one_thread")]
_TWO = ("evaluate", "lower")
FINISHED = StageFinished(job="j", stage="evaluate", key="k", cached=False, elapsed_s=1.0)


def job_of(folder, cache, cancelled=None, **fields):
    """Return a job that ends with ``lower``, and its events."""
    made, events = project("small", **fields), []
    command = RunUntil(job="j", project=made, folder=str(folder), until="lower", cache_root=str(cache))
    job = EngineJob(allowed(command), LiveObjectCache(), events.append)
    job.cancelled = cancelled or job.cancelled
    return job, events


def ends(events):
    kinds = StageFinished | StageFailed
    return [(type(e), e.stage) for e in events if isinstance(e, kinds) and e.stage in _TWO]


def test_that_the_events_of_the_copy_arrive_in_order():
    events = []

    def work(send, _cancelled):
        for number in range(100):
            send(StageProgress(job="j", stage="evaluate", fraction=None, message=str(number)))
        send(FINISHED)

    beside = ForkedStage(work, events.append)
    assert beside.ending(threading.Event()) == FINISHED
    assert [e.message for e in events[:-1]] == [str(number) for number in range(100)]
    assert not beside.failed


def test_that_a_copy_that_is_killed_ends_without_an_event():
    before = set(children())
    beside = ForkedStage(lambda *_: os.kill(os.getpid(), signal.SIGKILL), [].append)
    assert beside.ending(threading.Event()) is None
    assert set(children()) == before


@pytest.mark.parametrize("listens", [True, False])
def test_that_a_cancelled_copy_ends_also_if_it_does_not_listen(listens, tmp_path):
    before, cancelled = set(children()), threading.Event()

    def work(_send, asked):
        while not (listens and asked.is_set()):
            time.sleep(0.01)
        (tmp_path / "cleaned").touch()

    beside = ForkedStage(work, [].append)
    cancelled.set()
    with pytest.raises(Cancelled):
        beside.ending(cancelled)
    beside.end()
    assert set(children()) == before
    assert (tmp_path / "cleaned").exists() == listens


@pytest.mark.slow
def test_that_a_stage_beside_another_gives_the_same_result_and_ends_first(engine, tmp_path):
    fields = {**CALIBRATED, "evaluation": Evaluation(metric="networks.py:accuracy")}
    job, events = job_of(engine.folder, tmp_path / "beside", **fields)
    assert job.run() == "done"
    started = [e.stage for e in events if isinstance(e, StageStarted)][-2:]
    assert sorted(started) == sorted(_TWO)
    assert ends(events) == [(StageFinished, stage) for stage in _TWO]

    made = job.command.project
    assert engine.run(made, "lower") == "done"
    for stage, name in (("evaluate", "result.json"), ("lower", "program.pte")):
        alone = engine.path(made, stage)
        (folder,) = (tmp_path / "beside").rglob(alone.name)
        assert (folder / name).read_bytes() == (alone / name).read_bytes()


def test_that_a_failure_of_the_copy_fails_the_job_and_leaves_no_process(engine, tmp_path):
    before = set(children())
    fields = {**CALIBRATED, "evaluation": Evaluation(metric="networks.py:failing_metric")}
    job, events = job_of(engine.folder, tmp_path / "beside", **fields)
    assert job.run() == "failed"
    assert ends(events) == [(StageFailed, "evaluate")]
    # The eager model keeps a process for as long as the program is loaded.
    assert [s for pid, s in children().items() if pid not in before and s == "Z"] == []


@pytest.mark.slow
def test_that_the_engine_runs_a_stage_whose_copy_was_killed(engine, tmp_path, monkeypatch):
    run, own = evaluate.run, os.getpid()

    def killed(context):
        if os.getpid() != own:
            os.kill(os.getpid(), signal.SIGKILL)
        run(context)

    monkeypatch.setattr(evaluate, "run", killed)
    job, events = job_of(engine.folder, tmp_path / "beside", **CALIBRATED)
    assert job.run() == "done"
    assert ends(events) == [(StageFinished, stage) for stage in _TWO]
