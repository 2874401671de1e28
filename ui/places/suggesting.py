"""Keeps suggestions for the compiled program, applies them, and remembers what each one gained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QObject

from ui.panel import PanelContext
from workbench.errors import WorkbenchError
from workbench.graph.snapshot import GraphSnapshot
from workbench.project.model import Project
from workbench.results import GRAPH_FILE, LowerResult, PrepareResult
from workbench.suggestions import Gain, Suggestion, suggest

UNKNOWN = "Other changes came before it was compiled, so its gain alone is not known."
WAITING = "Run Lower to see what it gained."
# What decides the compiled program, besides files.
_DECISIVE = ("model", "rules", "improvers", "ranges", "range_methods", "target")


@dataclass
class Applied:
    """A suggestion that was followed: the project before and after, the program before and after.

    ``compiled`` is None until the project has been compiled with it.
    """

    title: str
    before: Project
    after: Project
    program: LowerResult
    compiled: LowerResult | None = None


@dataclass(frozen=True)
class _Seen:
    """The last program that was current: where it lies, its project and its suggestions."""

    folder: Path
    project: Project
    program: LowerResult
    suggestions: tuple[Suggestion, ...]


class Suggesting(QObject):
    """Suggestions and their gains for the open project."""

    def __init__(self, context: PanelContext, parent: QObject) -> None:
        super().__init__(parent)
        self._context = context
        self._seen: _Seen | None = None
        self._applied: list[Applied] = []
        context.document.opened.connect(self._forget)

    def look_at(self, program: LowerResult, folder: Path) -> tuple[Suggestion, ...]:
        """Return the suggestions for the current compiled program that lies in ``folder``."""
        project, last = self._context.document.project, self._seen
        if project is None:
            return ()
        if last is not None and last.folder == folder and _same(last.project, project):
            return last.suggestions
        self._seen = _Seen(folder, project, program, self._found(project, program, folder))
        if last is not None and last.folder != folder:
            self._measure(last, self._seen)
        return self._seen.suggestions

    def apply(self, suggestion: Suggestion) -> None:
        """Make a suggestion a step of the project."""
        seen, before = self._seen, self._context.document.project
        if suggestion.edit is None or seen is None or before is None:
            return
        if self._context.document.apply(suggestion.title, suggestion.edit):
            after = self._context.document.project
            assert after is not None
            self._applied.append(Applied(suggestion.title, before, after, seen.program))

    def gains(self) -> list[tuple[str, str]]:
        """Return what was followed and not taken back, each with what it gained in words."""
        project = self._context.document.project
        if project is None:
            return []
        found = []
        for each in self._applied:
            if each.before is not each.after and _same(each.before, project):
                continue
            if each.compiled is not None:
                said = Gain(each.program, each.compiled).sentence
            else:
                said = WAITING if _same(each.after, project) else UNKNOWN
            found.append((each.title, said))
        return found

    def _found(
        self, project: Project, program: LowerResult, folder: Path
    ) -> tuple[Suggestion, ...]:
        exported = self._context.outline.snapshot
        if exported is None:
            return ()
        try:
            edge = GraphSnapshot.load(folder / GRAPH_FILE)
        except WorkbenchError:
            return ()
        prepared = self._context.load(PrepareResult, "prepare")
        return suggest(project, program, exported, edge, prepared)

    def _measure(self, last: _Seen, seen: _Seen) -> None:
        """Give what was followed its figures, changes of the source among them."""
        for each in self._applied:
            if each.compiled is None and _same(each.after, seen.project):
                each.compiled = seen.program
        if not _same(last.project, seen.project):
            return
        for gone in _written_away(last.suggestions, seen.suggestions):
            project = seen.project
            self._applied.append(Applied(gone.title, project, project, last.program, seen.program))

    def _forget(self) -> None:
        self._seen, self._applied = None, []


def _written_away(
    before: Sequence[Suggestion], after: Sequence[Suggestion]
) -> list[Suggestion]:  # fmt: skip
    """Return the changes of the source that are not suggested any more."""
    still = {each.id for each in after}
    return [each for each in before if each.edit is None and each.id not in still]


def _same(one: Project, other: Project) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in _DECISIVE)
