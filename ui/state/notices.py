"""The one route to the user: notices and questions as values, shown by whoever listens.

Nothing here needs a window: what is said before there is one waits in ``Notices.open``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Literal

from PySide6.QtCore import QObject, Signal

from workbench.errors import ErrorInfo, Place, WorkbenchError

NoticeLevel = Literal["info", "success", "warning", "error", "question"]
SHOWN_S = 8.0


@dataclass(frozen=True)
class Action:
    """One thing a user may do about a notice; ``destructive`` ones lose something."""

    title: str
    run: Callable[[], None]
    destructive: bool = False


@dataclass(frozen=True)
class Notice:
    """What is said: a sentence, what to do about it, and actions.

    ``lasts_s`` None stays until it is closed; ``blocking`` puts it before everything else.
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
        """Everything known about it, for a bug report."""
        parts = (self.text, self.hint, str(self.where or ""), self.details)
        return "\n".join(part for part in parts if part)


class Notices(QObject):
    """Takes what the program has to say.

    Signals:
        posted: a ``Notice`` is to be shown.
        closed: the id of a notice that is over.
        place_asked: a ``Place`` the user wants to go to.
        help_asked: a ``Place`` the user wants to read about.
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
        """Say something that needs no answer."""
        self._post(Notice(next(self._ids), "info", text, hint, actions=tuple(actions)))

    def success(self, text: str, hint: str = "", actions: Sequence[Action] = ()) -> None:
        """Say that something long is done."""
        self._post(Notice(next(self._ids), "success", text, hint, actions=tuple(actions)))

    def warning(self, text: str, hint: str = "", actions: Sequence[Action] = ()) -> None:
        """Say something that the user should know before going on."""
        self._post(
            Notice(next(self._ids), "warning", text, hint, actions=tuple(actions), lasts_s=20.0)
        )

    def error(self, error: WorkbenchError, actions: Sequence[Action] = ()) -> None:
        """Say what went wrong: the first problem in full, the others below it."""
        first, *others = error.infos or (
            ErrorInfo(message="Something went wrong.", code="unknown"),
        )
        more = "\n".join(f"\u2022 {info}" for info in others)
        hint = "\n".join(part for part in (first.hint, more) if part)
        self._post(
            Notice(
                next(self._ids), "error", first.message, hint, first.details, first.where,
                tuple(actions), lasts_s=None,
            )
        )  # fmt: skip

    def question(
        self, text: str, hint: str, actions: Sequence[Action], *, blocking: bool = False
    ) -> None:
        """Ask; the first action is the expected answer. Closing it unanswered does nothing."""
        self._post(
            Notice(
                next(self._ids), "question", text, hint, actions=tuple(actions), lasts_s=None,
                blocking=blocking,
            )
        )  # fmt: skip

    def choose(self, notice_id: int, title: str) -> None:
        """Do what one action of a notice says, and close the notice."""
        notice = self.open.get(notice_id)
        if notice is None:
            return
        self.close(notice_id)
        for action in notice.actions:
            if action.title == title:
                action.run()

    def close(self, notice_id: int) -> None:
        """Take a notice away."""
        if self.open.pop(notice_id, None) is not None:
            self.closed.emit(notice_id)

    def _post(self, notice: Notice) -> None:
        same = [
            n.id for n in self.open.values() if (n.level, n.text) == (notice.level, notice.text)
        ]
        for notice_id in same:
            self.close(notice_id)
        self.open[notice.id] = notice
        self.posted.emit(notice)
