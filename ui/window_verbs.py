"""What the View menu and the edges of the window show: title, status, recents, layouts, look."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QInputDialog

from ui.main_window import MainWindow
from ui.panel import PanelContext
from workbench.project.trust import TrustStore

NAME = "Quantization Workbench"
LAST = "last"


class WindowVerbs(QObject):
    """Keeps the frame of the window up to date.

    Signals:
        cache_cleared: the user has thrown all results away.
    """

    cache_cleared = Signal()

    def __init__(
        self, context: PanelContext, trust: TrustStore, window: MainWindow,
        open_path: Callable[[Path], None],
    ) -> None:  # fmt: skip
        super().__init__(window)
        self._context, self._trust, self._window = context, trust, window
        self._open = open_path
        context.document.state_changed.connect(self.show_title)
        context.document.project_changed.connect(self.show_title)
        context.problems.modelReset.connect(self.show_problem_count)
        context.runner.engines_changed.connect(self.show_engines)
        window.recents.aboutToShow.connect(self.show_recents)
        window.layouts.aboutToShow.connect(self.show_layouts)
        self.show_problem_count()

    def show_title(self) -> None:
        """Name the project in the title."""
        title = self._context.document.title
        note = " (read only)" if self._context.document.read_only else ""
        self._window.setWindowTitle(f"{title}{note}[*] \u2013 {NAME}" if title else NAME)
        self._window.setWindowModified(self._context.document.modified)

    def show_engines(self) -> None:
        """Say in the status bar what the engine does."""
        state = self._context.runner.engine_state("interactive")
        words = {"off": "", "starting": "The engine is starting\u2026", "ready": "Engine ready"}
        self._window.engine_note.setText(words[state])

    def show_problem_count(self) -> None:
        """Count the problems in the status bar."""
        count = self._context.problems.rowCount()
        text = "No problems" if not count else f"{count} problem{'s' if count > 1 else ''}"
        self._window.problem_note.setText(text)

    def show_recents(self) -> None:
        """Offer the recent projects in the menu and on the first page."""
        known = [path for path in self._context.settings.recents if path.exists()]
        self._window.welcome.render_recents(known)
        self._window.recents.clear()
        for path in known:
            action = self._window.recents.addAction(f"{path.stem}  {path.parent}")
            action.triggered.connect(partial(self._open, path))
        self._window.recents.setEnabled(bool(known))

    def show_layouts(self) -> None:
        """Offer the kept arrangements of panels."""
        menu = self._window.layouts
        menu.clear()
        names = [name for name in self._context.settings.layouts() if name != LAST]
        for name in names:
            parts = self._context.settings.layout(name)
            menu.addAction(name).triggered.connect(partial(self._window.apply_layout, parts))
        if not names:
            menu.addAction("None yet").setEnabled(False)

    def ask_layout_name(self) -> None:
        """Keep the present arrangement under a name the user gives."""
        dialog = QInputDialog(self._window)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setLabelText("Name of the arrangement")
        dialog.textValueSelected.connect(
            lambda name: self._context.settings.save_layout(
                name or "mine", self._window.layout_parts()
            )
        )
        dialog.open()

    def switch_theme(self) -> None:
        """Change between dark and light."""
        name = "light" if self._context.theme.dark else "dark"
        self._context.settings.theme = name
        self._context.appearance.switch(name)

    def show_preferences(self) -> None:
        """Open the preferences."""
        from ui.dialogs.preferences import PreferencesDialog

        dialog = PreferencesDialog(
            self._context.settings,
            self._context.appearance,
            self._context.session.cache,
            self._trust,
            self._window,
        )
        dialog.cache_cleared.connect(self.cache_cleared)
        dialog.open()

    def show_doctor(self) -> None:
        """Tell what this machine has and lacks."""
        from ui.dialogs.doctor import DoctorDialog

        DoctorDialog(self._context.theme, self._window).open()
