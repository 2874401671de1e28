"""Samples are copied to a folder of the user and never opened in the installation."""

from __future__ import annotations

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


def test_that_a_sample_of_the_first_page_or_the_menu_asks_for_a_folder_first(workbench, qtbot):
    def ask(gallery):
        qtbot.mouseClick(gallery.tiles[0], Qt.MouseButton.LeftButton)
        (dialog,) = [d for d in workbench.window.findChildren(QFileDialog) if d.isVisible()]
        assert dialog.fileMode() == QFileDialog.FileMode.Directory
        assert workbench.document.project is None
        dialog.reject()

    ask(workbench.window.welcome.gallery)
    workbench.window.actions_by_id["sample"].trigger()
    ask(workbench.window.findChild(GalleryDialog).gallery)


def test_that_a_copy_is_opened_or_a_folder_that_cannot_be_written_is_one_sentence(
    workbench, tmp_path, notices, qtbot
):
    # A folder that cannot be written is one sentence.
    blocked = tmp_path / "file"
    blocked.write_text("")
    workbench.files.copy_sample(SAMPLES[0], blocked)
    notice = notices.take("The sample cannot be copied")
    assert "Choose a folder" in notice.hint
    assert workbench.document.project is None
    # The copy is opened and the installation stays as it is.
    workbench.files.copy_sample(SAMPLES[0], tmp_path)
    assert workbench.document.path == tmp_path / "digits" / "digits.qwb"
    assert (tmp_path / "digits" / "held_out.npz").is_file()
    workbench.files.copy_sample(SAMPLES[0], tmp_path)
    assert workbench.document.path == tmp_path / "digits-2" / "digits.qwb"


def test_that_the_narrowest_tile_shows_every_line_of_a_sample_whole(workbench, qtbot):
    workbench.window.actions_by_id["sample"].trigger()
    gallery = workbench.window.findChild(GalleryDialog).gallery
    qtbot.waitUntil(gallery.isVisible)
    for tile in gallery.tiles:
        advance = tile.fontMetrics().horizontalAdvance
        lines = tile.text().split("\n")
        assert [line for line in lines if advance(line) > tile.minimumWidth() - 10] == []
        assert len(lines) * tile.fontMetrics().lineSpacing() + 48 < tile.minimumHeight()
