"""The user's model, executed as its code returned it, in processes of its own.

A process is forked right after the model is loaded, before it is exported and before any patch of
the toolchain is active. For every run it forks again, so that each run finds the model as it was
loaded: no run sees what another one wrote into buffers, attributes or inputs. On systems without
``fork`` each run uses a deep copy in the engine's process.
"""

from __future__ import annotations

import copy
import io
import os
import random
import socket
import struct
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from workbench.engine.evaluation.measures import tensors_of
from workbench.engine.loading.recording import Recorded, recording
from workbench.errors import Place, failure
from workbench.operating_system import (
    IS_WINDOWS,
    close_other_descriptors,
    end_with_parent,
    ending_of,
    fork,
    kill_forked,
    ready_of,
    status_of,
)

Tensors = tuple[torch.Tensor, ...]
_SIZE = struct.Struct("<Q")
_WAIT_S = 0.1
_LARGE = 1e4
_ENDED = "its process ended unexpectedly"


@dataclass(frozen=True)
class Step:
    """One call of the model; the last ``carried`` inputs are the last outputs of the call before.

    The first call of a run takes all its inputs.
    """

    inputs: Tensors
    carried: int = 0


@dataclass(frozen=True)
class Request:
    """Calls of the model; each run starts from the model as it was loaded.

    Attributes:
        runs: The calls of each run, in order.
        seed: Seed of the random numbers of torch, numpy and Python in the first run; each further
            one has the next.
        change: Relative standard deviation of a random change of all weights and inputs.
        record: Whether to describe the result of every operator of the last call.
    """

    runs: tuple[tuple[Step, ...], ...]
    seed: int = 0
    change: float = 0.0
    record: bool = False


def example_request(inputs: Sequence[torch.Tensor]) -> Request:
    """Return a request for one sample, twice, with other random numbers."""
    step = (Step(tuple(inputs)),)
    return Request((step, step))


@dataclass(frozen=True)
class Answer:
    """The tensors that each call of each run returned, and the recorded operators.

    ``error`` is the error that the model raised instead; "" for none.
    """

    outputs: list[list[torch.Tensor]] = field(default_factory=list)
    operators: list[Recorded] = field(default_factory=list)
    error: str = ""


class EagerModel:
    """Computes what the model returns."""

    def __init__(self, call: Callable[..., Any], weights: Sequence[torch.Tensor]) -> None:
        """Take a model as it is now.

        Args:
            call: The model.
            weights: Its parameters and buffers.
        """
        self._model = _Model(call, tuple(weights))
        self._started: Request | None = None
        self._socket: socket.socket | None = None
        if not IS_WINDOWS:
            self._socket, pid = _server_of(self._model)
            weakref.finalize(self, _end, self._socket, pid)

    def start(self, request: Request) -> None:
        """Begin to compute a request whose answer will be asked for."""
        if self._socket is not None and self._started is None:
            with suppress(OSError):
                _send(self._socket, request)
            self._started = request

    def answer(self, request: Request, check_cancelled: Callable[[], None]) -> Answer:
        """Return the answer to a request, also to one that was started.

        Args:
            request: What is asked.
            check_cancelled: Called ten times a second.

        Raises:
            WorkbenchError: the model's process ended, or the model raised an error.
            Cancelled: by ``check_cancelled``.
        """
        if self._socket is None:
            runs = range(len(request.runs))
            answer = _joined([copy.deepcopy(self._model).run(request, run) for run in runs])
        else:
            if self._started is not None and self._started is not request:
                _answer(self._socket, check_cancelled)
                self._started = None
            self.start(request)
            answer = _answer(self._socket, check_cancelled)
            self._started = None
        if answer.error:
            raise failure(
                f"The model fails on a sample: {answer.error}",
                "Correct the model, or the data.",
                Place(kind="option", id="model.spec"),
                code="model-fails",
            )
        return answer


def _answer(wire: socket.socket, check_cancelled: Callable[[], None]) -> Answer:
    while not ready_of(wire, _WAIT_S)[0]:
        check_cancelled()
    received = _received(wire)
    return received if isinstance(received, Answer) else Answer(error=_ENDED)


@dataclass(frozen=True)
class _Model:
    call: Callable[..., Any]
    weights: Tensors

    def run(self, request: Request, number: int) -> Answer:
        """Return the answer for one run of a request."""
        steps = request.runs[number]
        for seed in (torch.manual_seed, np.random.seed, random.seed):
            seed(request.seed + number)
        outputs: list[list[torch.Tensor]] = []
        operators: list[Recorded] = []
        try:
            with torch.no_grad():
                for weight in self.weights if request.change else ():
                    weight.copy_(_changed(weight, request.change))
                for step in steps:
                    last = step is steps[-1]
                    inputs = [_changed(tensor, request.change) for tensor in _inputs(step, outputs)]
                    with recording(operators, when=request.record and last):
                        returned = tensors_of(self.call(*inputs))
                    outputs.append([_plain(tensor) for tensor in returned])
        except BaseException as error:  # noqa: BLE001 - whatever the user's code raises
            return Answer(error=_first_line(error))
        return Answer(outputs, operators)


def _first_line(error: BaseException) -> str:
    """Return an error as one short line; its class may be the user's, and fail to say anything."""
    text = ""
    with suppress(Exception):
        text = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {text}"[:300]


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy of the values, as a tensor of no class of the user's."""
    return tensor.detach().clone().as_subclass(torch.Tensor)


def _inputs(step: Step, outputs: Sequence[Sequence[torch.Tensor]]) -> list[torch.Tensor]:
    kept = len(step.inputs) - (step.carried if outputs else 0)
    carried = outputs[-1][-step.carried :] if outputs and step.carried else []
    return [*step.inputs[:kept], *carried]


def _changed(tensor: torch.Tensor, change: float) -> torch.Tensor:
    """Return a copy; of floats, one whose ordinary values were changed at random.

    Large values are constants of masks, which are compared or added to nothing of their size.
    """
    if not change or not tensor.is_floating_point():
        return tensor.detach().clone()
    changed = tensor.detach() * (1 + change * torch.randn_like(tensor))
    return torch.where(tensor.abs() < _LARGE, changed, tensor)


def _joined(answers: Sequence[Answer]) -> Answer:
    """Return the answers of several runs as one."""
    return Answer(
        [outputs for answer in answers for outputs in answer.outputs],
        [recorded for answer in answers for recorded in answer.operators],
        next((answer.error for answer in answers if answer.error), ""),
    )


def _server_of(model: _Model) -> tuple[socket.socket, int]:
    """Fork the process that answers the requests; return the connection to it, and its number."""
    own, other = socket.socketpair()
    pid = _forked(other.fileno(), lambda: _serve(socket.socket(fileno=other.detach()), model))
    other.close()
    return own, pid


def _serve(engine: socket.socket, model: _Model) -> None:
    """Answer requests until the engine closes its end, each run in a process of its own."""
    while isinstance(request := _received(engine), Request):
        runs = range(len(request.runs))
        _send(engine, _joined([_run(engine, model, request, run) for run in runs]))


def _run(engine: socket.socket, model: _Model, request: Request, number: int) -> Answer:
    """Return the answer for one run; end this process if the engine ends first."""
    own, other = socket.socketpair()

    def work() -> None:
        end_with_parent()
        _send(socket.socket(fileno=other.detach()), model.run(request, number))

    pid = _forked(other.fileno(), work)
    other.close()
    status = None
    # A process that the model started keeps the connection open when the model's process has ended.
    while not any(ready := ready_of(own, _WAIT_S, peer=engine)) and status is None:
        status = status_of(pid)
    is_ready, is_orphan = ready
    if is_orphan:
        kill_forked(pid)
        os._exit(0)
    answer = _received(own) if is_ready else None
    own.close()
    if status is None:
        status = _status(pid, is_answered=isinstance(answer, Answer))
    return answer if isinstance(answer, Answer) else Answer(error=f"its process {ending_of(status)}")


def _status(pid: int, *, is_answered: bool) -> int:
    """Return how a process ended; one that has closed its connection without an answer is ended."""
    if not is_answered:
        if (status := status_of(pid)) is not None:
            return status
        time.sleep(_WAIT_S)
    return kill_forked(pid)


def _forked(descriptor: int, work: Callable[[], None]) -> int:
    """Do the work in a forked process that has one descriptor; return its number."""
    if pid := fork():
        return pid
    code = 1
    try:
        close_other_descriptors(descriptor)
        # The threads of OpenMP do not exist after a fork.
        torch.set_num_threads(1)
        work()
        code = 0
    finally:
        os._exit(code)


def _end(wire: socket.socket, pid: int) -> None:
    wire.close()
    with suppress(OSError):
        kill_forked(pid)


def _send(wire: socket.socket, value: Request | Answer) -> None:
    """Send a value as torch stores it: tensors, numbers, texts and sequences of them."""
    buffer = io.BytesIO()
    torch.save(_fields(value), buffer)
    data = buffer.getbuffer()
    wire.sendall(_SIZE.pack(len(data)))
    wire.sendall(data)


def _received(wire: socket.socket) -> Request | Answer | None:
    """Return what the other side sent; None if it has ended."""
    try:
        data = _read(wire, _SIZE.unpack(_read(wire, _SIZE.size))[0])
    except (OSError, EOFError):
        return None
    return _of_fields(torch.load(io.BytesIO(data), weights_only=True))


def _read(wire: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        count = wire.recv_into(view)
        if not count:
            raise EOFError
        view = view[count:]
    return data


def _fields(value: Request | Answer) -> dict[str, Any]:
    if isinstance(value, Answer):
        operators = [(r.shape, r.line, r.operator, r.sums) for r in value.operators]
        return {"outputs": value.outputs, "operators": operators, "error": value.error}
    runs = [[(step.inputs, step.carried) for step in run] for run in value.runs]
    return {"runs": runs, "seed": value.seed, "change": value.change, "record": value.record}


def _of_fields(fields: dict[str, Any]) -> Request | Answer:
    if "runs" not in fields:
        recorded = [Recorded(*values) for values in fields["operators"]]
        return Answer(fields["outputs"], recorded, fields["error"])
    runs = tuple(tuple(Step(*step) for step in run) for run in fields.pop("runs"))
    return Request(runs, **fields)
