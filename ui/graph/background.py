"""Work for the graph off the window's thread: the newest order of each topic is done."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QObject, Signal

from ui.graph.order_thread import OrderThread
from workbench.errors import Cancelled

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
