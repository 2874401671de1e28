"""The levels of the open program, read when they are first looked at, and how they relate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from workbench.errors import WorkbenchError
from workbench.graph.lineage import Lineage
from workbench.graph.snapshot import GraphSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

GRAPH_FILE = "graph.json"


@dataclass(frozen=True)
class _Reading:
    """What was read, and what went wrong if nobody was told yet."""

    path: Path
    written: int
    snapshot: GraphSnapshot | None
    problem: WorkbenchError | None = None


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
        self._read: dict[str, _Reading] = {}
        self._lineage = Lineage({})

    def snapshot(self, stage: str) -> GraphSnapshot | None:
        """Return the graph that a stage left, to be shown; None if there is none to be had."""
        reading = self._reading(stage)
        if reading is not None and reading.problem is not None:
            self._tell(reading.problem)
            self._read[stage] = replace(reading, problem=None)
        return reading.snapshot if reading else None

    def lineage(self) -> Lineage:
        """Return how the levels that there are relate; what cannot be read is left out."""
        found = {stage: self._reading(stage) for stage in self._stages}
        levels = {s: r.snapshot for s, r in found.items() if r is not None and r.snapshot}
        if self._stages[0] not in levels:
            levels = {}
        known = self._lineage.levels
        if list(known) != list(levels) or any(known[s] is not levels[s] for s in levels):
            self._lineage = Lineage(levels)
        return self._lineage

    def _reading(self, stage: str) -> _Reading | None:
        folder = self._folder(stage)
        if folder is None or stage not in self._stages:
            return None
        path = folder / GRAPH_FILE
        if stage == self._stages[0]:
            return _Reading(path, 0, self._first())
        # A damaged result is computed anew in the same folder.
        written = path.stat().st_mtime_ns if path.is_file() else 0
        known = self._read.get(stage)
        if known is None or (known.path, known.written) != (path, written):
            known = self._read[stage] = _load(path, written)
        return known


def _load(path: Path, written: int) -> _Reading:
    try:
        return _Reading(path, written, GraphSnapshot.load(path))
    except WorkbenchError as error:
        return _Reading(path, written, None, error)
