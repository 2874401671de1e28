import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from tests.workbench.project.builders import make_project
from ui.features.trust_dialog import TrustDialog, question_text
from workbench.project.opened import OpenProject
from workbench.project.project_code import Code, CodeUse, read_code
from workbench.project.trust import Changes


@pytest.fixture
def code(tmp_path):
    (tmp_path / "model.py").write_text("import layers\n")
    (tmp_path / "layers.py").write_text("X = 1\n")
    return read_code(OpenProject(make_project(), tmp_path))


def test_that_the_question_names_reasons_folder_and_files(code, tmp_path):
    text = question_text(code, Changes())
    assert text.splitlines() == ["Will run model.py, function net", f"Code (2 files): {tmp_path}"]


def test_that_several_reasons_and_places_are_listed_once_each(tmp_path):
    uses = [CodeUse(option, (), f"runs {name}") for option, name in zip("abc", "xyx", strict=True)]
    code = Code(uses=tuple(uses), places={"/one": "", "/two": ""})
    assert question_text(code, Changes()).splitlines() == [
        "What it does:",
        "\u2022 runs x",
        "\u2022 runs y",
        "Code (0 files):",
        "\u2022 /one",
        "\u2022 /two",
    ]


def test_that_the_code_is_shown_as_it_was_read(code, tmp_path, qtbot):
    (tmp_path / "model.py").write_text("changed\n")
    allowed = []
    parent = QWidget()
    qtbot.addWidget(parent)
    dialog = TrustDialog(code, Changes(), lambda: allowed.append(True), parent)
    dialog.open()
    assert dialog.files.item(0).text() == "model.py"
    assert dialog.text.toPlainText() == "import layers\n"
    qtbot.mouseClick(dialog.allow, Qt.MouseButton.LeftButton)
    assert allowed == [True]


def test_that_what_changed_since_it_was_allowed_is_said_and_shown_first(code, tmp_path, qtbot):
    changes = Changes(
        changed=(tmp_path / "layers.py",), removed=tuple(tmp_path / f"{n}.py" for n in "abcdef")
    )
    (line,) = [line for line in question_text(code, changes).splitlines() if "layers" in line]
    assert line == "Since you allowed it: layers.py changed; a.py, b.py, c.py, d.py, 2 more removed."
    parent = QWidget()
    qtbot.addWidget(parent)
    dialog = TrustDialog(code, changes, lambda: None, parent)
    assert dialog.files.currentItem().text() == "layers.py   (changed)"
    assert dialog.text.toPlainText() == "X = 1\n"


def test_that_enter_runs_no_code(code, qtbot):
    allowed = []
    parent = QWidget()
    qtbot.addWidget(parent)
    dialog = TrustDialog(code, Changes(), lambda: allowed.append(True), parent)
    dialog.open()
    for widget in (dialog, dialog.files, dialog.text):
        qtbot.keyClick(widget, Qt.Key.Key_Return)
    assert allowed == []
