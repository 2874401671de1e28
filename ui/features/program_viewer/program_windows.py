"""Opens program viewers, one window per file."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from ui.features.program_viewer.program_contents import TFLITE_SUFFIX, Contents, read
from ui.shared.appearance import Appearance
from ui.state.background import Background
from ui.state.notices import Notices
from workbench.errors import WorkbenchError

SUFFIXES = (".pte", ".bpte", TFLITE_SUFFIX)


class Programs(QObject):
    """Reads files in a worker thread and owns the viewer windows.

    Signals:
        dropped: paths that were dropped on a viewer window.
    """

    dropped = Signal(object)

    def __init__(self, appearance: Appearance, notices: Notices, window: QWidget) -> None:
        super().__init__(window)
        self._appearance, self._notices, self._window = appearance, notices, window
        self._background = Background(self)
        self._background.done.connect(self._on_read)
        self.windows: dict[Path, QWidget] = {}
        self._steps: dict[Path, tuple[int, int]] = {}

    def open(self, path: Path) -> None:
        """Show the contents of a file, or post an error."""
        whole = path.absolute()
        self._background.submit(str(whole), lambda _outdated: read(whole))

    def step_through(self, path: Path, delegate: int, offset: int) -> None:
        """Execute a program, and show what the command at an offset [bytes] reads and writes."""
        self._steps[path.absolute()] = delegate, offset
        self.open(path)

    def stop(self) -> None:
        """Close all viewer windows."""
        self._background.stop()
        for window in tuple(self.windows.values()):
            window.close()

    def _on_read(self, _topic: str, contents: object) -> None:
        from ui.features.program_viewer.program_window import ProgramWindow

        if isinstance(contents, WorkbenchError):
            self._notices.error(contents)
            return
        assert isinstance(contents, Contents)
        window = self.windows.get(contents.path)
        if isinstance(window, ProgramWindow):
            window.render_contents(contents)
        else:
            window = ProgramWindow(contents, self._appearance, self._window)
            window.closed.connect(partial(self._on_closed, contents.path))
            window.dropped.connect(self.dropped)
            self.windows[contents.path] = window
        window.show()
        window.raise_()
        window.activateWindow()
        step = self._steps.pop(contents.path, None)
        if step is not None and isinstance(window, ProgramWindow):
            window.step_to(*step)

    def _on_closed(self, path: Path) -> None:
        window = self.windows.pop(path, None)
        if window is not None:
            window.deleteLater()
