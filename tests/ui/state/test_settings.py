"""Settings of the window, and layouts that earlier versions saved."""

import errno
import json
import os

import pytest
from PySide6.QtCore import QByteArray, QSettings, Qt
from PySide6.QtWidgets import QDockWidget, QMainWindow

from tests.for_each import for_each
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
    (tmp_path / "window.json").write_text(json.dumps({"cache_limit_gib": number}))
    assert Settings(tmp_path).cache_limit_bytes == DEFAULT_LIMIT_BYTES


def test_that_recent_projects_and_folders_with_names_that_are_too_long_are_not_there(tmp_path):
    settings = Settings(tmp_path)
    settings.remember_folder("open", tmp_path / ("x" * 300))
    settings.remember_recent(tmp_path / ("x" * 300))
    assert Settings(tmp_path).folder_of("open") is None


class Marking:
    """An object whose pickle runs code."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (self.mark,)


def test_that_no_file_of_settings_runs_code(tmp_path):
    """QSettings restores Python objects by pickle."""
    mark = tmp_path / "code has run"
    for name in ("window.ini", "window.json"):
        store = QSettings(str(tmp_path / name), QSettings.Format.IniFormat)
        for key in ("theme", "recents", "layouts/mine/inner"):
            store.setValue(key, Marking(str(mark)))
        store.sync()
    settings = Settings(tmp_path)
    assert (settings.theme, settings.recents, settings.layouts()) == ("dark", [], [])
    assert not mark.exists()


@for_each("changed", ("window.json", "."))
def test_that_settings_that_others_can_change_are_not_used(changed, tmp_path):
    folder = tmp_path / "own"
    Settings(folder).theme = "light"
    (folder / changed).chmod(0o777)
    settings = Settings(folder)
    assert settings.theme == "dark"
    settings.warm_engines = False
    assert not settings.warm_engines
    (folder / changed).chmod(0o700)
    assert Settings(folder).theme == ("dark" if changed == "window.json" else "light")


def test_that_two_windows_keep_what_each_has_changed(tmp_path):
    first, second = Settings(tmp_path), Settings(tmp_path)
    first.theme = "light"
    second.save_layout("mine", {"inner": QByteArray(b"\0\xff")})
    third = Settings(tmp_path)
    assert (third.theme, third.layouts()) == ("light", ["mine"])
    assert bytes(third.layout("mine")["inner"].data()) == b"\0\xff"


def test_that_settings_on_a_full_disk_hold_until_the_window_ends(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    settings = Settings(tmp_path)
    settings.theme = "light"
    with monkeypatch.context() as patch:
        patch.setattr("workbench.files.os.fsync", full)
        settings.theme = "dark"
    assert settings.theme == "dark"
    assert Settings(tmp_path).theme == "light"


@for_each(
    "content",
    ("", "[]", "{", '{"theme": 3, "layouts/a/inner": "%%%"}', "[" * 100_000, '{"theme": "\\ud800"}'),
)
def test_that_damaged_settings_are_the_defaults(content, tmp_path):
    (tmp_path / "window.json").write_text(content)
    settings = Settings(tmp_path)
    assert settings.theme in {"dark", "\ud800"}
    assert [settings.layout(name) for name in settings.layouts()] in ([], [{}])
    settings.theme = "light"
    assert Settings(tmp_path).theme == "light"


def test_that_windows_share_their_recent_projects(tmp_path):
    one, two = Settings(tmp_path / "user"), Settings(tmp_path / "user")
    paths = [tmp_path / name for name in ("a.qwb", "b.qwb", "c.qwb")]
    one.remember_recent(paths[0])
    two.remember_recent(paths[1])
    assert one.recents == two.recents == [paths[1], paths[0]]
    one.remember_recent(paths[2])
    two.forget_recent(paths[0])
    assert one.recents == Settings(tmp_path / "user").recents == [paths[2], paths[1]]
