"""Processes that end with this one, however it ends.

A process that is killed can end no other. A shell waits on a pipe from this process: a word means
that the guarded process has ended or need not end; the end of the file means that this process has
died, and the shell kills the process group. It needs no thread and no lock of either process.
"""

from __future__ import annotations

import contextlib
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

from workbench.operating_system import IS_WINDOWS, JobObject

if TYPE_CHECKING:
    from collections.abc import Iterator

# Names the process that a fork server is started for, and ends with.
SERVER_OF_VARIABLE = "QUANTIZATION_WORKBENCH_SERVER_OF"
_SHELL = "/bin/sh"
_WAIT = 'trap "" HUP INT TERM; read -r word || { sleep "$2"; kill -9 "-$1"; }'


class ProcessGuard:
    """Kills a process group when this process dies.

    Args:
        group: The group; its leader must have been started in a session of its own.
        grace_s: The time that the group gets to end by itself [s].
    """

    def __init__(self, group: int, grace_s: int = 0) -> None:
        self._shell: subprocess.Popen[bytes] | None = None
        self._job = JobObject(group) if IS_WINDOWS else None
        if IS_WINDOWS:
            return
        # Without a shell, only the end of its command pipe ends an engine.
        with contextlib.suppress(OSError):
            self._shell = subprocess.Popen(
                [_SHELL, "-c", _WAIT, "sh", str(group), str(grace_s)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )

    def release(self) -> None:
        """Let the group live on, or its number be used again."""
        shell, self._shell = self._shell, None
        if self._job is not None:
            self._job.release()
        if shell is not None:
            with contextlib.suppress(OSError, ValueError):
                shell.communicate(b"well\n")


@contextmanager
def guarded(group: int) -> Iterator[None]:
    """Kill a process group if this process dies within the block."""
    guard = ProcessGuard(group)
    try:
        yield
    finally:
        guard.release()
