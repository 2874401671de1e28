"""New project: only what is valid can be made."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from PySide6.QtCore import QCoreApplication, QEvent, Qt
from PySide6.QtWidgets import QDialogButtonBox, QFileDialog, QTreeView

from tests.fakes.engine import Play
from ui.features.project.draft import build, callables_of, parse_shapes
from ui.features.project.import_command import ImportCommandDialog
from ui.features.project.new_project import NewProjectDialog
from ui.features.project.recipe import RecipeDialog
from ui.shared.forms import TallForm
from ui.shell.preferences import DoctorDialog
from ui.state.export_check import ASKS
from workbench.errors import ErrorInfo
from workbench.project.trust import named_code

OK = QDialogButtonBox.StandardButton.Ok


def test_that_a_new_project_needs_a_model_that_is_there(parent, folder, qtbot):
    dialog = NewProjectDialog("", parent)
    assert not dialog.buttons.button(OK).isEnabled()
    dialog.model.set_text(str(folder / "gone.pt2"))
    assert "gone.pt2 does not exist." in dialog.problems.text()
    dialog.model.set_text(str(folder / "net.pt2"))
    assert dialog.buttons.button(OK).isEnabled()
    with qtbot.waitSignal(dialog.made) as made:
        qtbot.mouseClick(dialog.buttons.button(OK), Qt.MouseButton.LeftButton)
    (opened,) = made.args
    project = opened.project
    assert opened.folder == folder
    assert project.model.spec == "net.pt2"
    assert project.target.options["memory_mode"] == "Shared_Sram"
    assert project.rules[0].kind == "global"


@pytest.fixture
def pictures(folder):
    """A folder with one picture, and a model file that tells no input shape."""
    (folder / "pictures").mkdir()
    Image.new("RGB", (8, 6)).save(folder / "pictures" / "one.png")
    (folder / "net.py").write_text("def net():\n pass\n")
    return folder


@pytest.mark.parametrize(
    ("texts", "shape", "sizes"),
    [(("40", "32"), (1, 3, 32, 32), ((40, 40), (32, 32))), (("48x64", ""), (1, 3, 48, 64), ((48, 64), None))],
)
def test_that_pictures_are_prepared_as_on_the_command_line(parent, pictures, qtbot, texts, shape, sizes):
    dialog = NewProjectDialog(str(pictures / "net.py"), parent)
    dialog.data.set_text(str(pictures / "pictures"))
    for line, text in (
        (dialog.picture_size, texts[0]),
        (dialog.crop, texts[1]),
        (dialog.mean, "0.485/0.456/0.406"),
        (dialog.std, "0.2, 0.3, 0.4"),
    ):
        qtbot.keyClicks(line, text)
    with qtbot.waitSignal(dialog.made) as made:
        qtbot.mouseClick(dialog.buttons.button(OK), Qt.MouseButton.LeftButton)
    project = made.args[0].project
    preprocess = project.calibration.preprocess
    assert project.model.input_shapes == (shape,)
    assert (preprocess.size, preprocess.crop) == sizes
    assert (preprocess.mean, preprocess.std) == ((0.485, 0.456, 0.406), (0.2, 0.3, 0.4))


def test_that_pictures_cannot_be_prepared_in_an_unclear_way(parent, pictures, qtbot):
    for size, crop, mean in [("big", "", ""), ("8", "9", ""), ("8", "", "x")]:
        dialog = NewProjectDialog(str(pictures / "net.py"), parent)
        dialog.data.set_text(str(pictures / "pictures"))
        for line, text in ((dialog.picture_size, size), (dialog.crop, crop), (dialog.mean, mean)):
            qtbot.keyClicks(line, text)
        assert not dialog.buttons.button(OK).isEnabled()
        assert dialog.problems.text()


def test_that_a_model_and_data_in_python_hide_no_row_of_the_form(parent, folder, qtbot):
    code = folder / "net.py"
    code.write_text("class Net:\n def forward(self): ...\ndef calibration():\n yield 1\n")
    dialog = NewProjectDialog("", parent)
    dialog.show()
    qtbot.waitExposed(dialog)
    dialog.model.set_text(str(code))
    dialog.show_export("The export is checked when the project runs, after you have allowed it.", None)
    dialog.data.set_text(str(code))
    qtbot.wait(10)
    form = dialog.findChild(TallForm)
    assert form.verticalScrollBar().maximum() == 0
    assert (
        form.viewport()
        .rect()
        .contains(dialog.advanced.mapTo(form.viewport(), dialog.advanced.rect().center()))
    )
    dialog.reject()


def test_that_data_from_a_python_file_offers_its_functions_those_that_yield_first(parent, folder):
    code = folder / "net.py"
    code.write_text(
        "raise SystemExit\nclass Net:\n def forward(self): ...\ndef net(): ...\n"
        "def scaled(by):\n yield by\ndef _hidden():\n yield 1\ndef calibration():\n yield 1\n"
    )
    dialog = NewProjectDialog(str(code), parent)
    for field, box in (
        (dialog.data, dialog.data_function), (dialog.evaluation, dialog.evaluation_function)
    ):  # fmt: skip
        assert box.isHidden()
        field.set_text(str(code))
        assert not box.isHidden()
        assert [box.itemText(i) for i in range(box.count())] == ["calibration", "net"]
    project = build(dialog.draft()).project
    assert project.calibration.spec == "net.py:calibration"
    assert project.evaluation.data.spec == "net.py:calibration"
    # A file without such a function is told, and what to write.
    (folder / "none.py").write_text("x = 1\n")
    dialog.data.set_text(str(folder / "none.py"))
    assert not dialog.buttons.button(OK).isEnabled()
    assert dialog.problems.text().startswith("none.py has no function without arguments")
    # What was written with its function is taken as it is.
    dialog.data.set_text(f"{code}:net")
    assert dialog.data_function.isHidden()
    assert build(dialog.draft()).project.calibration.spec == "net.py:net"
    dialog.reject()


def test_that_a_python_file_offers_its_callables_without_running(parent, folder):
    code = folder / "net.py"
    code.write_text(
        "raise SystemExit\nclass Block:\n def __init__(self, width): ...\n def forward(self): ...\n"
        "class Part:\n def forward(self): ...\nclass Net:\n def __init__(self, wide=2):\n"
        "  self.part = Part()\n def forward(self): ...\nclass Slim(Net): ...\n"
        "def net(): ...\ndef scaled(by): ...\ndef _hidden(): ...\n"
    )
    dialog = NewProjectDialog(str(code), parent)
    names = [dialog.attribute.itemText(i) for i in range(dialog.attribute.count())]
    assert names == ["Slim", "Part", "Net", "net", "Block", "scaled"]
    assert dialog.draft().attribute == "Slim"
    assert callables_of(folder / "none.py") == []
    dialog.reject()


def test_that_a_function_that_returns_a_network_with_its_inputs_comes_first(folder):
    code = folder / "net.py"
    code.write_text(
        "class Net:\n def forward(self): ...\n"
        "def data():\n return 1, 2\n"
        "def bare():\n return Net()\n"
        "def whole():\n return Net().eval(), (1,)\n"
    )
    assert callables_of(code) == ["whole", "Net", "data", "bare"]


def test_that_wrong_shapes_are_told_at_the_field(parent, folder, qtbot):
    dialog = NewProjectDialog(str(folder / "net.pt2"), parent)
    qtbot.keyClicks(dialog.shapes, "1x3xa")
    assert "1x3xa is not a shape" in dialog.problems.text()
    assert not dialog.buttons.button(OK).isEnabled()
    dialog.reject()


def test_that_shapes_are_read_as_people_write_them():
    assert parse_shapes("1x3x224x224; 1x10") == ((1, 3, 224, 224), (1, 10))
    assert parse_shapes("") == ()


def test_that_the_doctor_a_recipe_and_a_pasted_command_are_asked_from_the_menu(
    opened, qtbot, monkeypatch, tmp_path
):
    # The doctor tells what is there and how to get the rest.
    monkeypatch.setenv("PATH", "/nowhere")
    opened.window.actions_by_id["doctor"].trigger()
    dialog = opened.window.findChild(DoctorDialog)
    qtbot.waitUntil(dialog.again.isEnabled)
    text = dialog.page.toPlainText()
    assert "torch" in text
    assert "FVP_Corstone_SSE-320" in text
    assert "Arm licence" in text
    assert "workbench fvp build" in text
    dialog.reject()
    # A recipe becomes the open project.
    opened.window.actions_by_id["recipe"].trigger()
    dialog = opened.window.findChild(RecipeDialog)
    assert not dialog.ok.isEnabled()
    dialog.recipe.setCurrentIndex(1)
    dialog.recipe.activated.emit(1)
    assert "microphone" in dialog.words.text()
    dialog.folder.set_text(str(tmp_path))
    dialog.name.setText("spotter")
    dialog.ok.click()
    qtbot.waitUntil(lambda: opened.document.title.startswith("spotter"))
    assert opened.document.project.target.options["optimise"] == "Size"
    # A pasted command becomes the open project.
    opened.window.actions_by_id["import_command"].trigger()
    dialog = opened.window.findChild(ImportCommandDialog)
    assert not dialog.ok.isEnabled()
    dialog.command.setPlainText("vela net.tflite")
    dialog.folder.set_text(str(tmp_path))
    assert "Not a command line" in dialog.summary.text()
    dialog.command.setPlainText("python -m x.aot_arm_compiler -m mv2 -d -q -t ethos-u55-64")
    assert "example input" in dialog.summary.text()
    dialog.name.setText("taken")
    dialog.ok.click()
    qtbot.waitUntil(lambda: opened.document.title.startswith("taken"))
    assert opened.document.project.target.id == "ethos-u55-64"
    assert (tmp_path / "taken_model.py").is_file()


def test_that_a_new_project_can_be_made_for_a_board(parent, folder, qtbot):
    dialog = NewProjectDialog(str(folder / "net.pt2"), parent)
    dialog.board.chosen.emit("renesas-ra8p1")
    dialog.advanced.setChecked(True)
    system = dialog.target.fields["system_config"]
    assert [system.itemData(row) for row in range(system.count())] == ["RA8P1"]
    with qtbot.waitSignal(dialog.made) as made:
        qtbot.mouseClick(dialog.buttons.button(OK), Qt.MouseButton.LeftButton)
    project = made.args[0].project
    assert (project.board, project.target.id) == ("renesas-ra8p1", "ethos-u55-256")
    assert project.target.options["arena_cache_bytes"] == 1664 * 1024


def test_that_a_board_that_cannot_be_used_is_told_in_the_new_project(parent, folder):
    (folder / "b.toml").write_text("title = 5\n")
    dialog = NewProjectDialog(str(folder / "net.pt2"), parent)
    dialog.board.chosen.emit("b.toml")
    assert "b.toml, title" in dialog.problems.text()
    assert dialog.draft().board == ""


@pytest.fixture
def arrays(tmp_path):
    folder = tmp_path / "arrays"
    folder.mkdir()
    np.savez(folder / "calibration.npz", x=np.zeros((5, 1, 8, 8), np.float32))
    np.savez(folder / "held_out.npz", x=np.zeros((4, 1, 8, 8), np.float32), labels=np.arange(4))
    (folder / "net.py").write_text("class Net:\n def forward(self, x): ...\n")
    return folder


def test_that_an_onnx_file_is_a_model_without_code_and_weights(parent, folder, qtbot):
    (folder / "net.onnx").write_bytes(b"")
    dialog = NewProjectDialog("", parent)
    dialog.take_file(folder / "net.onnx")
    assert dialog.buttons.button(OK).isEnabled()
    assert not dialog.weights.isVisibleTo(dialog)
    assert not dialog.attribute.isVisibleTo(dialog)
    with qtbot.waitSignal(dialog.made) as made:
        qtbot.mouseClick(dialog.buttons.button(OK), Qt.MouseButton.LeftButton)
    (opened,) = made.args
    assert (opened.project.model.spec, opened.project.name, opened.folder) == ("net.onnx", "net", folder)
    assert not named_code(opened).digest


def test_that_dropped_files_fill_the_form_and_shapes_follow_from_the_data(parent, arrays, qtbot):
    dialog = NewProjectDialog("", parent)
    for name in ("net.py", "calibration.npz", "held_out.npz"):
        dialog.take_file(arrays / name)
    assert dialog.preview.text.text().startswith("5 samples")
    assert dialog.shapes.placeholderText() == "1x1x8x8, from the data"
    with qtbot.waitSignal(dialog.made) as made:
        qtbot.mouseClick(dialog.buttons.button(OK), Qt.MouseButton.LeftButton)
    project = made.args[0].project
    assert project.model.spec == "net.py:Net"
    assert project.model.input_shapes == ((1, 1, 8, 8),)
    assert project.calibration.spec == "calibration.npz"
    assert project.evaluation.data.spec == "held_out.npz"


def test_that_the_dialog_keeps_its_size_while_rows_come(parent, arrays, qtbot):
    dialog = NewProjectDialog("", parent)
    dialog.show()
    qtbot.waitExposed(dialog)
    before = dialog.size()
    for name in ("net.py", "calibration.npz", "held_out.npz"):
        dialog.take_file(arrays / name)
    dialog.show_export("Exports with 12 operations. " * 6, ok=True)
    QCoreApplication.processEvents()
    assert dialog.size() == before


def forget(dialog):
    """Let a closed dialog be gone, so that the next one is found."""
    dialog.deleteLater()
    QCoreApplication.sendPostedEvents(dialog, QEvent.Type.DeferredDelete)


def test_that_the_form_says_whether_a_model_exports_and_runs_trusted_code_only(
    opened, qtbot, engines, arrays
):
    # A model that does not export is told in the form only.
    info = ErrorInfo(message="It branches on a value.", hint="Use torch.cond.", code="no-export")
    engines.plays = [Play(fail="export", infos=[info])]
    opened.files.ask_new(str(opened.document.folder / "net.pt2"))
    dialog = opened.window.findChild(NewProjectDialog)
    qtbot.waitUntil(lambda: "branches" in dialog.export.text())
    assert dialog.export.text() == "\u2717 It branches on a value. Use torch.cond."
    dialog.reject()
    forget(dialog)
    engines.play(Play())
    # Code that is not trusted is not run.
    before = len(engines.commands)
    opened.files.ask_new(str(arrays / "net.py"))
    untrusted = opened.window.findChild(NewProjectDialog)
    qtbot.waitUntil(lambda: untrusted.export.text() == ASKS)
    assert len(engines.commands) == before
    untrusted.reject()
    forget(untrusted)
    # A model without code is exported.
    opened.files.ask_new(str(opened.document.folder / "net.pt2"))
    dialog = opened.window.findChild(NewProjectDialog)
    qtbot.waitUntil(lambda: "exports" in dialog.export.text(), timeout=5000)
    assert dialog.export.text() == "\u2713 The model exports."
    dialog.reject()


def test_that_a_created_project_runs_at_once(workbench, qtbot, folder):
    workbench.files.ask_new(str(folder / "net.pt2"))
    dialog = workbench.window.findChild(NewProjectDialog)
    qtbot.mouseClick(dialog.buttons.button(OK), Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: workbench.session.stage("package").state == "cached")


@pytest.fixture
def coded(parent, tmp_path):
    """The dialog, and a folder with a model in Python and its weights."""
    (tmp_path / "net.py").write_text("class Net:\n    def forward(self, x): ...\n")
    (tmp_path / "best.safetensors").touch()
    return NewProjectDialog("", parent), tmp_path


def test_that_the_weights_beside_a_model_are_proposed(coded):
    dialog, folder = coded
    dialog.model.set_text(str(folder / "net.py"))
    assert dialog.draft().weights == str(folder / "best.safetensors")
    assert not dialog.weights.isHidden()
    dialog.model.set_text(str(folder / "net.pt2"))
    assert dialog.weights.isHidden()


def test_that_no_weights_are_proposed_where_there_are_several(coded):
    dialog, folder = coded
    (folder / "last.ckpt").touch()
    dialog.model.set_text(str(folder / "net.py"))
    assert dialog.draft().weights == ""


def test_that_weights_that_a_project_trained_are_not_proposed(coded):
    dialog, folder = coded
    (folder / "trained-e77a1a0066e22205.safetensors").touch()
    dialog.model.set_text(str(folder / "net.py"))
    assert dialog.draft().weights == str(folder / "best.safetensors")


def test_that_weights_that_were_chosen_or_cleared_stay_so(coded):
    dialog, folder = coded
    dialog.model.set_text(str(folder / "net.py"))
    dialog.weights.set_text("")
    dialog.attribute.activated.emit(0)
    assert dialog.draft().weights == ""
    dialog.weights.set_text("own.pth")
    (folder / "other").mkdir()
    (folder / "other" / "net.py").write_text("class Net:\n    def forward(self, x): ...\n")
    dialog.model.set_text(str(folder / "other" / "net.py"))
    assert dialog.draft().weights == "own.pth"


def test_that_proposed_weights_go_with_their_model(coded):
    dialog, folder = coded
    dialog.model.set_text(str(folder / "net.py"))
    (folder / "other").mkdir()
    (folder / "other" / "net.py").write_text("class Net:\n    def forward(self, x): ...\n")
    dialog.model.set_text(str(folder / "other" / "net.py"))
    assert dialog.draft().weights == ""


def test_that_a_typed_folder_with_too_many_files_is_not_counted_while_the_window_waits(
    parent, folder, qtbot, monkeypatch
):
    """The first letter of an absolute path is the folder of the whole system."""
    monkeypatch.setattr("ui.features.project.data_preview.MOST_FILES", 20)
    system = folder / "system"
    for number in range(30):
        (system / f"{number}").mkdir(parents=True)
        (system / f"{number}" / "a.png").touch()
    listed = []
    monkeypatch.setattr(os, "scandir", lambda path, real=os.scandir: listed.append(path) or real(path))
    dialog = NewProjectDialog("", parent)
    # A folder that was the model's, without data, while the model was typed.
    dialog.model.set_text(str(system / "net.pt2"))
    dialog.model.set_text(str(folder / "net.pt2"))
    listed.clear()
    qtbot.keyClicks(dialog.data.line, str(system))
    assert dialog.preview.text.text().startswith("More than 20 files")
    # Folders on the way to it are counted too, as far.
    assert len([path for path in listed if Path(path).is_relative_to(system)]) <= 20
    assert dialog.buttons.button(OK).isEnabled()


def test_that_a_python_file_that_is_not_there_is_told_as_such(parent, folder):
    dialog = NewProjectDialog("", parent)
    dialog.model.set_text(str(folder / "gone.py"))
    assert dialog.problems.text() == "gone.py does not exist."
    assert dialog.attribute.isHidden()
    (folder / "empty.py").write_text("x = 1\n")
    dialog.model.set_text(str(folder / "empty.py"))
    assert dialog.problems.text() == "empty.py has no class or function."
    (folder / "broken.py").write_text("import torch\ndef net(:\n")
    dialog.model.set_text(str(folder / "broken.py"))
    assert dialog.problems.text() == "broken.py is no valid Python: line 2, invalid syntax."


def test_that_data_that_does_not_fit_together_is_told_before_it_runs(parent, arrays, qtbot):
    np.savez(arrays / "last.npz", x=np.zeros((4, 8, 8, 1), np.float32))
    np.savez(arrays / "masks.npz", x=np.zeros((4, 1, 8, 8), np.float32), mask=np.zeros((4, 8, 8), np.int64))
    np.save(arrays / "classes.npy", np.arange(3))
    (arrays / "made.py").write_text("def net():\n pass\n")
    dialog = NewProjectDialog(str(arrays / "made.py"), parent)
    dialog.data.set_text(str(arrays / "calibration.npz"))
    dialog.evaluation.set_text(str(arrays / "held_out.npz"))
    assert dialog.problems.text() == ""
    dialog.evaluation.set_text(str(arrays / "last.npz"))
    assert "1x8x8" in dialog.problems.text()
    assert "8x8x1" in dialog.problems.text()
    dialog.evaluation.set_text(str(arrays / "masks.npz"))
    assert "labels" in dialog.problems.text()
    dialog.evaluation.set_text(str(arrays / "held_out.npz"))
    qtbot.keyClicks(dialog.shapes, "1x1x9x9")
    assert "1x1x9x9" in dialog.problems.text()
    dialog.shapes.clear()
    qtbot.keyClicks(dialog.shapes, "4x1x8x8")
    assert dialog.problems.text() == ""
    dialog.labels.set_text(str(arrays / "classes.npy"))
    assert dialog.problems.text() == "classes.npy has 3 labels for 4 samples."
    # A remark does not keep the project from being created.
    assert dialog.buttons.button(OK).isEnabled()


def test_that_a_class_without_weights_is_told(parent, arrays):
    dialog = NewProjectDialog(str(arrays / "net.py"), parent)
    assert "random" in dialog.problems.text()
    (arrays / "net.pth").write_bytes(b"")
    dialog.weights.set_text(str(arrays / "net.pth"))
    assert dialog.problems.text() == ""


def test_that_the_tab_key_follows_the_rows_of_the_form(parent, folder):
    dialog = NewProjectDialog(str(folder / "net.py"), parent)
    after, order = dialog.model.line, []
    for _ in range(30):
        after = after.nextInFocusChain()
        order.append(after)
    rows = [dialog.attribute, dialog.weights.line, dialog.shapes, dialog.data.line, dialog.evaluation.line]
    places = [order.index(row) for row in rows]
    assert places == sorted(places)


def test_that_files_are_chosen_in_the_folder_of_the_model(parent, folder):
    dialog = NewProjectDialog(str(folder / "net.pt2"), parent)
    dialog.data._choose_file()
    (chooser,) = dialog.data.findChildren(QFileDialog)
    assert Path(chooser.directory().absolutePath()) == folder
    # All columns are inside.
    tree = chooser.findChild(QTreeView, "treeView")
    assert tree.header().length() <= tree.viewport().width()
    chooser.reject()


def test_that_rows_stay_where_they_are_while_the_export_is_checked(parent, folder, qtbot):
    dialog = NewProjectDialog(str(folder / "net.pt2"), parent)
    dialog.show()
    tops = set()
    for text in ("", "Checking the export\u2026", "", "The model exports."):
        dialog.show_export(text, None)
        QCoreApplication.processEvents()
        tops.add(dialog.data.mapTo(dialog, dialog.data.rect().topLeft()).y())
    assert len(tops) == 1
