"""What the project decides of ranges, in numbers, searched between other events."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QObject, QTimer, Signal

from ui.models.range_arrays import Arrays
from ui.models.range_table import Decided
from workbench.analysis.ranges import RangeTaker, methods_of
from workbench.project.model import Project
from workbench.results import TensorRange


class RangeDecisions(QObject):
    """Knows each decided range; a method's search takes some milliseconds a tensor, so it waits.

    Signals:
        changed: all that was still searched for is known.
    """

    changed = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._taker = RangeTaker()
        self._due: list[tuple[TensorRange, str]] = []
        self._arrays: Arrays = {}
        self._more = QTimer(self, interval=0)
        self._more.timeout.connect(self._on_time_to_search)

    def of(
        self, rows: Sequence[TensorRange], arrays: Arrays, project: Project | None
    ) -> dict[str, Decided]:
        """Return what is decided by node; what must be searched for is not known yet."""
        self._due, self._arrays = [], arrays
        self._more.stop()
        if project is None:
            return {}
        found = {
            tensor: Decided("", "tensor", ends) for tensor, ends in project.fixed_ranges().items()
        }
        for row, chosen in methods_of(rows, project):
            method = chosen.method
            is_known = self._taker.knows(row, arrays, method)
            ends = self._taker.take(row, arrays, method) if is_known else None
            found[row.node] = Decided(method, chosen.scope, ends, is_known)
            if not is_known:
                self._due.append((row, method))
        if self._due:
            self._more.start()
        return found

    def _on_time_to_search(self) -> None:
        if self._due:
            row, method = self._due.pop()
            self._taker.take(row, self._arrays, method)
            return
        self._more.stop()
        self.changed.emit()
