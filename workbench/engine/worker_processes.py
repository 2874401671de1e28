"""Evaluation of candidates in worker processes, one per core, or on a cluster.

Run as a program, it is such a worker process.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

from pydantic import ValidationError

from workbench import interpreter
from workbench.engine import code_import
from workbench.engine.cluster import (
    MAX_ANSWER,
    Answer,
    Cluster,
    Request,
    answered,
    parsed,
    printable,
    wrong_answer,
)
from workbench.errors import WorkbenchError, failure
from workbench.history.runs import Run
from workbench.system_limits import GROWTH_LIMIT, resident_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from workbench.pipeline.cache import Cache
    from workbench.project.model import Project


_ATTEMPTS = 2


class WorkerProcesses:
    """Worker processes of one program; the context manager ends them.

    A worker that ends unexpectedly, e.g. by a crash, is replaced, and its request is repeated once.
    A worker that has grown by more than ``growth`` bytes since its first answer is replaced too.
    """

    def __init__(self, module: str, count: int, growth: int = GROWTH_LIMIT) -> None:
        self._module = module
        self._growth = growth
        self._first_sizes: dict[int, int] = {}
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="worker")
        self._free: SimpleQueue[subprocess.Popen[str]] = SimpleQueue()
        self._lock = Lock()
        self._processes: list[subprocess.Popen[str]] = []
        self._is_over = False
        for _ in range(count):
            self._add_one()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        # First, no new work may start: it would wait for a process that is never created.
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._is_over = True
            for process in self._processes:
                process.kill()
        self._threads.shutdown(wait=True)
        for process in self._processes:
            process.communicate()

    def submit(self, request: Request) -> Future[Answer]:
        """Send a request; the future raises ``WorkbenchError`` on failure."""
        return self._threads.submit(self._ask, request)

    def _ask(self, request: Request) -> Answer:
        text, code = json.dumps(request) + "\n", None
        # A process that the system killed says nothing about the request, which gets another.
        for _ in range(_ATTEMPTS):
            process = self._free.get()
            line = _line_from(process, text)
            if line:
                if self._has_grown(process.pid):
                    self._add_one(instead_of=process)
                else:
                    self._free.put(process)
                return parsed(line)
            self._add_one(instead_of=process)
            code = process.returncode
        raise failure(
            "A worker process ended unexpectedly.", details=f"exit code {code}", code="worker-ended"
        )

    def _has_grown(self, pid: int) -> bool:
        size = resident_bytes(pid)
        return size - self._first_sizes.setdefault(pid, size) > self._growth

    def _add_one(self, instead_of: subprocess.Popen[str] | None = None) -> None:
        with self._lock:
            if instead_of is not None:
                self._processes.remove(instead_of)
                instead_of.kill()
                instead_of.communicate()
                self._first_sizes.pop(instead_of.pid, None)
            if self._is_over:
                raise failure("The search has ended.", code="work-ended")
            process = subprocess.Popen(
                interpreter.command(self._module),
                env=interpreter.environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            self._processes.append(process)
            self._free.put(process)


def _line_from(process: subprocess.Popen[str], asked: str) -> str:
    """Return the process's answer; empty if it has ended, also within a line, or is too long."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(asked)
        process.stdin.flush()
        line = process.stdout.readline(MAX_ANSWER)
    except BrokenPipeError:
        return ""
    return line if line.endswith("\n") else ""


def serve(prepare: Callable[[], Callable[[Request], Answer]]) -> None:
    """Answer requests on stdin until it is closed; the tools' output goes to stderr.

    ``prepare`` runs the imports and returns the answering function; its errors become the answer's
    problem.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    answer = prepare()
    for line in sys.stdin:
        answers.write(json.dumps(answered(answer, json.loads(line))) + "\n")
        answers.flush()
    os._exit(0)


class Workers:
    """Local engine processes, or a cluster's workers; the context manager ends them.

    Args:
        count: Number of local processes; ignored for a cluster.
        folder: Base of the project's relative paths.
        cache: Cache of results.
        accelerate: Whether the toolchain patches are enabled.
        scheduler: Address of a Dask scheduler, empty for none. Its workers must access folder
            and cache under the same paths, and have the same package versions.

    Raises:
        WorkbenchError: no scheduler, no workers, or an unusable worker.
    """

    def __init__(
        self, count: int, folder: Path, cache: Cache, *, accelerate: bool, scheduler: str = ""
    ) -> None:
        self._settings = {
            "folder": str(folder),
            "root": str(cache.root),
            "accelerate": accelerate,
            "allowed": code_import.allowed(),
        }
        self._workers: WorkerProcesses | _ClusterWorkers
        if scheduler:
            self._workers = _ClusterWorkers(scheduler, (str(folder), str(cache.root)))
            self.count = self._workers.count
        else:
            self._workers, self.count = WorkerProcesses(__name__, count), count

    def __enter__(self) -> Self:
        self._workers.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._workers.__exit__(*error)

    def submit(self, project: Project) -> Future[Run]:
        """Evaluate a project; the future raises ``WorkbenchError`` on failure."""
        asked = self._workers.submit({**self._settings, "project": project.model_dump(mode="json")})
        return _mapped(asked, project)


class _ClusterWorkers:
    """The workers of a Dask cluster, with one candidate per worker at a time."""

    def __init__(self, scheduler: str, folders: tuple[str, str]) -> None:
        self._cluster = Cluster(scheduler)
        try:
            self.count = self._cluster.checked(folders)
        except BaseException:
            self._cluster.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._cluster.close()

    def submit(self, request: Request) -> Future[Answer]:
        """Send a request to a worker."""
        return self._cluster.submit(_answer_there, request)


_there = threading.Lock()


@functools.cache
def _prepared_there() -> Callable[[Request], Answer]:
    return _prepare()


def _answer_there(request: Request) -> Answer:
    """Answer in a cluster worker, one request at a time: the toolchain is not thread-safe."""
    with _there:
        return _prepared_there()(request)


def _mapped(first: Future[Answer], project: Project) -> Future[Run]:
    second: Future[Run] = Future()

    def take(done: Future[Answer]) -> None:
        try:
            second.set_result(_run_of(done.result(), project))
        except WorkbenchError as error:
            second.set_exception(error)
        except (Exception, CancelledError) as error:  # noqa: BLE001 - whatever a cluster raises
            text = "A worker process ended unexpectedly."
            details = printable(repr(error))
            second.set_exception(failure(text, details=details, code="worker-ended"))

    first.add_done_callback(take)
    return second


def _run_of(answer: Answer, project: Project) -> Run:
    """Return the run of an answer.

    Raises:
        WorkbenchError: it is no run, or that of another project.
    """
    try:
        run = Run.model_validate_json(json.dumps(answer.get("run")))
    except (ValidationError, ValueError) as error:
        raise wrong_answer(str(error)) from error
    given = (run.rules, run.target, run.presets, run.ranges, run.improvers, run.improving, run.compressions)
    if given != (
        project.rules,
        project.target,
        project.presets,
        project.ranges,
        project.improvers,
        project.improving,
        project.compressions,
    ):
        raise wrong_answer("the run belongs to another configuration")
    return run


def _prepare() -> Callable[[dict[str, Any]], dict[str, Any]]:
    from workbench.engine.toolchain_patches.imports import import_toolchain
    from workbench.engine.toolchain_patches.interpreter import run_with_big_stack

    import_toolchain()
    import torch

    from workbench.engine.context import LiveObjectCache

    torch.set_num_threads(1)
    store = LiveObjectCache()
    return lambda request: run_with_big_stack(_answer, store, request)


def _answer(store: Any, request: dict[str, Any]) -> dict[str, Any]:
    from workbench.engine.studies.candidates import Environment, evaluate
    from workbench.pipeline.cache import Cache
    from workbench.project.model import Project

    project = Project.model_validate(request["project"])
    folder = Path(request["folder"])
    if (allowed := request["allowed"]) is not None:
        base = Project.model_validate(allowed["project"])
        code_import.install_allowed(base, folder, allowed["digest"])
    cache = Cache(Path(request["root"]))
    environment = Environment(folder, cache, store, request["accelerate"])
    run = evaluate(project, environment)
    return {"run": run.model_dump(mode="json")}


if __name__ == "__main__":
    serve(_prepare)
