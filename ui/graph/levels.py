"""The levels of the open program, read when they are first looked at, and how they relate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.errors import WorkbenchError
from workbench.graph.lineage import Lineage
from workbench.graph.snapshot import GraphSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

GRAPH_FILE = "graph.json"


class Levels:
    """Snapshots by the stage that left them; each is read once per result.

    Args:
        stages: The stages that leave a graph, the float program's first.
        folder: Returns where a stage's result lies; None if there is none.
        first: Returns the float program, which is read elsewhere already.
        tell: Is told what cannot be read.
    """

    def __init__(
        self,
        stages: Sequence[str],
        folder: Callable[[str], Path | None],
        first: Callable[[], GraphSnapshot | None],
        tell: Callable[[WorkbenchError], object],
    ) -> None:
        self._stages = tuple(stages)
        self._folder, self._first, self._tell = folder, first, tell
        self._read: dict[str, tuple[tuple[Path, int], GraphSnapshot | None]] = {}
        self._lineage = Lineage({})

    def snapshot(self, stage: str) -> GraphSnapshot | None:
        """Return the graph that a stage left; None if there is none."""
        folder = self._folder(stage)
        if folder is None or stage not in self._stages:
            return None
        if stage == self._stages[0]:
            return self._first()
        path = folder / GRAPH_FILE
        # A damaged result is computed anew in the same folder.
        written = path.stat().st_mtime_ns if path.is_file() else 0
        known = self._read.get(stage)
        if known is None or known[0] != (path, written):
            known = self._read[stage] = ((path, written), self._load(path))
        return known[1]

    def lineage(self) -> Lineage:
        """Return how the levels that there are relate."""
        found = {stage: self.snapshot(stage) for stage in self._stages}
        levels = {stage: snapshot for stage, snapshot in found.items() if snapshot is not None}
        if self._stages[0] not in levels:
            levels = {}
        known = self._lineage.levels
        if list(known) != list(levels) or any(known[s] is not levels[s] for s in levels):
            self._lineage = Lineage(levels)
        return self._lineage

    def _load(self, path: Path) -> GraphSnapshot | None:
        try:
            return GraphSnapshot.load(path)
        except WorkbenchError as error:
            self._tell(error)
            return None
