"""The answer of a tool to a short question, such as its version: bounded in time and size."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from workbench.process_guard import guarded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MOST_BYTES, _CHUNK = 64 << 10, 4096


@dataclass(frozen=True)
class ToolOutput:
    """What a tool printed; ``code`` is None if it was ended before it had ended by itself."""

    text: str = ""
    code: int | None = None


def tool_output(
    command: Sequence[str], timeout_s: float, environment: Mapping[str, str] | None = None
) -> ToolOutput:
    """Start a tool without input; return what it prints, at most 64 KiB.

    A tool that prints more or takes longer is killed, with all processes that it started.

    Raises:
        OSError: it cannot be started.
    """
    deadline = time.monotonic() + timeout_s
    with (
        subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
        guarded(process.pid),
    ):
        assert process.stdout is not None
        try:
            text, is_whole = _read(process.stdout, deadline)
            code = process.wait(max(0.0, deadline - time.monotonic())) if is_whole else None
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _kill(process)
    return ToolOutput(text.decode(errors="replace"), code)


def _read(pipe: IO[bytes], deadline: float) -> tuple[bytes, bool]:
    """Return the output, and whether it is all of it."""
    if os.name != "posix":
        return pipe.read(_MOST_BYTES), True
    data = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while len(data) < _MOST_BYTES and (left := deadline - time.monotonic()) > 0:
            if not selector.select(left):
                break
            chunk = os.read(pipe.fileno(), _CHUNK)
            if not chunk:
                return bytes(data), True
            data += chunk
    return bytes(data), False


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        elif process.poll() is None:
            process.kill()
