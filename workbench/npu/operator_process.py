"""A process with torch that computes CPU operators of a program.

A message is a line of JSON behind a mark, with type and shape of its "arrays", then the bytes of each
array. What is printed before the mark, when Python starts in some environments, is left out.
A request has the operator's "name", its "arguments", where {"array": i} stands for array i, and
the type and shape of its "outputs". An answer has the outputs as arrays, or "infos".
"""

from __future__ import annotations

import json
import math
import subprocess
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from workbench import interpreter
from workbench.errors import ErrorInfo, Place, WorkbenchError, failure
from workbench.process_guard import ProcessGuard

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from workbench.npu.cpu import Output

# The record separator of ASCII, and a word.
_MARK = b"\x1eworkbench "
_MODULE = "workbench.engine.ethos_u.cpu_operators"


def send(file: IO[bytes], document: dict[str, Any], arrays: Sequence[npt.NDArray[Any]]) -> None:
    """Write one message."""
    kinds = [[array.dtype.str, list(array.shape)] for array in arrays]
    file.write(_MARK + json.dumps({**document, "arrays": kinds}).encode() + b"\n")
    for array in arrays:
        file.write(np.ascontiguousarray(array).tobytes())
    file.flush()


def receive(file: IO[bytes]) -> tuple[dict[str, Any], list[npt.NDArray[Any]]] | None:
    """Return the next message; None at the end."""
    mark = text = b""
    while not mark:
        line = file.readline()
        if not line.endswith(b"\n"):
            return None
        _, mark, text = line.partition(_MARK)
    document: dict[str, Any] = json.loads(text)
    arrays = []
    for kind, shape in document["arrays"]:
        data = file.read(np.dtype(kind).itemsize * math.prod(shape))
        arrays.append(np.frombuffer(data, kind).reshape(shape))
    return document, arrays


class CpuOperatorProcess:
    """Computes CPU operators. The process starts with the first one, and ends with ``close``."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: ProcessGuard | None = None

    def __enter__(self) -> CpuOperatorProcess:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __call__(
        self, name: str, arguments: Sequence[Any], outputs: Sequence[Output]
    ) -> list[npt.NDArray[Any]]:
        """Return the outputs of a kernel; a ``workbench.npu.cpu.CpuOperators``.

        Raises:
            WorkbenchError: it cannot be computed, or the process ended.
        """
        arrays: list[npt.NDArray[Any]] = []
        document = {
            "name": name,
            "arguments": _emptied(arguments, arrays),
            "outputs": [[output.dtype, list(output.shape)] for output in outputs],
        }
        process = self._started()
        assert process.stdin is not None, "started with a pipe"
        assert process.stdout is not None, "started with a pipe"
        try:
            send(process.stdin, document, arrays)
            answer = receive(process.stdout)
        except (OSError, ValueError):
            answer = None
        if answer is None:
            self.close()
            raise failure(
                f"The process that computes {name} ended.",
                "See its output above.",
                Place(kind="tool", id=_MODULE),
                code="engine-job-ended",
            )
        if "infos" in answer[0]:
            raise WorkbenchError(ErrorInfo.model_validate(info) for info in answer[0]["infos"])
        return answer[1]

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
        if self._guard is not None:
            self._guard.release()
            self._guard = None

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._process = subprocess.Popen(
                interpreter.command(_MODULE),
                env=interpreter.environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
            self._guard = ProcessGuard(self._process.pid)
        return self._process


def _emptied(arguments: Sequence[Any], arrays: list[npt.NDArray[Any]]) -> list[Any]:
    """Return the arguments with numbers in place of arrays; the arrays go to ``arrays``."""
    emptied: list[Any] = []
    for value in arguments:
        if isinstance(value, np.ndarray):
            emptied.append({"array": len(arrays)})
            arrays.append(value)
        elif isinstance(value, list | tuple):
            emptied.append(_emptied(value, arrays))
        else:
            emptied.append(value)
    return emptied
