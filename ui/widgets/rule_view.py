"""The rule stack on the screen: two lines a rule, its chip, its switch; drag to reorder."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QKeyEvent, QPainter
from PySide6.QtWidgets import (
    QAbstractItemView,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionButton,
    QStyleOptionViewItem,
    QWidget,
)

from ui.theme import Theme
from ui.widgets.chip import AnyIndex, chip_width, draw_chip

_HEIGHT_PX = 42
_USER = int(Qt.ItemDataRole.UserRole)
LABEL_ROLE, COUNT_ROLE, TROUBLE_ROLE = _USER + 2, _USER + 3, _USER + 4


class RuleDelegate(QStyledItemDelegate):
    """Paints a rule: switch, what it speaks of, what it does, chip."""

    def __init__(self, theme: Callable[[], Theme], parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme

    def sizeHint(self, option: QStyleOptionViewItem, index: AnyIndex) -> QSize:
        del option, index
        return QSize(0, _HEIGHT_PX)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        theme = self._theme()
        bare = QStyleOptionViewItem(option)
        self.initStyleOption(bare, index)
        text, bare.text = bare.text, ""
        bare.features &= ~QStyleOptionViewItem.ViewItemFeature.HasCheckIndicator
        style = bare.widget.style()
        style.drawControl(QStyle.ControlElement.CE_ItemViewItem, bare, painter, bare.widget)
        on = index.data(Qt.ItemDataRole.CheckStateRole) == Qt.CheckState.Checked
        self._paint_switch(painter, bare, on=on)
        painter.save()
        painter.setFont(bare.font)
        place = QRectF(bare.rect).adjusted(32, 4, -8, -4)
        label = str(index.data(LABEL_ROLE))
        width = min(chip_width(label, bare.font), 110.0)
        chip = QRectF(place.right() - width, place.top(), width, place.height())
        painter.setOpacity(1.0 if on else 0.45)
        draw_chip(painter, chip, label, theme)
        place.setRight(chip.left() - 6)
        half = place.height() / 2
        upper = QRectF(place.left(), place.top(), place.width(), half)
        painter.setPen(QColor(theme.text))
        _draw_elided(painter, upper, text, Qt.TextElideMode.ElideMiddle)
        small = QFont(bare.font)
        small.setPixelSize(11)
        painter.setFont(small)
        trouble = bool(index.data(TROUBLE_ROLE)) and on
        painter.setPen(QColor(theme.warning if trouble else theme.muted))
        lower = QRectF(place.left(), place.top() + half, place.width(), half)
        _draw_elided(painter, lower, str(index.data(COUNT_ROLE)), Qt.TextElideMode.ElideRight)
        painter.restore()

    def editorEvent(
        self, event: QEvent, model: object, option: QStyleOptionViewItem, index: AnyIndex
    ) -> bool:
        inside = event.type() == QEvent.Type.MouseButtonRelease and (
            event.position().x() - option.rect.left() < 28  # type: ignore[attr-defined]
        )
        space = (
            isinstance(event, QKeyEvent)
            and event.type() == QEvent.Type.KeyPress
            and event.key() == Qt.Key.Key_Space
        )
        if inside or space:
            on = index.data(Qt.ItemDataRole.CheckStateRole) == Qt.CheckState.Checked
            wanted = Qt.CheckState.Unchecked if on else Qt.CheckState.Checked
            return bool(model.setData(index, wanted, Qt.ItemDataRole.CheckStateRole))  # type: ignore[attr-defined]
        return False

    def _paint_switch(self, painter: QPainter, option: QStyleOptionViewItem, *, on: bool) -> None:
        box = QStyleOptionButton()
        box.rect = option.rect.adjusted(9, 0, 0, 0)
        box.rect.setWidth(16)
        box.state = QStyle.StateFlag.State_Enabled
        box.state |= QStyle.StateFlag.State_On if on else QStyle.StateFlag.State_Off
        element = QStyle.PrimitiveElement.PE_IndicatorItemViewItemCheck
        view = option.widget
        rect = box.rect
        rect.setTop(rect.center().y() - 7)
        rect.setHeight(14)
        rect.setWidth(14)
        box.rect = rect
        view.style().drawPrimitive(element, box, painter, view)


class RuleView(QListView):
    """A list that reorders by dragging and deletes by key.

    Signals:
        delete_asked: the row of a rule to delete.
        raise_asked: a row and by how many places the rule goes up (negative: down).
    """

    delete_asked = Signal(int)
    raise_asked = Signal(int, int)

    def __init__(self, theme: Callable[[], Theme], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Rules, strongest first")
        self.setItemDelegate(RuleDelegate(theme, self))
        self.setDragDropMode(QAbstractItemView.DragDropMode.InternalMove)
        self.setDefaultDropAction(Qt.DropAction.MoveAction)
        self.setDropIndicatorShown(True)
        self.setUniformItemSizes(True)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        row = self.currentIndex().row()
        alt = event.modifiers() == Qt.KeyboardModifier.AltModifier
        if row >= 0 and event.key() in {Qt.Key.Key_Delete, Qt.Key.Key_Backspace}:
            self.delete_asked.emit(row)
        elif row >= 0 and alt and event.key() == Qt.Key.Key_Up:
            self.raise_asked.emit(row, 1)
        elif row >= 0 and alt and event.key() == Qt.Key.Key_Down:
            self.raise_asked.emit(row, -1)
        else:
            super().keyPressEvent(event)


def _draw_elided(painter: QPainter, place: QRectF, text: str, mode: Qt.TextElideMode) -> None:
    shown = QFontMetricsF(painter.font()).elidedText(text, mode, place.width())
    painter.drawText(place, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, shown)
