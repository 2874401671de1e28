"""The Outcome panel: first view after a run, with four answers and what to do next."""

from __future__ import annotations

from PySide6.QtCore import Qt

from tests.ui.shell.test_window import run_to


def click(qtbot, widget):
    qtbot.mouseClick(widget, Qt.MouseButton.LeftButton)


def test_that_a_run_ends_with_its_outcome_and_details_lead_on(opened, qtbot):
    window = opened.window
    assert window.workspaces.current == "model"
    run_to(opened, qtbot, "")
    qtbot.waitUntil(lambda: window.workspaces.current == "outcome")
    panel = window.docks["outcome"].panel
    qtbot.waitUntil(lambda: len(panel.cards) == 4 and all(c.answer.bars for c in panel.cards))
    assert [card.answer.id for card in panel.cards] == ["accurate", "correct", "fits", "fast"]
    # Every card has room for all of its parts.
    for card in panel.cards:
        parts = (card.figure, card.picture, card.lines)
        assert all(part.geometry().bottom() <= card.rect().bottom() for part in parts)
        assert card.picture.height() >= card.picture.sizeHint().height()
    click(qtbot, panel.cards[3].more)
    assert window.workspaces.current == "performance"


def test_that_a_user_who_went_elsewhere_stays_there(opened, qtbot):
    opened.window.actions_by_id["run_all"].trigger()
    opened.window.show_workspace("deliver")
    qtbot.waitUntil(lambda: not opened.runner.running)
    qtbot.waitUntil(lambda: opened.session.stage("package").state == "cached")
    assert opened.window.workspaces.current == "deliver"


def test_that_an_answer_that_is_not_known_is_asked_for(opened, qtbot):
    panel = opened.window.reveal("outcome")
    qtbot.waitUntil(lambda: len(panel.cards) == 4)
    assert not panel.buttons["report"].isEnabled()
    click(qtbot, panel.cards[0].more)
    qtbot.waitUntil(lambda: opened.session.stage("evaluate").state == "cached")
    qtbot.waitUntil(lambda: bool(panel.cards[0].answer.bars))


def test_that_the_sides_are_collapsed_where_no_precision_is_assigned(opened, qtbot):
    window = opened.window

    def shown():
        names = ("modules", "rules", "inspector")
        return {name for name in names if not window.docks[name].isHidden()}

    assert shown() == {"modules", "rules", "inspector"}
    window.docks["rules"].hide()
    window.show_workspace("accuracy")
    assert not shown()
    # On demand they open, and the choice of the user returns with the workspace Model.
    window.actions_by_id["sides"].trigger()
    assert shown() == {"modules", "inspector"}
    window.actions_by_id["sides"].trigger()
    window.show_workspace("performance")
    assert not shown()
    window.apply_layout(window.layout_parts())
    window.show_workspace("model")
    assert shown() == {"modules", "inspector"}
