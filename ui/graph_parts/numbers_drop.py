"""A file of numbers dropped on the graph: read here, shown as an overlay by who is told."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QEvent, QObject, Signal
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QWidget

from workbench.errors import WorkbenchError
from workbench.graph.numbers_file import SUFFIXES, read_numbers


class NumbersDrop(QObject):
    """Lets a widget take JSON and CSV files; all other files go on to the window.

    Signals:
        dropped: the ``NumbersFile``.
        failed: the ``WorkbenchError`` of a file that has no numbers.
    """

    dropped = Signal(object)
    failed = Signal(object)

    def __init__(self, taker: QWidget) -> None:
        super().__init__(taker)
        taker.setAcceptDrops(True)
        taker.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QDropEvent):
            path = _numbers_file(event)
            if path is None:
                event.ignore()
                return True
            event.acceptProposedAction()
            if not isinstance(event, QDragEnterEvent) and event.type() == QEvent.Type.Drop:
                self.take(path)
            return True
        return super().eventFilter(watched, event)

    def take(self, path: Path) -> None:
        """Read a file and tell what it holds."""
        try:
            numbers = read_numbers(path)
        except WorkbenchError as error:
            self.failed.emit(error)
            return
        self.dropped.emit(numbers)


def _numbers_file(event: QDropEvent) -> Path | None:
    urls = event.mimeData().urls()
    if len(urls) != 1 or not urls[0].isLocalFile():
        return None
    path = Path(urls[0].toLocalFile())
    return path if path.suffix.lower() in SUFFIXES else None
