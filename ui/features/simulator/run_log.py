"""Model of a large text file: lines are indexed once and read on demand."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QAbstractListModel, QObject, Qt

from ui.shared.labels import literal
from ui.shared.log_lines import ROOT, AnyIndex, Role

_CHUNK = 8 << 20
_LONGEST = 2000


class TextFileModel(QAbstractListModel):
    """One row per line. ``level`` returns the level of a line.

    A file that cannot be read has no lines. Memory use is 8 bytes per line.
    """

    def __init__(self, level: Callable[[str], str], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._level = level
        self._text: mmap.mmap | bytes = b""
        self._starts: NDArray[np.int64] = np.zeros(1, np.int64)

    def open(self, path: Path) -> None:
        """Open a file and close the former one."""
        self.beginResetModel()
        self._close()
        try:
            with path.open("rb") as file:
                self._text = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError):
            # An empty file cannot be memory-mapped.
            self._text = b""
        self._starts = _line_starts(self._text)
        self.endResetModel()

    def close(self) -> None:
        """Close the file."""
        self.beginResetModel()
        self._close()
        self.endResetModel()

    def rowCount(self, parent: AnyIndex = ROOT) -> int:
        return 0 if parent.isValid() else len(self._starts) - 1

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid() or not 0 <= index.row() < self.rowCount():
            return None
        shown = {Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole}
        if role not in shown and role not in {Qt.ItemDataRole.AccessibleTextRole, Role.LEVEL}:
            return None
        line = self._line(index.row())
        if role == Qt.ItemDataRole.ToolTipRole:
            return literal(line)
        return self._level(line) if role == Role.LEVEL else line

    def _line(self, row: int) -> str:
        begin, end = int(self._starts[row]), int(self._starts[row + 1])
        data = self._text[begin : min(end, begin + _LONGEST)]
        return data.decode("utf-8", "replace").rstrip("\r\n").replace("\r", " ").replace("\0", " ")

    def _close(self) -> None:
        if isinstance(self._text, mmap.mmap):
            self._text.close()
        self._text, self._starts = b"", np.zeros(1, np.int64)


def _line_starts(text: mmap.mmap | bytes) -> NDArray[np.int64]:
    """Return the start offset of each line, and the end of the last one."""
    positions = [np.zeros(1, np.int64)]
    for at in range(0, len(text), _CHUNK):
        piece = np.frombuffer(text[at : at + _CHUNK], np.uint8)
        positions.append(np.flatnonzero(piece == ord("\n")) + at + 1)
    starts = np.concatenate(positions)
    return starts if starts[-1] == len(text) else np.append(starts, len(text))
