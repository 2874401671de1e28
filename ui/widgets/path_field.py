"""A line for a path, with a button that opens the file dialog."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFileDialog, QHBoxLayout, QLineEdit, QMenu, QPushButton, QWidget

Kind = Literal["file", "folder", "either"]


class PathField(QWidget):
    """Path of a file, of a folder, or of either.

    Signals:
        edited: the text as the user has made it.
    """

    edited = Signal(str)

    def __init__(self, title: str, patterns: str, parent: QWidget, *, kind: Kind = "file") -> None:
        super().__init__(parent)
        self._title, self._patterns = title, patterns
        self.line = QLineEdit(self)
        self.line.setAccessibleName(title)
        self.line.textEdited.connect(self.edited)
        self.setFocusProxy(self.line)
        browse = QPushButton("Choose\u2026", self)
        browse.setAccessibleName(f"Choose {title.lower()}")
        if kind == "either":
            menu = QMenu(browse)
            menu.addAction("File\u2026").triggered.connect(self._on_file_wanted)
            menu.addAction("Folder of pictures\u2026").triggered.connect(self._on_folder_wanted)
            browse.setMenu(menu)
        else:
            asked = self._on_file_wanted if kind == "file" else self._on_folder_wanted
            browse.clicked.connect(asked)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(6)
        layout.addWidget(self.line, 1)
        layout.addWidget(browse)

    def text(self) -> str:
        """Return what is typed."""
        return self.line.text().strip()

    def set_text(self, text: str) -> None:
        """Show a path as if the user had typed it."""
        self.line.setText(text)
        self.edited.emit(text)

    def _on_file_wanted(self) -> None:
        self._ask(QFileDialog.FileMode.ExistingFile)

    def _on_folder_wanted(self) -> None:
        self._ask(QFileDialog.FileMode.Directory)

    def _ask(self, mode: QFileDialog.FileMode) -> None:
        known = Path(self.text()).parent
        dialog = QFileDialog(self, self._title, str(known if self.text() else Path.home()))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setFileMode(mode)
        if mode == QFileDialog.FileMode.ExistingFile:
            dialog.setNameFilters([self._patterns, "All files (*)"])
        dialog.fileSelected.connect(self.set_text)
        dialog.open()
