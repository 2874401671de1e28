"""Planning beside the window: hashing a folder of pictures must not stop a keystroke."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QMutex, QObject, QThread, QWaitCondition, Signal

from workbench.errors import ErrorInfo, WorkbenchError
from workbench.pipeline.cache import Cache
from workbench.pipeline.keys import Digests
from workbench.pipeline.plan import Plan, plan
from workbench.project.model import Project
from workbench.project.sources import missing


@dataclass(frozen=True)
class Planned:
    """The plan of one value of the project, and what of its files is not there."""

    project: Project
    plan: Plan
    missing: tuple[ErrorInfo, ...] = ()


class Planner(QThread):
    """Makes plans, the newest request first; owned by the application.

    Signals:
        planned: a ``Planned``.
    """

    planned = Signal(object)

    def __init__(self, cache: Cache, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._cache = cache
        self._mutex = QMutex()
        self._wake = QWaitCondition()
        self._wanted: tuple[Project, Path] | None = None
        self._stopping = False

    def request(self, project: Project, folder: Path) -> None:
        """Plan this; a request that has not begun yet is replaced."""
        self._mutex.lock()
        self._wanted = (project, folder)
        self._wake.wakeOne()
        self._mutex.unlock()
        if not self.isRunning() and not self._stopping:
            self.start()

    def stop(self) -> None:
        """End the thread; returns when it has ended."""
        self._mutex.lock()
        self._stopping = True
        self._wake.wakeOne()
        self._mutex.unlock()
        self.wait()

    def run(self) -> None:
        digests = Digests(self._cache.root / "digests.json")
        while (wanted := self._next()) is not None:
            project, folder = wanted
            made = plan(project, folder, self._cache, digests)
            error = missing(project, folder)
            infos = error.infos if isinstance(error, WorkbenchError) else ()
            self.planned.emit(Planned(project, made, infos))

    def _next(self) -> tuple[Project, Path] | None:
        self._mutex.lock()
        while self._wanted is None and not self._stopping:
            self._wake.wait(self._mutex)
        wanted, self._wanted = self._wanted, None
        stopping = self._stopping
        self._mutex.unlock()
        return None if stopping else wanted
