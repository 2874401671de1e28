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
from typing import TYPE_CHECKING, Any, Self

from workbench.errors import ErrorInfo, WorkbenchError

if TYPE_CHECKING:
    from collections.abc import Callable

Request = dict[str, Any]
Answer = dict[str, Any]


class Crew:
    """Processes of one program; a context manager that leaves none behind."""

    def __init__(self, module: str, count: int) -> None:
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="crew")
        self._free: SimpleQueue[subprocess.Popen[str]] = SimpleQueue()
        self._processes = [_start(module) for _ in range(count)]
        for process in self._processes:
            self._free.put(process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for process in self._processes:
            process.kill()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for process in self._processes:
            process.communicate()

    def submit(self, request: Request) -> Future[Answer]:
        """Ask; the future raises ``WorkbenchError`` when there is a problem or no answer."""
        return self._threads.submit(self._ask, request)

    def _ask(self, request: Request) -> Answer:
        process = self._free.get()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        finally:
            self._free.put(process)
        if not line:
            raise WorkbenchError([ErrorInfo(message="The process that worked on it has ended.")])
        answer: Answer = json.loads(line)
        if "problem" in answer:
            raise WorkbenchError([ErrorInfo(message=answer["problem"])])
        return answer


def _start(module: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


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
