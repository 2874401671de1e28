"""MASE's pass_args as the rules of the project, and the rules as a file of these."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Qt
from PySide6.QtWidgets import QFileDialog

from ui.shared.panel import PanelContext
from ui.shell.main_window import MainWindow
from ui.state.notices import Action
from workbench.errors import Place, WorkbenchError, failure
from workbench.targets.formats.pass_args import Imported, pass_args_of, read_args, taken, toml_of

FILTER = "MASE's pass_args (*.toml *.json *.py);;All files (*)"
TITLE = "MASE's pass_args"


class MaseVerbs(QObject):
    """Takes and writes pass_args; taking is one step that can be undone."""

    def __init__(self, context: PanelContext, window: MainWindow) -> None:
        super().__init__(window)
        self._document, self._notices, self._window = context.document, context.notices, window

    def ask_take(self) -> None:
        """Let the user choose a file to take rules from."""
        dialog = self._dialog(QFileDialog.AcceptMode.AcceptOpen)
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.fileSelected.connect(lambda name: self.take(Path(name)))
        dialog.open()

    def ask_write(self) -> None:
        """Let the user choose a file to write the rules to."""
        dialog = self._dialog(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix("toml")
        dialog.selectFile("pass_args.toml")
        dialog.fileSelected.connect(lambda name: self.write(Path(name)))
        dialog.open()

    def take(self, path: Path) -> None:
        """Read a file, and ask which form of its formats is wanted."""
        project = self._document.project
        if project is None:
            return
        try:
            args = read_args(path)
            forms = [taken(project, args, mase_compatible=mase) for mase in (False, True)]
        except WorkbenchError as error:
            self._notices.error(error)
            return
        count = len(forms[0].project.rules)
        rules = f"{count} rule{'s' if count != 1 else ''} of {path.name}"
        self._notices.question(
            f"{rules} would replace the present ones.",
            "Where MASE computes a format otherwise than the textbook, which form is meant?",
            [
                Action("Textbook", partial(self._put, path, forms[0])),
                Action("As MASE computes it", partial(self._put, path, forms[1])),
                Action("Cancel", lambda: None),
            ],
        )  # fmt: skip

    def write(self, path: Path) -> None:
        """Write the rules as TOML, or as JSON by the name of the file."""
        project = self._document.project
        if project is None:
            return
        try:
            args = pass_args_of(project)
            path.write_text(json.dumps(args, indent=1) if path.suffix == ".json" else toml_of(args))
        except WorkbenchError as error:
            self._notices.error(error)
        except OSError as error:
            where = Place(kind="file", id=str(path))
            self._notices.error(
                failure(
                    f"It cannot be written: {error.strerror}.",
                    where=where,
                    code="file-not-writable",
                )
            )
        else:
            self._notices.success(f"The rules are in {path.name}.", "")

    def _put(self, path: Path, found: Imported) -> None:
        self._document.apply(f"Take the rules of {path.name}", lambda _: found.project)
        if found.notes:
            lines = "\n".join(f"{note.where}: {note.message}" for note in found.notes)
            self._notices.info("Some of the file was left out.", lines)

    def _dialog(self, mode: QFileDialog.AcceptMode) -> QFileDialog:
        dialog = QFileDialog(self._window, TITLE, str(self._document.folder), FILTER)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setAcceptMode(mode)
        return dialog
