"""The line around what has the focus follows its widget, and outlives it without an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtWidgets import QListWidget, QVBoxLayout, QWidget
from shiboken6 import isValid

from ui.shared.tab_order import FocusOutline

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot


def test_that_a_line_whose_python_half_was_collected_raises_nothing(qtbot: QtBot) -> None:
    outline = FocusOutline(QCoreApplication.instance())
    view = QListWidget()
    qtbot.addWidget(view)
    view.show()
    qtbot.waitUntil(view.isActiveWindow)
    view.setFocus()
    (line,) = lines(view)
    # The collector empties the Python half of a widget that Qt has not deleted yet, and Qt still
    # sends it events. pytest-qt fails a test in whose event handlers something raises.
    line.__dict__.clear()
    view.resize(333, 222)
    QCoreApplication.processEvents()
    assert line.size() == view.size()
    outline.deleteLater()


def lines(view: QListWidget) -> list[QWidget]:
    inside = view.findChildren(QWidget)
    return [w for w in inside if type(w).__name__ == "_Line" and not w.isHidden()]


def test_that_the_line_follows_the_size_of_its_list_and_leaves_with_the_focus(qtbot: QtBot) -> None:
    outline = FocusOutline(QCoreApplication.instance())
    form = QWidget()
    first, second = QListWidget(form), QListWidget(form)
    layout = QVBoxLayout(form)
    layout.addWidget(first)
    layout.addWidget(second)
    qtbot.addWidget(form)
    form.resize(200, 300)
    form.show()
    qtbot.waitUntil(form.isActiveWindow)
    first.setFocus()
    form.resize(400, 500)
    QCoreApplication.processEvents()
    (line,) = lines(first)
    assert line.size() == first.size()
    second.setFocus()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    assert not isValid(line)
    assert len(lines(second)) == 1
    outline.deleteLater()
