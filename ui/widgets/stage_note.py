"""Where a result would be: a sentence on what is missing, and the button that makes it."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from ui.session import Session, StageView
from workbench.pipeline.stages import STAGES_BY_ID

_RUNNABLE = {"stale", "failed", "cached"}


def sentence(view: StageView, empty: str) -> str:
    """Return what is to be said of a stage without a result."""
    match view.state:
        case "running":
            verb = STAGES_BY_ID[view.id].verb
            share = f" {view.fraction:.0%}" if view.fraction is not None else ""
            return f"{verb}\u2026{share} {view.message}".strip()
        case "queued":
            return f"{view.title} waits for its turn."
        case "failed" if view.infos:
            info = view.infos[0]
            return f"{view.title} failed: {info.message}\n{info.hint}".strip()
        case "blocked" | "unavailable":
            return f"{view.title} cannot run. {view.reason}".strip()
        case _:
            return empty


def button_text(view: StageView) -> str:
    """Return what the button says; "" where there is nothing to start."""
    if view.state not in _RUNNABLE:
        return ""
    return f"Run {view.title} again" if view.state == "failed" else f"Run {view.title}"


class StageNote(QWidget):
    """A sentence and a button in the middle of nothing.

    Signals:
        run_asked: id of the stage that is to run.
    """

    run_asked = Signal(str)

    def __init__(self, empty: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._empty = empty
        self._absent = ""
        self._stage = ""
        self._session: Session | None = None
        self.label = QLabel(empty, self)
        self.label.setObjectName("Hint")
        self.label.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.label.setWordWrap(True)
        self.button = QPushButton(self)
        self.button.clicked.connect(lambda: self.run_asked.emit(self._stage))
        row = QHBoxLayout()
        row.addStretch(1)
        row.addWidget(self.button)
        row.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 16, 16, 16)
        layout.setSpacing(10)
        layout.addStretch(1)
        layout.addWidget(self.label)
        layout.addLayout(row)
        layout.addStretch(1)

    def follow(self, session: Session, stage: str) -> None:
        """Say how a stage stands, now and whenever that changes."""
        self._session, self._stage = session, stage
        session.stage_changed.connect(self._on_stage_changed)
        self.render_stage(session.stage(stage))

    def _on_stage_changed(self, stage: str) -> None:
        if self._session is not None and stage == self._stage:
            self.render_stage(self._session.stage(stage))

    def render_stage(self, view: StageView) -> None:
        """Say how a stage stands."""
        self._stage = view.id
        is_absent = bool(self._absent) and view.state == "cached"
        self.label.setText(self._absent if is_absent else sentence(view, self._empty))
        text = "" if is_absent else button_text(view)
        self.button.setText(text)
        self.button.setVisible(bool(text))

    def set_absent(self, sentence: str) -> None:
        """Say why a stage that is done has nothing for this place; "" where it has."""
        self._absent = sentence


class StaleBanner(QWidget):
    """A line over figures that belong to a former configuration.

    Signals:
        run_asked: id of the stage that is to run.
    """

    run_asked = Signal(str)

    def __init__(self, what: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("Banner")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._what = what
        self._stage = ""
        self.label = QLabel(self)
        self.label.setWordWrap(True)
        self.button = QPushButton(self)
        self.button.clicked.connect(lambda: self.run_asked.emit(self._stage))
        layout = QHBoxLayout(self)
        layout.setContentsMargins(10, 3, 10, 3)
        layout.addWidget(self.label, 1)
        layout.addWidget(self.button)

    def render_stage(self, view: StageView) -> None:
        """Say what is being done about it."""
        self._stage = view.id
        former = f"{self._what} of a former configuration."
        self.label.setText(f"{former} {sentence(view, '')}".strip())
        text = button_text(view)
        self.button.setText(text)
        self.button.setVisible(bool(text))
