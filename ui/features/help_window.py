"""The guide in a window: a tree of pages, a search over their text, and the page itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from PySide6.QtCore import Qt, QTimer, QUrl
from PySide6.QtGui import QDesktopServices, QImage, QKeySequence, QShortcut, QTextCursor, QTextDocument
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLineEdit,
    QSplitter,
    QTextBrowser,
    QToolButton,
    QTreeWidget,
    QTreeWidgetItem,
    QTreeWidgetItemIterator,
    QVBoxLayout,
    QWidget,
)

from ui.shared.forms import resize_on_screen
from ui.shared.labels import literal, space_blocks
from ui.shared.theme import Theme, icon
from workbench.guide import GUIDE, INDEX, title

_PATH = Qt.ItemDataRole.UserRole
_TITLES = {
    "": "Guide",
    "howto": "How to",
    "user": "Panels and concepts",
    "reference": "Reference",
    "dev": "For developers",
}
_WIDTH, _HEIGHT = 1000, 720
_TREE_WIDTH = 260
_MARGIN = 18


def slug(heading: str) -> str:
    """Return the anchor of a heading, as Markdown viewers on the web make it."""
    kept = re.sub(r"[^\w\- ]", "", heading.strip().casefold())
    return kept.replace(" ", "-")


class _Browser(QTextBrowser):
    """A text browser whose pictures are no wider than the page, with room between paragraphs."""

    def doSetSource(
        self,
        name: QUrl | str,
        /,
        type: QTextDocument.ResourceType = QTextDocument.ResourceType.UnknownResource,  # noqa: A002
    ) -> None:
        super().doSetSource(name, type)
        space_blocks(self.document())

    def loadResource(self, kind: int, name: QUrl | str) -> object:
        if kind != QTextDocument.ResourceType.ImageResource.value:
            return super().loadResource(kind, name)
        picture = QImage(self.source().resolved(QUrl(name)).toLocalFile())
        width = self.viewport().width() - 2 * _MARGIN
        if picture.isNull() or picture.width() <= width:
            return picture
        return picture.scaledToWidth(width, Qt.TransformationMode.SmoothTransformation)


class HelpWindow(QWidget):
    """Shows pages of the guide. Links lead from page to page, or to the web browser."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Window)
        self.setObjectName("HelpWindow")
        self.setWindowTitle("Guide")
        resize_on_screen(self, _WIDTH, _HEIGHT)
        self.search = QLineEdit(self, placeholderText="Search the guide", clearButtonEnabled=True)
        self.search.setAccessibleName("Search the guide")
        self.pages = QTreeWidget(self)
        self.pages.setHeaderHidden(True)
        self.pages.setAccessibleName("Pages")
        self.browser = _Browser(self)
        self.browser.setOpenLinks(False)
        self.browser.document().setDocumentMargin(_MARGIN)
        self._fragment = ""
        self._texts = {page: page.read_text(encoding="utf-8") for page in _pages()}
        self._fill()
        self._lay_out(theme)
        self.search.textChanged.connect(self._on_search)
        self.pages.currentItemChanged.connect(self._on_page_chosen)
        self.browser.anchorClicked.connect(self._on_link)
        self.browser.sourceChanged.connect(self._on_source_changed)
        QShortcut(QKeySequence.StandardKey.Find, self, self.search.setFocus)
        for keys in (Qt.Key.Key_Escape, QKeySequence.StandardKey.Close):
            QShortcut(QKeySequence(keys), self, self.close)

    def show_page(self, path: Path, fragment: str = "") -> None:
        """Show a page, at the heading with this anchor if one is given."""
        self._fragment = fragment
        self.browser.setSource(QUrl.fromLocalFile(str(path)), QTextDocument.ResourceType.MarkdownResource)
        self._scroll_soon()

    def titles(self) -> list[str]:
        """Return the titles of the pages that the search leaves."""
        return [item.text(0) for item in self._items() if not item.isHidden()]

    @property
    def page(self) -> Path:
        """The page that is shown."""
        return Path(self.browser.source().toLocalFile())

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of a theme."""
        for button, name in zip(self._buttons, ("back", "forward", "nest"), strict=True):
            button.setIcon(icon(name, theme.text))
        self.browser.document().setDefaultStyleSheet(f"a {{ color: {theme.accent}; }}")
        self.browser.reload()

    def _lay_out(self, theme: Theme) -> None:
        self._buttons = [QToolButton(self) for _ in range(3)]
        steps = (self.browser.backward, self.browser.forward, lambda: self.show_page(INDEX))
        for button, step, name in zip(self._buttons, steps, ("Back", "Forward", "Contents"), strict=True):
            button.setToolTip(literal(name))
            button.setAccessibleName(name)
            button.setAutoRaise(True)
            button.clicked.connect(lambda _=False, step=step: step())
        bar = QHBoxLayout()
        for button in self._buttons:
            bar.addWidget(button)
        bar.addWidget(self.search, 1)
        splitter = QSplitter(self)
        splitter.addWidget(self.pages)
        splitter.addWidget(self.browser)
        splitter.setSizes([_TREE_WIDTH, _WIDTH - _TREE_WIDTH])
        splitter.setChildrenCollapsible(False)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 8, 8, 8)
        layout.addLayout(bar)
        layout.addWidget(splitter, 1)
        self.set_theme(theme)

    def _fill(self) -> None:
        groups: dict[str, QTreeWidgetItem] = {}
        for page in self._texts:
            folder = page.relative_to(GUIDE).parent.as_posix().strip(".")
            if folder not in groups:
                groups[folder] = QTreeWidgetItem(self.pages, [_TITLES.get(folder, folder)])
                groups[folder].setFlags(Qt.ItemFlag.ItemIsEnabled)
                groups[folder].setExpanded(True)
            item = QTreeWidgetItem(groups[folder], [title(page)])
            item.setData(0, _PATH, str(page))
            item.setToolTip(0, literal(title(page)))
        self._groups = list(groups.values())

    def _items(self) -> Iterator[QTreeWidgetItem]:
        walker = QTreeWidgetItemIterator(self.pages, QTreeWidgetItemIterator.IteratorFlag.NoChildren)
        while (item := walker.value()) is not None:
            yield item
            walker += 1

    def _on_search(self, text: str) -> None:
        words = text.casefold().split()
        for item in self._items():
            page = self._texts[Path(item.data(0, _PATH))].casefold()
            item.setHidden(not all(word in page for word in words))
        left = [item.parent() for item in self._items() if not item.isHidden()]
        for group in self._groups:
            group.setHidden(group not in left)
        self.pages.setHeaderHidden(bool(left))
        self.pages.setHeaderLabel("" if left else "No page has these words.")

    def _on_page_chosen(self, item: QTreeWidgetItem | None) -> None:
        path = item.data(0, _PATH) if item is not None else None
        if path and Path(path) != self.page:
            self.show_page(Path(path))

    def _on_link(self, link: QUrl) -> None:
        target = self.browser.source().resolved(link)
        if target.isLocalFile() and target.path().endswith(".md"):
            self.show_page(Path(target.toLocalFile()), target.fragment())
        else:
            QDesktopServices.openUrl(target)

    def _on_source_changed(self, source: QUrl) -> None:
        # The browser itself still has the former source.
        page = Path(source.toLocalFile())
        for item in self._items():
            if Path(item.data(0, _PATH)) == page:
                self.pages.blockSignals(True)
                self.pages.setCurrentItem(item)
                self.pages.blockSignals(False)

    def _scroll_soon(self) -> None:
        QTimer.singleShot(0, self, self._scroll_to_fragment)

    def _scroll_to_fragment(self) -> None:
        block = self.browser.document().begin()
        while self._fragment and block.isValid():
            if block.blockFormat().headingLevel() and slug(block.text()) == self._fragment:
                self.browser.setTextCursor(QTextCursor(block))
                top = self.browser.cursorRect().top()
                bar = self.browser.verticalScrollBar()
                bar.setValue(bar.value() + top)
                return
            block = block.next()


def _pages() -> list[Path]:
    """Return every page, contents first, folders behind the pages beside it."""
    files = sorted(GUIDE.rglob("*.md"), key=lambda p: (len(p.relative_to(GUIDE).parts), p))
    order = list(_TITLES)
    return sorted(files, key=lambda p: (order.index(p.parent.name) if p.parent != GUIDE else 0, p != INDEX))
