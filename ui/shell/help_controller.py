"""Help: the guide's page for what has the focus, for a place, and About."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QVBoxLayout, QWidget

from ui.features.help_window import HelpWindow
from ui.shared.labels import Label
from ui.shared.panel import Panel, PanelContext
from ui.shell.main_window import MainWindow
from workbench import guide
from workbench.errors import Place
from workbench.installation import version
from workbench.logs import log_file
from workbench.toolchains.versions import tool_versions


class HelpController(QObject):
    """Opens the guide's window, once, and keeps it."""

    def __init__(self, context: PanelContext, window: MainWindow) -> None:
        super().__init__(window)
        self._context, self._main = context, window
        self.window: HelpWindow | None = None
        context.appearance.changed.connect(self._on_theme)

    def verbs(self) -> dict[str, Callable[[], object]]:
        """Return what the actions of the help menu do."""
        return {
            "help": self.show_for_focus,
            "guide": self.show_contents,
            "shortcuts": self.show_shortcuts,
            "glossary": self.show_glossary,
            "about": self.show_about,
        }

    def show_for_focus(self) -> None:
        """Show the page of the panel that has the focus, else of the one in front."""
        widget: QWidget | None = self._main.focusWidget()
        while widget is not None and not isinstance(widget, Panel):
            widget = widget.parentWidget()
        panel_id = widget.panel_id if isinstance(widget, Panel) else self._front_panel()
        self.show_page(guide.page_for_panel(panel_id) if panel_id else guide.INDEX)

    def _front_panel(self) -> str:
        """Return the panel in front in the present workspace; "" while no project is open."""
        spaces = self._main.workspaces
        home = spaces.homes[spaces.current]
        docks = self._main.docks.items()
        fronts = (name for name, dock in docks if dock.parentWidget() is home and dock.is_in_front)
        return next(fronts, "")

    def show_contents(self) -> None:
        """Show the table of contents."""
        self.show_page(guide.INDEX)

    def show_place(self, place: Place) -> None:
        """Show the page about a kind of place."""
        self.show_page(guide.page_for_place(place))

    def show_shortcuts(self) -> None:
        """Show the keyboard shortcuts."""
        self.show_page(guide.REFERENCE / "shortcuts.md")

    def show_glossary(self) -> None:
        """Show the glossary."""
        self.show_page(guide.GUIDE / "glossary.md")

    def show_page(self, path: Path) -> None:
        """Show one page of the guide."""
        if self.window is None:
            self.window = HelpWindow(self._context.theme, self._main)
        self.window.show_page(path)
        self.window.show()
        self.window.raise_()
        self.window.activateWindow()

    def show_about(self) -> None:
        """Show versions, licences and where the log is."""
        dialog = QDialog(self._main)
        dialog.setWindowTitle("About Quantization Workbench")
        tools = "\n".join(f"{name}  {number}" for name, number in tool_versions().items())
        text = Label(
            f"Quantization Workbench {version()}\n\n{tools}\n\n"
            "PySide6 and Qt: LGPL-3.0. PyTorch, torchao and ExecuTorch: BSD-3-Clause.\n"
            "Vela: Apache-2.0. pyqtgraph: MIT.\n\n"
            f"Log: {log_file()}"
        )
        text.setTextInteractionFlags(text.textInteractionFlags().TextSelectableByMouse)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, dialog)
        buttons.rejected.connect(dialog.reject)
        layout = QVBoxLayout(dialog)
        layout.setContentsMargins(20, 18, 20, 14)
        layout.addWidget(text)
        layout.addWidget(buttons)
        dialog.open()

    def _on_theme(self, *_: object) -> None:
        if self.window is not None:
            self.window.set_theme(self._context.theme)
