"""What a verb of the command line printed, as a dialog says it."""

import pytest
from PySide6.QtCore import QObject

from ui.shared.workbench_command import WorkbenchCommand

LONG_MS = 60_000


@pytest.fixture
def command(qtbot):
    parent = QObject()
    made = WorkbenchCommand(parent)
    yield made
    made.end()
    parent.deleteLater()


@pytest.mark.parametrize(
    ("words", "said"),
    [(("inspect", "/nowhere/net.pte"), "/nowhere/net.pte"), (("no-such-verb",), "no-such-verb")],
)
def test_that_a_verb_that_fails_is_told_without_labels_and_the_place_of_the_log(command, qtbot, words, said):
    with qtbot.waitSignal(command.failed, timeout=LONG_MS) as told:
        command.run(*words)
    (text,) = told.args
    assert said in text
    assert not text.startswith(("error", "failed"))
    assert "Log:" not in text
