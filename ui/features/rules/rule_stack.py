"""The list of rules, strongest first, with drag and drop and switches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from PySide6.QtCore import (
    QAbstractListModel,
    QEvent,
    QMimeData,
    QModelIndex,
    QObject,
    QRectF,
    QSize,
    Qt,
    Signal,
)
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

from ui.shared.chip import AnyIndex, chip_width, draw_chip
from ui.shared.explanations import rule_words
from ui.shared.labels import literal
from ui.shared.theme import Theme
from workbench.project.model import KEEPING_CALLS, PLUGIN_KINDS, RULE_CALLS, Rule, RuleKind
from workbench.project.rules import RuleCount
from workbench.text import plural

ROOT = QModelIndex()
# What the rules of a kind are counted in; the others in operations.
_COUNTED: dict[RuleKind, str] = {
    "global": "module",
    "module_type": "module",
    "module_name": "module",
    "pattern": "name",
    "io": "tensor",
}
MIME = "application/x-quantization-workbench-rule"


class Role(IntEnum):
    """Item data roles of a row."""

    RULE = Qt.ItemDataRole.UserRole + 1
    LABEL = Qt.ItemDataRole.UserRole + 2
    COUNT_TEXT = Qt.ItemDataRole.UserRole + 3
    TROUBLE = Qt.ItemDataRole.UserRole + 4


@dataclass(frozen=True)
class RuleRow:
    """One shown rule; ``trouble`` is why it has no effect or is rejected.

    ``lost`` is the number of operations in its modules that rules for operations decide.
    """

    rule: Rule
    number: int
    label: str
    count: RuleCount | None
    trouble: str = ""
    lost: int = 0

    @property
    def count_text(self) -> str:
        """The number of modules it applies to, as text."""
        if not self.rule.enabled:
            return "disabled"
        if self.trouble:
            return self.trouble
        if self.count is None:
            return "counted by Prepare" if self.rule.kind in PLUGIN_KINDS else "not counted yet"
        loses = f", overridden in {self.count.loses}" if self.count.loses else ""
        loses += f", except {plural(self.lost, 'operation')}" if self.lost else ""
        return f"applies to {plural(self.count.wins, _COUNTED.get(self.rule.kind, 'operation'))}{loses}"

    @property
    def call(self) -> str:
        """The call of the quantizer that the rule becomes."""
        calls = KEEPING_CALLS if self.rule.keeps_off else RULE_CALLS
        return calls[self.rule.kind]


def shown_order(rules: Sequence[Rule]) -> list[Rule]:
    """Return all rules, strongest first, including disabled ones."""
    specific = [rule for rule in rules if rule.kind != "global"]
    return specific[::-1] + [rule for rule in rules if rule.kind == "global"][::-1]


def call_position(rules: Sequence[Rule], rule_id: str, row: int) -> int:
    """Return the call position of a rule that is dropped before row ``row``."""
    shown = [rule.id for rule in shown_order(rules)]
    below = [other for other in shown[row:] if other != rule_id]
    rest = [rule.id for rule in rules if rule.id != rule_id]
    return rest.index(below[0]) + 1 if below else 0


class RuleStackModel(QAbstractListModel):
    """Model of the rule list.

    Signals:
        moved: id of the dragged rule and the row it was dropped before.
        switched: id of a rule and whether it is to be enabled.
    """

    moved = Signal(str, int)
    switched = Signal(str, bool)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._rows: list[RuleRow] = []

    def set_rows(self, rows: Sequence[RuleRow]) -> None:
        """Set the rules. The selection is kept if rules and order are unchanged."""
        if [r.rule.id for r in rows] == [r.rule.id for r in self._rows]:
            changed = [i for i, row in enumerate(rows) if row != self._rows[i]]
            self._rows = list(rows)
            for number in changed:
                self.dataChanged.emit(self.index(number), self.index(number))
            return
        self.beginResetModel()
        self._rows = list(rows)
        self.endResetModel()

    def row_of(self, rule_id: str) -> int:
        """Return the row of a rule; -1 if there is none."""
        ids = [row.rule.id for row in self._rows]
        return ids.index(rule_id) if rule_id in ids else -1

    def rule_at(self, row: int) -> Rule | None:
        """Return the rule in a row."""
        return self._rows[row].rule if 0 <= row < len(self._rows) else None

    def rowCount(self, parent: AnyIndex = ROOT) -> int:
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: AnyIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid() or index.row() >= len(self._rows):
            return None
        row = self._rows[index.row()]
        words = rule_words(row.rule)
        state = Qt.CheckState
        value: Any = None
        match role:
            case Qt.ItemDataRole.DisplayRole:
                value = f"{row.number}  {words}"
            case Qt.ItemDataRole.ToolTipRole:
                value = literal(f"Rule {row.number}: {row.count_text}\nCall of the quantizer: {row.call}")
            case Qt.ItemDataRole.AccessibleTextRole:
                value = f"Rule {row.number}: {words}, {row.label}, {row.count_text}"
            case Qt.ItemDataRole.CheckStateRole:
                value = state.Checked if row.rule.enabled else state.Unchecked
            case Role.RULE:
                value = row.rule
            case Role.LABEL:
                value = row.label
            case Role.COUNT_TEXT:
                value = row.count_text
            case Role.TROUBLE:
                value = row.trouble
        return value

    def setData(self, index: AnyIndex, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        if role != Qt.ItemDataRole.CheckStateRole or not index.isValid():
            return False
        on = Qt.CheckState(value) == Qt.CheckState.Checked
        self.switched.emit(self._rows[index.row()].rule.id, on)
        return True

    def flags(self, index: AnyIndex) -> Qt.ItemFlag:
        flag = Qt.ItemFlag
        if not index.isValid():
            return flag.ItemIsDropEnabled
        usual = flag.ItemIsEnabled | flag.ItemIsSelectable
        return usual | flag.ItemIsUserCheckable | flag.ItemIsDragEnabled

    def supportedDropActions(self) -> Qt.DropAction:
        return Qt.DropAction.MoveAction

    def mimeTypes(self) -> list[str]:
        return [MIME]

    def mimeData(self, indexes: Sequence[QModelIndex]) -> QMimeData:
        data = QMimeData()
        data.setData(MIME, self._rows[indexes[0].row()].rule.id.encode())
        return data

    def dropMimeData(
        self, data: QMimeData, action: Qt.DropAction, row: int, column: int, parent: AnyIndex
    ) -> bool:
        del action, column
        if not data.hasFormat(MIME):
            return False
        before = row if row >= 0 else parent.row() if parent.isValid() else len(self._rows)
        self.moved.emit(bytes(data.data(MIME).data()).decode(), before)
        return False


_HEIGHT_PX = 42
_USER = int(Qt.ItemDataRole.UserRole)
LABEL_ROLE, COUNT_ROLE, TROUBLE_ROLE = _USER + 2, _USER + 3, _USER + 4


class RuleDelegate(QStyledItemDelegate):
    """Paints a rule: switch, kind, match, effect and chip."""

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
        rect = QRectF(bare.rect).adjusted(32, 4, -8, -4)
        label = str(index.data(LABEL_ROLE))
        width = min(chip_width(label, bare.font), 110.0)
        chip = QRectF(rect.right() - width, rect.top(), width, rect.height())
        painter.setOpacity(1.0 if on else 0.45)
        draw_chip(painter, chip, label, theme)
        rect.setRight(chip.left() - 6)
        half = rect.height() / 2
        upper = QRectF(rect.left(), rect.top(), rect.width(), half)
        painter.setPen(QColor(theme.text))
        _draw_elided(painter, upper, text, Qt.TextElideMode.ElideMiddle)
        small = QFont(bare.font)
        small.setPixelSize(11)
        painter.setFont(small)
        trouble = bool(index.data(TROUBLE_ROLE)) and on
        painter.setPen(QColor(theme.warning if trouble else theme.muted))
        lower = QRectF(rect.left(), rect.top() + half, rect.width(), half)
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
    """List view with reordering by dragging and deleting by key.

    Signals:
        delete_asked: the row of a rule to delete.
        raise_asked: a row and the number of positions to move up (negative: down).
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


def _draw_elided(painter: QPainter, rect: QRectF, text: str, mode: Qt.TextElideMode) -> None:
    shown = QFontMetricsF(painter.font()).elidedText(text, mode, rect.width())
    painter.drawText(rect, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, shown)
