"""What is wrong with a layout: texts that are cut, empty tables, parts that overlap."""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtCore import QPoint, QRect
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractScrollArea,
    QComboBox,
    QHeaderView,
    QLabel,
    QMainWindow,
    QMenuBar,
    QScrollArea,
    QScrollBar,
    QSizeGrip,
    QSplitter,
    QSplitterHandle,
    QTabBar,
    QTabWidget,
    QToolButton,
    QWidget,
)

from ui.shared.labels import ElidedLabel
from ui.shared.sortable_table import FigureView

# Differences of rounding [px].
_SLACK = 2
# A view without rows that is higher is an empty page [px].
_EMPTY_PX = 150
# Fewer pixels of a line are not read.
_LINE_PX = 8


def findings(root: QWidget) -> list[str]:
    """Return what is wrong below a widget, as lines; empty if nothing is."""
    lines = []
    for widget in _shown(root):
        lines += [f"{_name(widget)}: {what}" for what in (*_cut(widget), *_empty(widget))]
        lines += _overlaps(widget)
    return lines


def pages(root: QWidget) -> Iterator[str]:
    """Show every page of the tabs inside a widget; yield "" for the first ones, then each title."""
    yield ""
    for tabs in root.findChildren(QTabWidget):
        first = tabs.currentIndex()
        for page in range(tabs.count()):
            if page != first and tabs.isTabVisible(page) and tabs.isTabEnabled(page) and tabs.isVisible():
                tabs.setCurrentIndex(page)
                yield tabs.tabText(page)
        tabs.setCurrentIndex(first)


def _shown(root: QWidget) -> Iterator[QWidget]:
    """Yield a widget and all of its parts on the screen; those of views are drawn by the view."""
    yield root
    for child in root.children():
        if isinstance(child, QWidget) and child.isVisible() and not child.isWindow():
            yield from _shown(child)


def _name(widget: QWidget) -> str:
    text = getattr(widget, "text", None)
    words = text() if callable(text) else widget.accessibleName() or widget.objectName()
    return f"{type(widget).__name__} {str(words)[:50]!r}"


def _is_scrolled(widget: QWidget) -> bool:
    """Return whether a scroll area above the widget shows what sticks out."""
    above = widget.parentWidget()
    while above is not None:
        if isinstance(above, QScrollArea):
            return True
        above = above.parentWidget()
    return False


def _cut(widget: QWidget) -> Iterator[str]:
    """Yield which text of a widget is cut."""
    wide, high = widget.width(), widget.height()
    needed = _needed(widget)
    if needed > wide + _SLACK:
        yield f"{wide} px wide, needs {needed}"
    if isinstance(widget, QLabel) and widget.wordWrap() and widget.text():
        needed = widget.heightForWidth(wide)
        if needed > high + _SLACK:
            yield f"{high} px high, needs {needed}"
    if high < _LINE_PX and isinstance(widget, QAbstractButton | QComboBox):
        yield f"{high} px high"


def _needed(widget: QWidget) -> int:
    """Return the width of the text of a widget [px]; 0 if it may be narrower."""
    if isinstance(widget, QLabel) and not isinstance(widget, ElidedLabel):
        return 0 if widget.wordWrap() or not widget.text() else widget.sizeHint().width()
    if isinstance(widget, QAbstractButton) and not isinstance(widget, QToolButton):
        return widget.fontMetrics().horizontalAdvance(widget.text())
    if isinstance(widget, QComboBox):
        return widget.fontMetrics().horizontalAdvance(widget.currentText())
    return 0


def _empty(widget: QWidget) -> Iterator[str]:
    """Yield why a view is an empty page."""
    if isinstance(widget, QHeaderView) or not isinstance(widget, QAbstractItemView):
        return
    model = widget.model()
    says = isinstance(widget, FigureView) and widget.empty
    if (model is None or model.rowCount() == 0) and widget.height() > _EMPTY_PX and not says:
        yield f"{widget.width()} x {widget.height()} px without a row"


def _overlaps(parent: QWidget) -> Iterator[str]:
    """Yield which parts of a widget cover each other, or stick out of it."""
    if isinstance(parent, QMainWindow | QAbstractScrollArea | QTabBar | QMenuBar | QSplitter):
        return
    layout = parent.layout()
    if layout is None:
        return
    placed = [
        child
        for child in parent.children()
        if isinstance(child, QWidget)
        and child.isVisible()
        and not child.isWindow()
        and not isinstance(child, QScrollBar | QSizeGrip | QSplitterHandle)
        and layout.indexOf(child) >= 0
    ]
    for number, widget in enumerate(placed):
        here = widget.geometry()
        if not _is_scrolled(widget):
            inside = parent.rect().adjusted(-_SLACK, -_SLACK, _SLACK, _SLACK)
            if not inside.contains(here):
                yield f"{_name(widget)}: {here.getRect()} sticks out of {parent.rect().getRect()}"
        for other in placed[number + 1 :]:
            shared: QRect = here.intersected(other.geometry())
            if shared.width() > _SLACK and shared.height() > _SLACK:
                yield f"{_name(widget)} covers {_name(other)} by {shared.size().toTuple()}"


def is_on_screen(widget: QWidget, window: QWidget) -> bool:
    """Return whether all of a widget is inside its window."""
    corner = widget.mapTo(window, QPoint(0, 0))
    return window.rect().contains(QRect(corner, widget.size()))
