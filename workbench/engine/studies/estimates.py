"""Cost estimates of compiled programs in worker processes, or on a cluster.

Run as a program, it is such a worker process.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from workbench.engine.workers.pool import Workers
from workbench.engine.workers.processes import serve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future

    from workbench.engine.workers.cluster import Answer, Request


@dataclass(frozen=True)
class Point:
    """One estimate request.

    ``entry`` is a target's ``estimator``; ``programs`` are the files of the delegates' programs;
    ``device`` is the variant's id; ``options`` are all target options; ``files`` are the files that
    options refer to, by option.
    """

    entry: str
    programs: tuple[Path, ...]
    device: str
    options: Mapping[str, Any]
    files: Mapping[str, Path]


def _estimate(asked: Request) -> Answer:
    programs = [p if isinstance(p, bytes) else Path(p).read_bytes() for p in asked["programs"]]
    module, function = asked["entry"].split(":")
    estimator = getattr(importlib.import_module(module), function)
    totals = estimator(programs, asked["device"], asked["options"], asked["files"])
    return {"totals": totals.model_dump()}


def _asked(point: Point, programs: list[Any]) -> Request:
    return {
        "entry": point.entry,
        "programs": programs,
        "device": point.device,
        "options": dict(point.options),
        "files": {name: path.read_text(encoding="utf-8") for name, path in point.files.items()},
    }


class Estimators:
    """Local processes, or the workers of a Dask cluster; the context manager ends them.

    Args:
        count: Number of local processes; ignored for a cluster.
        scheduler: Address of a Dask scheduler; empty for none.

    Raises:
        WorkbenchError: the scheduler is unreachable, or Dask is not installed.
    """

    def __init__(self, count: int, scheduler: str = "") -> None:
        self._workers = Workers(__name__, count, scheduler)

    def __enter__(self) -> Self:
        self._workers.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._workers.__exit__(*error)

    def submit(self, point: Point) -> Future[Answer]:
        """Request an estimate; the answer contains "totals"."""
        programs = [self._workers.file(path) for path in point.programs]
        return self._workers.submit(_asked(point, programs))


def prepare() -> Callable[[Request], Answer]:
    """Return what estimates a point; estimators import what they need."""
    return _estimate


if __name__ == "__main__":
    serve(prepare)
