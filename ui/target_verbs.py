"""What the window does to what quantizes: another device, other options, plug-ins."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject

from ui.main_window import MainWindow
from ui.panel import PanelContext
from workbench.deploy import boards
from workbench.project import edits
from workbench.project.model import TargetChoice


class TargetVerbs(QObject):
    """Sets the target of the project and its plug-ins, each time as one step."""

    def __init__(self, context: PanelContext, window: MainWindow) -> None:
        super().__init__(window)
        self._document, self._window = context.document, window

    def ask(self) -> None:
        """Open the dialog with all options."""
        from ui.dialogs.target_dialog import TargetDialog

        project = self._document.project
        if project is None:
            return
        dialog = TargetDialog(project.target, self._document.folder, self._window)
        dialog.chosen.connect(self.choose)
        dialog.open()

    def ask_plugins(self) -> None:
        """Open the list of plug-ins."""
        from ui.dialogs.plugins import PluginsDialog

        if self._document.project is not None:
            PluginsDialog(self._document, self._window).open()

    def choose_board(self, board: str) -> None:
        """Set the board, and with it device, configuration, memory mode and limits."""
        what = f"Set board to {Path(board).stem}" if board else "Take the board away"
        folder = self._document.folder
        self._document.apply(what, lambda project: boards.put(project, board, folder))

    def choose(self, choice: TargetChoice) -> None:
        """Set the target."""
        project = self._document.project
        if project is None or project.target == choice:
            return
        before = project.target
        changed = [k for k, v in choice.options.items() if before.options.get(k) != v]
        what = choice.id if choice.id != before.id or not changed else choice.options[changed[0]]
        self._document.apply(f"Set target to {what}", lambda p: edits.set_target(p, choice))
