"""Table model with one object for each row, and titles of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, Qt

from ui.shared.chip import AnyIndex

Row = TypeVar("Row")
ROOT = QModelIndex()


class RowTableModel(QAbstractTableModel, Generic[Row]):
    """Rows, their number and the titles; subclasses change ``_rows`` and add ``data``."""

    def __init__(self, titles: Sequence[str], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._titles = titles
        self._rows: list[Row] = []

    def row_at(self, row: int) -> Row | None:
        """Return what a row shows; None if there is no such row."""
        return self._rows[row] if 0 <= row < len(self._rows) else None

    def rowCount(self, parent: AnyIndex = ROOT) -> int:
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: AnyIndex = ROOT) -> int:
        return 0 if parent.isValid() else len(self._titles)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if role == Qt.ItemDataRole.DisplayRole and orientation == Qt.Orientation.Horizontal:
            return self._titles[section]
        return None
