"""The sections of the project settings: a list to choose one, and a search over all of them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QObject, Qt, QTimer
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QFormLayout,
    QHBoxLayout,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QVBoxLayout,
    QWidget,
)

from ui.shared.forms import TallForm, align_fields
from ui.shared.labels import Label

_LIST_PX = 176
_WRONG = "  (!)"
_NO_MATCH = (
    "No setting matches. Those of pictures and of text are shown where the data are a folder or a text file."
)


@dataclass(frozen=True)
class _Row:
    section: str
    form: QFormLayout
    field: QWidget
    words: str


class SettingSections(QWidget):
    """Shows the rows of the section chosen in a list, or those of all sections that match a search."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._rows: dict[str, _Row] = {}
        self._unused: frozenset[str] = frozenset()
        self._pages: dict[str, QWidget] = {}
        self._words: dict[str, str] = {}
        self.search = QLineEdit(self)
        self.search.setPlaceholderText("Search settings")
        self.search.setAccessibleName("Search settings")
        self.search.setClearButtonEnabled(True)
        self.search.textChanged.connect(self._show)
        self.search.installEventFilter(self)
        self.list = QListWidget(self)
        self.list.setObjectName("Sections")
        self.list.setAccessibleName("Sections")
        self.list.currentRowChanged.connect(self._on_row_changed)
        # The section that was shown before a search, too.
        self.list.itemClicked.connect(lambda _item: self.search.clear())
        self.nothing = Label(_NO_MATCH, self)
        self.nothing.setObjectName("Hint")
        self.nothing.setWordWrap(True)
        self._body = QWidget(self)
        self._column = QVBoxLayout(self._body)
        self._column.setContentsMargins(0, 0, 8, 0)
        self._column.setSpacing(14)
        self._column.addWidget(self.nothing)
        side = QVBoxLayout()
        side.setSpacing(8)
        side.addWidget(self.search)
        side.addWidget(self.list, 1)
        for widget in (self.search, self.list):
            widget.setFixedWidth(_LIST_PX)
        self._area = TallForm(self._body, self)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(18)
        layout.addLayout(side)
        layout.addWidget(self._area, 1)

    def add(self, title: str) -> QVBoxLayout:
        """Append a section and return the layout for its rows."""
        page = self._pages[title] = QWidget(self._body)
        column = QVBoxLayout(page)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        heading = Label(title, page)
        heading.setObjectName("Subheading")
        column.addWidget(heading)
        self._column.addWidget(page)
        self._words[title] = title.casefold()
        item = QListWidgetItem(title, self.list)
        item.setData(Qt.ItemDataRole.UserRole, title)
        return column

    def add_row(self, section: str, key: str, title: str, field: QWidget, form: QFormLayout) -> None:
        """Let a row that stands in a form be found by its title and its key."""
        words = f"{section} {title} {key}".casefold()
        self._rows[key] = _Row(section, form, field, words)

    def add_words(self, section: str, words: str) -> None:
        """Let a section that is no form of rows be found, as a whole, by these words."""
        self._words[section] += f" {words.casefold()}"

    def finish(self) -> None:
        """Show the first section; all were added."""
        self._column.addStretch(1)
        align_fields(self._body)
        self.list.setCurrentRow(0)

    def use(self, unused: Collection[str]) -> None:
        """Show all rows but those that have no use at present, by key."""
        self._unused = frozenset(unused)
        self._show()

    def mark(self, keys: Collection[str]) -> None:
        """Mark the sections of the settings that are wrong."""
        wrong = {self._rows[key].section if key in self._rows else key for key in keys}
        for row in range(self.list.count()):
            item = self.list.item(row)
            title = item.data(Qt.ItemDataRole.UserRole)
            item.setText(title + _WRONG if title in wrong else title)

    def show_row(self, key: str, field: QWidget) -> None:
        """Show the section of a setting, and scroll to its field; a key of no row is a section."""
        section = self._rows[key].section if key in self._rows else key
        self.search.clear()
        self.list.setCurrentRow(list(self._pages).index(section))
        # The layout of another section comes first.
        QTimer.singleShot(0, self, lambda: self._area.ensureWidgetVisible(field, 20, 160))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Let Enter in the search lead to the first setting, and Esc end the search, not the dialog."""
        if not isinstance(event, QKeyEvent) or event.type() != QEvent.Type.KeyPress:
            return super().eventFilter(watched, event)
        key = event.key()
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            first = next((row.field for row in self._rows.values() if row.field.isVisible()), None)
            if first is not None:
                first.setFocus(Qt.FocusReason.TabFocusReason)
            return True
        if key == Qt.Key.Key_Escape and self.search.text():
            self.search.clear()
            return True
        return super().eventFilter(watched, event)

    def _on_row_changed(self, _row: int) -> None:
        self.search.clear()
        self._area.verticalScrollBar().setValue(0)
        self._show()

    def _show(self) -> None:
        """Show the rows of the chosen section, or those that have all words of the search."""
        words = self.search.text().casefold().split()
        item = self.list.currentItem()
        chosen = item.data(Qt.ItemDataRole.UserRole) if item is not None else ""
        if item is not None:
            item.setSelected(not words)
        seen = set()
        for key, row in self._rows.items():
            is_fitting = all(word in row.words for word in words)
            is_shown = is_fitting and key not in self._unused
            row.form.setRowVisible(row.field, is_shown)
            if is_shown:
                seen.add(row.section)
        with_rows = {row.section for row in self._rows.values()}
        for title, page in self._pages.items():
            is_found = title in seen if title in with_rows else all(w in self._words[title] for w in words)
            page.setVisible(is_found if words else title == chosen)
        self.nothing.setVisible(all(page.isHidden() for page in self._pages.values()))
