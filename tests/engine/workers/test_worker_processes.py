"""A workers of processes answers on, whatever happens to one of them."""

import os

import pytest

from tests.problems import refused
from workbench.engine.workers.processes import WorkerProcesses

MEMBER = """
import os, sys, time
from workbench.engine.workers.processes import serve

grown = []

def answer(asked):
    if asked["do"] == "die":
        os.abort()
    if asked["do"] == "die once" and not os.path.exists(asked["flag"]):
        open(asked["flag"], "w").close()
        os.kill(os.getpid(), 9)
    if asked["do"] == "grow":
        grown.append(os.urandom(64_000_000))
    if asked["do"] == "sleep":
        time.sleep(60)
    return {"pid": os.getpid(), "said": asked["do"]}

serve(lambda: answer)
"""


@pytest.fixture
def member(tmp_path, monkeypatch):
    (tmp_path / "crew_member.py").write_text(MEMBER)
    paths = [str(tmp_path), os.getcwd(), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    return "crew_member"


@pytest.mark.slow
def test_that_a_crew_goes_on_after_one_of_its_processes_died(member):
    with WorkerProcesses(member, 1) as workers:
        first = workers.submit({"do": "work"}).result(30)
        with refused("worker-ended"):
            workers.submit({"do": "die"}).result(30)
        second = workers.submit({"do": "work"}).result(30)
    assert second["said"] == "work"
    assert second["pid"] != first["pid"]


def test_that_the_request_of_a_killed_process_is_answered_by_another(member, tmp_path):
    with WorkerProcesses(member, 1) as workers:
        asked = {"do": "die once", "flag": str(tmp_path / "flag")}
        assert workers.submit(asked).result(30)["said"] == "die once"


def test_that_ending_a_crew_at_work_ends_its_processes_and_what_waits(member):
    with WorkerProcesses(member, 2) as workers:
        pids = {workers.submit({"do": "work"}).result(30)["pid"] for _ in range(6)}
        asked = [workers.submit({"do": "sleep"}) for _ in range(5)]
    assert all(each.done() for each in asked)
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)


def test_that_a_process_that_has_grown_is_replaced_and_every_request_is_answered(member):
    with WorkerProcesses(member, 1, growth=32_000_000) as workers:
        asked = [workers.submit({"do": what}) for what in ("work", "grow", "work", "work")]
        pids = [each.result(30)["pid"] for each in asked]
    assert pids[0] == pids[1] != pids[2] == pids[3]
