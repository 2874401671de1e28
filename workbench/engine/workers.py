"""Evaluating candidates in processes of their own, one for each core that is to work.

Run as a program it is such a process.
"""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from workbench.engine.crew import Crew, serve
from workbench.history.runs import Run

if TYPE_CHECKING:
    from collections.abc import Callable

    from workbench.pipeline.cache import Cache
    from workbench.project.model import Project


class Workers:
    """A few engine processes; a context manager that leaves none behind."""

    def __init__(self, count: int, folder: Path, cache: Cache, *, accelerate: bool) -> None:
        self._settings = {
            "folder": str(folder), "root": str(cache.root), "accelerate": accelerate,
        }  # fmt: skip
        self._crew = Crew(__name__, count)

    def __enter__(self) -> Self:
        self._crew.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._crew.__exit__(*error)

    def submit(self, project: Project) -> Future[Run]:
        """Evaluate a project; the future raises ``WorkbenchError`` when that cannot be done."""
        asked = self._crew.submit({**self._settings, "project": project.model_dump(mode="json")})
        return _mapped(asked, lambda answer: Run.model_validate(answer["run"]))


def _mapped(first: Future[Any], convert: Callable[[Any], Run]) -> Future[Run]:
    second: Future[Run] = Future()

    def take(done: Future[Any]) -> None:
        if done.cancelled():
            second.cancel()
        elif (error := done.exception()) is not None:
            second.set_exception(error)
        else:
            second.set_result(convert(done.result()))

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
