"""Samples are copied to a folder of the user and never opened in the installation."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog

from ui.features.project.gallery import GalleryDialog
from workbench.installation import resources
from workbench.project import store
from workbench.samples import SAMPLES


def test_that_every_sample_of_the_gallery_exists_and_has_a_picture():
    for sample in SAMPLES:
        store.load(resources() / "samples" / sample.folder / sample.project)
        assert (resources() / "icons" / f"{sample.picture}.svg").is_file()


@pytest.mark.parametrize("way", ["welcome", "menu"])
def test_that_a_sample_asks_for_a_folder_first(workbench, qtbot, way):
    if way == "menu":
        workbench.window.actions_by_id["sample"].trigger()
        gallery = workbench.window.findChild(GalleryDialog).gallery
    else:
        gallery = workbench.window.welcome.gallery
    qtbot.mouseClick(gallery.tiles[0], Qt.MouseButton.LeftButton)
    (dialog,) = workbench.window.findChildren(QFileDialog)
    assert dialog.fileMode() == QFileDialog.FileMode.Directory
    assert workbench.document.project is None
    dialog.reject()


def test_that_the_copy_is_opened_and_the_installation_stays_as_it_is(workbench, tmp_path, qtbot):
    workbench.files.copy_sample(SAMPLES[0], tmp_path)
    assert workbench.document.path == tmp_path / "digits" / "digits.qwb"
    assert (tmp_path / "digits" / "held_out.npz").is_file()
    workbench.files.copy_sample(SAMPLES[0], tmp_path)
    assert workbench.document.path == tmp_path / "digits-2" / "digits.qwb"


def test_that_a_folder_that_cannot_be_written_is_one_sentence(workbench, tmp_path, notices):
    blocked = tmp_path / "file"
    blocked.write_text("")
    workbench.files.copy_sample(SAMPLES[0], blocked)
    notice = notices.take("The sample cannot be copied")
    assert "Choose a folder" in notice.hint
    assert workbench.document.project is None
