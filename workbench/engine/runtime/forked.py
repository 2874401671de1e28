"""Work in a forked copy of the engine, beside what the engine does itself.

The copy has all live objects of the engine, and shares their memory until one of both writes to it.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
import traceback
from contextlib import suppress
from io import FileIO
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from workbench.errors import WorkbenchError
from workbench.operating_system import CAN_FORK, end_with_parent, fork, kill_forked, ready_of, usable_cores

if TYPE_CHECKING:
    from collections.abc import Callable

Value = TypeVar("Value")

_WAIT_S = 0.1
_PART_BYTES = 1 << 16


def can_fork() -> bool:
    """Return whether the engine may be copied here.

    It needs a second core, and the death signal of Linux, with which the copy ends when the engine
    is killed. The signal is that of the main thread's end, so only the main thread forks. A
    process in which OpenMP runs on several threads must not be forked.
    """
    if not CAN_FORK or threading.current_thread() is not threading.main_thread():
        return False
    import torch

    return usable_cores() > 1 and torch.get_num_threads() == 1


def forked(work: Callable[[int], object]) -> tuple[int, int]:
    """Do some work in a copy of this process, which ends with it.

    Args:
        work: Takes a descriptor to write to.

    Returns:
        The number of the copy, and the descriptor of what it writes.

    Raises:
        OSError: The system refuses a copy.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    engine = os.getpid()
    try:
        if not (pid := fork()):
            _run(work, writing, engine)
    except OSError:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    return pid, reading


def _run(work: Callable[[int], object], writing: int, engine: int) -> None:
    """Do the work in the copy and end it."""
    code = 1
    try:
        # Where memory is short, the kernel ends the copy: the engine then does the work itself.
        end_with_parent()
        if os.getppid() == engine:
            work(writing)
            code = 0
    except Exception:  # noqa: BLE001 - the copy must not go on as a second engine
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


class Beside(Generic[Value]):
    """The value of some work that a copy of the engine does; leaving the context ends the copy.

    What the work changes in memory is lost. It must not send events. Where the engine cannot be
    copied, it does the work when the context is entered; where the copy ends without a value, for
    want of memory for example, when the value is asked for.

    Args:
        work: Returns what can be pickled.
        check_cancelled: Called ten times a second while the value is waited for.
    """

    def __init__(self, work: Callable[[], Value], check_cancelled: Callable[[], None]) -> None:
        self._work, self._check_cancelled = work, check_cancelled
        self._values: list[Value] = []
        self._pid = 0
        self._wire: FileIO | None = None

    def __enter__(self) -> Self:
        # The system may refuse a copy, for want of memory or processes.
        with suppress(OSError):
            if can_fork():
                self._pid, reading = forked(self._answer)
                self._wire = FileIO(reading)
        if self._wire is None:
            self._values.append(self._work())
        return self

    def __exit__(self, *_error: object) -> None:
        if self._wire is not None:
            self._wire.close()
            with suppress(OSError):
                kill_forked(self._pid)

    def _answer(self, writing: int) -> None:
        outcome: tuple[str, object]
        try:
            outcome = "value", self._work()
        except WorkbenchError as error:
            outcome = "problems", error.infos
        except Exception:  # noqa: BLE001 - the engine does the work itself, and raises what this was
            return
        with os.fdopen(writing, "wb") as wire:
            pickle.dump(outcome, wire)

    def result(self) -> Value:
        """Wait for the value.

        Raises:
            WorkbenchError: The work raised it.
            Cancelled: by ``check_cancelled``.
        """
        if self._wire is not None and not self._values:
            kind, outcome = self._received(self._wire)
            if kind == "problems":
                raise WorkbenchError(outcome)
            self._values.append(outcome if kind else self._work())
        return self._values[0]

    def _received(self, wire: FileIO) -> tuple[str, Any]:
        """Return the kind of the outcome and the outcome; "" and None if the copy ended without one."""
        data = bytearray()
        while True:
            self._check_cancelled()
            if ready_of(wire, _WAIT_S)[0]:
                if not (part := wire.read(_PART_BYTES)):
                    break
                data += part
        try:
            kind, outcome = pickle.loads(data)
        except (EOFError, pickle.UnpicklingError):
            return "", None
        return kind, outcome
