"""Tab widgets whose scroll buttons have names."""

from __future__ import annotations

from PySide6.QtWidgets import QTabBar, QTabWidget, QToolButton, QWidget

from ui.shared.labels import literal

# Object names that QTabBar gives its scroll buttons.
_SCROLL_BUTTONS = {"ScrollLeftButton": "Previous tabs", "ScrollRightButton": "Next tabs"}


class Tabs(QTabWidget):
    """A tab widget for parts of a panel."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setDocumentMode(True)
        name_scroll_buttons(self.tabBar())

    def add_pages(self, *pages: tuple[str, QWidget]) -> None:
        """Add pages by title."""
        for title, page in pages:
            self.addTab(page, title)


def name_scroll_buttons(bar: QTabBar) -> None:
    """Give the scroll buttons of a tab bar, which Qt shows on overflow, tooltips and names."""
    for button in bar.findChildren(QToolButton):
        text = _SCROLL_BUTTONS.get(button.objectName(), "")
        button.setToolTip(literal(text))
        button.setAccessibleName(text)
