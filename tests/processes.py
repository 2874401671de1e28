"""What runs on this machine, as /proc tells it."""

from __future__ import annotations

import contextlib
from pathlib import Path


def command_lines():
    """Yield the command line of every process."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield path.read_bytes().decode(errors="replace")
