"""The answer of a tool to a short question, such as its version: bounded in time and size."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.operating_system import end_group, read_until
from workbench.process_guard import guarded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MOST_BYTES = 64 << 10


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
            text, is_whole = read_until(process.stdout, _MOST_BYTES, deadline)
            code = process.wait(max(0.0, deadline - time.monotonic())) if is_whole else None
        except subprocess.TimeoutExpired:
            code = None
        finally:
            end_group(process.pid)
    return ToolOutput(text.decode(errors="replace"), code)
