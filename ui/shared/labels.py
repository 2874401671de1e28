"""Text of others, shown as it stands: Qt takes text that looks like HTML for HTML."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from PySide6.QtCore import QSize
from PySide6.QtGui import QPainter, QPaintEvent, QResizeEvent, Qt, QTextBlockFormat, QTextCursor, QTextFormat
from PySide6.QtWidgets import QFrame, QLabel, QScrollArea, QSizePolicy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PySide6.QtGui import QTextBlock, QTextDocument
    from PySide6.QtWidgets import QWidget


class Label(QLabel):
    """A label that shows its text literally, unless its text format is set."""

    def __init__(self, text: str | QWidget | None = "", parent: QWidget | None = None) -> None:
        if isinstance(text, str):
            super().__init__(text, parent)
        else:
            super().__init__(text)
        self.setTextFormat(Qt.TextFormat.PlainText)


class ElidedLabel(Label):
    """A label of one line that is cut with an ellipsis where it is too narrow, at its end by default."""

    elide = Qt.TextElideMode.ElideRight

    def minimumSizeHint(self) -> QSize:
        return QSize(0, super().minimumSizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        del event
        painter = QPainter(self)
        text = self.fontMetrics().elidedText(self.text(), self.elide, self.contentsRect().width())
        colour = self.palette().color(self.foregroundRole())
        painter.setPen(colour)
        painter.drawText(self.contentsRect(), self.alignment(), text)
        painter.end()


_CELL = '<td style="padding: 0 {gap}px 1px 0;{colour}">{text}</td>'
_AFTER_NAME_PX, _AFTER_VALUE_PX = 8, 14


class FactsTable(Label):
    """A table of named values: names in a muted colour, two in a line where there is room.

    Its text can be copied.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("", parent)
        self.setTextFormat(Qt.TextFormat.RichText)
        self.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self._cells: tuple[str, ...] = ()

    def render_facts(self, facts: Sequence[tuple[str, str]], muted: str) -> None:
        """Show facts in order; ``muted`` is the colour ``#rrggbb`` of the names."""
        self._cells = tuple(
            _CELL.format(gap=_AFTER_NAME_PX, colour=f" color: {muted};", text=_unbroken(name))
            + _CELL.format(gap=_AFTER_VALUE_PX, colour="", text=_unbroken(value))
            for name, value in facts
        )
        self._arrange()
        self.setAccessibleName(", ".join(f"{name} {value}" for name, value in facts))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._arrange()

    def _arrange(self) -> None:
        for number in (2, 1):
            cells = (self._cells[at : at + number] for at in range(0, len(self._cells), number))
            rows = "".join(f"<tr>{''.join(row)}</tr>" for row in cells)
            self.setText(f"<table cellspacing=0 cellpadding=0>{rows}</table>")
            if self.sizeHint().width() <= self.width():
                return


def _unbroken(text: str) -> str:
    return escape(text).replace(" ", "&nbsp;")


def scrolled(label: Label, parent: QWidget) -> QScrollArea:
    """Return an area that shows a text from its top and scrolls where it has more lines than room."""
    label.setWordWrap(True)
    label.setAlignment(Qt.AlignmentFlag.AlignTop)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    scroll = QScrollArea(parent)
    scroll.setWidget(label)
    scroll.setWidgetResizable(True)
    scroll.setFrameShape(QFrame.Shape.NoFrame)
    scroll.viewport().setAutoFillBackground(False)
    label.setAutoFillBackground(False)
    return scroll


# Room above a heading, below it, and below a paragraph or code [px].
_ABOVE_PX, _BELOW_PX, _APART_PX = 16, 4, 8


def space_blocks(document: QTextDocument) -> None:
    """Put room around the headings and paragraphs of a Markdown text, which Qt shows without any."""
    cursor = QTextCursor(document)
    cursor.beginEditBlock()
    block = document.begin()
    while block.isValid():
        cursor.setPosition(block.position())
        margins = QTextBlockFormat()
        following = block.next()
        if block.blockFormat().headingLevel():
            margins.setTopMargin(_ABOVE_PX if block.position() else 0)
            margins.setBottomMargin(_BELOW_PX)
        elif cursor.currentTable() is None and not _goes_on(block, following):
            margins.setBottomMargin(_APART_PX)
        cursor.mergeBlockFormat(margins)
        block = following
    cursor.endEditBlock()


def _goes_on(block: QTextBlock, following: QTextBlock) -> bool:
    """Return whether a block is a line of a list or of code that the next block continues."""
    is_listed = block.textList() is not None and following.textList() is not None
    fence = QTextFormat.Property.BlockCodeFence
    is_code = all(one.blockFormat().hasProperty(fence) for one in (block, following))
    return following.isValid() and (is_listed or is_code)


def literal(text: str) -> str:
    """Return the text of a tooltip so that it is shown as it stands."""
    if not Qt.mightBeRichText(text):
        return text
    return f"<qt>{escape(text).replace(chr(10), '<br>')}</qt>"
