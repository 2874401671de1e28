"""A Dask cluster that lies, is silent or vanishes: one message for each request, and no hang."""

import contextlib
import errno
import json
import os
import socket
import threading
import time
from concurrent.futures import CancelledError, Future
from pathlib import Path

import pytest

from tests.engine.in_process import project
from tests.problems import refused
from workbench.api import OpenProject, TrustRequiredError, study
from workbench.engine.studies.candidate_workers import CandidateWorkers
from workbench.engine.studies.estimates import Estimators, Point
from workbench.engine.workers import cluster
from workbench.engine.workers.cluster import Cluster
from workbench.engine.workers.pool import Workers
from workbench.errors import SYSTEM_REMEDIES
from workbench.history.runs import run_of
from workbench.pipeline.cache import Cache
from workbench.pipeline.plan import plan
from workbench.project.store import load
from workbench.studies.sweep import SweepResult
from workbench.toolchains.registry import tools_of
from workbench.toolchains.versions import NAME_VARIABLE, own_name, tool_versions

SAMPLES = Path(__file__).parents[3] / "resources" / "samples"
TOOLS = cluster._versions()
HERE = {"unseen": "", "tools": TOOLS}


def sent(answer, **tools):
    """Return the text of a worker of these package versions, else of those here."""
    return json.dumps({"answer": answer, "tools": {**TOOLS, **tools}})


class Client:
    """A Dask client whose scheduler gives these answers; None is no answer."""

    def __init__(self, answers=(), standing=None, workers=1):
        self.answers, self.workers = list(answers), workers
        self.standing = {"tcp://w:1": json.dumps(HERE)} if standing is None else standing
        self.asked = []

    def get_executor(self, *, pure):
        assert not pure
        return self

    def shutdown(self, *, wait):
        assert not wait

    def submit(self, *arguments):
        self.asked.append(arguments)
        future, answer = Future(), self.answers.pop(0) if self.answers else None
        if isinstance(answer, BaseException):
            future.set_exception(answer)
        elif answer is not None:
            future.set_result(answer)
        return future

    def run(self, *_arguments):
        if isinstance(self.standing, Exception):
            raise self.standing
        return self.standing

    def scatter(self, data, *, direct):
        assert not direct
        return data

    def nthreads(self):
        return dict.fromkeys(range(self.workers), 1)

    def close(self):
        if self.workers < 0:
            threading.Event().wait()


@pytest.fixture
def connect(monkeypatch):
    monkeypatch.setattr(cluster, "_COUNT_S", 0.02)
    monkeypatch.setattr(cluster, "_LOST_S", 0.1)
    monkeypatch.setattr(cluster, "_DESCRIBE_S", 0.3)
    monkeypatch.setattr(cluster, "_CLOSE_S", 0.1)

    def connect(*answers, **options):
        client = Client(answers, **options)
        monkeypatch.setattr(cluster, "_connected", lambda _address: client)
        return client

    return connect


class HostileError(Exception):
    def __repr__(self):
        return "\x1b]0;owned\x07" + "x" * 100_000


WRONG = (
    b"{}",
    7,
    ["{}"],
    {"totals": {}},
    "",
    "null",
    "[]",
    "{",
    '"x"',
    "1" * 5000,
    "[" * 200_000,
    "x" * (cluster.MAX_ANSWER + 1),
    '{"totals": null}',
    '{"totals": 3}',
    '{"totals": {"a": 1}}',
    '{"totals": {"cycles_total": "\\u001b[2J"}}',
    '{"answer": {}, "tools": []}',
    sent([]),
    # Two million wrong rules take gigabytes until they are told.
    '{"answer": {"run": {"rules": [' + "1," * 2_000_000 + "1]}}}",
)


@pytest.mark.parametrize("answer", WRONG, ids=range(len(WRONG)))
def test_that_an_answer_of_a_wrong_form_fails_its_candidate_alone(connect, tmp_path, answer):
    connect(answer, answer, sent({"run": "no"}))
    cache = Cache(tmp_path)
    with CandidateWorkers(1, tmp_path, cache, accelerate=True, scheduler="tcp://x:1") as workers:
        for _ in range(3):
            with refused("worker-answer-wrong"):
                workers.submit(project("small")).result(10)


@pytest.mark.parametrize("error", [HostileError(), CancelledError(), OSError("gone"), KeyError(1)])
def test_that_an_exception_of_a_worker_is_one_short_printable_message(connect, tmp_path, error):
    connect(error)
    with (
        CandidateWorkers(1, tmp_path, Cache(tmp_path), accelerate=True, scheduler="tcp://x:1") as workers,
        refused("worker-ended") as caught,
    ):
        workers.submit(project("small")).result(10)
    (info,) = caught.value.infos
    assert len(info.details) < 5000
    assert info.details.isprintable()


def test_that_a_problem_with_hostile_text_is_cut_and_printable(connect):
    connect(sent({"problem": "\x1b[2J\r" + "y" * 1_000_000}), sent({"problem": {}}))
    client = Cluster("tcp://x:1")
    for _ in range(2):
        with refused("candidate-failed") as caught:
            client.submit(dict, {}).result(10)
        message = caught.value.infos[0].message
        assert message.isprintable()
        assert 0 < len(message) <= 2000
    client.close()


def test_that_the_run_of_another_configuration_is_refused(connect, engine, tmp_path):
    mine, other = project("small"), project("small", "a16w8")
    assert engine.run(mine, "evaluate") == "done"
    run = run_of(mine, plan(OpenProject(mine, engine.folder), engine.cache), engine.cache)
    text = sent({"run": run.model_dump(mode="json")})
    connect(text, text)
    with CandidateWorkers(1, tmp_path, Cache(tmp_path), accelerate=True, scheduler="tcp://x:1") as workers:
        assert workers.submit(mine).result(10) == run
        with refused("worker-answer-wrong"):
            workers.submit(other).result(10)


@pytest.mark.parametrize(
    ("standing", "code"),
    [
        ({}, "cluster-without-workers"),
        (["x"], "worker-answer-wrong"),
        ({"w": 3}, "worker-answer-wrong"),
        ({"w": "{}"}, "worker-answer-wrong"),
        ({"w": json.dumps({"unseen": 1, "tools": {}})}, "worker-answer-wrong"),
        ({"w": json.dumps({"unseen": "", "tools": {}})}, "cluster-versions-differ"),
        ({"w": json.dumps({"unseen": "/x\x1b", "tools": {}})}, "cluster-folder-not-shared"),
        (ImportError("no workbench"), "cluster-worker-without-workbench"),
    ],
)
def test_that_what_workers_say_of_themselves_is_checked(connect, tmp_path, standing, code):
    connect(standing=standing)
    with refused(code) as caught:
        CandidateWorkers(1, tmp_path, Cache(tmp_path), accelerate=True, scheduler="tcp://x:1")
    assert caught.value.infos[0].message.isprintable()


def test_that_a_cluster_that_is_silent_is_refused(connect, tmp_path):
    client = connect()
    client.run = lambda *_: threading.Event().wait()
    with refused("cluster-silent"):
        CandidateWorkers(1, tmp_path, Cache(tmp_path), accelerate=True, scheduler="tcp://x:1")


def test_that_requests_end_when_all_workers_are_gone(connect):
    connect(workers=0)
    client = Cluster("tcp://x:1")
    with refused("cluster-lost"):
        client.submit(dict, {}).result(10)
    with refused("cluster-lost"):
        client.submit(dict, {}).result(10)
    client.close()


def test_that_leaving_ends_what_waits_also_when_the_cluster_does_not_close(connect):
    client = connect(workers=1)
    opened = Cluster("tcp://x:1")
    waiting = opened.submit(dict, {})
    client.workers = -1
    opened.close()
    with refused("work-ended"):
        waiting.result(10)


def test_that_a_late_answer_does_not_replace_an_error(connect):
    late = Future()
    client = connect()
    client.submit = lambda *_: late
    opened = Cluster("tcp://x:1")
    waiting = opened.submit(dict, {})
    opened.close()
    late.set_result("{}")
    with refused("work-ended"):
        waiting.result(10)


def test_that_estimates_of_a_wrong_form_are_refused(connect, tmp_path):
    (tmp_path / "a.tosa").write_bytes(b"program")
    point = Point("x:y", (tmp_path / "a.tosa",), "ethos-u55-128", {}, {})
    client = connect("[]", sent({"totals": 3}))
    with Estimators(1, "tcp://x:1") as workers:
        with refused("worker-answer-wrong"):
            workers.submit(point).result(10)
        assert workers.submit(point).result(10) == {"totals": 3}
    assert client.asked[0][2]["programs"] == [b"program"]


def test_that_a_scheduler_is_used_only_when_it_is_trusted(tmp_path):
    (path,) = (SAMPLES / "digits").glob("*.qwb")
    project_of_ours = OpenProject(load(path), path.parent)
    with pytest.raises(TrustRequiredError) as caught:
        study(project_of_ours, "sweep", SweepResult, {"scheduler": "tcp://x:1"}, cache=Cache(tmp_path))
    assert caught.value.codes == ("scheduler-trust-required",)


@pytest.mark.parametrize("tools", [{"ethos-u-vela": "4.0.0"}, {"quantization-workbench": "with stages 1"}])
def test_that_a_worker_of_other_versions_gives_no_figures(connect, tools):
    connect(sent({"run": {}}, **tools), standing={"w": json.dumps({**HERE, "tools": {**TOOLS, **tools}})})
    opened = Cluster("tcp://x:1")
    # It joined after the workers were checked.
    with refused("cluster-versions-differ") as caught:
        opened.submit(dict, {}).result(10)
    assert next(iter(tools)) in caught.value.infos[0].message
    opened.close()
    with refused("cluster-versions-differ"):
        Estimators(1, "tcp://x:1")


@pytest.mark.parametrize("greeting", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes(1 << 16), b"\xff" * 99])
def test_that_a_server_that_is_no_scheduler_is_refused_and_the_next_one_is_found(monkeypatch, greeting):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(cluster, "_CONNECT_S", 0.5)
    # Accepted connections stay open: nothing more is said.
    kept = []

    def answer():
        with contextlib.suppress(OSError):
            while True:
                kept.append(server.accept()[0])
                kept[-1].sendall(greeting)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answer, daemon=True).start()
        for _ in range(2):
            with refused("cluster-unreachable"):
                Cluster(f"tcp://127.0.0.1:{server.getsockname()[1]}")
        monkeypatch.setattr(cluster, "_CONNECT_S", 20.0)
        with distributed.LocalCluster(n_workers=0, dashboard_address=None, processes=False) as local:
            Cluster(local.scheduler_address).close()
        server.shutdown(socket.SHUT_RDWR)
    for connection in kept:
        connection.close()


@pytest.mark.slow
def test_that_a_worker_runs_in_the_toolchain_of_the_engine_that_asks(monkeypatch):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address=None, processes=True
    ) as local:
        for name in ("sdk", "", "other"):
            monkeypatch.setenv(NAME_VARIABLE, name)
            with Workers(__name__, 1, local.scheduler_address) as workers:
                assert workers.submit({}).result(60) == {"toolchain": name, "tools": tool_versions()}


@pytest.mark.slow
def test_that_a_real_cluster_whose_worker_is_killed_ends_every_request(monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(cluster, "_LOST_S", 4.0)
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address=None, processes=True
    ) as local:
        opened = Cluster(local.scheduler_address)
        assert opened.submit(_alive, {}).result(60) == {"alive": True}
        with refused("worker-ended"):
            opened.submit(_die, {}).result(120)
        waiting = opened.submit(_sleep, {})
        local.scale(0)
        with refused("cluster-lost"):
            waiting.result(60)
        opened.close()


def prepare():
    """Return what tells the toolchain of a project that is in the worker's."""
    return lambda _request: {"toolchain": own_name(), "tools": tools_of(own_name())}


def _alive(_request):
    return {"alive": True}


def _die(_request):
    os._exit(1)


def _sleep(_request):
    time.sleep(600)
    return {}


def test_that_a_worker_says_what_its_system_wants():
    def full(_request):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    problem = cluster.answered(full, {})["problem"]
    assert SYSTEM_REMEDIES[errno.ENOSPC] in problem
    assert "Errno" not in problem
