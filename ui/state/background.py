"""Work off the window's thread: the newest order of each topic is done."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from threading import Event, Lock
from typing import TYPE_CHECKING, Generic, TypeVar

from PySide6.QtCore import QObject, QThread, Signal

from workbench.errors import Cancelled

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


Order = TypeVar("Order")


class OrderThread(QThread, Generic[Order]):
    """Its subclasses keep the orders; all that they keep is touched under ``_lock``."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._lock = Lock()
        self._is_busy = False
        self._is_stopped = False

    def _newest(self) -> Order | None:
        """Return the order to work on next; called under the lock."""
        raise NotImplementedError

    def _forget(self) -> None:
        """Drop all orders; called under the lock."""
        raise NotImplementedError

    def _work(self, order: Order) -> None:
        """Do it, on the thread."""
        raise NotImplementedError

    def _accept(self, keep: Callable[[], None]) -> None:
        """Keep an order and see that it is worked on; nothing once the thread was stopped."""
        with self._lock:
            if self._is_stopped:
                return
            keep()
            if self._is_busy:
                return
            self._is_busy = True
        self.wait()
        self.start(QThread.Priority.LowPriority)

    def stop(self) -> None:
        """End the thread; return when it has ended."""
        with self._lock:
            self._is_stopped = True
            self._forget()
        self.wait()

    def retire(self) -> None:
        """End the thread and forget it: what it worked for is gone."""
        self.stop()
        self.deleteLater()

    def run(self) -> None:
        try:
            with short_turns():
                while (order := self._next()) is not None:
                    self._work(order)
        finally:
            with self._lock:
                self._is_busy = False

    def _next(self) -> Order | None:
        with self._lock:
            order = self._newest()
            self._is_busy = order is not None
            return order


Work = Callable[[Callable[[], bool]], object]


class Background(OrderThread[tuple[str, Work]]):
    """Runs while there is something to do.

    Signals:
        done: topic and what the work returned. A newer order for the topic drops the older one.
    """

    done = Signal(str, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._orders: dict[str, Work] = {}

    def submit(self, topic: str, work: Work) -> None:
        """Do this for the topic; ``work`` is given a function that tells whether to give up."""
        self._accept(partial(self._orders.__setitem__, topic, work))

    def _newest(self) -> tuple[str, Work] | None:
        return next(iter(self._orders.items()), None)

    def _forget(self) -> None:
        self._orders.clear()

    def _work(self, order: tuple[str, Work]) -> None:
        topic, work = order
        try:
            value = work(partial(self._is_outdated, topic, work))
        except Cancelled:
            return
        except BaseException:
            self._take(topic, work)
            raise
        if self._take(topic, work):
            self.done.emit(topic, value)

    def _is_outdated(self, topic: str, work: Work) -> bool:
        return self._orders.get(topic) is not work

    def _take(self, topic: str, work: Work) -> bool:
        """Tell whether an order is still wanted, and call it done."""
        with self._lock:
            is_current = self._orders.get(topic) is work
            if is_current:
                del self._orders[topic]
            return is_current
