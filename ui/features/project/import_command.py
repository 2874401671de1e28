"""Imports an ExecuTorch aot_arm_compiler command as a project."""

from __future__ import annotations

import os
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QLineEdit, QPlainTextEdit, QVBoxLayout, QWidget

from ui.shared.forms import PathField, dialog_form, make_primary
from ui.shared.labels import Label
from workbench.errors import WorkbenchError
from workbench.project.model import PROJECT_SUFFIX
from workbench.script.aot_arm_compiler import Taken, take_command, write_taken

_EXAMPLE = "python -m executorch.backends.arm.scripts.aot_arm_compiler -m net.py -d -q"


class ImportCommandDialog(QDialog):
    """Dialog with command, folder and name. Shows errors and ignored options at once.

    Signals:
        made: path of the new project file.
    """

    made = Signal(object)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Import aot_arm_compiler command")
        self.command = QPlainTextEdit(self)
        self.command.setAccessibleName("Command")
        self.command.setPlaceholderText(_EXAMPLE)
        self.command.setFixedHeight(96)
        self.command.textChanged.connect(self._show)
        self.folder = PathField("Folder", "", self, kind="folder")
        self.folder.edited.connect(self._show)
        self.name = QLineEdit("net", self)
        self.name.setAccessibleName("Name")
        self.name.textChanged.connect(self._show)
        self.summary = Label(self)
        self.summary.setObjectName("Hint")
        self.summary.setWordWrap(True)
        self.summary.setMinimumHeight(110)
        self.summary.setAlignment(Qt.AlignmentFlag.AlignTop)
        kinds = QDialogButtonBox.StandardButton
        self.buttons = QDialogButtonBox(kinds.Ok | kinds.Cancel, self)
        self.ok = self.buttons.button(kinds.Ok)
        self.ok.setText("Create project")
        make_primary(self.ok)
        self.buttons.accepted.connect(self._on_accepted)
        self.buttons.rejected.connect(self.reject)
        form = dialog_form(
            ("Command", self.command), ("Model folder", self.folder), ("Project name", self.name)
        )
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 14, 16, 14)
        layout.setSpacing(10)
        layout.addLayout(form)
        layout.addWidget(self.summary, 1)
        layout.addWidget(self.buttons)
        self.setMinimumWidth(640)
        self._show()

    def _show(self, *_: object) -> None:
        taken, problem = self._read()
        self.ok.setEnabled(taken is not None)
        self.summary.setText("\n".join(taken.notes) if taken is not None else problem)

    def _read(self) -> tuple[Taken | None, str]:
        command, folder = self.command.toPlainText().strip(), self.folder.text()
        if not command:
            return None, "Paste a command. Its paths are relative to the model folder."
        if not folder or not os.path.isdir(folder):
            return None, "Enter the model folder. The project is created there."
        if not self.name.text().strip().isidentifier():
            return None, "The name gives a Python file its name: letters, digits and _."
        try:
            return take_command(command, Path(folder), self.name.text().strip()), ""
        except WorkbenchError as error:
            return None, " ".join(f"{info.message} {info.hint}".strip() for info in error.infos)

    def _on_accepted(self) -> None:
        taken, problem = self._read()
        if taken is None:
            self.summary.setText(problem)
            return
        path = Path(self.folder.text()) / f"{self.name.text().strip()}{PROJECT_SUFFIX}"
        try:
            write_taken(taken, path)
        except WorkbenchError as error:
            self.summary.setText(f"{error.infos[0].message} {error.infos[0].hint}")
            return
        self.made.emit(path)
        self.accept()
