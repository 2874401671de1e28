"""Worker processes of one program, which answer requests in JSON, a line each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from threading import Lock
from typing import TYPE_CHECKING, Self

from workbench import interpreter
from workbench.engine.workers.cluster import MAX_ANSWER, Answer, Request, answered, parsed
from workbench.errors import failure
from workbench.operating_system import resident_bytes
from workbench.system_limits import GROWTH_LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable


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
