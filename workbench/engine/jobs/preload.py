"""Preparation of a process from which engines are forked; importing this module runs it.

A forkserver imports it once (``set_forkserver_preload(["workbench.engine.jobs.preload"])``), so that
forked engines start with the toolchain imported. A process in which OpenMP has run on several
threads hangs when forked, so this one uses a single thread; an engine sets its own number of
threads after the fork.
"""

from __future__ import annotations

import gc
import importlib
import logging
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from workbench.engine.runtime.imports import import_toolchain

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def _quiet() -> Iterator[None]:
    """Discard the imports' output to the terminal; engines have their own log."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def preload() -> None:
    """Import the toolchain and its use on one thread; exclude both from garbage collection."""
    with _quiet():
        import torch

        torch.set_num_threads(1)
        import_toolchain()
        # What prepares and lowers for most projects, with Vela: else each engine imports it.
        importlib.import_module("workbench.engine.ethos_u.toolchain")
    gc.collect()
    gc.freeze()


try:
    preload()
except Exception as error:  # noqa: BLE001 - a forkserver dies of it; the engine itself reports it
    logging.getLogger(__name__).warning("The toolchain could not be preloaded: %s", error)
