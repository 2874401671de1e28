"""Imports MASE pass_args as the rules of the project, and exports the rules as pass_args."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject

from ui.shared.file_dialogs import ask_to_open, ask_to_save
from ui.shared.panel import PanelContext
from ui.shell.main_window import MainWindow
from ui.state.notices import Action
from workbench.errors import WorkbenchError, not_written
from workbench.files import write_file
from workbench.targets.formats.pass_args import Imported, pass_args_of, read_args, taken, toml_of

FILTERS = ("MASE pass_args (*.toml *.json *.py)", "All files (*)")
TITLE = "MASE pass_args"


class MaseController(QObject):
    """Imports and exports pass_args. Importing is one undo step."""

    def __init__(self, context: PanelContext, window: MainWindow) -> None:
        super().__init__(window)
        self._document, self._notices, self._window = context.document, context.notices, window

    def ask_import(self) -> None:
        """Ask for a file to import rules from."""
        ask_to_open(
            self._window,
            TITLE,
            lambda name: self.take(Path(name)),
            start=self._document.folder,
            filters=FILTERS,
        )

    def ask_export(self) -> None:
        """Ask for a file to export the rules to."""
        ask_to_save(
            self._window,
            TITLE,
            lambda name: self.write(Path(name)),
            "pass_args.toml",
            start=self._document.folder,
            filters=FILTERS,
        )

    def take(self, path: Path) -> None:
        """Import a file. Asks which variant of the number formats is meant."""
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
        rules = f"{count} rule{'s' if count != 1 else ''} from {path.name}"
        self._notices.question(
            f"Replace the present rules with {rules}?",
            "Which variant of the formats that MASE computes differently from the literature?",
            [
                Action("Reference definition", partial(self._put, path, forms[0])),
                Action("MASE implementation", partial(self._put, path, forms[1])),
                Action("Cancel", lambda: None),
            ],
        )

    def write(self, path: Path) -> None:
        """Write the rules as TOML, or as JSON if the file name ends in ``.json``."""
        project = self._document.project
        if project is None:
            return
        try:
            args = pass_args_of(project)
            text = json.dumps(args, indent=1) if path.suffix == ".json" else toml_of(args)
            write_file(path, text.encode())
        except WorkbenchError as error:
            self._notices.error(error)
        except OSError as error:
            self._notices.error(not_written(path, error))
        else:
            self._notices.success(f"Rules exported to {path.name}.", "")

    def _put(self, path: Path, imported: Imported) -> None:
        self._document.apply(f"Import rules from {path.name}", lambda _: imported.project)
        if imported.notes:
            lines = "\n".join(f"{note.where}: {note.message}" for note in imported.notes)
            self._notices.info("Parts of the file were not imported.", lines)
