"""Estimates of compiled programs in processes of their own, or on a cluster.

Run as a program it is such a process.
"""

from __future__ import annotations

import base64
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from workbench.engine.crew import Answer, Crew, Request, answered, serve
from workbench.errors import Place, failure

if TYPE_CHECKING:
    from concurrent.futures import Future


class Estimators(Protocol):
    """Whoever estimates."""

    def submit(self, request: Request) -> Future[Answer]:
        """Ask for an estimate, as ``request`` makes it; the answer holds "totals" or "problem"."""
        ...


def request(entry: str, programs: list[Path], device: str, options: dict[str, Any]) -> Request:
    """Return the request for one estimate.

    Args:
        entry: A target's ``estimator``.
        programs: The files of the delegates' programs.
        device: The variant's id.
        options: All of the target's options.
    """
    packed = [base64.b64encode(path.read_bytes()).decode() for path in programs]
    return {"entry": entry, "programs": packed, "device": device, "options": options}


def estimate(asked: Request) -> Answer:
    """Return the totals that the target's estimator finds."""
    module, function = asked["entry"].split(":")
    programs = [base64.b64decode(program) for program in asked["programs"]]
    estimator = getattr(importlib.import_module(module), function)
    return {"totals": estimator(programs, asked["device"], asked["options"]).model_dump()}


def _on_a_worker(asked: Request) -> Answer:
    return answered(estimate, asked)


@contextmanager
def estimators(count: int, scheduler: str = "") -> Iterator[Estimators]:
    """Give local processes, or the workers of a Dask cluster.

    Args:
        count: How many processes; of no matter on a cluster.
        scheduler: The address of a Dask scheduler, such as ``tcp://host:8786``; empty for none.

    Raises:
        WorkbenchError: there is no such scheduler, or the package for it is not installed.
    """
    if not scheduler:
        with Crew(__name__, count) as crew:
            yield crew
        return
    place = Place(kind="option", id="scheduler")
    try:
        from distributed import Client
    except ImportError as error:
        raise failure(
            "Working on a cluster needs dask.distributed.",
            "pip install 'quantization-workbench[cluster]'", place,
        ) from error  # fmt: skip
    try:
        client = Client(scheduler, timeout="10s", set_as_default=False)
    except (OSError, ValueError) as error:
        raise failure(
            f"There is no Dask scheduler at {scheduler}.",
            "Start one with `dask scheduler`, and workers with the workbench installed.",
            place, str(error),
        ) from error  # fmt: skip
    with client:
        yield _Cluster(client)


class _Cluster:
    def __init__(self, client: Any) -> None:
        self._executor = client.get_executor(pure=True)

    def submit(self, asked: Request) -> Future[Answer]:
        future: Future[Answer] = self._executor.submit(_on_a_worker, asked)
        return future


if __name__ == "__main__":
    serve(lambda: estimate)
