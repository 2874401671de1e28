"""Short turns between threads while one of them works beside the window's."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from threading import Event, Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

TURN_S = 0.0002
PATIENCE_S = 0.05

_lock = Lock()
_window_rests = Event()
_window_rests.set()
_working = 0
_usual = sys.getswitchinterval()


@contextmanager
def short_turns() -> Iterator[None]:
    """Let the window's thread have the interpreter back within a fraction of a millisecond.

    Qt's painting gives it away at every call, and Python's usual turn of 5 ms makes a frame of a
    few calls wait that long several times.
    """
    global _working, _usual  # noqa: PLW0603 - the interval is the whole process's
    with _lock:
        if _working == 0:
            _usual = sys.getswitchinterval()
            sys.setswitchinterval(min(TURN_S, _usual))
        _working += 1
    try:
        yield
    finally:
        with _lock:
            _working -= 1
            if _working == 0:
                sys.setswitchinterval(_usual)


@contextmanager
def window_first() -> Iterator[None]:
    """Let the threads beside the window's wait at their next ``give_way`` until this is over."""
    _window_rests.clear()
    try:
        yield
    finally:
        _window_rests.set()


def give_way() -> None:
    """Wait while the window's thread is to go first, but not for long."""
    if not _window_rests.is_set():
        _window_rests.wait(PATIENCE_S)
