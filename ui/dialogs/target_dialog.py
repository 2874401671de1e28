"""The target with all of its options, an own .ini for Vela among them."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QLabel, QVBoxLayout, QWidget

from ui.widgets.emphasis import make_primary
from ui.widgets.tall_form import TallForm
from ui.widgets.target_form import TargetForm
from workbench.errors import WorkbenchError
from workbench.project.model import TargetChoice
from workbench.targets import target_of

_WIDTH_PX = 560


class TargetDialog(QDialog):
    """Shows every option; says at once what is wrong with them.

    Signals:
        chosen: the complete ``TargetChoice``, once it is accepted.
    """

    chosen = Signal(object)

    def __init__(self, choice: TargetChoice, folder: Path, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Target")
        self._folder = folder
        self.target = TargetForm(self)
        self.target.chosen.connect(self._check)
        self.problems = QLabel(self)
        self.problems.setObjectName("Reason")
        self.problems.setWordWrap(True)
        self.problems.setMinimumHeight(84)
        self.problems.setAlignment(Qt.AlignmentFlag.AlignTop)
        kinds = QDialogButtonBox.StandardButton
        self.buttons = QDialogButtonBox(kinds.Ok | kinds.Cancel, self)
        make_primary(self.buttons.button(kinds.Ok))
        self.buttons.accepted.connect(self._on_accepted)
        self.buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(18, 16, 18, 14)
        layout.setSpacing(10)
        layout.addWidget(TallForm(self.target, self))
        layout.addWidget(self.problems)
        layout.addWidget(self.buttons)
        self.setMinimumWidth(_WIDTH_PX)
        self.target.render_choice(choice, folder)
        self._check(choice)

    def _check(self, choice: TargetChoice) -> None:
        try:
            found = target_of(choice.id).check(choice, self._folder)
        except WorkbenchError as error:
            found = list(error.infos)
        self.problems.setText("\n".join(" ".join((p.message, p.hint)).strip() for p in found))
        self.buttons.button(QDialogButtonBox.StandardButton.Ok).setEnabled(not found)

    def _on_accepted(self) -> None:
        if self.target.choice is not None:
            self.chosen.emit(self.target.choice)
        self.accept()
