"""Worker threads for the graph. Per topic only the newest order runs."""

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
    """Set a short interpreter switch interval, so that the window's thread is not delayed.

    Qt's painting releases the interpreter lock at every call. With Python's default interval of
    5 ms, a frame with a few calls would wait that long several times.
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
    """Make worker threads wait at their next ``give_way`` while the context is active."""
    _window_rests.clear()
    try:
        yield
    finally:
        _window_rests.set()


def give_way() -> None:
    """Wait while ``window_first`` is active, up to a time limit."""
    if not _window_rests.is_set():
        _window_rests.wait(PATIENCE_S)


Order = TypeVar("Order")


class OrderThread(QThread, Generic[Order]):
    """A worker thread. Subclasses hold the orders and access them under ``_lock``."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._lock = Lock()
        self._is_busy = False
        self._is_stopped = False

    def _newest(self) -> Order | None:
        """Return the next order. Called under the lock."""
        raise NotImplementedError

    def _forget(self) -> None:
        """Drop all orders. Called under the lock."""
        raise NotImplementedError

    def _work(self, order: Order) -> None:
        """Run an order in the thread."""
        raise NotImplementedError

    def _accept(self, keep: Callable[[], None]) -> None:
        """Store an order and wake the thread. Does nothing after ``stop``."""
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
        """Stop the thread. Returns when it has ended."""
        with self._lock:
            self._is_stopped = True
            self._forget()
        self.wait()

    def retire(self) -> None:
        """Stop the thread without waiting; its owner was destroyed."""
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
    """Runs orders by topic in a worker thread.

    Signals:
        done: topic and return value. A newer order for a topic replaces the older one.
    """

    done = Signal(str, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._orders: dict[str, Work] = {}

    def submit(self, topic: str, work: Work) -> None:
        """Run ``work`` for the topic. Its argument is a function that returns whether to cancel."""
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
        """Return whether an order is still current, and mark it as done."""
        with self._lock:
            is_current = self._orders.get(topic) is work
            if is_current:
                del self._orders[topic]
            return is_current
