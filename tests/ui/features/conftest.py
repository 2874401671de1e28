"""What tests of forms and dialogs begin with."""

import pytest
from PySide6.QtWidgets import QWidget

from tests.fakes.projects import write_project


@pytest.fixture
def parent(qtbot):
    made = QWidget()
    qtbot.addWidget(made)
    return made


@pytest.fixture
def folder(tmp_path):
    """The folder of a project."""
    return write_project(tmp_path / "mine").parent
