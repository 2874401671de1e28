"""The log: a bounded list of lines, updated in batches."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, QPersistentModelIndex, Qt, QTimer

from ui.shared.labels import literal
from workbench.protocol import Level

AnyIndex = QModelIndex | QPersistentModelIndex
ROOT = QModelIndex()
MAX_LINES = 5000
_BURST_MS = 80


class Role(IntEnum):
    """Item data roles of a line."""

    LEVEL = Qt.ItemDataRole.UserRole + 1
    STAGE = Qt.ItemDataRole.UserRole + 2


@dataclass(frozen=True)
class Line:
    """One log line with its time and level."""

    at: float
    level: Level
    text: str
    stage: str = ""

    @property
    def shown(self) -> str:
        """The line as shown and copied."""
        clock = time.strftime("%H:%M:%S", time.localtime(self.at))
        stage = f"{self.stage}: " if self.stage else ""
        return f"{clock}  {stage}{self.text}"


class LogModel(QAbstractListModel):
    """The newest lines. The view updates at most 12 times a second."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._lines: list[Line] = []
        self._arriving: deque[Line] = deque(maxlen=MAX_LINES)
        self._burst = QTimer(self, interval=_BURST_MS, singleShot=True)
        self._burst.timeout.connect(self.flush)

    def add(self, level: Level, text: str, stage: str = "") -> None:
        """Add a line. Several lines are inserted as one change."""
        self._arriving.append(Line(time.time(), level, text, stage))
        if not self._burst.isActive():
            self._burst.start()

    def flush(self) -> None:
        """Insert the pending lines."""
        arriving = list(self._arriving)
        self._arriving.clear()
        if not arriving:
            return
        first = len(self._lines)
        self.beginInsertRows(QModelIndex(), first, first + len(arriving) - 1)
        self._lines.extend(arriving)
        self.endInsertRows()
        if (surplus := len(self._lines) - MAX_LINES) > 0:
            self.beginRemoveRows(QModelIndex(), 0, surplus - 1)
            del self._lines[:surplus]
            self.endRemoveRows()

    def clear(self) -> None:
        """Remove all lines."""
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
        if role == Qt.ItemDataRole.DisplayRole:
            return line.shown
        if role == Qt.ItemDataRole.ToolTipRole:
            return literal(line.shown)
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return f"{line.level}: {line.text}"
        if role == Role.LEVEL:
            return line.level
        return line.stage if role == Role.STAGE else None
