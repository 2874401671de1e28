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

from workbench.operating_system import IS_WINDOWS, SAFE_FLAGS, is_running, lock

# Files that this process holds, with their descriptors.
_held: dict[Path, int] = {}
_NAME = re.compile(r"(?P<pid>\d+)-(?P<place>[0-9a-f]{8})")


def own_name() -> str:
    """Return the name of this process: its number, and a digest of where that is unique."""
    return f"{os.getpid()}-{_host_digest()}"


def has_ended(name: str) -> bool:
    """Return whether the process of a name is known to have ended; never for one elsewhere."""
    match = _NAME.fullmatch(name)
    return match is not None and match["place"] == _host_digest() and not is_running(int(match["pid"]))


def lock_file(path: Path) -> None:
    """Show other processes that this one runs: they find the file held until this one ends.

    Unlike a number, this holds in every namespace and container that shares the folder. Does
    nothing where the file cannot be made or the file system has no locks.
    """
    if path in _held:
        return
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | SAFE_FLAGS, 0o600)
        try:
            lock(descriptor)
        except OSError:
            os.close(descriptor)
            raise
        _held[path] = descriptor


def unlock_file(path: Path) -> None:
    """Remove a file that this process holds."""
    if (descriptor := _held.pop(path, None)) is not None:
        # Windows does not remove a file that is open.
        if IS_WINDOWS:
            os.close(descriptor)
        with suppress(OSError):
            path.unlink()
        if not IS_WINDOWS:
            os.close(descriptor)


def is_locked(path: Path) -> bool | None:
    """Return whether a running process holds a file; None if there is no such file, or no locks."""
    try:
        descriptor = os.open(path, os.O_RDWR | SAFE_FLAGS)
    except OSError:
        return None
    try:
        lock(descriptor)
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
    try:
        descriptor = os.open(path, os.O_RDWR | SAFE_FLAGS)
    except OSError:
        return False
    try:
        lock(descriptor)
        if not os.path.samestat(os.fstat(descriptor), path.stat()):
            return False
        path.unlink()
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


@cache
def _host_digest() -> str:
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
