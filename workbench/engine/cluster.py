"""A Dask cluster that somebody else runs, by the address of its scheduler."""

from __future__ import annotations

from typing import Any

from workbench.errors import Place, failure

PLACE = Place(kind="option", id="scheduler")


def connected(scheduler: str) -> Any:
    """Return a client of a Dask scheduler, such as ``tcp://host:8786``; a context manager.

    Raises:
        WorkbenchError: there is no such scheduler, or the package for it is not installed.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise failure(
            "Working on a cluster needs dask.distributed.",
            "pip install 'quantization-workbench[cluster]'", PLACE,
        ) from error  # fmt: skip
    try:
        return Client(scheduler, timeout="10s", set_as_default=False)
    except (OSError, ValueError) as error:
        raise failure(
            f"There is no Dask scheduler at {scheduler}.",
            "Start one with `dask scheduler`, and workers with the workbench installed.",
            PLACE, str(error),
        ) from error  # fmt: skip
