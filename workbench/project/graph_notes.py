"""Edits of bookmarks and saved searches of the graph.

They do not affect results, so no stage depends on them.
"""

from __future__ import annotations

from workbench.errors import failure
from workbench.project.edits import revise
from workbench.project.model import QUERIES_AT_MOST, Bookmark, GraphNotes, Project, SavedQuery


def _noted(project: Project, notes: GraphNotes) -> Project:
    return revise(project, graph=notes)


def keep_bookmark(project: Project, bookmark: Bookmark) -> Project:
    """Return the project with a bookmark added; one with the same name is replaced."""
    notes = project.graph
    others = tuple(b for b in notes.bookmarks if b.name != bookmark.name)
    return _noted(project, notes.model_copy(update={"bookmarks": (*others, bookmark)}))


def forget_bookmark(project: Project, name: str) -> Project:
    """Return the project without the bookmark of that name."""
    notes = project.graph
    kept = tuple(b for b in notes.bookmarks if b.name != name)
    return _noted(project, notes.model_copy(update={"bookmarks": kept}))


def keep_query(project: Project, text: str) -> Project:
    """Return the project with a saved search.

    Raises:
        WorkbenchError: there are as many as highlight colours.
    """
    notes, text = project.graph, text.strip()
    if any(query.text == text for query in notes.queries):
        return project
    if len(notes.queries) >= QUERIES_AT_MOST:
        raise failure(
            f"The limit of {QUERIES_AT_MOST} saved searches is reached.",
            "Delete one first.",
            code="saved-searches-full",
        )
    kept = (*notes.queries, SavedQuery(text=text))
    return _noted(project, notes.model_copy(update={"queries": kept}))


def forget_query(project: Project, text: str) -> Project:
    """Return the project without a saved search."""
    notes = project.graph
    kept = tuple(query for query in notes.queries if query.text != text)
    return _noted(project, notes.model_copy(update={"queries": kept}))


def show_query(project: Project, text: str, *, shown: bool) -> Project:
    """Return the project with a saved search shown as a colour or hidden."""
    notes = project.graph
    changed = tuple(
        query.model_copy(update={"shown": shown}) if query.text == text else query for query in notes.queries
    )
    return _noted(project, notes.model_copy(update={"queries": changed}))
