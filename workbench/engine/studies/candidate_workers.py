"""Evaluation of candidates in worker processes, one per core, or on a cluster.

Run as a program, it is such a worker process.
"""

from __future__ import annotations

import json
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import ValidationError

from workbench.engine.user_code import code_import
from workbench.engine.workers.cluster import Answer, Request, printable, wrong_answer
from workbench.engine.workers.pool import Workers
from workbench.engine.workers.processes import serve
from workbench.errors import WorkbenchError, failure
from workbench.history.runs import Run

if TYPE_CHECKING:
    from collections.abc import Callable

    from workbench.pipeline.cache import Cache
    from workbench.project.model import Project


class CandidateWorkers:
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
        self._workers = Workers(__name__, count, scheduler, (str(folder), str(cache.root)))
        self.count = self._workers.count

    def __enter__(self) -> Self:
        self._workers.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._workers.__exit__(*error)

    def submit(self, project: Project) -> Future[Run]:
        """Evaluate a project; the future raises ``WorkbenchError`` on failure."""
        asked = self._workers.submit({**self._settings, "project": project.model_dump(mode="json")})
        return _mapped(asked, project)


def _mapped(first: Future[Answer], project: Project) -> Future[Run]:
    second: Future[Run] = Future()

    def take(done: Future[Answer]) -> None:
        try:
            second.set_result(run_of_answer(done.result(), project))
        except WorkbenchError as error:
            second.set_exception(error)
        except (Exception, CancelledError) as error:  # noqa: BLE001 - whatever a cluster raises
            text = "A worker process ended unexpectedly."
            details = printable(repr(error))
            second.set_exception(failure(text, details=details, code="worker-ended"))

    first.add_done_callback(take)
    return second


def run_of_answer(answer: Answer, project: Project) -> Run:
    """Return the run of an answer.

    Raises:
        WorkbenchError: it is no run, or that of another project.
    """
    try:
        run = Run.model_validate_json(json.dumps(answer.get("run")))
    except (ValidationError, ValueError) as error:
        raise wrong_answer(str(error)) from error
    of_run = (run.rules, run.target, run.presets, run.ranges, run.improvers, run.improving, run.compressions)
    if of_run != (
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


def prepare() -> Callable[[Request], Answer]:
    """Import the toolchain; return what evaluates a candidate."""
    from workbench.engine.runtime.imports import import_toolchain
    from workbench.engine.runtime.interpreter import run_with_big_stack

    import_toolchain()
    import torch

    from workbench.engine.runtime.context import LiveObjectCache

    torch.set_num_threads(1)
    store = LiveObjectCache()
    return lambda request: run_with_big_stack(_answer, store, request)


def _answer(store: Any, request: dict[str, Any]) -> dict[str, Any]:
    from workbench.engine.studies.candidates import Environment, evaluate
    from workbench.pipeline.cache import Cache
    from workbench.project.model import Project
    from workbench.project.opened import OpenProject

    project = Project.model_validate(request["project"])
    folder = Path(request["folder"])
    if (allowed := request["allowed"]) is not None:
        base = OpenProject(Project.model_validate(allowed["project"]), folder)
        code_import.install_allowed(base, allowed["digest"])
    cache = Cache(Path(request["root"]))
    environment = Environment(folder, cache, store, request["accelerate"])
    run = evaluate(project, environment)
    return {"run": run.model_dump(mode="json")}


if __name__ == "__main__":
    serve(prepare)
