"""Starts the engine: a private wire, the heavy imports, then the command loop."""

from __future__ import annotations

import io
import logging
import os
import sys
import threading
import time


def serve(commands: int, events: int) -> None:
    """Serve on two descriptors until told to leave; stdout is turned over to stderr before.

    Args:
        commands: Descriptor to read commands from.
        events: Descriptor to write events to; everything the tools print goes elsewhere.
    """
    started = time.monotonic()
    os.dup2(2, 1)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Into a pipe Python would keep back what the tools print until its buffer is full.
        sys.stdout.reconfigure(line_buffering=True)
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s", stream=sys.stderr)
    from workbench.engine.toolchain_patches.imports import import_toolchain

    import_toolchain()
    import torch
    import tqdm

    # A lock between processes is never given back by one that leaves at once, as this one does.
    tqdm.tqdm.set_lock(threading.RLock())
    # Ranges and sums depend on the number of threads in their last bits, and with them the bytes
    # of the program; small networks are faster with one thread as well.
    torch.set_num_threads(1)
    from workbench.engine.server import Server

    Server(commands, events, started).serve()
    sys.stdout.flush()
    sys.stderr.flush()
    # Native threads of the compiler may still be alive; they would abort an ordinary exit.
    os._exit(0)


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]))
