"""Names of processes that stay unique where several systems share a folder.

A process number is unique only within one boot of one namespace: containers that share a folder
have equal numbers for different processes.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
from contextlib import suppress
from functools import cache
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows.
    fcntl = None  # type: ignore[assignment]

# Files that this process holds, with their descriptors.
_held: dict[Path, int] = {}
_NAME = re.compile(r"(?P<pid>\d+)-(?P<place>[0-9a-f]{8})")


def own_name() -> str:
    """Return the name of this process: its number, and a digest of where that is unique."""
    return f"{os.getpid()}-{_place()}"


def has_ended(name: str) -> bool:
    """Return whether the process of a name is known to have ended; never for one elsewhere."""
    match = _NAME.fullmatch(name)
    return match is not None and match["place"] == _place() and not is_running(int(match["pid"]))


def is_running(number: int) -> bool:
    """Return whether a process of this number runs here, or may run."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def lock_file(path: Path) -> None:
    """Show other processes that this one runs: they find the file held until this one ends.

    Unlike a number, this holds in every namespace and container that shares the folder. Does
    nothing where the file cannot be made or the file system has no locks.
    """
    if fcntl is None or path in _held:
        return
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise
        _held[path] = descriptor


def unlock_file(path: Path) -> None:
    """Remove a file that this process holds."""
    if (descriptor := _held.pop(path, None)) is not None:
        with suppress(OSError):
            path.unlink()
        os.close(descriptor)


def is_locked(path: Path) -> bool | None:
    """Return whether a running process holds a file; None if there is no such file, or no locks."""
    if fcntl is None:
        return None
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return False


def remove_if_free(path: Path) -> bool:
    """Remove a file that no running process holds; return whether it was removed.

    The file is held meanwhile, so that one that another process makes instead stays.
    """
    if fcntl is None:
        return False
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(descriptor), path.stat()):
            return False
        path.unlink()
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


@cache
def _place() -> str:
    """Return a digest of the host, its boot and the namespace of process numbers."""
    parts = [socket.gethostname()]
    for read in (_boot, _namespace):
        try:
            parts.append(read())
        except OSError:
            parts.append("")
    return hashlib.sha256("\0".join(parts).encode(errors="replace")).hexdigest()[:8]


def _boot() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii", errors="replace") as file:
        return file.read(100)


def _namespace() -> str:
    return os.readlink("/proc/self/ns/pid")
