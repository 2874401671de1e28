"""Graph snapshots by level, read in a worker thread."""

from __future__ import annotations

import os
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from ui.features.graph.graph_comparison import ComparedGraph
from ui.features.graph.graph_results import FLOAT, LEVELS, LEVELS_BY_ID
from workbench.errors import WorkbenchError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ui.features.graph.graph_results import OverlayLoader
    from ui.state.background import Background
    from ui.state.document import Document
    from ui.state.run_history import RunHistory
    from ui.state.session import Session
    from workbench.graph.snapshot import GraphSnapshot
    from workbench.history.runs import Run


TOPIC = "read"


class SnapshotLoader(QObject):
    """Loads the graphs of the levels.

    Signals:
        arrived: the id of a level whose graph was loaded.
        failed: the ``WorkbenchError`` of a graph that cannot be loaded.
    """

    arrived = Signal(str)
    failed = Signal(object)

    def __init__(
        self,
        runs: GraphFiles,
        first: Callable[[], GraphSnapshot | None],
        background: Background,
        loader: OverlayLoader,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._runs, self._first = runs, first
        self._background, self._loader = background, loader
        self._read: dict[str, tuple[Stamp, GraphSnapshot | None]] = {}
        background.done.connect(self._on_done)

    def is_due(self, level: str) -> bool:
        """Return whether the graph of a level is being loaded; start loading if needed."""
        stamp, known = self._runs.stamps.get(level), self._read.get(level)
        if level == FLOAT or stamp is None or (known is not None and known[0] == stamp):
            return False
        read = partial(self._loader.snapshot, stamp[0])
        self._background.submit(TOPIC, lambda _outdated: (level, stamp, read()))
        return True

    def snapshot(self, level: str) -> GraphSnapshot | None:
        """Return the graph of a level; None if it is not loaded."""
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


MAX_PAST = 8
RUNS_OFFERED = 12

Stamp = tuple["Path", int]


class GraphFiles:
    """Tracks the graph files of the open project by level, including those of earlier runs."""

    def __init__(self, document: Document, session: Session, history: RunHistory) -> None:
        self._document, self._session, self._history = document, session, history
        self._past: dict[str, list[ComparedGraph]] = {}
        self._last: dict[str, Path] = {}
        self.stamps: dict[str, Stamp] = {}
        document.opened.connect(self._forget)

    @property
    def files(self) -> dict[str, Path]:
        """The graph file of every existing level."""
        return {level: path for level, (path, _) in self.stamps.items()}

    def note(self) -> None:
        """Update the files from the results; replaced files become past ones."""
        self.stamps = {}
        for level in LEVELS:
            folder = self._session.former(level.stage)
            path = folder / level.file if folder is not None else None
            if path is None or not os.path.isfile(path):
                continue
            # The key has the time, because a damaged result is recomputed in the same folder.
            self.stamps[level.id] = (path, path.stat().st_mtime_ns)
            before = self._last.get(level.id)
            if before is not None and before != path:
                self._keep(level.id, level.title, before)
            self._last[level.id] = path

    def past(self, level: str) -> list[ComparedGraph]:
        """Return the existing graphs of a level from earlier runs, latest first."""
        others = {other.path: other for other in reversed(self._past.get(level, ()))}
        for run in reversed(self._history.runs[-RUNS_OFFERED:]):
            other = self._of_run(run, level)
            if other is not None:
                others[other.path] = other
        others.pop(self.files.get(level, Path()), None)
        return [other for other in others.values() if os.path.isfile(other.path)]

    def _of_run(self, run: Run, level: str) -> ComparedGraph | None:
        cache, row = self._session.cache, LEVELS_BY_ID[level]
        folders = {stage: cache.folder(key) for stage, key in run.digests.items() if key}
        if row.stage not in folders:
            return None
        when = f"{datetime.fromisoformat(run.made).astimezone():%d %b %H:%M}"
        title = f"{row.title} of run {run.number}, {when}"
        return ComparedGraph(title, folders[row.stage] / row.file, folders)

    def _keep(self, level: str, title: str, path: Path) -> None:
        others = [other for other in self._past.get(level, []) if other.path != path]
        edit = self._document.undo_stack.undoText()
        when = f"{datetime.now():%H:%M}"
        words = f"{title} before \u201c{edit}\u201d, {when}" if edit else f"{title} until {when}"
        self._past[level] = [*others[1 - MAX_PAST :], ComparedGraph(words, path)]

    def _forget(self) -> None:
        self._past, self._last, self.stamps = {}, {}, {}
