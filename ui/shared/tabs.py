"""Tab widgets whose scroll buttons have names, and parts that stand side by side or in tabs."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt, QTimer
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QApplication, QSplitter, QTabBar, QTabWidget, QToolButton, QVBoxLayout, QWidget

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


class SplitOrTabs(QWidget):
    """Two parts side by side, or in tabs while there is too little room for both.

    Args:
        parts: Title and widget of each part.
        widths: The share of each part when they are side by side.
        wide_px: The least width at which they are.
        parent: The widget around it.
    """

    def __init__(
        self, parts: Sequence[tuple[str, QWidget]], widths: Sequence[int], wide_px: int, parent: QWidget
    ) -> None:
        super().__init__(parent)
        self._parts, self._wide_px = list(parts), wide_px
        self._shown = [True] * len(self._parts)
        self._is_fitted = False
        # Parts do not move while the window is being laid out.
        self._soon = QTimer(self, interval=0, singleShot=True)
        self._soon.timeout.connect(self._fit)
        self._split = QSplitter(Qt.Orientation.Horizontal, self)
        self.tabs = Tabs(self)
        self.tabs.hide()
        self.tabs.currentChanged.connect(self.updateGeometry)
        self._split.setChildrenCollapsible(False)
        for (_, part), width in zip(self._parts, widths, strict=True):
            # The stretch factor of a splitter, in which the part may not be yet.
            policy = part.sizePolicy()
            policy.setHorizontalStretch(width)
            part.setSizePolicy(policy)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._split)
        layout.addWidget(self.tabs)
        # A part of a visible panel will be as wide as that; else the first paint would be another.
        above: QWidget | None = parent
        while above is not None and not above.isVisible():
            above = above.parentWidget()
        # A part that moves gets its style again, with all that is in it.
        self._arrange(is_split=above is None or above.width() >= wide_px)
        if self.is_split:
            self._split.setSizes([100 * width for width in widths])

    @property
    def is_split(self) -> bool:
        """Whether the parts are side by side."""
        return self.tabs.isHidden()

    def show_part(self, part: QWidget) -> None:
        """Show a part that may be behind another."""
        if not self.is_split:
            self.tabs.setCurrentWidget(part)

    def set_part_visible(self, number: int, visible: bool) -> None:
        """Show or hide one part."""
        if self._shown[number] != visible:
            self._shown[number] = visible
            self._arrange(self.is_split)
            # Both parts may need more room than the one that was shown.
            self._soon.start()

    def minimumSizeHint(self) -> QSize:
        """Return the minimum of the tabs, so that the parts may come to stand in them.

        It is as high as the part that is shown; tabs behind it may need more.
        """
        hints = [part.minimumSizeHint() for _, part in self._parts]
        width, bar = max(h.width() for h in hints), self.tabs.tabBar().minimumSizeHint().height()
        shown = self.tabs.currentWidget()
        if self.is_split or shown is None:
            return QSize(width, max(h.height() for h in hints) + bar)
        return QSize(width, shown.minimumSizeHint().height() + bar)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._soon.start()

    def _fit(self) -> None:
        is_wide = self.width() >= self._wide_px or sum(self._shown) < 2
        if is_wide != self.is_split:
            self._arrange(is_wide)
        self._is_fitted = True

    def _arrange(self, is_split: bool) -> None:
        is_split = is_split or sum(self._shown) < 2
        now = QApplication.focusWidget()
        focused = next((part for _, part in self._parts if now and part.isAncestorOf(now)), None)
        for number, (title, part) in enumerate(self._parts):
            if is_split:
                self._split.insertWidget(number, part)
                part.setVisible(self._shown[number])
            elif self.tabs.indexOf(part) < 0:
                self.tabs.addTab(part, title)
        self._split.setVisible(is_split)
        self.tabs.setVisible(not is_split)
        if now is None or focused is None:
            return
        # A widget loses the focus when it moves. At first the first part is in front.
        if is_split or self._is_fitted:
            self.show_part(focused)
            now.setFocus(Qt.FocusReason.OtherFocusReason)
        else:
            self.tabs.tabBar().setFocus(Qt.FocusReason.OtherFocusReason)
