"""One program on several processes of this machine, or on the workers of a Dask cluster.

The program is a module whose function ``prepare`` runs its imports and returns what answers
requests. Run as a program, it calls ``serve(prepare)``.
"""

from __future__ import annotations

import functools
import importlib
import threading
from typing import TYPE_CHECKING, Any, Self

from workbench.engine.workers.cluster import Cluster
from workbench.engine.workers.processes import WorkerProcesses
from workbench.toolchains.versions import named, own_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future
    from pathlib import Path

    from workbench.engine.workers.cluster import Answer, Request


class Workers:
    """The workers of one program; the context manager ends them.

    Args:
        module: The program.
        count: Number of local processes; ignored for a cluster.
        scheduler: Address of a Dask scheduler, such as ``tcp://host:8786``; empty for none.
        shared: Folders that a cluster's workers must access under the same paths. They must have
            the same package versions.

    Raises:
        WorkbenchError: no scheduler, no workers, or an unusable worker.
    """

    def __init__(self, module: str, count: int, scheduler: str = "", shared: tuple[str, ...] = ()) -> None:
        self._workers: WorkerProcesses | _ClusterWorkers
        self.count = count
        if not scheduler:
            self._workers = WorkerProcesses(module, count)
            return
        self._workers = _ClusterWorkers(module, scheduler)
        self.count = self._workers.checked(shared)

    def __enter__(self) -> Self:
        self._workers.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._workers.__exit__(*error)

    def submit(self, request: Request) -> Future[Answer]:
        """Send a request; the future raises ``WorkbenchError`` on failure."""
        return self._workers.submit(request)

    def file(self, path: Path) -> Any:
        """Return what stands for a file in requests: its path, or its bytes for a cluster."""
        return str(path) if isinstance(self._workers, WorkerProcesses) else self._workers.sent(path)


class _ClusterWorkers:
    """The workers of a Dask cluster, which receive the bytes of each file once."""

    def __init__(self, module: str, scheduler: str) -> None:
        self._module = module
        self._cluster = Cluster(scheduler)
        self._files: dict[Path, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._cluster.close()

    def checked(self, folders: tuple[str, ...]) -> int:
        """Return the number of workers; see ``Cluster.checked``."""
        try:
            return self._cluster.checked(folders)
        except BaseException:
            self._cluster.close()
            raise

    def submit(self, request: Request) -> Future[Answer]:
        return self._cluster.submit(functools.partial(_answer_there, self._module, own_name()), request)

    def sent(self, path: Path) -> Any:
        if path not in self._files:
            self._files[path] = self._cluster.scatter(path.read_bytes())
        return self._files[path]


_there = threading.Lock()


@functools.cache
def _prepared_there(module: str) -> Callable[[Request], Answer]:
    prepared: Callable[[Request], Answer] = importlib.import_module(module).prepare()
    return prepared


def _answer_there(module: str, toolchain: str, request: Request) -> Answer:
    """Answer in a cluster worker, one request at a time: the toolchain is not thread-safe.

    Its packages are those of the engine that asks, so that its toolchain has the engine's name.
    """
    with _there, named(toolchain):
        return _prepared_there(module)(request)
