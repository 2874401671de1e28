"""Make a process ready to be forked into engines; importing this module does the work.

A forkserver imports it once (``set_forkserver_preload(["workbench.engine.preload"])``), and every
engine forked from there has the toolchain at once. A process in which OpenMP has run on more than
one thread hangs when it is forked, so this one stays on a single thread; an engine chooses its own
number of threads after the fork.
"""

from __future__ import annotations

import gc
import logging
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from workbench.engine.toolchain_patches.imports import import_toolchain

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what the imports print from the user's terminal; engines have a log of their own."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def preload() -> None:
    """Import the toolchain on one thread and take all it brought out of the collector's sight."""
    with _quiet():
        import torch

        torch.set_num_threads(1)
        import_toolchain()
    gc.collect()
    gc.freeze()


try:
    preload()
except Exception as error:  # noqa: BLE001 - a forkserver dies of it; the engine itself reports it
    logging.getLogger(__name__).warning("The toolchain could not be preloaded: %s", error)
