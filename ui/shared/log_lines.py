"""The log: a bounded list of lines that arrive in bursts."""

from __future__ import annotations

import mmap
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import (
    QAbstractListModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
    QTimer,
)

from workbench.protocol import Level

AnyIndex = QModelIndex | QPersistentModelIndex
ROOT = QModelIndex()
KEPT = 5000
_BURST_MS = 80


class Role(IntEnum):
    """What a line tells the delegate."""

    LEVEL = Qt.ItemDataRole.UserRole + 1
    STAGE = Qt.ItemDataRole.UserRole + 2


@dataclass(frozen=True)
class Line:
    """One line, when it came and how serious it is."""

    at: float
    level: Level
    text: str
    stage: str = ""

    @property
    def shown(self) -> str:
        """The line as it is read and copied."""
        clock = time.strftime("%H:%M:%S", time.localtime(self.at))
        stage = f"{self.stage}: " if self.stage else ""
        return f"{clock}  {stage}{self.text}"


class LogModel(QAbstractListModel):
    """The last lines; older ones are forgotten. Bursts are shown at most a dozen times a second."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._lines: list[Line] = []
        self._arriving: deque[Line] = deque(maxlen=KEPT)
        self._burst = QTimer(self, interval=_BURST_MS, singleShot=True)
        self._burst.timeout.connect(self.flush)

    def add(self, level: Level, text: str, stage: str = "") -> None:
        """Take a line; several come in as one change."""
        self._arriving.append(Line(time.time(), level, text, stage))
        if not self._burst.isActive():
            self._burst.start()

    def flush(self) -> None:
        """Show what has arrived."""
        arriving = list(self._arriving)
        self._arriving.clear()
        if not arriving:
            return
        first = len(self._lines)
        self.beginInsertRows(QModelIndex(), first, first + len(arriving) - 1)
        self._lines.extend(arriving)
        self.endInsertRows()
        if (surplus := len(self._lines) - KEPT) > 0:
            self.beginRemoveRows(QModelIndex(), 0, surplus - 1)
            del self._lines[:surplus]
            self.endRemoveRows()

    def clear(self) -> None:
        """Forget all lines."""
        self._arriving.clear()
        self.beginResetModel()
        self._lines.clear()
        self.endResetModel()

    def last_lines(self, count: int) -> str:
        """Return the newest lines as text, for a crash report."""
        lines = [*self._lines, *self._arriving]
        return "\n".join(line.shown for line in lines[-count:])

    def rowCount(self, parent: AnyIndex = ROOT) -> int:
        return 0 if parent.isValid() else len(self._lines)

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid() or index.row() >= len(self._lines):
            return None
        line = self._lines[index.row()]
        if role in {Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole}:
            return line.shown
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return f"{line.level}: {line.text}"
        if role == Role.LEVEL:
            return line.level
        return line.stage if role == Role.STAGE else None


_CHUNK = 8 << 20
_LONGEST = 2000


class TextFileModel(QAbstractListModel):
    """One row a line. ``level`` tells how loud a line is.

    A file that cannot be read has no lines. Eight bytes a line are kept, and no text.
    """

    def __init__(self, level: Callable[[str], str], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._level = level
        self._text: mmap.mmap | bytes = b""
        self._starts: NDArray[np.int64] = np.zeros(1, np.int64)

    def open(self, path: Path) -> None:
        """Show another file; the one before is closed."""
        self.beginResetModel()
        self._close()
        try:
            with path.open("rb") as file:
                self._text = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError):
            # An empty file cannot be mapped.
            self._text = b""
        self._starts = _line_starts(self._text)
        self.endResetModel()

    def close(self) -> None:
        """Show nothing."""
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
    """Return where each line begins, and the end of the last one."""
    found = [np.zeros(1, np.int64)]
    for at in range(0, len(text), _CHUNK):
        piece = np.frombuffer(text[at : at + _CHUNK], np.uint8)
        found.append(np.flatnonzero(piece == ord("\n")) + at + 1)
    starts = np.concatenate(found)
    return starts if starts[-1] == len(text) else np.append(starts, len(text))
