"""The order of the Tab key, and a line around the table, tree or chart that has the focus.

The order is that of the layouts, in which a form is read. Qt's own order is that in which widgets
are made, and panels are made when they are first shown. Qt also goes through panels that stand
behind others in tabs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPalette, QRegion
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractScrollArea,
    QAbstractSlider,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QFormLayout,
    QGridLayout,
    QLayout,
    QLineEdit,
    QPlainTextEdit,
    QScrollArea,
    QSplitter,
    QStackedWidget,
    QTabWidget,
    QTextEdit,
    QWidget,
)
from shiboken6 import isValid

_CONTROLS = (QAbstractButton, QAbstractSlider, QAbstractSpinBox, QComboBox, QLineEdit)


def reading_order(widget: QWidget) -> list[QWidget]:
    """Return the widgets inside a widget that take the Tab key, as they are read."""
    return list(dict.fromkeys(_inside(widget)))


def put_after(anchor: QWidget, widgets: Sequence[QWidget]) -> None:
    """Let the Tab key go from a widget of a dialog through others, in their order."""
    for before, after in pairwise([anchor, *widgets]):
        QWidget.setTabOrder(before, after)


def move_focus(stops: Sequence[QWidget], *, forward: bool) -> bool:
    """Give the focus to the stop after the present one, or to the one before it.

    Hidden and disabled stops are left out. Returns whether there is a stop at all.
    """
    shown = [stop for stop in stops if stop.isVisible() and stop.isEnabled()]
    if not shown:
        return False
    now = QApplication.focusWidget()
    # A field inside a stop may have the focus, e.g. that of a spin box.
    indices = [k for k, stop in enumerate(shown) if now and (stop is now or stop.isAncestorOf(now))]
    step = 1 if forward else -1
    index = (indices[-1] if indices else -1 if forward else 0) + step
    wanted = shown[index % len(shown)]
    reason = Qt.FocusReason.TabFocusReason if forward else Qt.FocusReason.BacktabFocusReason
    wanted.setFocus(reason)
    above = wanted.parentWidget()
    while above is not None:
        if isinstance(above, QScrollArea):
            above.ensureWidgetVisible(wanted)
        above = above.parentWidget()
    return True


def _inside(widget: QWidget) -> Iterator[QWidget]:
    takes = bool(widget.focusPolicy() & Qt.FocusPolicy.TabFocus)
    if takes and widget.focusProxy() is None:
        yield widget
    is_view = isinstance(widget, QAbstractScrollArea) and not isinstance(widget, QScrollArea)
    if isinstance(widget, _CONTROLS) or is_view:
        return
    for part in _parts(widget):
        yield from _inside(part)


def _parts(widget: QWidget) -> Iterator[QWidget]:
    """Yield the widgets directly inside a widget."""
    if isinstance(widget, QTabWidget):
        yield widget.tabBar()
    if isinstance(widget, QTabWidget | QStackedWidget | QSplitter):
        pages = (widget.widget(number) for number in range(widget.count()))
        yield from (page for page in pages if page is not None)
    elif isinstance(widget, QScrollArea):
        if (page := widget.widget()) is not None:
            yield page
    elif (layout := widget.layout()) is not None:
        yield from _placed(layout)
    else:
        inside = (part for part in widget.children() if isinstance(part, QWidget))
        yield from (part for part in inside if not part.isWindow())


def _placed(layout: QLayout) -> Iterator[QWidget]:
    """Yield the widgets of a layout, row by row."""
    numbers = list(range(layout.count()))
    if isinstance(layout, QGridLayout | QFormLayout):
        # PySide's stubs call the tuple of the position an object.
        position: Callable[[int], Any] = layout.getItemPosition
        known = 2 if isinstance(layout, QGridLayout) else 1
        numbers.sort(key=lambda number: tuple(position(number))[:known])
    for item in (layout.itemAt(number) for number in numbers):
        if item is None:
            continue
        if (inner := item.layout()) is not None:
            yield from _placed(inner)
        elif (widget := item.widget()) is not None:
            yield widget


class FocusOutline(QObject):
    """Draws a line around the table, tree, list, chart or scroll area that has the focus.

    It does so around other widgets with the property ``framed``, too. A border of the stylesheet
    would take room in each of them.
    """

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._line: _Line | None = None
        application = QApplication.instance()
        if isinstance(application, QApplication):
            application.focusChanged.connect(self._on_focus_changed)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Keep the line at the edge of its widget.

        A line that filtered the events of its own parent would be called while both are deleted.
        """
        line = self._line
        is_resized = event.type() == QEvent.Type.Resize
        if is_resized and line is not None and isValid(line) and watched is line.parent():
            line.surround(line.parentWidget() or line)
        return False

    def _on_focus_changed(self, _before: QWidget | None, now: QWidget | None) -> None:
        # Without its widget a line is gone too.
        if self._line is not None and isValid(self._line):
            if (view := self._line.parentWidget()) is not None:
                view.removeEventFilter(self)
            self._line.hide()
            self._line.deleteLater()
        self._line = None
        if now is None or isinstance(now, QTextEdit | QPlainTextEdit):
            # Texts show the focus by their cursor and border.
            return
        if isinstance(now, QAbstractScrollArea) or bool(now.property("framed")):
            self._line = _Line(now)
            now.installEventFilter(self)


class _Line(QWidget):
    """A line along the inner edge of its parent."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.surround(parent)
        self.show()

    def surround(self, parent: QWidget) -> None:
        """Take the size of the parent."""
        whole = parent.rect()
        self.setGeometry(whole)
        # Only the line covers its parent, which scrolls without painting all of it.
        self.setMask(QRegion(whole) - QRegion(whole.adjusted(1, 1, -1, -1)))
        self.raise_()

    def paintEvent(self, event: QPaintEvent) -> None:
        del event
        painter = QPainter(self)
        painter.fillRect(self.rect(), self.palette().color(QPalette.ColorRole.Highlight))
        painter.end()
