"""Evaluating candidates in processes of their own, one for each core that is to work.

Run as a program it is such a process.
"""

from __future__ import annotations

import functools
import threading
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from workbench.engine.cluster import PLACE, connected
from workbench.engine.crew import Answer, Crew, Request, answered, serve
from workbench.errors import WorkbenchError, failure
from workbench.history.runs import Run
from workbench.pipeline.plan import tool_versions

if TYPE_CHECKING:
    from collections.abc import Callable

    from workbench.pipeline.cache import Cache
    from workbench.project.model import Project


class Workers:
    """A few engine processes here, or a cluster's; a context manager that leaves none behind.

    Args:
        count: How many processes; of no matter on a cluster.
        folder: Where the project's relative paths start.
        cache: Where results go.
        accelerate: Whether the toolchain may be sped up.
        scheduler: The address of a Dask scheduler, empty for none. Its workers must see folder
            and cache under the same paths, and have the same tools.

    Raises:
        WorkbenchError: no such scheduler, no workers, or one that cannot do the work.
    """

    def __init__(
        self, count: int, folder: Path, cache: Cache, *, accelerate: bool, scheduler: str = ""
    ) -> None:  # fmt: skip
        self._settings = {
            "folder": str(folder), "root": str(cache.root), "accelerate": accelerate,
        }  # fmt: skip
        self._crew: Crew | _Cluster
        if scheduler:
            self._crew = _Cluster(scheduler, (str(folder), str(cache.root)))
            self.count = self._crew.count
        else:
            self._crew, self.count = Crew(__name__, count), count

    def __enter__(self) -> Self:
        self._crew.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._crew.__exit__(*error)

    def submit(self, project: Project) -> Future[Run]:
        """Evaluate a project; the future raises ``WorkbenchError`` when that cannot be done."""
        asked = self._crew.submit({**self._settings, "project": project.model_dump(mode="json")})
        return _mapped(asked)


class _Cluster:
    """The workers of a Dask cluster, one candidate in each at a time."""

    def __init__(self, scheduler: str, folders: tuple[str, str]) -> None:
        self._client = connected(scheduler)
        try:
            self.count = self._checked(folders)
        except BaseException:
            self._client.close()
            raise
        self._executor = self._client.get_executor(pure=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._executor.shutdown(wait=False)
        self._client.close()

    def submit(self, request: Request) -> Future[Answer]:
        """Ask a worker."""
        future: Future[Answer] = self._executor.submit(_answered_there, request)
        return future

    def _checked(self, folders: tuple[str, str]) -> int:
        """Return how many workers there are, all of which can do the work."""
        try:
            found = self._client.run(_standing, folders)
        except Exception as error:  # what a worker lacks is raised as it is
            raise failure(
                "A worker of the Dask cluster cannot load the workbench.",
                "Install the same version of it there.", PLACE, repr(error),
            ) from error  # fmt: skip
        if not found:
            raise failure(
                "The Dask cluster has no workers.",
                "Start some with `dask worker`, where the workbench is installed.", PLACE,
            )  # fmt: skip
        here = tool_versions()
        for worker, (unseen, tools) in found.items():
            if unseen:
                raise failure(
                    f"The worker {worker} does not see {unseen}.",
                    "Candidates read the project and write results: share both folders.", PLACE,
                )  # fmt: skip
            other = [f"{n} {v}" for n, v in sorted(tools.items()) if here.get(n) != v]
            if other:
                raise failure(
                    f"The worker {worker} has other tools than this machine: {', '.join(other)}.",
                    "Figures of different versions cannot be compared.", PLACE,
                )  # fmt: skip
        return len(found)


def _standing(folders: tuple[str, str]) -> tuple[str, dict[str, str]]:
    """Return what a worker does not see, and its tools."""
    unseen = next((each for each in folders if not Path(each).is_dir()), "")
    return unseen, dict(tool_versions())


_there = threading.Lock()


@functools.cache
def _prepared_there() -> Callable[[Request], Answer]:
    return _prepare()


def _answered_there(request: Request) -> Answer:
    """Answer in a worker of a cluster, whose threads take turns: the toolchain knows one."""
    with _there:
        return answered(_prepared_there(), request)


def _mapped(first: Future[Answer]) -> Future[Run]:
    second: Future[Run] = Future()

    def take(done: Future[Answer]) -> None:
        try:
            answer = done.result()
            if "problem" in answer:
                raise failure(answer["problem"])
            second.set_result(Run.model_validate(answer["run"]))
        except WorkbenchError as error:
            second.set_exception(error)
        except (Exception, CancelledError) as error:  # noqa: BLE001 - whatever a cluster raises
            text = "The process that worked on it has ended."
            second.set_exception(failure(text, details=repr(error)))

    first.add_done_callback(take)
    return second


def _prepare() -> Callable[[dict[str, Any]], dict[str, Any]]:
    from workbench.engine.acceleration.imports import import_toolchain, run_with_big_stack

    import_toolchain()
    import torch

    from workbench.engine.context import HotStore

    torch.set_num_threads(1)
    store = HotStore()
    return lambda request: run_with_big_stack(_answer, store, request)


def _answer(store: Any, request: dict[str, Any]) -> dict[str, Any]:
    from workbench.engine.candidates import Means, evaluate
    from workbench.pipeline.cache import Cache
    from workbench.project.model import Project

    project = Project.model_validate(request["project"])
    cache = Cache(Path(request["root"]))
    means = Means(Path(request["folder"]), cache, store, request["accelerate"])
    run = evaluate(project, means)
    return {"run": run.model_dump(mode="json")}


if __name__ == "__main__":
    serve(_prepare)
