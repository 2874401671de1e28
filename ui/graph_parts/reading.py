"""Snapshots by level, read away from the window's thread and kept until they are made anew."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from ui.graph.levels import FLOAT
from workbench.errors import WorkbenchError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ui.graph.background import Background
    from ui.graph_parts.runs import Runs, Stamp
    from ui.graph_parts.survey import Surveyor
    from workbench.graph.snapshot import GraphSnapshot

TOPIC = "read"


class Reading(QObject):
    """Knows the graphs of the levels, the float one from where it is read already.

    Signals:
        arrived: the id of a level whose graph has been read.
        failed: the ``WorkbenchError`` of one that cannot be.
    """

    arrived = Signal(str)
    failed = Signal(object)

    def __init__(
        self,
        runs: Runs,
        first: Callable[[], GraphSnapshot | None],
        background: Background,
        surveyor: Surveyor,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._runs, self._first = runs, first
        self._background, self._surveyor = background, surveyor
        self._read: dict[str, tuple[Stamp, GraphSnapshot | None]] = {}
        background.done.connect(self._on_done)

    def is_due(self, level: str) -> bool:
        """Tell whether the graph of a level is still to be read, and see to it."""
        stamp, known = self._runs.stamps.get(level), self._read.get(level)
        if level == FLOAT or stamp is None or (known is not None and known[0] == stamp):
            return False
        read = partial(self._surveyor.snapshot, stamp[0])
        self._background.submit(TOPIC, lambda _outdated: (level, stamp, read()))
        return True

    def snapshot(self, level: str) -> GraphSnapshot | None:
        """Return the graph of a level; None if there is none to be had yet."""
        if level == FLOAT:
            return self._first()
        known = self._read.get(level) if level in self._runs.stamps else None
        return known[1] if known is not None else None

    def _on_done(self, topic: str, answer: object) -> None:
        if topic != TOPIC or not isinstance(answer, tuple):
            return
        level, stamp, read = answer
        if isinstance(read, WorkbenchError):
            self.failed.emit(read)
        self._read[level] = (stamp, None if isinstance(read, WorkbenchError) else read)
        self.arrived.emit(level)
