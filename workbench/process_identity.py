"""Names of processes that stay unique where several systems share a folder.

A process number is unique only within one boot of one namespace: containers that share a folder
have equal numbers for different processes.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
from functools import cache

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
