"""Cost estimates of compiled programs in worker processes, or on a cluster.

Run as a program, it is such a worker process.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from workbench.engine.cluster import Answer, Cluster
from workbench.engine.worker_processes import WorkerProcesses, serve

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future


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


class Estimators(Protocol):
    """The interface of estimators."""

    def submit(self, point: Point) -> Future[Answer]:
        """Request an estimate; the answer contains "totals"."""
        ...


def _estimate(asked: dict[str, Any]) -> Answer:
    programs = [p if isinstance(p, bytes) else Path(p).read_bytes() for p in asked["programs"]]
    module, function = asked["entry"].split(":")
    estimator = getattr(importlib.import_module(module), function)
    totals = estimator(programs, asked["device"], asked["options"], asked["files"])
    return {"totals": totals.model_dump()}


def _asked(point: Point, programs: list[Any]) -> dict[str, Any]:
    return {
        "entry": point.entry,
        "programs": programs,
        "device": point.device,
        "options": dict(point.options),
        "files": {name: path.read_text(encoding="utf-8") for name, path in point.files.items()},
    }


@contextmanager
def estimators(count: int, scheduler: str = "") -> Iterator[Estimators]:
    """Yield local processes, or the workers of a Dask cluster.

    Args:
        count: Number of local processes; ignored for a cluster.
        scheduler: Address of a Dask scheduler, such as ``tcp://host:8786``; empty for none.

    Raises:
        WorkbenchError: the scheduler is unreachable, or Dask is not installed.
    """
    if not scheduler:
        with WorkerProcesses(__name__, count) as workers:
            yield _Local(workers)
        return
    cluster = Cluster(scheduler)
    try:
        yield _Remote(cluster)
    finally:
        cluster.close()


class _Local:
    """Local processes, which read the programs from files."""

    def __init__(self, workers: WorkerProcesses) -> None:
        self._workers = workers

    def submit(self, point: Point) -> Future[Answer]:
        return self._workers.submit(_asked(point, [str(path) for path in point.programs]))


class _Remote:
    """Cluster workers, which receive the bytes of each program once."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._sent: dict[Path, Any] = {}

    def submit(self, point: Point) -> Future[Answer]:
        programs = [self._program(path) for path in point.programs]
        return self._cluster.submit(_estimate, _asked(point, programs))

    def _program(self, path: Path) -> Any:
        if path not in self._sent:
            self._sent[path] = self._cluster.scatter(path.read_bytes())
        return self._sent[path]


if __name__ == "__main__":
    serve(lambda: _estimate)
