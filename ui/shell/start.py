"""The start: paints the frame of the window, then imports the program and opens the project.

Imports of this module stay light, because they all come before the first paint.
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QEventLoop, QObject, QSocketNotifier, QTimer, Signal
from PySide6.QtWidgets import QApplication

from ui.shared.appearance import Appearance
from ui.shell.main_window import NAME, MainWindow
from ui.state.settings import LAST, Settings

if TYPE_CHECKING:
    from ui.shell.app import Workbench

# Imported one after another after the first paint. Events are handled between two of them.
IMPORTS = (
    "pydantic",
    "pydantic.fields",
    "pydantic.main",
    "workbench.errors",
    "workbench.pte.description",
    "workbench.results",
    "workbench.project.edits",
    "workbench.targets",
    "workbench.protocol",
    "workbench.graph.layout",
    "ui.state.session",
    "ui.state.assigner",
    "ui.shared.panel",
    "ui.shell.file_controller",
    "ui.shell.help_controller",
    "ui.shell.app",
)


def new_application() -> QApplication:
    """Return the application. It draws its widgets alike on all systems."""
    # ``QApplication.setStyle`` would import the enumerations of QStyle before the first paint.
    application = QApplication([NAME, "-style", "Fusion"])
    application.setApplicationName("quantization-workbench")
    application.setApplicationDisplayName(NAME)
    application.setQuitOnLastWindowClosed(False)
    return application


def show_frame(application: QApplication, project: Path | None) -> MainWindow:
    """Show the window without its contents: the places of panels, or of the welcome page."""
    settings = Settings()
    window = MainWindow(Appearance(application, settings.theme))
    former = settings.layout(LAST)
    window.restore_session(former)
    if project is not None and project.suffix == ".qwb":
        window.show_panels()
    if "geometry" not in former and window.fills_screen:
        window.showMaximized()
    else:
        window.show()
    return window


class Start(QObject):
    """Opens the window and then, in short steps, everything behind it.

    Clicks and keys that come meanwhile are handled at the end, when their receivers exist.

    Signals:
        ready: everything is imported, and the project is open.
    """

    ready = Signal()

    def __init__(self, application: QApplication, project: Path | None) -> None:
        super().__init__(application)
        self.workbench: Workbench | None = None
        self._application, self._project = application, project
        self._is_closed = False
        self.window = show_frame(application, project)
        self.window.painted.connect(self._on_painted)
        self.window.close_asked.connect(self._on_close_asked)

    def _on_close_asked(self) -> None:
        self.window.may_close = self._is_closed = True
        self._application.quit()

    def end(self) -> None:
        """End at once, with what is unsaved kept for the next start, and no lock left behind."""
        if self.workbench is not None:
            self.workbench.document.leave_behind()
            self.workbench.stop()
        self._is_closed = True
        self._application.quit()

    def _on_painted(self) -> None:
        # A window manager may keep a window above its parent only if the parent was there first.
        for dock in self.window.docks.values():
            if dock.isFloating() and dock.isVisible():
                dock.hide()
                dock.show()
        QTimer.singleShot(0, self, self._load)

    def _load(self) -> None:
        try:
            for _ in self._all_steps():
                self._application.processEvents(QEventLoop.ProcessEventsFlag.ExcludeUserInputEvents)
                if self._is_closed:
                    return
        except Exception:
            # Without its contents the window is of no use.
            self._application.exit(1)
            raise
        self.ready.emit()

    def _all_steps(self) -> Iterator[None]:
        for name in IMPORTS:
            import_module(name)
            yield
        from ui.shell.app import begin

        self.workbench = begin(self._application, self.window)
        self.window.close_asked.disconnect(self._on_close_asked)
        yield
        self.workbench.start(self._project)


def run(project: str | None) -> int:
    """Open the window, run until it is closed, and return the exit code."""
    application = new_application()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    start = Start(application, Path(project) if project else None)
    ended = EndSignals(application)
    ended.came.connect(start.end)
    return application.exec()


class EndSignals(QObject):
    """Turns SIGTERM and SIGHUP into a Qt signal: a handler of Python's runs between Qt's events.

    Signals:
        came: the system asks the program to end.
    """

    came = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._ends = socket.socketpair()
        for end in self._ends:
            end.setblocking(False)
        signal.set_wakeup_fd(self._ends[1].fileno(), warn_on_full_buffer=False)
        for name in ("SIGTERM", "SIGHUP"):
            if (number := getattr(signal, name, None)) is not None:
                signal.signal(number, lambda *_: None)
        self._notifier = QSocketNotifier(self._ends[0].fileno(), QSocketNotifier.Type.Read, self)
        self._notifier.activated.connect(self._on_came)

    def _on_came(self) -> None:
        self._ends[0].recv(64)
        self.came.emit()
