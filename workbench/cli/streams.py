"""The streams of the command line: one writer for each, which filters and handles its own faults.

Text of a project never controls the terminal, a character that the encoding lacks is escaped, and a
stream that was closed goes nowhere. A result that cannot be written ends the verb with a message; a
message that cannot be written is dropped.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from workbench.escaping import for_terminal

if TYPE_CHECKING:
    from collections.abc import Callable


class OutputError(Exception):
    """A result could not be written: the message, or "" where its reader has gone."""


class Writer(io.TextIOWrapper):
    """A stream without characters that a terminal obeys.

    Args:
        stream: The stream of the system.
        is_result: Whether a fault of writing is raised, as ``OutputError``.
    """

    def __init__(self, stream: TextIO, *, is_result: bool) -> None:
        self._is_result = is_result
        encoding, line_buffering = stream.encoding, not is_result or stream.isatty()
        super().__init__(
            stream.detach() if isinstance(stream, io.TextIOWrapper) else stream.buffer,
            encoding=encoding,
            errors="backslashreplace",
            line_buffering=line_buffering,
        )

    def write(self, text: str) -> int:
        """Write a text, filtered.

        Raises:
            OutputError: a result cannot be written.
        """
        self._do(lambda: super(Writer, self).write(for_terminal(text)))
        return len(text)

    def control(self, text: str) -> None:
        """Write a text that the terminal shall obey."""
        self._do(lambda: super(Writer, self).write(text))

    def flush(self) -> None:
        """Write what is kept.

        Raises:
            OutputError: a result cannot be written.
        """
        self._do(super().flush)

    def _do(self, write: Callable[[], object]) -> None:
        try:
            write()
        except (OSError, ValueError) as error:
            if self._is_result and not self.closed:
                reason = "" if isinstance(error, BrokenPipeError) else _reason(error)
                raise OutputError(reason) from error


def _reason(error: Exception) -> str:
    return f"The output cannot be written: {getattr(error, 'strerror', None) or error}."


def make_safe() -> None:
    """Replace the streams of this process by ``Writer``; those that were closed lead nowhere."""
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is None:
            stream = open(descriptor, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        setattr(sys, name, Writer(stream, is_result=name == "stdout"))
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115


def finish(code: int, failed: int) -> int:
    """Write what is kept of the results; return the exit code: ``failed`` if that is impossible."""
    try:
        sys.stdout.flush()
    except OutputError as error:
        print_fault(error)
        code = code or failed
    # What is left would be written again, and fail again, when Python ends.
    with suppress(OSError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.close(null)
    return code


def print_fault(error: OutputError) -> None:
    """Print why a result was not written; nothing if nobody reads it."""
    if str(error):
        print(f"error: {error}", file=sys.stderr)
