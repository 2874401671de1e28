"""Where the graph of every level lies now, and where it lay in the runs before."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ui.graph.levels import LEVELS, LEVELS_BY_ID
from ui.graph_parts.comparison import Other

if TYPE_CHECKING:
    from ui.document import Document
    from ui.run_history import RunHistory
    from ui.session import Session
    from workbench.history.runs import Run

PAST_KEPT = 8
RUNS_OFFERED = 12

Stamp = tuple["Path", int]


class Runs:
    """Follows the results of the open project, level by level, those of kept runs among them."""

    def __init__(self, document: Document, session: Session, history: RunHistory) -> None:
        self._document, self._session, self._history = document, session, history
        self._past: dict[str, list[Other]] = {}
        self._last: dict[str, Path] = {}
        self.stamps: dict[str, Stamp] = {}
        document.opened.connect(self._forget)

    @property
    def files(self) -> dict[str, Path]:
        """The file of every level there is."""
        return {level: path for level, (path, _) in self.stamps.items()}

    def note(self) -> None:
        """Look where results are; those that are replaced become past ones."""
        self.stamps = {}
        for level in LEVELS:
            folder = self._session.former(level.stage)
            path = folder / level.file if folder is not None else None
            if path is None or not path.is_file():
                continue
            # A damaged result is computed anew in the same folder, hence the time.
            self.stamps[level.id] = (path, path.stat().st_mtime_ns)
            before = self._last.get(level.id)
            if before is not None and before != path:
                self._keep(level.id, level.title, before)
            self._last[level.id] = path

    def past(self, level: str) -> list[Other]:
        """Return the graphs that a level had in earlier runs and still has, the latest first."""
        found = {other.path: other for other in reversed(self._past.get(level, ()))}
        for run in reversed(self._history.runs[-RUNS_OFFERED:]):
            other = self._of_run(run, level)
            if other is not None:
                found[other.path] = other
        found.pop(self.files.get(level, Path()), None)
        return [other for other in found.values() if other.path.is_file()]

    def _of_run(self, run: Run, level: str) -> Other | None:
        cache, row = self._session.cache, LEVELS_BY_ID[level]
        folders = {stage: cache.folder(key) for stage, key in run.digests.items() if key}
        if row.stage not in folders:
            return None
        when = f"{datetime.fromisoformat(run.made).astimezone():%d %b %H:%M}"
        title = f"{row.title} of run {run.number}, {when}"
        return Other(title, folders[row.stage] / row.file, folders)

    def _keep(self, level: str, title: str, path: Path) -> None:
        others = [other for other in self._past.get(level, []) if other.path != path]
        edit = self._document.undo_stack.undoText()
        when = f"{datetime.now():%H:%M}"
        words = f"{title} before \u201c{edit}\u201d, {when}" if edit else f"{title} until {when}"
        self._past[level] = [*others[1 - PAST_KEPT :], Other(words, path)]

    def _forget(self) -> None:
        self._past, self._last, self.stamps = {}, {}, {}
