"""Rows of figures with columns given as values; sorted here, what is not known always last."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Generic, TypeVar

from PySide6.QtCore import (
    QAbstractItemModel,
    QAbstractTableModel,
    QItemSelection,
    QItemSelectionModel,
    QModelIndex,
    QObject,
    QRectF,
    Qt,
    Signal,
)
from PySide6.QtGui import QColor, QGuiApplication, QKeySequence, QPainter, QShortcut
from PySide6.QtWidgets import QStyledItemDelegate, QStyleOptionViewItem, QTableView, QWidget

from ui.shared.chip import AnyIndex
from ui.shared.theme import ICONS, Theme

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


ROW_PX = 24
_LEAST_ROWS = 4
WIDEST_PX = 340
_PAD_PX = 16
_HEADER_PX = 4
_LOOKED_AT = 60


class BarDelegate(QStyledItemDelegate):
    """Paints a share between 0 and 1 as a bar that lets the text through."""

    def __init__(self, theme: Callable[[], Theme], role: int, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme, self._role = theme, role

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        super().paint(painter, option, index)
        share = index.data(self._role)
        if share:
            bar = QRectF(option.rect).adjusted(3, 4, -3, -4)
            bar.setWidth(max(1.0, bar.width() * min(float(share), 1.0)))
            colour = QColor(self._theme().accent)
            colour.setAlphaF(0.35)
            painter.fillRect(bar, colour)


class FigureView(QTableView):
    """Chosen rows go out when a person chooses them, and come in by ``choose_rows``.

    Signals:
        rows_chosen: shown row numbers, ascending.
    """

    rows_chosen = Signal(object)

    def __init__(
        self, name: str, model: QAbstractItemModel, parent: QWidget | None = None, *,
        widest_px: int = WIDEST_PX,
    ) -> None:  # fmt: skip
        super().__init__(parent)
        self._is_told = False
        self._widest_px = widest_px
        self.setModel(model)
        self.setAccessibleName(name)
        self.setSelectionBehavior(QTableView.SelectionBehavior.SelectRows)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setHorizontalScrollMode(QTableView.ScrollMode.ScrollPerPixel)
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(ROW_PX)
        self.setMinimumHeight(_LEAST_ROWS * ROW_PX)
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        self.setSortingEnabled(True)
        self.sortByColumn(-1, Qt.SortOrder.AscendingOrder)
        self.selectionModel().selectionChanged.connect(self._on_selection_changed)
        model.modelReset.connect(self.fit_columns)
        copy = QShortcut(QKeySequence.StandardKey.Copy, self)
        copy.setContext(Qt.ShortcutContext.WidgetShortcut)
        copy.activated.connect(self._on_copy)

    def fit_columns(self) -> None:
        """Make columns as wide as their text, within reason; a last one of text takes the rest."""
        header = self.horizontalHeader()
        model, metrics = self.model(), self.fontMetrics()
        side = model.headerData(
            model.columnCount() - 1, Qt.Orientation.Horizontal, Qt.ItemDataRole.TextAlignmentRole
        )
        # A figure at the far end of a wide cell is hard to read with its row.
        header.setStretchLastSection(not bool(side & Qt.AlignmentFlag.AlignRight))
        looked_at = range(0, model.rowCount(), max(1, model.rowCount() // _LOOKED_AT))
        for column in range(model.columnCount()):
            texts = {str(model.index(row, column).data() or "") for row in looked_at}
            # The longest few are measured: measuring every cell would be felt.
            longest = sorted(texts, key=len)[-3:]
            text_px = max((metrics.horizontalAdvance(text) for text in longest), default=0)
            wanted = max(text_px + _PAD_PX, header.sectionSizeHint(column) + _HEADER_PX)
            self.setColumnWidth(column, min(wanted, self._widest_px))

    def choose_rows(self, rows: Iterable[int], *, reveal: bool) -> None:
        """Show which rows are chosen elsewhere."""
        model, last = self.model(), self.model().columnCount() - 1
        picked = QItemSelection()
        first = None
        for row in sorted(rows):
            picked.select(model.index(row, 0), model.index(row, last))
            first = row if first is None else first
        self._is_told = True
        flag = QItemSelectionModel.SelectionFlag
        self.selectionModel().select(picked, flag.ClearAndSelect)
        self._is_told = False
        if reveal and first is not None:
            self.scrollTo(model.index(first, 0))

    def chosen_rows(self) -> list[int]:
        """Return the shown row numbers that are chosen, ascending."""
        return sorted(index.row() for index in self.selectionModel().selectedRows())

    def set_look(self, theme: Theme, *, stale: bool) -> None:
        """Take on the colours of a theme; grey the figures of a former configuration."""
        self.setStyleSheet(f"QTableView {{ color: {theme.muted}; }}" if stale else "")
        icons = ICONS.as_posix()
        # Above the title, where it covers neither a left nor a right one.
        self.horizontalHeader().setStyleSheet(
            "QHeaderView::up-arrow, QHeaderView::down-arrow"
            " { subcontrol-origin: border; subcontrol-position: top center;"
            " width: 9px; height: 9px; }"
            f'QHeaderView::up-arrow {{ image: url("{icons}/chevron-up-{theme.name}.svg"); }}'
            f'QHeaderView::down-arrow {{ image: url("{icons}/chevron-down-{theme.name}.svg"); }}'
        )

    def _on_selection_changed(self) -> None:
        if not self._is_told:
            self.rows_chosen.emit(self.chosen_rows())

    def _on_copy(self) -> None:
        model = self.model()
        rows = self.chosen_rows()
        columns = range(model.columnCount())
        heads = [str(model.headerData(c, Qt.Orientation.Horizontal)) for c in columns]
        lines = ["\t".join(heads)]
        lines += ["\t".join(str(model.index(r, c).data() or "") for c in columns) for r in rows]
        QGuiApplication.clipboard().setText("\n".join(lines))
