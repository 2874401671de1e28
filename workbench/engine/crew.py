"""A few processes that each answer one request after the other, a JSON line for a JSON line.

Not ``multiprocessing``: an engine forked for the window is a daemon, which may have no such
children. On a cluster the same requests go to its workers instead.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

from workbench.errors import ErrorInfo, WorkbenchError, failure

if TYPE_CHECKING:
    from collections.abc import Callable

Request = dict[str, Any]
Answer = dict[str, Any]


class Crew:
    """Processes of one program; a context manager that leaves none behind.

    A process that ends, such as one that a native fault took down, is replaced.
    """

    def __init__(self, module: str, count: int) -> None:
        self._module = module
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="crew")
        self._free: SimpleQueue[subprocess.Popen[str]] = SimpleQueue()
        self._lock = Lock()
        self._processes: list[subprocess.Popen[str]] = []
        self._is_over = False
        for _ in range(count):
            self._add_one()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        # First nothing new may start: it would wait for a process that never comes.
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._is_over = True
            for process in self._processes:
                process.kill()
        self._threads.shutdown(wait=True)
        for process in self._processes:
            process.communicate()

    def submit(self, request: Request) -> Future[Answer]:
        """Ask; the future raises ``WorkbenchError`` when there is a problem or no answer."""
        return self._threads.submit(self._ask, request)

    def _ask(self, request: Request) -> Answer:
        process = self._free.get()
        line = _line_from(process, json.dumps(request) + "\n")
        if not line:
            self._add_one(instead_of=process)
            code = process.returncode
            raise failure("The process that worked on it has ended.", details=f"exit code {code}")
        self._free.put(process)
        answer: Answer = json.loads(line)
        if "problem" in answer:
            raise WorkbenchError([ErrorInfo(message=answer["problem"])])
        return answer

    def _add_one(self, instead_of: subprocess.Popen[str] | None = None) -> None:
        with self._lock:
            if instead_of is not None:
                self._processes.remove(instead_of)
                instead_of.kill()
                instead_of.communicate()
            if self._is_over:
                raise failure("The work was ended.")
            process = subprocess.Popen(
                [sys.executable, "-m", self._module],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            self._processes.append(process)
            self._free.put(process)


def _line_from(process: subprocess.Popen[str], asked: str) -> str:
    """Return the process's answer; nothing once it has ended, a half line included."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(asked)
        process.stdin.flush()
        line = process.stdout.readline()
    except BrokenPipeError:
        return ""
    return line if line.endswith("\n") else ""


def serve(prepare: Callable[[], Callable[[Request], Answer]]) -> None:
    """Answer requests on stdin until it ends; what the tools print goes to stderr.

    ``prepare`` does the imports and returns what answers; a ``WorkbenchError`` or anything else
    that it raises is the answer's problem.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    answer = prepare()
    for line in sys.stdin:
        answers.write(json.dumps(answered(answer, json.loads(line))) + "\n")
        answers.flush()
    os._exit(0)


def answered(answer: Callable[[Request], Answer], request: Request) -> Answer:
    """Return the answer, or its problem in a sentence."""
    try:
        return answer(request)
    except WorkbenchError as error:
        return {"problem": error.infos[0].message}
    except (Exception, SystemExit) as error:  # noqa: BLE001 - Vela raises SystemExit
        return {"problem": f"{error} ({type(error).__name__})"}
