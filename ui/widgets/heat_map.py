"""A map of a sweep with what colours it; a cell is a point."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt, Signal
from PySide6.QtGui import QPainter, QPalette, QPen
from PySide6.QtWidgets import (
    QAbstractItemView,
    QComboBox,
    QHeaderView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QVBoxLayout,
    QWidget,
)


class _Cells(QStyledItemDelegate):
    """Paints the colours of cells, which the stylesheet would paint over."""

    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,
    ) -> None:
        colour = index.data(Qt.ItemDataRole.BackgroundRole)
        rect = option.rect.adjusted(1, 1, -1, -1)
        painter.save()
        if colour is not None:
            painter.fillRect(rect, colour)
        painter.setPen(option.palette.color(QPalette.ColorRole.Text))
        painter.drawText(rect, Qt.AlignmentFlag.AlignCenter, str(index.data()))
        if option.state & QStyle.StateFlag.State_Selected:
            painter.setPen(QPen(option.palette.color(QPalette.ColorRole.Highlight), 2))
            painter.drawRect(rect)
        painter.restore()


class HeatMap(QWidget):
    """A table of coloured cells; ``figures`` are the titles of what can colour it.

    Signals:
        figure_chosen: the row of a figure.
        cell_chosen: the index of a cell.
    """

    figure_chosen = Signal(int)
    cell_chosen = Signal(QModelIndex)

    def __init__(
        self, model: QAbstractTableModel, figures: Sequence[str], parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.figure = QComboBox(self)
        self.figure.setAccessibleName("Colour of the map")
        self.figure.addItems(figures)
        self.figure.activated.connect(self.figure_chosen)
        self.view = QTableView(self)
        self.view.setAccessibleName("Map of devices and memory modes")
        self.view.setModel(model)
        self.view.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.view.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        self.view.setItemDelegate(_Cells(self.view))
        self.view.setShowGrid(False)
        self.view.clicked.connect(self.cell_chosen)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addWidget(self.figure, 0, Qt.AlignmentFlag.AlignLeft)
        layout.addWidget(self.view, 1)
