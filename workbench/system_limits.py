"""Limits of this process that are low enough to end a job (``ulimit``), and its memory."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

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


# What control groups are called, the folder of their tree, and their files with limit and use: cgroup
# v1 and v2.
_CGROUPS = {
    "memory": ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    "": ("", "memory.max", "memory.current", "inactive_file"),
}


def free_memory(root: Path = Path("/")) -> int | None:
    """Return the memory that this process may still take [bytes]; None where it is not known.

    The least of what Linux calls available, with free swap (``proc(5)``, ``/proc/meminfo``), and of
    what each control group around this process leaves (``cgroups(7)``), whose file cache counts as
    free.

    Args:
        root: The folder with ``proc`` and ``sys``.
    """
    rooms = list(_group_rooms(root))
    with suppress(OSError, ValueError, KeyError):
        lines = (root / "proc/meminfo").read_text(encoding="ascii").splitlines()
        known = dict(line.split(":", 1) for line in lines)
        rooms.append(sum(int(known[name].split()[0]) << 10 for name in ("MemAvailable", "SwapFree")))
    return max(0, min(rooms)) if rooms else None


def _group_rooms(root: Path) -> Iterator[int]:
    """Yield what each control group around this process leaves [bytes]."""
    lines: list[str] = []
    with suppress(OSError, UnicodeError):
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        for controller in _CGROUPS.keys() & set(controllers.split(",")):
            folder, limit, use, cached = _CGROUPS[controller]
            tree = root / "sys/fs/cgroup" / folder
            group = tree / path.strip("/")
            for one in (group, *group.parents[: len(group.relative_to(tree).parts)]):
                with suppress(OSError, ValueError, KeyError):
                    yield _number(one / limit) - _number(one / use) + _statistic(one, cached)


def _statistic(group: Path, name: str) -> int:
    words = (group / "memory.stat").read_text(encoding="ascii").split()
    return int(dict(zip(words[::2], words[1::2], strict=True))[name])


def _number(file: Path) -> int:
    return int(file.read_text(encoding="ascii"))
