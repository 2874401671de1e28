"""Rows of figures with columns given as values; sorted here, what is not known always last."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Generic, TypeVar

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt

AnyIndex = QModelIndex | QPersistentModelIndex
ROOT = QModelIndex()
Row = TypeVar("Row")
Value = float | int | str | None


class Role(IntEnum):
    """Roles beside Qt's own."""

    VALUE = Qt.ItemDataRole.UserRole + 1
    SHARE = Qt.ItemDataRole.UserRole + 2


@dataclass(frozen=True)
class Column(Generic[Row]):
    """One column: its title, what it says of a row, and what it sorts by.

    ``share`` is what part of the whole a row has, between 0 and 1, for a bar in the cell.
    """

    title: str
    text: Callable[[Row], str]
    value: Callable[[Row], Value] | None = None
    meaning: str = ""
    share: Callable[[Row], float | None] | None = None


class FigureTableModel(QAbstractTableModel, Generic[Row]):
    """A table over any rows. Row numbers are the shown ones; ``place`` is the given one."""

    def __init__(
        self, columns: Sequence[Column[Row]], tooltip: Callable[[Row], str],
        parent: QObject | None = None,
    ) -> None:  # fmt: skip
        super().__init__(parent)
        self._columns = tuple(columns)
        self._tooltip = tooltip
        self._rows: tuple[Row, ...] = ()
        self._order: list[int] = []
        self._shown_at: dict[int, int] = {}
        self._sorted_by: tuple[int, Qt.SortOrder] = (-1, Qt.SortOrder.AscendingOrder)

    def set_rows(self, rows: Iterable[Row]) -> None:
        """Show other rows, sorted as the former ones were."""
        self.beginResetModel()
        self._rows = tuple(rows)
        self._arrange()
        self.endResetModel()

    def row_at(self, shown: int) -> Row | None:
        """Return the row that is shown at a place of the table."""
        return self._rows[self._order[shown]] if 0 <= shown < len(self._order) else None

    def place_of(self, shown: int) -> int:
        """Return where a shown row stood among the given ones."""
        return self._order[shown]

    def shown_at(self, place: int) -> int:
        """Return where a given row is shown."""
        return self._shown_at[place]

    def rowCount(self, parent: AnyIndex = ROOT) -> int:
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: AnyIndex = ROOT) -> int:
        return 0 if parent.isValid() else len(self._columns)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation != Qt.Orientation.Horizontal or not 0 <= section < len(self._columns):
            return None
        column = self._columns[section]
        if role == Qt.ItemDataRole.DisplayRole:
            return column.title
        if role == Qt.ItemDataRole.ToolTipRole:
            return column.meaning or None
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _side(column)
        return None

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        column, row = self._columns[index.column()], self._rows[self._order[index.row()]]
        value: Any = None
        match role:
            case Qt.ItemDataRole.DisplayRole:
                value = column.text(row)
            case Qt.ItemDataRole.ToolTipRole:
                value = self._tooltip(row)
            case Qt.ItemDataRole.TextAlignmentRole:
                value = _side(column)
            case Qt.ItemDataRole.AccessibleTextRole:
                value = f"{column.title}: {column.text(row)}"
            case Role.VALUE:
                value = _value(column, row)
            case Role.SHARE if column.share is not None:
                value = column.share(row)
        return value

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        self.layoutAboutToBeChanged.emit()
        kept = self.persistentIndexList()
        places = [self._order[index.row()] for index in kept]
        self._sorted_by = (column, order)
        self._arrange()
        moved = [
            self.index(self._shown_at[place], index.column())
            for place, index in zip(places, kept, strict=True)
        ]
        self.changePersistentIndexList(kept, moved)
        self.layoutChanged.emit()

    def _arrange(self) -> None:
        number, order = self._sorted_by
        self._order = list(range(len(self._rows)))
        if 0 <= number < len(self._columns):
            column = self._columns[number]
            values = [_value(column, row) for row in self._rows]
            there = [place for place in self._order if values[place] is not None]
            missing = [place for place in self._order if values[place] is None]
            there.sort(
                key=lambda place: _key(values[place]),
                reverse=order == Qt.SortOrder.DescendingOrder,
            )
            self._order = there + missing
        self._shown_at = {place: shown for shown, place in enumerate(self._order)}


def _value(column: Column[Row], row: Row) -> Value:
    if column.value is None:
        return column.text(row).casefold() or None
    value = column.value(row)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _key(value: Value) -> tuple[bool, float, str]:
    text = value if isinstance(value, str) else ""
    return bool(text), value if isinstance(value, float | int) else 0.0, text


def _side(column: Column[Any]) -> Qt.AlignmentFlag:
    side = Qt.AlignmentFlag.AlignLeft if column.value is None else Qt.AlignmentFlag.AlignRight
    return side | Qt.AlignmentFlag.AlignVCenter
