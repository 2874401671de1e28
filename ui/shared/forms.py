"""Form widgets: path fields, forms of dialogs, tall dialogs and wrapped labels."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from PySide6.QtCore import QEvent, QObject, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QResizeEvent, QShowEvent, QWheelEvent
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QComboBox,
    QDoubleSpinBox,
    QFormLayout,
    QFrame,
    QHBoxLayout,
    QLineEdit,
    QMenu,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QSpinBox,
    QWidget,
)

from ui.shared.file_dialogs import ask_to_open
from ui.shared.labels import Label, literal
from workbench.graph.labels import LONGEST, elide

Kind = Literal["file", "folder", "either"]


class PathField(QWidget):
    """A line edit for a path, with a button that opens a file dialog.

    Signals:
        edited: the edited text.
    """

    edited = Signal(str)

    def __init__(self, title: str, patterns: str, parent: QWidget, *, kind: Kind = "file") -> None:
        super().__init__(parent)
        self._title, self._patterns = title, patterns
        # Where the first dialog opens; None is the home folder.
        self.start: Path | None = None
        self.line = QLineEdit(self)
        self.line.setAccessibleName(title)
        self.line.textEdited.connect(self.edited)
        self.setFocusProxy(self.line)
        browse = QPushButton("Choose\u2026", self)
        browse.setAccessibleName(f"Choose {title.lower()}")
        if kind == "either":
            menu = QMenu(browse)
            menu.addAction("File\u2026").triggered.connect(self._choose_file)
            menu.addAction("Folder of pictures\u2026").triggered.connect(self._choose_folder)
            browse.setMenu(menu)
        else:
            asked = self._choose_file if kind == "file" else self._choose_folder
            browse.clicked.connect(asked)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(6)
        layout.addWidget(self.line, 1)
        layout.addWidget(browse)

    def text(self) -> str:
        """Return the text."""
        return self.line.text().strip()

    def set_text(self, text: str) -> None:
        """Set the path as if the user had typed it."""
        self.line.setText(text)
        self.edited.emit(text)

    def _choose_file(self) -> None:
        self._ask(folder=False)

    def _choose_folder(self) -> None:
        self._ask(folder=True)

    def _ask(self, *, folder: bool) -> None:
        filters = () if folder else (self._patterns, "All files (*)")
        dialog = ask_to_open(
            self, self._title, self.set_text, start=self.start, filters=filters, folder=folder
        )
        if (known := Path(self.text())).is_absolute():
            dialog.setDirectory(str(known.parent))


# A style sheet's padding does not reach the text of a spin box.
_INSET_PX = 7


class SpinBox(QSpinBox):
    """A box for a whole number, whose text begins where that of other fields does."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.lineEdit().setTextMargins(_INSET_PX, 0, 0, 0)


class DecimalBox(QDoubleSpinBox):
    """A box for a number, whose text begins where that of other fields does."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.lineEdit().setTextMargins(_INSET_PX, 0, 0, 0)


# Room of the frame and the scroll bar of an open list.
_LIST_PX = 24


class FittingCombo(QComboBox):
    """A combo box as wide as its present text. Its open list is as wide as its longest text."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self.currentTextChanged.connect(lambda _text: self.updateGeometry())

    def sizeHint(self) -> QSize:
        hint, advance = super().sizeHint(), self.fontMetrics().horizontalAdvance
        widest = max((advance(self.itemText(row)) for row in range(self.count())), default=0)
        return QSize(hint.width() - widest + advance(self.currentText()), hint.height())

    def minimumSizeHint(self) -> QSize:
        # That of Qt fits the longest text after a change of the theme.
        return self.sizeHint()

    def showPopup(self) -> None:
        self.view().setMinimumWidth(self.view().sizeHintForColumn(0) + _LIST_PX)
        super().showPopup()


# Height of the frame and title bar of a dialog [px].
FRAME_PX = 40
_LEAST_PX = 240


def resize_on_screen(window: QWidget, width: int, height: int) -> None:
    """Resize a window [pixels]; on a small screen so that it is within the screen with its frame."""
    window.resize(QSize(width, height).boundedTo(window.screen().availableSize() - QSize(0, FRAME_PX)))


class TallForm(QScrollArea):
    """A form that scrolls, so that the buttons of its dialog stay on the screen."""

    def __init__(self, form: QWidget, parent: QWidget) -> None:
        super().__init__(parent)
        self._form = form
        self.setObjectName("TallForm")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setWidgetResizable(True)
        self.setWidget(form)
        form.setAutoFillBackground(False)

    def sizeHint(self) -> QSize:
        return self._bounded(self._form.sizeHint())

    def minimumSizeHint(self) -> QSize:
        size = self._form.minimumSizeHint()
        if self._form.hasHeightForWidth():
            # Wrapped labels need more lines than their hint says.
            width = max(self._form.width(), size.width())
            size.setHeight(max(size.height(), self._form.heightForWidth(width)))
        size = self._bounded(size)
        if self.isVisible():
            # A dialog that grew with its form would move its buttons away from the pointer.
            size.setHeight(min(size.height(), self.height()))
        return size

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._guard_wheel()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.LayoutRequest:
            self.updateGeometry()
            self._guard_wheel()
        is_field = isinstance(watched, QComboBox | QAbstractSpinBox)
        if is_field and isinstance(event, QWheelEvent):
            # The wheel scrolls the form; over a field it would change a value that passes by.
            self.wheelEvent(event)
            return True
        return super().eventFilter(watched, event)

    def _guard_wheel(self) -> None:
        for kind in (QComboBox, QAbstractSpinBox):
            for field in self._form.findChildren(kind):
                field.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
                # A filter that is installed again is still called once.
                field.installEventFilter(self)

    def _bounded(self, size: QSize) -> QSize:
        most = max(self.screen().availableSize().height() - self._rest() - FRAME_PX, _LEAST_PX)
        if size.height() <= most:
            return size
        return QSize(size.width() + self.verticalScrollBar().sizeHint().width(), most)

    def _rest(self) -> int:
        """Return the height of the other parts of the dialog [px]."""
        parent = self.parentWidget()
        layout = parent.layout() if parent is not None else None
        if layout is None:
            return 0
        margins = layout.contentsMargins()
        items = (layout.itemAt(number) for number in range(layout.count()))
        others = [item.sizeHint().height() for item in items if item and item.widget() is not self]
        gaps = layout.spacing() * len(others)
        return sum(others) + gaps + margins.top() + margins.bottom()


def dialog_form(*rows: tuple[str, QWidget]) -> QFormLayout:
    """Return the form of a dialog: fields with their titles, in order."""
    form = QFormLayout()
    form.setHorizontalSpacing(14)
    form.setVerticalSpacing(8)
    for title, field in rows:
        form.addRow(title, field)
    return form


def align_fields(body: QWidget) -> None:
    """Let the fields of all forms of a dialog begin at the same place."""
    role = QFormLayout.ItemRole.LabelRole
    labels = [
        label
        for form in body.findChildren(QFormLayout)
        for row in range(form.rowCount())
        if (item := form.itemAt(row, role)) is not None and (label := item.widget()) is not None
    ]
    widest = max((label.sizeHint().width() for label in labels), default=0)
    for label in labels:
        label.setMinimumWidth(max(widest, label.minimumWidth()))


def make_primary(button: QPushButton) -> None:
    """Style a button as the default button."""
    button.setProperty("primary", True)
    button.setDefault(True)
    button.style().unpolish(button)
    button.style().polish(button)


class WrappedLabel(Label):
    """A label that reserves height for all its lines; splitters ignore height-for-width.

    Names of more than ``longest`` characters are elided; the tooltip has the full text.
    """

    def __init__(self, text: str = "", parent: QWidget | None = None, *, longest: int = LONGEST) -> None:
        super().__init__(parent)
        self._longest = longest
        self.setWordWrap(True)
        self.setText(text)

    def setText(self, text: str) -> None:
        lines = (line.split(" ") for line in text.split("\n"))
        shown = "\n".join(" ".join(elide(word, self._longest) for word in line) for line in lines)
        super().setText(shown)
        self.setToolTip(literal(text if shown != text else ""))
        self._settle()

    def sizeHint(self) -> QSize:
        """Return the height of the lines at the present width: Qt assumes a narrower label."""
        hint = super().sizeHint()
        is_laid_out = self.isVisible() and self.width() > 0
        return QSize(hint.width(), self.heightForWidth(self.width())) if is_laid_out else hint

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        QTimer.singleShot(0, self, self._settle)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._take_room()
        QTimer.singleShot(0, self, self._settle)

    def _settle(self) -> None:
        """Take the room again, and lay it out now: a running layout missed the change.

        A requested layout can come after the next paint, with the text over what is below.
        """
        self._take_room()
        above = self.parentWidget()
        if self.isVisible() and above is not None and (layout := above.layout()) is not None:
            self.updateGeometry()
            layout.activate()

    def _take_room(self) -> None:
        is_visible = self.isVisible() and bool(self.text())
        # Qt's height for a width is never below the least height: that of a narrower label stays.
        self.setMinimumHeight(0)
        self.setMinimumHeight(self.heightForWidth(self.width()) if is_visible else 0)
