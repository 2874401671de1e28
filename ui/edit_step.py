"""One step of editing: what the undo stack holds, and what refusing one says."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import ValidationError
from PySide6.QtGui import QUndoCommand

from workbench.errors import ErrorInfo, Place, WorkbenchError
from workbench.project.model import Project


class ReplaceProject(QUndoCommand):
    """Put one value in another's place; never fails, because both were validated before."""

    def __init__(
        self, text: str, before: Project, after: Project, put: Callable[[Project], None]
    ) -> None:
        super().__init__(text)
        self._before, self._after, self._put = before, after, put

    def redo(self) -> None:
        self._put(self._after)

    def undo(self) -> None:
        self._put(self._before)


def translated(error: ValidationError) -> WorkbenchError:
    """Return what makes a value invalid, in sentences with places."""
    infos = []
    for problem in error.errors(include_url=False):
        where = Place(kind="option", id=".".join(str(p) for p in problem["loc"]) or "project")
        message = str(problem["msg"]).removeprefix("Value error, ")
        infos.append(ErrorInfo(message=f"{message[:1].upper()}{message[1:]}.", where=where))
    return WorkbenchError(infos)
