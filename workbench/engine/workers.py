"""Evaluating candidates in processes of their own, one for each core that is to work.

Run as a program it is such a process: a request a line on stdin, a run or a problem a line on the
stdout it was given; what the tools print goes to stderr.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Self

from workbench.errors import ErrorInfo, WorkbenchError
from workbench.history.runs import Run

if TYPE_CHECKING:
    from workbench.pipeline.cache import Cache
    from workbench.project.model import Project


class Workers:
    """A few engine processes; a context manager that leaves none behind."""

    def __init__(self, count: int, folder: Path, cache: Cache, *, accelerate: bool) -> None:
        self._settings = {
            "folder": str(folder), "root": str(cache.root), "accelerate": accelerate,
        }  # fmt: skip
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="worker")
        self._free: SimpleQueue[subprocess.Popen[str]] = SimpleQueue()
        self._processes = [_start() for _ in range(count)]
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

    def submit(self, project: Project) -> Future[Run]:
        """Evaluate a project; the future raises ``WorkbenchError`` when that cannot be done."""
        return self._threads.submit(self._ask, project)

    def _ask(self, project: Project) -> Run:
        process = self._free.get()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            request = {**self._settings, "project": project.model_dump(mode="json")}
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        finally:
            self._free.put(process)
        if not line:
            raise WorkbenchError([ErrorInfo(message="The process that evaluated it has ended.")])
        answer = json.loads(line)
        if "problem" in answer:
            raise WorkbenchError([ErrorInfo(message=answer["problem"])])
        return Run.model_validate(answer["run"])


def _start() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "workbench.engine.workers"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def main() -> None:
    """Answer requests until stdin ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    from workbench.engine.acceleration.imports import import_toolchain, run_with_big_stack

    import_toolchain()
    import torch

    from workbench.engine.context import HotStore

    torch.set_num_threads(1)
    store = HotStore()
    for line in sys.stdin:
        answer = run_with_big_stack(_answer, json.loads(line), store)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    os._exit(0)


def _answer(request: dict[str, Any], store: Any) -> dict[str, Any]:
    from workbench.engine.candidates import evaluate
    from workbench.pipeline.cache import Cache
    from workbench.project.model import Project

    try:
        project = Project.model_validate(request["project"])
        folder, cache = Path(request["folder"]), Cache(Path(request["root"]))
        run = evaluate(project, folder, cache, store, accelerate=request["accelerate"])
    except WorkbenchError as error:
        return {"problem": error.infos[0].message}
    except (Exception, SystemExit) as error:  # noqa: BLE001 - Vela raises SystemExit
        return {"problem": f"{error} ({type(error).__name__})"}
    return {"run": run.model_dump(mode="json")}


if __name__ == "__main__":
    main()
