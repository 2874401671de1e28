"""Sortable tables of figures. Unknown values sort last."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Generic, TypeVar

from PySide6.QtCore import (
    QAbstractTableModel,
    QItemSelection,
    QItemSelectionModel,
    QModelIndex,
    QObject,
    QRectF,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QColor,
    QGuiApplication,
    QKeySequence,
    QPainter,
    QPaintEvent,
    QPalette,
    QResizeEvent,
    QShortcut,
)
from PySide6.QtWidgets import QStyledItemDelegate, QStyleOptionViewItem, QTableView, QWidget

from ui.shared.chip import AnyIndex
from ui.shared.labels import literal
from ui.shared.theme import Theme

ROOT = QModelIndex()
Row = TypeVar("Row")
Value = float | int | str | None


class Role(IntEnum):
    """Item data roles beside Qt's."""

    VALUE = Qt.ItemDataRole.UserRole + 1
    SHARE = Qt.ItemDataRole.UserRole + 2
    GIVES_WAY = Qt.ItemDataRole.UserRole + 3
    ROW = Qt.ItemDataRole.UserRole + 4


@dataclass(frozen=True)
class Column(Generic[Row]):
    """One column: its title, its text for a row, and its sort value.

    ``share`` is the row's fraction of the whole in [0, 1], for a bar in the cell. ``gives_way`` is
    whether it is narrowed before other columns of texts where there is too little room.
    """

    title: str
    text: Callable[[Row], str]
    value: Callable[[Row], Value] | None = None
    meaning: str = ""
    share: Callable[[Row], float | None] | None = None
    gives_way: bool = False


class FigureTableModel(QAbstractTableModel, Generic[Row]):
    """A table model over any rows. ``row`` is a sorted position, ``source_row`` the given one."""

    def __init__(
        self, columns: Sequence[Column[Row]], tooltip: Callable[[Row], str], parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._columns = tuple(columns)
        self._tooltip = tooltip
        self._rows: tuple[Row, ...] = ()
        self._order: list[int] = []
        self._shown_at: dict[int, int] = {}
        self._sorted_by: tuple[int, Qt.SortOrder] = (-1, Qt.SortOrder.AscendingOrder)

    def set_columns(self, columns: Sequence[Column[Row]]) -> None:
        """Set other columns; there are no rows afterwards, and no sort order."""
        self.beginResetModel()
        self._columns, self._rows = tuple(columns), ()
        self._sorted_by = (-1, Qt.SortOrder.AscendingOrder)
        self._arrange()
        self.endResetModel()

    def set_rows(self, rows: Iterable[Row]) -> None:
        """Set the rows, and keep the sort order."""
        self.beginResetModel()
        self._rows = tuple(rows)
        self._arrange()
        self.endResetModel()

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows in their given order."""
        return self._rows

    def texts(self, column: int, shown: Iterable[int]) -> set[str]:
        """Return the texts of a column in some sorted rows."""
        text = self._columns[column].text
        return {text(self._rows[self._order[row]]) for row in shown}

    def row_at(self, shown: int) -> Row | None:
        """Return the row at a sorted position."""
        return self._rows[self._order[shown]] if 0 <= shown < len(self._order) else None

    def source_row(self, shown: int) -> int:
        """Return the given position of a sorted row."""
        return self._order[shown]

    def shown_at(self, index: int) -> int:
        """Return the sorted position of a given row."""
        return self._shown_at[index]

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
        if role == Role.GIVES_WAY:
            return column.gives_way
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
                value = literal(self._tooltip(row))
            case Qt.ItemDataRole.TextAlignmentRole:
                value = _side(column)
            case Qt.ItemDataRole.AccessibleTextRole:
                value = f"{column.title}: {column.text(row)}"
            case Role.VALUE:
                value = _value(column, row)
            case Role.SHARE if column.share is not None:
                value = column.share(row)
            case Role.ROW:
                value = row
        return value

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        self.layoutAboutToBeChanged.emit()
        kept = self.persistentIndexList()
        source_rows = [self._order[index.row()] for index in kept]
        self._sorted_by = (column, order)
        self._arrange()
        moved = [
            self.index(self._shown_at[source_row], index.column())
            for source_row, index in zip(source_rows, kept, strict=True)
        ]
        self.changePersistentIndexList(kept, moved)
        self.layoutChanged.emit()

    def _arrange(self) -> None:
        number, order = self._sorted_by
        self._order = list(range(len(self._rows)))
        if 0 <= number < len(self._columns):
            column = self._columns[number]
            values = [_value(column, row) for row in self._rows]
            there = [source_row for source_row in self._order if values[source_row] is not None]
            missing = [source_row for source_row in self._order if values[source_row] is None]
            there.sort(
                key=lambda source_row: _key(values[source_row]), reverse=order == Qt.SortOrder.DescendingOrder
            )
            self._order = there + missing
        self._shown_at = {source_row: shown for shown, source_row in enumerate(self._order)}


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
_BAR_PX = 3
_LEAST_ROWS = 4
WIDEST_PX = 340
# What a column of texts keeps where the table has too little room for all columns.
_LEAST_TEXT_PX, _LEAST_YIELDING_PX = 130, 110
# What may be missing for all columns although names are cut: more, and the table scrolls far.
_SCROLLED_PX = 300
_PAD_PX = 16
_HEADER_PX = 4
_LOOKED_AT = 60
_CENTRED = Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap


def _narrow(widths: list[int], columns: Sequence[int], least: int, missing: int) -> int:
    """Narrow columns, the widest first, so that short names stay whole; return what is missing.

    Args:
        widths: Of all columns [px]; changed.
        columns: Those that may be narrower.
        least: What each of them keeps [px].
        missing: How much narrower they should be together [px].
    """
    while missing > 0 and columns:
        widest = max(widths[column] for column in columns)
        next_width = max([least, *(widths[c] for c in columns if widths[c] < widest)])
        tied = [column for column in columns if widths[column] == widest]
        step = min(widest - next_width, -(-missing // len(tied)))
        if step <= 0:
            break
        for column in tied:
            widths[column] -= step
        missing -= step * len(tied)
    return missing


class BarDelegate(QStyledItemDelegate):
    """Paints a fraction in [0, 1] as a line below the text."""

    def __init__(self, theme: Callable[[], Theme], role: int, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme, self._role = theme, role

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        super().paint(painter, option, index)
        share = index.data(self._role)
        if share:
            bar = QRectF(option.rect).adjusted(3, 0, -3, -1)
            bar.setTop(bar.bottom() - _BAR_PX)
            bar.setWidth(max(1.0, bar.width() * min(float(share), 1.0)))
            colour = QColor(self._theme().accent)
            colour.setAlphaF(0.8)
            painter.fillRect(bar, colour)


class JudgedDelegate(QStyledItemDelegate):
    """Paints the text of a row in the colour of a gain or of a loss."""

    def __init__(
        self, theme: Callable[[], Theme], is_better: Callable[[Any], bool | None], parent: QWidget
    ) -> None:
        """Make a delegate; ``is_better`` judges a row, None is neither a gain nor a loss."""
        super().__init__(parent)
        self._theme, self._is_better = theme, is_better

    def initStyleOption(self, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        super().initStyleOption(option, index)
        better, theme = self._is_better(index.data(Role.ROW)), self._theme()
        if better is not None:
            colour = QColor(theme.good if better else theme.bad)
            for role in (QPalette.ColorRole.Text, QPalette.ColorRole.HighlightedText):
                option.palette.setColor(role, colour)


class FigureView(QTableView):
    """A table view. ``rows_chosen`` reports selections by the user, ``choose_rows`` selects.

    Signals:
        rows_chosen: sorted row numbers, ascending.
    """

    rows_chosen = Signal(object)

    def __init__(
        self, name: str, model: FigureTableModel[Any], parent: QWidget | None = None, *,
        widest_px: int = WIDEST_PX, least_px: int = _LEAST_YIELDING_PX, empty: str = "",
    ) -> None:  # fmt: skip
        """Make a view.

        Args:
            name: For screen readers.
            model: The rows.
            parent: Its parent.
            widest_px: The largest width of a column that is fitted to its texts.
            least_px: What is left of columns that give way.
            empty: What a table without rows says.
        """
        super().__init__(parent)
        self.empty = empty
        self._is_programmatic = False
        self._widest_px, self._least_px = widest_px, least_px
        # Widths that the columns need; none after the user has changed one.
        self._content_widths: list[int] = []
        # Widths of the whole texts, which columns take where there is room for more.
        self._whole: list[int] = []
        self._is_sizing = False
        self._figures = model
        self.setModel(model)
        self.setAccessibleName(name)
        # No toast covers it.
        self.setProperty("keepClear", True)
        self.setSelectionBehavior(QTableView.SelectionBehavior.SelectRows)
        # Arrow keys move inside; Tab goes on to the next widget.
        self.setTabKeyNavigation(False)
        self.setShowGrid(False)
        self.setWordWrap(False)
        # Paths of modules and names of tensors differ at their ends.
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.setHorizontalScrollMode(QTableView.ScrollMode.ScrollPerPixel)
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(ROW_PX)
        self.setMinimumHeight(_LEAST_ROWS * ROW_PX)
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        # The end of a title that is too long goes, not both of its ends.
        header.setTextElideMode(Qt.TextElideMode.ElideRight)
        header.sectionResized.connect(self._on_section_resized)
        self.setSortingEnabled(True)
        self.sortByColumn(-1, Qt.SortOrder.AscendingOrder)
        self.selectionModel().selectionChanged.connect(self._on_selection_changed)
        model.modelReset.connect(self.fit_columns)
        copy = QShortcut(QKeySequence.StandardKey.Copy, self)
        copy.setContext(Qt.ShortcutContext.WidgetShortcut)
        copy.activated.connect(self._on_copy)
        # A table without rows has whole titles.
        self.fit_columns()

    def fit_columns(self) -> None:
        """Fit column widths to their texts up to a limit. A last text column takes the rest.

        Columns of texts give way where there is too little room for all columns.
        """
        header = self.horizontalHeader()
        model, metrics = self._figures, self.fontMetrics()
        # A right-aligned figure in a wide cell is hard to match with its row.
        self._is_sizing = True
        header.setStretchLastSection(self._has_texts(model.columnCount() - 1))
        self._is_sizing = False
        looked_at = range(0, model.rowCount(), max(1, model.rowCount() // _LOOKED_AT))
        self._content_widths, self._whole = [], []
        for column in range(model.columnCount()):
            texts = model.texts(column, looked_at)
            # Only the longest texts are measured; measuring every cell is slow.
            longest = sorted(texts, key=len)[-3:]
            text_px = max((metrics.horizontalAdvance(text) for text in longest), default=0)
            wanted = max(text_px + _PAD_PX, header.sectionSizeHint(column) + _HEADER_PX)
            self._content_widths.append(min(wanted, self._widest_px))
            self._whole.append(wanted)
        self._share_width()

    def setColumnHidden(self, column: int, hide: bool) -> None:
        """Hide or show a column, and share the width among those that are shown."""
        if self.isColumnHidden(column) != hide:
            super().setColumnHidden(column, hide)
            self._share_width()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._share_width()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self.empty and not self._figures.rowCount():
            painter = QPainter(self.viewport())
            muted = self.palette().color(QPalette.ColorRole.PlaceholderText)
            painter.setPen(muted)
            room = self.viewport().rect().adjusted(_PAD_PX, _PAD_PX, -_PAD_PX, -_PAD_PX)
            painter.drawText(room, _CENTRED, self.empty)
            painter.end()

    def choose_rows(self, rows: Iterable[int], *, reveal: bool) -> None:
        """Select rows without a signal."""
        model, last = self.model(), self.model().columnCount() - 1
        picked = QItemSelection()
        first = None
        for row in sorted(rows):
            picked.select(model.index(row, 0), model.index(row, last))
            first = row if first is None else first
        self._is_programmatic = True
        flag = QItemSelectionModel.SelectionFlag
        self.selectionModel().select(picked, flag.ClearAndSelect)
        self._is_programmatic = False
        if reveal and first is not None:
            place = model.index(first, 0)
            is_seen = self.viewport().rect().contains(self.visualRect(place).center())
            hint = QTableView.ScrollHint
            self.scrollTo(place, hint.EnsureVisible if is_seen else hint.PositionAtCenter)

    def chosen_rows(self) -> list[int]:
        """Return the selected row numbers, ascending."""
        return sorted(index.row() for index in self.selectionModel().selectedRows())

    def set_look(self, theme: Theme, *, stale: bool) -> None:
        """Apply the colours of a theme. Outdated figures are grey."""
        look = f"QTableView {{ color: {theme.muted}; }}" if stale else ""
        # Qt computes the style of all parts again even if the text is the same.
        if self.styleSheet() != look:
            self.setStyleSheet(look)

    def _has_texts(self, column: int) -> bool:
        side = self.model().headerData(column, Qt.Orientation.Horizontal, Qt.ItemDataRole.TextAlignmentRole)
        return not bool(side & Qt.AlignmentFlag.AlignRight)

    def _gives_way(self, column: int) -> bool:
        horizontal = Qt.Orientation.Horizontal
        return bool(self.model().headerData(column, horizontal, Role.GIVES_WAY))

    def _share_width(self) -> None:
        """Size the columns unless the user did."""
        policy = Qt.ScrollBarPolicy
        is_empty = not self._figures.rowCount()
        # Without rows there is nothing to scroll to.
        self.setHorizontalScrollBarPolicy(policy.ScrollBarAlwaysOff if is_empty else policy.ScrollBarAsNeeded)
        shown = [w for c, w in enumerate(self._content_widths) if not self.isColumnHidden(c)]
        missing = sum(shown) - self.viewport().width()
        widths = list(self._content_widths)
        is_text = [not self.isColumnHidden(c) and self._has_texts(c) for c in range(len(widths))]
        texts = [column for column, is_one in enumerate(is_text) if is_one]
        spare = sum(max(widths[c] - _LEAST_TEXT_PX, 0) for c in texts)
        # A table of many figures scrolls in any case: cut names would not spare that.
        narrowed = texts if missing <= spare + _SCROLLED_PX else []
        yielding = [column for column in narrowed if self._gives_way(column)]
        others = [column for column in narrowed if not self._gives_way(column)]
        missing += self._widen(widths, others, yielding, missing)
        missing = _narrow(widths, yielding, self._least_px, missing)
        missing = _narrow(widths, others, _LEAST_TEXT_PX, missing)
        for column in texts:
            if missing < 0 and self._content_widths:
                wider = min(self._whole[column], widths[column] - missing)
                missing += max(wider - widths[column], 0)
                widths[column] = max(wider, widths[column])
        self._end_at_the_edge(widths, texts)
        self._is_sizing = True
        for column, width in enumerate(widths):
            self.setColumnWidth(column, width)
        self._is_sizing = False

    def _end_at_the_edge(self, widths: list[int], texts: list[int]) -> None:
        """Widen a column of texts where a column of figures would be cut at the edge.

        A cut number looks like another one. The widened column is the one that lacks most.
        """
        rest = self.viewport().width()
        for column in (c for c in range(len(widths)) if not self.isColumnHidden(c)):
            if rest < widths[column]:
                before = [text for text in texts if text < column]
                wider = max(before, key=lambda c: self._whole[c] - widths[c], default=None)
                if wider is not None and column not in texts and rest > 0:
                    widths[wider] += rest
                return
            rest -= widths[column]

    def _widen(self, widths: list[int], columns: list[int], yielding: list[int], missing: int) -> int:
        """Make texts whole in the room of columns that give way; return by how much [px]."""
        room = sum(max(widths[c] - self._least_px, 0) for c in yielding) - max(missing, 0)
        total = 0
        for column in columns:
            more = max(min(self._whole[column] - widths[column], room - total), 0)
            widths[column] += more
            total += more
        return total

    def _on_section_resized(self, column: int, _before: int, _now: int) -> None:
        # Qt itself resizes a last column that takes the rest.
        if not self._is_sizing and column < self.model().columnCount() - 1:
            self._content_widths = []

    def _on_selection_changed(self) -> None:
        if not self._is_programmatic:
            self.rows_chosen.emit(self.chosen_rows())

    def _on_copy(self) -> None:
        model = self.model()
        rows = self.chosen_rows()
        columns = range(model.columnCount())
        heads = [str(model.headerData(c, Qt.Orientation.Horizontal)) for c in columns]
        lines = ["\t".join(heads)]
        lines += ["\t".join(str(model.index(r, c).data() or "") for c in columns) for r in rows]
        QGuiApplication.clipboard().setText("\n".join(lines))
