"""A table of figures: sortable, virtual, wide enough for its text, with bars where asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from PySide6.QtCore import (
    QAbstractItemModel,
    QItemSelection,
    QItemSelectionModel,
    QRectF,
    Qt,
    Signal,
)
from PySide6.QtGui import QColor, QGuiApplication, QKeySequence, QPainter, QShortcut
from PySide6.QtWidgets import QStyledItemDelegate, QStyleOptionViewItem, QTableView, QWidget

from ui.icons import ICONS
from ui.theme import Theme
from ui.widgets.chip import AnyIndex

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
