"""Limits of this process that are low enough to end a job (``ulimit``), and its memory."""

from __future__ import annotations

import sys

# Imported before the current folder is left: nothing else may be looked for in it.
if sys.platform != "win32":
    import resource

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


def _soft_limit(name: str) -> int | None:
    """Return a limit of this process (``getrlimit(2)``); None for none, and where it is not known.

    Args:
        name: As "RLIMIT_NOFILE".
    """
    if sys.platform == "win32":
        return None
    else:  # noqa: RET505 - mypy looks up names behind the return
        try:
            limit = resource.getrlimit(getattr(resource, name))[0]
        except (AttributeError, OSError, ValueError):
            return None
        return None if limit == resource.RLIM_INFINITY else limit


def low_limits() -> str:
    """Return the limits that may be too low, with the option of ``ulimit``; "" for none."""
    limits = []
    for name, needed, what, option, unit, word in _NEEDED:
        limit = _soft_limit(name)
        if limit is not None and limit < needed:
            limits.append(f"{what} {limit // unit:,}{word} (ulimit -{option})")
    return ", ".join(limits)


def remedy(otherwise: str = "") -> str:
    """Return the hint to raise the low limits; ``otherwise`` if there are none."""
    limits = low_limits()
    return f"Raise the limits of this shell: {limits}." if limits else otherwise
