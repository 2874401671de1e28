"""Settings of the window, and layouts that earlier versions saved."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDockWidget, QMainWindow

from ui.shell.panels import PANELS
from ui.state.settings import Settings
from workbench.pipeline.cache import DEFAULT_LIMIT_BYTES

FORMER = {"explorer": "formats", "numerics": "accuracy", "sweep": "devices", "improvers": "weight_transforms"}


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
    old.addDockWidget(Qt.DockWidgetArea.BottomDockWidgetArea, old.findChild(QDockWidget, f"dock-{former}"))
    Settings(tmp_path).save_layout("mine", {"inner": old.saveState()})
    new = window_with(qtbot, ["graph", present, "runs"])
    assert new.restoreState(Settings(tmp_path).layout("mine")["inner"])
    assert area_of(new, present) == Qt.DockWidgetArea.BottomDockWidgetArea
    assert area_of(new, "runs") == Qt.DockWidgetArea.LeftDockWidgetArea


def test_that_former_panel_ids_are_mapped_to_present_ones():
    ids = {row.id for row in PANELS}
    assert ids >= set(FORMER.values())
    assert not ids & FORMER.keys()


@pytest.mark.parametrize("number", ["9" * 5000, "99999999999999999999", "-1", "\u00b2", "0"])
def test_that_odd_numbers_in_the_settings_are_the_defaults(tmp_path, number):
    (tmp_path / "window.ini").write_text(
        f"[General]\ncache_limit_gib={number}\n[pins]\nx={number}\n", encoding="utf-8"
    )
    assert Settings(tmp_path).cache_limit_bytes == DEFAULT_LIMIT_BYTES


def test_that_recent_projects_and_folders_with_names_that_are_too_long_are_not_there(tmp_path):
    settings = Settings(tmp_path)
    settings.remember_folder("open", tmp_path / ("x" * 300))
    settings.remember_recent(tmp_path / ("x" * 300))
    settings.sync()
    assert Settings(tmp_path).folder_of("open") is None
