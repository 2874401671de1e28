"""The processes that a test has started, by what the system says of them (Linux)."""

import os
from pathlib import Path


def children():
    """Return the children of this process by number, and the state of each."""
    states = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, rest = status.read_text().split(" (", 1)
        except OSError:
            continue
        state, parent = rest.rpartition(") ")[2].split()[:2]
        if int(parent) == os.getpid():
            states[int(pid)] = state
    return states
