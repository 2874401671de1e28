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
from threading import Event, Thread
from typing import TYPE_CHECKING

from workbench.engine.runtime.imports import import_toolchain
from workbench.process_guard import SERVER_OF_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator


# How often the parent is looked for during the imports [s].
_PERIOD_S = 0.5


@contextmanager
def _ending_with_parent() -> Iterator[None]:
    """End this process when its parent dies; leave no thread behind, because this process is forked.

    A forkserver notices the end of its parent only when it has imported everything, which takes
    more than 10 s on a busy machine. The parent may have died before this process came here.
    """
    parent, is_done = int(os.environ.pop(SERVER_OF_VARIABLE, os.getppid())), Event()

    def watch() -> None:
        while os.getppid() == parent:
            if is_done.wait(_PERIOD_S):
                return
        os._exit(1)

    thread = Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_done.set()
        thread.join()


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
    with _ending_with_parent(), _quiet():
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
