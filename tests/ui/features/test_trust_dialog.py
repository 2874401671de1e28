import pytest
from PySide6.QtCore import Qt

from tests.workbench.project.builders import make_project
from ui.features.trust.trust_dialog import TrustDialog, question_text
from workbench.project.project_code import read_code


@pytest.fixture
def code(tmp_path):
    (tmp_path / "model.py").write_text("import layers\n")
    (tmp_path / "layers.py").write_text("X = 1\n")
    return read_code(make_project(), tmp_path)


def test_that_the_question_names_reasons_folder_and_files(code, tmp_path):
    text = question_text(code)
    assert "runs model.py:net" in text
    assert str(tmp_path) in text
    assert "2 files" in text


def test_that_the_code_is_shown_as_it_was_read(code, tmp_path, qtbot):
    (tmp_path / "model.py").write_text("changed\n")
    allowed = []
    from PySide6.QtWidgets import QWidget

    parent = QWidget()
    qtbot.addWidget(parent)
    dialog = TrustDialog(code, lambda: allowed.append(True), parent)
    dialog.open()
    assert dialog.files.item(0).text() == "model.py"
    assert dialog.text.toPlainText() == "import layers\n"
    qtbot.mouseClick(dialog.allow, Qt.MouseButton.LeftButton)
    assert allowed == [True]
