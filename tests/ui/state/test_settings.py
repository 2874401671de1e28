"""Settings of the window, and layouts that earlier versions saved."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDockWidget, QMainWindow

from ui.shell.panels import PANELS
from ui.state.settings import Settings

FORMER = {"explorer": "formats", "numerics": "accuracy", "sweep": "devices",
          "improvers": "weight_transforms"}  # fmt: skip


def window_with(qtbot, names):
    window = QMainWindow()
    qtbot.addWidget(window)
    for name in names:
        dock = QDockWidget(name, window)
        dock.setObjectName(f"dock-{name}")
        window.addDockWidget(Qt.DockWidgetArea.LeftDockWidgetArea, dock)
    return window


def area_of(window, name):
    return window.dockWidgetArea(window.findChild(QDockWidget, f"dock-{name}"))


@pytest.mark.parametrize(("former", "present"), FORMER.items())
def test_that_a_layout_with_a_former_panel_id_still_opens(qtbot, tmp_path, former, present):
    old = window_with(qtbot, ["graph", former, "runs"])
    old.addDockWidget(
        Qt.DockWidgetArea.BottomDockWidgetArea, old.findChild(QDockWidget, f"dock-{former}")
    )
    Settings(tmp_path).save_layout("mine", {"inner": old.saveState()})
    new = window_with(qtbot, ["graph", present, "runs"])
    assert new.restoreState(Settings(tmp_path).layout("mine")["inner"])
    assert area_of(new, present) == Qt.DockWidgetArea.BottomDockWidgetArea
    assert area_of(new, "runs") == Qt.DockWidgetArea.LeftDockWidgetArea


def test_that_former_panel_ids_are_mapped_to_present_ones():
    ids = {row.id for row in PANELS}
    assert ids >= set(FORMER.values())
    assert not ids & FORMER.keys()
