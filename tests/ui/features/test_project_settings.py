"""Project settings: every setting at any time, one undo step, and problems lead to their field."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QCoreApplication, QEvent, Qt
from PySide6.QtWidgets import QApplication, QDialogButtonBox, QLineEdit

from tests.for_each import for_each
from ui.features.project.data_preview import summary_of
from ui.features.project.project_settings import ProjectSettingsDialog
from ui.shared.problem_list import Problem
from workbench.errors import Place
from workbench.project import settings

OK = QDialogButtonBox.StandardButton.Ok


@pytest.fixture
def ask(opened, qtbot):
    """Open the dialog from the menu."""

    def open_dialog():
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        opened.window.actions_by_id["settings"].trigger()
        dialog = opened.window.findChild(ProjectSettingsDialog)
        qtbot.waitUntil(dialog.isVisible)
        return dialog

    return open_dialog


def press_ok(dialog, qtbot):
    qtbot.mouseClick(dialog.buttons.button(OK), Qt.MouseButton.LeftButton)


def test_that_settings_are_one_undo_step_with_a_target_and_a_board(ask, opened, qtbot):
    # Nothing changed is no step.
    press_ok(ask(), qtbot)
    assert opened.document.undo_stack.count() == 0
    # Settings are one undo step.
    before = opened.document.project
    folder = opened.document.folder
    np.savez(folder / "data.npz", x=np.zeros((6, 3, 8, 8), np.float32))
    dialog = ask()
    dialog.set_text("model.input_shapes", "1x3x8x8")
    dialog.set_text("calibration.spec", "data.npz")
    dialog.set_text("gate.lsb", "2")
    dialog.set_text("gate.sqnr", "none")
    press_ok(dialog, qtbot)
    project = opened.document.project
    assert project.model.input_shapes == ((1, 3, 8, 8),)
    assert project.calibration.spec == "data.npz"
    assert (project.gate.lsb, project.gate.sqnr) == (2.0, None)
    assert opened.document.undo_stack.count() == 1
    opened.document.undo_stack.undo()
    assert opened.document.project == before
    # A target and a board are settings too.
    dialog = ask()
    dialog.board.chosen.emit("renesas-ra8p1")
    press_ok(dialog, qtbot)
    assert opened.document.project.board == "renesas-ra8p1"
    assert opened.document.project.target.id == "ethos-u55-256"
    assert opened.document.undo_stack.count() == 1


def test_that_input_shapes_that_came_from_the_data_follow_other_data(ask, opened, qtbot):
    folder = opened.document.folder
    for name, shape in (("wrong", (4, 3, 20, 20)), ("right", (6, 1, 8, 8))):
        np.savez(folder / f"{name}.npz", x=np.zeros(shape, np.float32))
    dialog = ask()
    dialog.set_text("calibration.spec", "wrong.npz")
    dialog.set_text("model.input_shapes", "1x3x20x20")
    press_ok(dialog, qtbot)
    dialog = ask()
    # A path that is not there yet, while it is typed, changes nothing.
    for text in ("righ", "right.npz"):
        dialog.set_text("calibration.spec", text)
    assert "Set to 1x1x8x8, the shape of the calibration data." in dialog.problems.text()
    press_ok(dialog, qtbot)
    assert opened.document.project.model.input_shapes == ((1, 1, 8, 8),)
    # Shapes that were written by hand stay, and that the data has others is told.
    dialog = ask()
    dialog.set_text("model.input_shapes", "1x1x9x9")
    assert "Samples of the calibration data are 1x8x8, the input shapes 1x1x9x9." in dialog.problems.text()
    dialog.set_text("calibration.spec", "wrong.npz")
    press_ok(dialog, qtbot)
    assert opened.document.project.model.input_shapes == ((1, 1, 9, 9),)


def test_that_a_toolchain_that_is_not_here_is_a_problem(ask, opened, qtbot):
    dialog = ask()
    dialog.set_text("toolchain", "nowhere")
    assert "This machine has no toolchain" in dialog.problems.text()
    press_ok(dialog, qtbot)
    opened.checker.check()
    model = opened.context.problems
    assert any("nowhere" in model.index(row, 1).data() for row in range(model.rowCount()))


def wrong_values_are_told_and_preprocessing_is_set_part_by_part(ask, opened, qtbot):
    # A wrong value is told with its setting and not taken.
    cases = [
        ("model.input_shapes", "1xthree", "model.input_shapes"),
        ("gate.lsb", "many", "gate.lsb"),
        ("calibration.spec", "gone.npz", "gone.npz does not exist"),
        ("gate.fail_if", "nonsense", "gate"),
    ]
    for key, text, said in cases:
        dialog = ask()
        dialog.set_text(key, text)
        assert said in dialog.problems.text()
        assert not dialog.buttons.button(OK).isEnabled()
        dialog.reject()
        assert opened.document.undo_stack.count() == 0
    # Preprocessing of pictures is set part by part.
    (opened.document.folder / "pictures").mkdir()
    dialog = ask()
    dialog.set_text("calibration.spec", "pictures")
    for name, text in (
        ("size", "256x256"),
        ("crop", "224x224"),
        ("mean", "0.5/0.4/0.3"),
        ("std", "0.2"),
        ("layout", "bgr"),
    ):
        dialog.set_text(f"calibration.preprocess.{name}", text)
    press_ok(dialog, qtbot)
    made = opened.document.project.calibration.preprocess
    assert (made.size, made.crop, made.layout) == ((256, 256), (224, 224), "bgr")
    assert (made.mean, made.std) == ((0.5, 0.4, 0.3), (0.2,))
    dialog = ask()
    assert dialog.texts() == {}
    dialog.set_text("calibration.spec", "")
    press_ok(dialog, qtbot)
    assert opened.document.project.calibration is None


def problems_of_the_project_and_of_the_settings_lead_to_their_field(_, opened, qtbot):
    # A problem leads to its field.
    cases = [("model.input_shapes", "model.input_shapes"), ("calibration", "calibration.spec"),
     ("evaluation.data.labels", "evaluation.data.labels"), ("gate", "gate.lsb")]  # fmt: skip
    for option, key in cases:
        opened.window.activateWindow()
        where = Place(kind="option", id=option)
        opened.context.problems.set_problems([Problem("error", "Set it.", "", where)])
        panel = opened.window.reveal("problems")
        panel.table.activated.emit(panel.table.model().index(0, 0))
        dialog = opened.window.findChild(ProjectSettingsDialog)
        qtbot.waitUntil(lambda: dialog.focusWidget() is not None)
        field = dialog.fields[key]
        qtbot.waitUntil(lambda: dialog.focusWidget() in {field, field.focusProxy()})
        dialog.reject()
        qtbot.waitUntil(lambda: opened.window.findChild(ProjectSettingsDialog) is None)
    # Every setting has a field.
    elsewhere = {
        "calibration.dropped", "evaluation.data.dropped", "improvers", "improving.samples",
        "improving.seed", "improving.time_limit_s", "plugins",
    }  # fmt: skip
    dialog = ProjectSettingsDialog(opened.document, opened.window)
    wanted = dict(settings.keys()).keys() - elsewhere
    lacking = [key for key in wanted if dialog.field_of(key) is None]
    assert lacking == []
    dialog.reject()
    # A problem in the settings leads to its field.
    opened.window.activateWindow()
    dialog = ProjectSettingsDialog(opened.document, opened.window)
    dialog.open()
    dialog.set_text("calibration.spec", "nowhere.npz")
    assert 'href="calibration.spec"' in dialog.problems.text()
    assert "Calibration, data" in dialog.problems.text()
    dialog.problems.linkActivated.emit("calibration.spec")
    field = dialog.fields["calibration.spec"]
    qtbot.waitUntil(lambda: dialog.focusWidget() in {field, field.focusProxy()})
    dialog.reject()


@pytest.mark.slow
@for_each(
    "promise",
    [
        problems_of_the_project_and_of_the_settings_lead_to_their_field,
        wrong_values_are_told_and_preprocessing_is_set_part_by_part,
    ],
)
def test_that_fields_are_found_and_wrong_values_told(promise, ask, opened, qtbot):
    promise(ask, opened, qtbot)


def test_that_arrays_tell_samples_shapes_labels_and_pictures(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, x=np.random.default_rng(0).random((6, 3, 8, 8)), labels=np.arange(6))
    summary = summary_of(path)
    assert summary.shapes == ((1, 3, 8, 8),)
    assert summary.has_labels
    assert "6 samples" in summary.text
    assert [image.width() for image in summary.images] == [8] * 4


def test_that_a_damaged_file_is_told_in_the_preview(tmp_path):
    path = tmp_path / "bad.npz"
    path.write_bytes(b"no zip")
    assert "bad.npz cannot be read" in summary_of(path).text


def test_that_all_fields_begin_at_the_same_place_and_none_says_the_kind_of_its_value(ask):
    dialog = ask()
    places, kinds = {}, {"a text", "a whole number", "a number"}
    for row in range(dialog.sections.list.count()):
        dialog.sections.list.setCurrentRow(row)
        QApplication.processEvents()
        shown = [field for field in dialog.fields.values() if field.isVisible()]
        places |= {field: field.mapTo(dialog, field.rect().topLeft()).x() for field in shown}
        lines = [line for line in dialog.findChildren(QLineEdit) if line.isVisible() and not line.text()]
        assert [line.accessibleName() for line in lines if line.placeholderText() in kinds] == []
    assert len(places) > 20
    assert len(set(places.values())) == 1


def test_that_the_text_of_a_data_preview_takes_no_more_lines_than_it_has(ask, tmp_path):
    np.savez(tmp_path / "some.npz", x=np.zeros((300, 2, 48, 48), np.float32), labels=np.arange(300))
    dialog = ask()
    dialog.set_text("evaluation.data.spec", str(tmp_path / "some.npz"))
    QApplication.processEvents()
    dialog.show_field("evaluation.data.spec")
    QApplication.processEvents()
    text = dialog.previews["evaluation.data.spec"].text
    assert "300 samples" in text.text()
    assert text.height() < 2 * text.fontMetrics().height()


def test_that_a_section_shows_its_settings_alone_and_a_search_those_of_all_sections(ask, qtbot):
    dialog = ask()
    sections = dialog.sections
    titles = [sections.list.item(row).text() for row in range(sections.list.count())]
    assert titles[:3] == ["Model", "Calibration", "Evaluation"]
    assert titles[-1] == "Target"

    def shown():
        QApplication.processEvents()
        return {key for key, field in dialog.fields.items() if field.isVisible()}

    assert {key.partition(".")[0] for key in shown()} == {"name", "model", "toolchain"}
    qtbot.mouseClick(
        sections.list.viewport(),
        Qt.MouseButton.LeftButton,
        pos=sections.list.visualItemRect(sections.list.item(titles.index("Training"))).center(),
    )
    assert shown() == {"training_function", "trained_weights"}
    qtbot.keyClicks(sections.search, "labels")
    assert shown() == {"calibration.labels", "evaluation.data.labels"}
    # Enter leads to the first of them, and closes no dialog; Esc ends the search.
    qtbot.keyClick(sections.search, Qt.Key.Key_Return)
    assert dialog.isVisible()
    qtbot.waitUntil(lambda: dialog.focusWidget() is dialog.fields["calibration.labels"].focusProxy())
    qtbot.keyClick(sections.search, Qt.Key.Key_Escape)
    assert dialog.isVisible()
    assert sections.search.text() == ""
    qtbot.keyClicks(sections.search, "labels")
    # A click leads out of a search, also to the section that was shown before.
    assert not sections.list.selectedItems()
    sections.list.itemClicked.emit(sections.list.currentItem())
    assert shown() == {"training_function", "trained_weights"}
    assert [item.text() for item in sections.list.selectedItems()] == ["Training"]
    qtbot.keyClicks(sections.search, "memory mode")
    assert shown() == set()
    assert dialog.target.isVisible()
    assert not sections.nothing.isVisible()
    sections.search.clear()
    # What the data have no use for is not found, and the reason is told.
    qtbot.keyClicks(sections.search, "letterbox")
    assert shown() == set()
    assert sections.nothing.isVisible()
    # A problem marks its section and leads there out of a search.
    dialog.set_text("gate.lsb", "many")
    marked = [sections.list.item(row).text() for row in range(sections.list.count())]
    assert [text for text in marked if text not in titles] == ["Correct: limits  (!)"]
    dialog.problems.linkActivated.emit("gate.lsb")
    assert "gate.lsb" in shown()


def test_that_switches_are_check_boxes(ask, opened, qtbot):
    dialog = ask()
    before = opened.document.project.model.strict_export
    box = dialog.fields["model.strict_export"]
    box.click()
    assert dialog.texts() == {"model.strict_export": "off" if before else "on"}
    press_ok(dialog, qtbot)
    assert opened.document.project.model.strict_export is not before


def test_that_labels_follow_their_data(ask):
    keys = list(ask().fields)
    assert keys.index("evaluation.data.labels") < keys.index("evaluation.metric")


def test_that_settings_that_do_not_fit_are_told_and_lead_to_their_field(ask, opened):
    folder = opened.document.folder
    (folder / "net.py").write_text("def net():\n pass\n")
    np.savez(folder / "one.npz", x=np.zeros((5, 1, 8, 8), np.float32))
    np.savez(folder / "two.npz", x=np.zeros((5, 8, 8, 1), np.float32))
    np.save(folder / "labels.npy", np.arange(3))
    dialog = ask()
    dialog.set_text("model.spec", "net.py:nett")
    assert "net.py has no nett, but net." in dialog.problems.text()
    dialog.set_text("model.spec", "net.py:net")
    dialog.set_text("calibration.spec", "one.npz")
    dialog.set_text("evaluation.data.spec", "two.npz")
    assert "1x8x8" in dialog.problems.text()
    assert 'href="evaluation.data.spec"' in dialog.problems.text()
    dialog.set_text("evaluation.data.spec", "one.npz")
    dialog.set_text("evaluation.data.labels", "labels.npy")
    assert "3 labels for 5 samples" in dialog.problems.text()
    # They do not keep the settings from being taken.
    assert dialog.buttons.button(OK).isEnabled()
