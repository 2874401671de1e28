"""A thread that runs while there is an order to work on, and ends between orders."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

from PySide6.QtCore import QObject, QThread

from ui.graph.turns import short_turns

if TYPE_CHECKING:
    from collections.abc import Callable

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
