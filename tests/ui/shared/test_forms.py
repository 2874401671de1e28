"""Forms that scroll keep their values and their place under the pointer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import (
    QApplication,
    QComboBox,
    QDialog,
    QFormLayout,
    QLineEdit,
    QPushButton,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from ui.shared.empty_states import StaleBanner
from ui.shared.forms import FittingCombo, TallForm, WrappedLabel, resize_on_screen
from ui.state.session import StageView
from workbench.errors import ErrorInfo, Place

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot


def wheel(widget: QWidget) -> None:
    """Turn the wheel over a widget."""
    middle = QPointF(widget.rect().center())
    event = QWheelEvent(
        middle,
        QPointF(widget.mapToGlobal(middle.toPoint())),
        QPoint(0, -120),
        QPoint(0, -120),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(widget, event)


def shown(qtbot: QtBot) -> tuple[QDialog, QFormLayout, TallForm]:
    dialog, body = QDialog(), QWidget()
    rows = QFormLayout(body)
    for k in range(60):
        rows.addRow(f"row {k}", QLineEdit(body))
    form = TallForm(body, dialog)
    layout = QVBoxLayout(dialog)
    layout.addWidget(form)
    layout.addWidget(QPushButton("Create", dialog))
    qtbot.addWidget(dialog)
    return dialog, rows, form


def test_that_the_wheel_scrolls_a_form_and_changes_no_field(qtbot: QtBot) -> None:
    dialog, rows, form = shown(qtbot)
    box, number = QComboBox(), QSpinBox()
    box.addItems(["one", "two", "three"])
    rows.insertRow(0, "box", box)
    rows.insertRow(1, "number", number)
    dialog.resize(400, 300)
    dialog.show()
    qtbot.waitExposed(dialog)
    number.setValue(5)
    bar = form.verticalScrollBar()
    for field in (box, number):
        field.setFocus()
        bar.setValue(0)
        wheel(field)
        assert (box.currentIndex(), number.value()) == (0, 5)
        assert bar.value() > 0


def test_that_a_dialog_stays_as_large_as_it_was_shown(qtbot: QtBot) -> None:
    dialog, rows, _ = shown(qtbot)
    extra = QLineEdit()
    rows.insertRow(0, "extra", extra)
    rows.setRowVisible(extra, False)
    dialog.resize(400, 300)
    dialog.show()
    qtbot.waitExposed(dialog)
    before = dialog.size()
    rows.setRowVisible(extra, True)
    QApplication.processEvents()
    assert dialog.size() == before


def test_that_a_label_that_becomes_wider_gives_its_room_back(qtbot):
    page = QWidget()
    qtbot.addWidget(page)
    label = WrappedLabel("a sentence of many words that takes several lines where it is narrow", page)
    layout = QVBoxLayout(page)
    layout.addWidget(label)
    layout.addStretch(1)
    page.resize(140, 400)
    page.show()
    qtbot.waitUntil(lambda: label.height() > 3 * label.fontMetrics().height())
    page.resize(900, 400)
    qtbot.waitUntil(lambda: label.height() < 2 * label.fontMetrics().height())


def test_that_a_fitting_combo_is_as_wide_as_its_text_and_its_list_shows_all_whole(qtbot: QtBot) -> None:
    combo = FittingCombo()
    qtbot.addWidget(combo)
    long = "Cycles above the device's limit (estimated)"
    combo.addItems(["No overlay", long])
    combo.show()
    advance = combo.fontMetrics().horizontalAdvance
    narrow = combo.sizeHint().width()
    assert advance("No overlay") < narrow < advance(long)
    combo.setCurrentIndex(1)
    assert combo.sizeHint().width() > advance(long)
    combo.setCurrentIndex(0)
    assert combo.sizeHint().width() == narrow
    combo.showPopup()
    assert combo.view().viewport().width() >= advance(long)
    combo.hidePopup()


def test_that_a_banner_in_a_narrow_panel_has_its_buttons_below_one_line_of_text(qtbot: QtBot) -> None:
    banner = StaleBanner("Modules: outdated.")
    qtbot.addWidget(banner)
    where = Place(kind="option", id="model.spec")
    infos = (ErrorInfo(message="No.", where=where),)
    banner.render_stage(StageView("export", "Export", state="failed", infos=infos))
    banner.show()
    for width, is_below in ((300, True), (900, False)):
        banner.resize(width, banner.heightForWidth(width))
        qtbot.wait(1)
        label = banner.label
        assert (banner.button.y() >= label.geometry().bottom()) == is_below
        assert label.width() >= label.fontMetrics().horizontalAdvance(label.text())


def test_that_a_dialog_stays_within_a_small_screen_with_its_frame(qtbot):
    dialog = QDialog()
    qtbot.addWidget(dialog)
    resize_on_screen(dialog, 5000, 5000)
    room = dialog.screen().availableSize()
    assert dialog.width() <= room.width()
    assert dialog.height() < room.height()
