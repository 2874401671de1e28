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
    run_to(opened, qtbot, "evaluate")
    panel = opened.window.reveal("outcome")
    qtbot.waitUntil(lambda: len(panel.cards) == 4)
    (fast,) = [card for card in panel.cards if card.answer.id == "fast"]
    click(qtbot, fast.more)
    qtbot.waitUntil(lambda: opened.session.stage("lower").state == "cached")
    qtbot.waitUntil(lambda: bool(fast.answer.bars))


def test_that_an_answer_whose_stage_runs_says_so_and_offers_no_run(opened, qtbot):
    run_to(opened, qtbot, "evaluate")
    panel = opened.window.reveal("outcome")
    qtbot.waitUntil(lambda: len(panel.cards) == 4)
    (fast,) = [card for card in panel.cards if card.answer.id == "fast"]
    unknown, seen = fast.figure.text(), {}

    def look(stage):
        if stage == "lower":
            seen[opened.session.stage("lower").state] = (fast.figure.text(), fast.more.isHidden())

    opened.session.stage_changed.connect(look)
    click(qtbot, fast.more)
    qtbot.waitUntil(lambda: bool(fast.answer.bars))
    assert seen["running"][0] != unknown
    assert seen["running"][1]
    assert not fast.more.isHidden()


def test_that_figures_of_a_former_configuration_stay_and_are_called_outdated(opened, qtbot):
    run_to(opened, qtbot, "")
    panel = opened.window.reveal("outcome")
    qtbot.waitUntil(lambda: len(panel.cards) == 4)
    figures = [card.figure.text() for card in panel.cards]
    opened.context.assigner.modules(["stem"], "a16w8")
    qtbot.waitUntil(panel.frames["evaluate"].banner.isVisible)
    qtbot.waitUntil(lambda: {card.mark.text() for card in panel.cards} == {"outdated"})
    assert [card.figure.text() for card in panel.cards] == figures


def test_that_the_sides_are_collapsed_where_no_precision_is_assigned(opened, qtbot):
    window = opened.window

    def shown():
        names = ("modules", "rules", "inspector")
        return {name for name in names if not window.docks[name].isHidden()}

    assert shown() == {"modules", "rules", "inspector"}
    for _ in range(3):
        window.show_workspace("accuracy")
        window.show_workspace("model")
        qtbot.wait(30)
        assert window.docks["inspector"].is_in_front
        assert not window.docks["suggestions"].is_in_front
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


def test_that_an_outdated_answer_is_brought_up_to_date_from_its_card(opened, qtbot):
    run_to(opened, qtbot, "")
    panel = opened.window.reveal("outcome")
    qtbot.waitUntil(lambda: len(panel.cards) == 4 and panel.buttons["deliver"].isEnabled())
    assert [card.more.text() for card in panel.cards] == ["Details"] * 4
    opened.context.assigner.modules(["head"], "a16w8")
    (correct,) = [card for card in panel.cards if card.answer.id == "correct"]
    qtbot.waitUntil(lambda: correct.is_outdated)
    assert correct.more.text() == "Run"
    # A button that cannot be pressed says why.
    assert "run all stages" in panel.buttons["deliver"].toolTip()
    click(qtbot, correct.more)
    qtbot.waitUntil(lambda: opened.session.stage("verify").state == "cached")
    qtbot.waitUntil(lambda: correct.more.text() == "Details")
