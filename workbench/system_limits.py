"""Limits of this process that are low enough to end a job (``ulimit``), and its memory."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

try:
    import resource
except ImportError:  # Windows has no such limits.
    resource = None  # type: ignore[assignment]

# A process that has grown by more than this since its first job is renewed [bytes].
GROWTH_LIMIT = 200_000_000
_MIB = 1 << 20
# Below these, importing the toolchain or writing its results may fail: memory [bytes], size of a
# file [bytes], open files, processes.
_NEEDED = (
    ("RLIMIT_AS", 8 << 30, "memory", "v", _MIB, " MiB"),
    ("RLIMIT_DATA", 8 << 30, "memory for data", "d", _MIB, " MiB"),
    ("RLIMIT_FSIZE", 1 << 30, "the size of a file", "f", 1 << 10, " KiB"),
    ("RLIMIT_NOFILE", 256, "open files", "n", 1, ""),
    ("RLIMIT_NPROC", 64, "processes", "u", 1, ""),
)


def low_limits() -> str:
    """Return the limits that may be too low, with the option of ``ulimit``; "" for none."""
    if resource is None:
        return ""
    limits = []
    for name, needed, what, option, unit, word in _NEEDED:
        with suppress(AttributeError, OSError, ValueError):
            limit = resource.getrlimit(getattr(resource, name))[0]
            if limit != resource.RLIM_INFINITY and limit < needed:
                limits.append(f"{what} {limit // unit:,}{word} (ulimit -{option})")
    return ", ".join(limits)


def remedy(otherwise: str = "") -> str:
    """Return the hint to raise the low limits; ``otherwise`` if there are none."""
    limits = low_limits()
    return f"Raise the limits of this shell: {limits}." if limits else otherwise


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process [bytes]; 0 where the system does not say it."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
