"""Where the graph of every level lies now, and where it lay in the runs before."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from ui.graph.levels import LEVELS
from ui.graph_parts.comparison import Other

if TYPE_CHECKING:
    from pathlib import Path

    from ui.document import Document
    from ui.session import Session

PAST_KEPT = 8

Stamp = tuple["Path", int]


class Runs:
    """Follows the results of the open project, level by level."""

    def __init__(self, document: Document, session: Session) -> None:
        self._document, self._session = document, session
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
        now = self.files.get(level)
        kept = [other for other in self._past.get(level, ()) if other.path != now]
        return [other for other in reversed(kept) if other.path.is_file()]

    def _keep(self, level: str, title: str, path: Path) -> None:
        others = [other for other in self._past.get(level, []) if other.path != path]
        edit = self._document.undo_stack.undoText()
        when = f"{datetime.now():%H:%M}"
        words = f"{title} before \u201c{edit}\u201d, {when}" if edit else f"{title} until {when}"
        self._past[level] = [*others[1 - PAST_KEPT :], Other(words, path)]

    def _forget(self) -> None:
        self._past, self._last, self.stamps = {}, {}, {}
