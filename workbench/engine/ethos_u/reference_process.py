"""The TOSA reference model in a process of its own, beside what the engine computes.

The reference model takes one sample at a time on one core, and ends its process on some invalid
values (a division by zero, for example). Run as a program, it is that process: a request has the
TOSA flatbuffer as its first array and the inputs as the others, an answer the outputs and the
status. Source: tosa-tools 2026.5.0, module ``tosa_reference_model``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from workbench import interpreter
from workbench.errors import Place, WorkbenchError, failure
from workbench.npu.operator_process import receive, send
from workbench.process_guard import ProcessGuard

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    from torch.export import ExportedProgram

Array = npt.NDArray[Any]
VALID = "TOSA_VALID"


class ReferenceProcess:
    """Computes TOSA programs, one after the other; the context manager ends the process.

    Args:
        edge: The edge program with the delegates that are computed, for what a rejection names.
    """

    def __init__(self, edge: ExportedProgram) -> None:
        self._edge = edge
        self._process = subprocess.Popen(
            interpreter.command(__name__),
            env=interpreter.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._guard = ProcessGuard(self._process.pid)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="reference")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.kill()
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._process.communicate()
        self._guard.release()

    def submit(self, flatbuffer: bytes, inputs: Sequence[Array]) -> Future[list[Array]]:
        """Compute a program for one sample.

        Returns:
            Its outputs. It raises ``WorkbenchError`` if the reference model rejects the program
            for these inputs, or its process ends.
        """
        return self._thread.submit(self._ask, flatbuffer, inputs)

    def _ask(self, flatbuffer: bytes, inputs: Sequence[Array]) -> list[Array]:
        process = self._process
        assert process.stdin is not None, "started with a pipe"
        assert process.stdout is not None, "started with a pipe"
        try:
            send(process.stdin, {}, [np.frombuffer(flatbuffer, np.uint8), *inputs])
            answer = receive(process.stdout)
        except (OSError, ValueError):
            answer = None
        status = answer[0]["status"] if answer is not None else "its process ended"
        if answer is None or status != VALID:
            raise _rejected(status, self._edge)
        return answer[1]


def _rejected(status: str, edge: ExportedProgram) -> WorkbenchError:
    """Return the error for a program that the reference model rejects."""
    where = Place(kind="stage", id="verify")
    if status == "TOSA_UNPREDICTABLE" and (writes := _writes(edge)):
        rules = (f"workbench rules PROJECT add --kind node-target --match {w} --config cpu" for w in writes)
        return failure(
            "The program writes a place twice, and which value remains is not certain on the NPU.",
            f"Keep the write on the CPU: {'; '.join(rules)}",
            where,
            code="place-written-twice",
        )
    return failure(
        f"The reference model rejected a delegate ({status}).",
        "The TOSA program is invalid. Please report it with the model.",
        where,
        code="reference-model-rejected",
    )


def _writes(edge: ExportedProgram) -> list[str]:
    """Return the operators of the float program that its delegates write to places with.

    Source: ExecuTorch 1.5.1 makes a SCATTER of ``index_put`` alone.
    """
    from workbench.engine.ethos_u.corrections.decomposition_tracking import root_of
    from workbench.engine.fx import programs

    inner = (delegate.original_module.graph for delegate in programs.delegates(edge).values())
    written = (node for graph in inner for node in graph.nodes if "index_put" in str(node.target))
    return sorted({str((root_of(node) or node).target) for node in written})


def _serve() -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    import tosa_reference_model

    while (request := receive(sys.stdin.buffer)) is not None:
        flatbuffer, *inputs = request[1]
        try:
            outputs, status = tosa_reference_model.run(
                flatbuffer.tobytes(),
                [values.copy() for values in inputs],
                verbosity="NONE",
                initialize_variable_tensor_from_numpy=True,
            )
            send(answers, {"status": status.name}, [np.asarray(values) for values in outputs])
        except ValueError as error:
            send(answers, {"status": str(error)[:200]}, [])


if __name__ == "__main__":
    _serve()
