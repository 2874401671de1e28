"""Work for the graph off the window's thread: the newest order of each topic is done."""

from __future__ import annotations

from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QThread, Signal

from ui.graph.turns import short_turns
from workbench.errors import Cancelled

if TYPE_CHECKING:
    from collections.abc import Callable

    Work = Callable[[Callable[[], bool]], object]


class Background(QThread):
    """Runs while there is something to do.

    Signals:
        done: topic and what the work returned. A newer order for the topic drops the older one.
    """

    done = Signal(str, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._lock = Lock()
        self._orders: dict[str, Work] = {}
        self._is_busy = False
        self._is_stopped = False

    def submit(self, topic: str, work: Work) -> None:
        """Do this for the topic; ``work`` is given a function that tells whether to give up."""
        with self._lock:
            if self._is_stopped:
                return
            self._orders[topic] = work
            if self._is_busy:
                return
            self._is_busy = True
        self.wait()
        self.start(QThread.Priority.LowPriority)

    def stop(self) -> None:
        """End the thread; return when it has ended."""
        with self._lock:
            self._is_stopped = True
            self._orders.clear()
        self.wait()

    def retire(self) -> None:
        """End the thread and forget it: what it worked for is gone."""
        self.stop()
        self.deleteLater()

    def run(self) -> None:
        try:
            with short_turns():
                while order := self._next():
                    self._work(*order)
        finally:
            with self._lock:
                self._is_busy = False

    def _work(self, topic: str, work: Work) -> None:
        try:
            value = work(partial(self._is_outdated, topic, work))
        except Cancelled:
            return
        except BaseException:
            self._take(topic, work)
            raise
        if self._take(topic, work):
            self.done.emit(topic, value)

    def _next(self) -> tuple[str, Work] | None:
        with self._lock:
            order = next(iter(self._orders.items()), None)
            self._is_busy = order is not None
            return order

    def _is_outdated(self, topic: str, work: Work) -> bool:
        return self._orders.get(topic) is not work

    def _take(self, topic: str, work: Work) -> bool:
        """Tell whether an order is still wanted, and call it done."""
        with self._lock:
            is_current = self._orders.get(topic) is work
            if is_current:
                del self._orders[topic]
            return is_current
