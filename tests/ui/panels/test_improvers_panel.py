"""The Improvers panel over fake engines: tried first, then switched on as one step."""

import pytest


@pytest.fixture
def panel(opened):
    return opened.window.reveal("improvers")


def test_that_switching_an_improver_is_one_undo_step(opened, panel):
    panel.switches["bias"].click()
    panel.switches["equalize"].click()
    assert opened.document.project.improvers == ("equalize", "bias")
    assert opened.document.undo_stack.undoText() == "Switch on equalise layers"
    opened.document.undo_stack.undo()
    opened.document.undo_stack.undo()
    assert opened.document.project.improvers == ()


def test_that_a_try_shows_figures_and_changes_nothing(opened, panel, qtbot):
    panel.tries["smooth"].click()
    qtbot.waitUntil(lambda: "cycles: 1,000" in panel.outcomes["smooth"].text())
    assert opened.document.project.improvers == ()
    assert panel.outcomes["bias"].text() == ""
