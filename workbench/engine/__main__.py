"""Starts the engine: opens its pipes, runs the heavy imports, then the command loop."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
import tempfile
import threading
import time
import warnings

# The modules whose notes to their own developers are left out of the log.
_LIBRARIES = (
    "torch",
    "torchao",
    "executorch",
    "ethosu",
    "onnx",
    "onnxscript",
    "transformers",
    "numpy",
    "tosa",
)


def leave_out_library_warnings() -> None:
    """Leave out what libraries warn their own callers of, once for each operator.

    The user cannot act on it. Where a library is called through a module of Python, such as ``copyreg``,
    the warning is said to be of that one.
    """
    named = "|".join((*_LIBRARIES, *(sys.stdlib_module_names - {"__main__"})))
    for kind in (FutureWarning, DeprecationWarning):
        warnings.filterwarnings("ignore", category=kind, module=rf"({named})(\.|$)")


def serve(commands: int, events: int) -> None:
    """Serve on two descriptors until shut down; stdout is redirected to stderr first.

    Args:
        commands: Descriptor to read commands from.
        events: Descriptor to write events to; the tools' output goes to stderr.
    """
    started = time.monotonic()
    os.dup2(2, 1)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # In a pipe Python would buffer the tools' output.
        sys.stdout.reconfigure(line_buffering=True)
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s", stream=sys.stderr)
    from workbench.engine.runtime.imports import import_toolchain

    import_toolchain()
    import torch
    import tqdm

    leave_out_library_warnings()
    # An inter-process lock is never released by a process that exits immediately, as this one does.
    tqdm.tqdm.set_lock(threading.RLock())
    # Ranges and sums, and so the bytes of the program, depend on the number of threads in their
    # last bits; small networks are also faster with one thread.
    torch.set_num_threads(1)
    # The folder for temporary files is found by writing to it: before a disk is full.
    with contextlib.suppress(OSError):
        tempfile.gettempdir()
    from workbench.engine.jobs.server import Server

    Server(commands, events, started).serve()
    sys.stdout.flush()
    sys.stderr.flush()
    # Native threads of the compiler may still run; they would abort a normal exit.
    os._exit(0)


if __name__ == "__main__":
    from workbench.operating_system import received

    serve(received(sys.argv[1], os.O_RDONLY), received(sys.argv[2], os.O_WRONLY))
