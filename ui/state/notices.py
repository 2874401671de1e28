"""Notices and questions to the user, as values that the window shows.

Notices that are posted before there is a window wait in ``Notices.open``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Literal

from PySide6.QtCore import QObject, Signal

from workbench.errors import ErrorInfo, Place, WorkbenchError

NoticeLevel = Literal["info", "success", "warning", "error", "question"]
SHOWN_S = 6.0


@dataclass(frozen=True)
class Action:
    """One action of a notice. ``destructive`` marks actions that discard data.

    Enter runs the one that ``is_default``, or the first.
    """

    title: str
    run: Callable[[], None]
    destructive: bool = False
    is_default: bool = False


@dataclass(frozen=True)
class Notice:
    """A notice: its text, a hint and its actions.

    With ``lasts_s`` None it stays until it is closed. ``blocking`` makes it modal.
    """

    id: int
    level: NoticeLevel
    text: str
    hint: str = ""
    details: str = ""
    where: Place | None = None
    actions: tuple[Action, ...] = ()
    lasts_s: float | None = SHOWN_S
    blocking: bool = False

    @property
    def copy_text(self) -> str:
        """Text, hint and details, for a bug report."""
        parts = (self.text, self.hint, str(self.where or ""), self.details)
        return "\n".join(part for part in parts if part)


class Notices(QObject):
    """Collects the notices of the program.

    Signals:
        posted: the new ``Notice``.
        closed: the id of the closed notice.
        place_asked: the ``Place`` to show.
        help_asked: the ``Place`` to explain.
    """

    posted = Signal(object)
    closed = Signal(int)
    place_asked = Signal(object)
    help_asked = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._ids = count(1)
        self.open: dict[int, Notice] = {}

    def info(self, text: str, hint: str = "", actions: Sequence[Action] = ()) -> None:
        """Post an information."""
        self._post(Notice(next(self._ids), "info", text, hint, actions=tuple(actions)))

    def success(self, text: str, hint: str = "", actions: Sequence[Action] = ()) -> None:
        """Post the success of a long job."""
        self._post(Notice(next(self._ids), "success", text, hint, actions=tuple(actions)))

    def warning(self, text: str, hint: str = "", actions: Sequence[Action] = ()) -> None:
        """Post a warning."""
        self._post(Notice(next(self._ids), "warning", text, hint, actions=tuple(actions)))

    def error(self, error: WorkbenchError, actions: Sequence[Action] = ()) -> int:
        """Post an error and return its id: the first problem with message and hint, others as details."""
        first, *others = error.infos or (ErrorInfo(message="Unknown error.", code="unknown"),)
        more = "\n".join(f"\u2022 {info}" for info in others)
        hint = "\n".join(part for part in (first.hint, more) if part)
        notice = Notice(
            next(self._ids),
            "error",
            first.message,
            hint,
            first.details,
            first.where,
            tuple(actions),
            lasts_s=None,
        )
        self._post(notice)
        return notice.id

    def question(self, text: str, hint: str, actions: Sequence[Action], *, blocking: bool = False) -> None:
        """Post a question. The first action is the default. Closing it runs no action."""
        self._post(
            Notice(
                next(self._ids),
                "question",
                text,
                hint,
                actions=tuple(actions),
                lasts_s=None,
                blocking=blocking,
            )
        )

    def choose(self, notice_id: int, title: str) -> None:
        """Run one action of a notice and close the notice."""
        notice = self.open.get(notice_id)
        if notice is None:
            return
        self.close(notice_id)
        for action in notice.actions:
            if action.title == title:
                action.run()

    def close(self, notice_id: int) -> None:
        """Close a notice."""
        if self.open.pop(notice_id, None) is not None:
            self.closed.emit(notice_id)

    def close_errors(self) -> None:
        """Close all errors, e.g. because the work that failed begins again."""
        self._close_all("error")

    def close_former(self) -> None:
        """Close the errors of the former project, and questions about it."""
        self._close_all("error", "question")

    def _close_all(self, *levels: NoticeLevel) -> None:
        for notice in list(self.open.values()):
            if notice.level in levels:
                self.close(notice.id)

    def _post(self, notice: Notice) -> None:
        same = [n.id for n in self.open.values() if (n.level, n.text) == (notice.level, notice.text)]
        for notice_id in same:
            self.close(notice_id)
        self.open[notice.id] = notice
        self.posted.emit(notice)
