"""What a user keeps about the graph: places to come back to, and searches that colour it.

None of it decides a result, so no stage reads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from workbench.errors import failure
from workbench.project.frozen import Frozen

if TYPE_CHECKING:
    from workbench.project.model import Project

QUERIES_AT_MOST = 8


class Bookmark(Frozen):
    """A named place in the drawing of a level.

    ``expanded`` are the open groups, ``anchor`` is the item next to the middle of the window and
    ``dx`` and ``dy`` are the way from its corner to the middle [px of the drawing], so that the
    place is found again after the layout has changed.
    """

    name: str = Field(min_length=1)
    level: str
    shape: Literal["modules", "folded", "flat"] = "modules"
    expanded: tuple[str, ...] = ()
    scale: float = Field(gt=0)
    anchor: str = ""
    dx: float = 0.0
    dy: float = 0.0


class SavedQuery(Frozen):
    """A search whose operations are coloured."""

    text: str = Field(min_length=1)
    shown: bool = True


class GraphNotes(Frozen):
    """All that is kept, in the order in which it was."""

    bookmarks: tuple[Bookmark, ...] = ()
    queries: tuple[SavedQuery, ...] = Field(default=(), max_length=QUERIES_AT_MOST)


def _noted(project: Project, notes: GraphNotes) -> Project:
    from workbench.project.edits import revise

    return revise(project, graph=notes)


def keep_bookmark(project: Project, bookmark: Bookmark) -> Project:
    """Return the project with a place kept; one of the same name is replaced."""
    notes = project.graph
    others = tuple(b for b in notes.bookmarks if b.name != bookmark.name)
    return _noted(project, notes.model_copy(update={"bookmarks": (*others, bookmark)}))


def forget_bookmark(project: Project, name: str) -> Project:
    """Return the project without the place of that name."""
    notes = project.graph
    kept = tuple(b for b in notes.bookmarks if b.name != name)
    return _noted(project, notes.model_copy(update={"bookmarks": kept}))


def keep_query(project: Project, text: str) -> Project:
    """Return the project with a search kept.

    Raises:
        WorkbenchError: there are as many as there are colours to tell apart.
    """
    notes, text = project.graph, text.strip()
    if any(query.text == text for query in notes.queries):
        return project
    if len(notes.queries) >= QUERIES_AT_MOST:
        raise failure(f"{QUERIES_AT_MOST} searches are kept already.", "Forget one of them first.")
    kept = (*notes.queries, SavedQuery(text=text))
    return _noted(project, notes.model_copy(update={"queries": kept}))


def forget_query(project: Project, text: str) -> Project:
    """Return the project without a kept search."""
    notes = project.graph
    kept = tuple(query for query in notes.queries if query.text != text)
    return _noted(project, notes.model_copy(update={"queries": kept}))


def show_query(project: Project, text: str, *, shown: bool) -> Project:
    """Return the project in which a kept search colours the graph, or does not."""
    notes = project.graph
    changed = tuple(
        query.model_copy(update={"shown": shown}) if query.text == text else query
        for query in notes.queries
    )
    return _noted(project, notes.model_copy(update={"queries": changed}))
