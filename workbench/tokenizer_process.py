"""Tokenizer files, read by a process of their own.

A ``tokenizer.json`` holds normalizers, patterns and padding, which may cost any time and memory; the
package tokenizers ends a process that gets no memory, and panics on files that do not fit together.
Messages have the form of ``workbench.npu.operator_process``. The first one holds the file; each
further one holds a text, and is answered with its ids, or ids, and is answered with their text.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench import interpreter
from workbench.errors import Place, failure
from workbench.files import read_limited
from workbench.npu.operator_process import receive, send
from workbench.operating_system import limit_resources
from workbench.process_guard import ProcessGuard

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy.typing as npt

# The tokenizer of Gemma 3, among the largest of published models, has 33 MB.
MAX_BYTES = 64 << 20
# Memory of the process [bytes], and time of the processor for a message [s]; both grow with the text.
# Measured with tokenizers 0.23: 390 MB and 1.2 s for a file of 256,000 tokens and 28 MB, then 300 bytes
# and 2 us for each token of one character.
_MEMORY_BYTES, _MEMORY_PER_BYTE = 768 << 20, 600
_TIME_S, _TIME_PER_BYTE_S = 10.0, 10e-6


class FileTokenizer:
    """The tokenizer in a file. Its process starts with the first use, and ends with ``close``.

    Args:
        path: A ``tokenizer.json``.
        option: The option that names it, for messages.
    """

    def __init__(self, path: Path, option: str) -> None:
        self._path, self._option = path, option
        self._process: subprocess.Popen[bytes] | None = None
        self._end: weakref.finalize[Any, Any] | None = None

    def ids(self, text: str) -> npt.NDArray[np.int64]:
        """Return the tokens of a text.

        Raises:
            WorkbenchError: The file is no tokenizer, or its use takes too much time or memory.
        """
        return self._answer(text.encode(errors="replace"), "text")

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of tokens.

        Raises:
            WorkbenchError: As for ``ids``.
        """
        return self._answer(np.asarray(ids, np.int64), "ids").tobytes().decode(errors="replace")

    def close(self) -> None:
        """End the process."""
        if self._end is not None:
            self._end()
        self._process = self._end = None

    def _answer(self, content: bytes | npt.NDArray[Any], kind: str) -> npt.NDArray[Any]:
        process = self._process or self._started()
        data = np.frombuffer(content, np.uint8) if isinstance(content, bytes) else content
        answer = _exchange(process, {"kind": kind}, data)
        if answer is None:
            self.close()
            raise failure(
                f"{self._path.name} takes too much time or memory to be used.",
                "Use the tokenizer.json that belongs to the model, and a shorter text.",
                Place(kind="option", id=self._option),
                code="tokenizer-too-costly",
            )
        document, arrays = answer
        if "problem" in document:
            self.close()
            raise self._unreadable(document["problem"])
        return arrays[0]

    def _started(self) -> subprocess.Popen[bytes]:
        try:
            content = read_limited(self._path, MAX_BYTES)
        except OSError as error:
            raise self._unreadable(error.strerror or str(error)) from error
        process = subprocess.Popen(
            interpreter.command(__name__),
            env=interpreter.environment() | {"RUST_BACKTRACE": "0", "TOKENIZERS_PARALLELISM": "false"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._process = process
        self._end = weakref.finalize(self, _end, process, ProcessGuard(process.pid))
        answer = _exchange(process, {"kind": "file"}, np.frombuffer(content, np.uint8))
        problem = "it takes too much time or memory" if answer is None else answer[0].get("problem")
        if problem is not None:
            self.close()
            raise self._unreadable(problem)
        return process

    def _unreadable(self, reason: str) -> Exception:
        return failure(
            f"{self._path.name} is not a tokenizer file that the package tokenizers can read.",
            "Use the tokenizer.json that belongs to the model.",
            Place(kind="option", id=self._option),
            details=reason,
            code="tokenizer-unreadable",
        )


def _exchange(
    process: subprocess.Popen[bytes], document: dict[str, Any], array: npt.NDArray[Any]
) -> tuple[dict[str, Any], list[npt.NDArray[Any]]] | None:
    """Return the answer to a message; None if the process ended."""
    assert process.stdin is not None, "started with a pipe"
    assert process.stdout is not None, "started with a pipe"
    try:
        send(process.stdin, document, [array])
        return receive(process.stdout)
    except (OSError, ValueError):
        return None


def _end(process: subprocess.Popen[bytes], guard: ProcessGuard) -> None:
    process.kill()
    with contextlib.suppress(OSError, ValueError):
        process.communicate()
    guard.release()


def main() -> None:
    """Answer messages until there are no more."""
    # The package prints to no stream that messages are on.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    tokenizer: Any = None
    while (message := receive(sys.stdin.buffer)) is not None:
        document, (array,) = message
        size = 0 if document["kind"] == "file" else array.nbytes
        limit_resources(_MEMORY_BYTES + _MEMORY_PER_BYTE * size, _TIME_S + _TIME_PER_BYTE_S * size)
        try:
            if document["kind"] == "file":
                tokenizer, answer = _loaded(array.tobytes()), np.empty(0, np.int64)
            elif document["kind"] == "text":
                # Without the places of tokens in the text, which take as much memory again.
                (encoding,) = tokenizer.encode_batch_fast([array.tobytes().decode()])
                answer = np.asarray(encoding.ids, np.int64)
            else:
                answer = np.frombuffer(tokenizer.decode(array.tolist()).encode(), np.uint8)
        except KeyboardInterrupt:
            return
        except BaseException as error:  # noqa: BLE001 - a panic of the package is no Exception
            send(answers, {"problem": str(error) or type(error).__name__}, [])
            continue
        send(answers, {}, [answer])


def _loaded(content: bytes) -> Any:
    # Slow import, needed for files only.
    from tokenizers import Tokenizer

    return Tokenizer.from_buffer(content)


if __name__ == "__main__":
    main()
