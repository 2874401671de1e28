"""Cards with figures, in wide and in narrow panels."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QLabel

from ui.shared.figure_cards import Card, FigureCards, origins_text
from ui.shared.theme import DARK

CARDS = (
    Card("Cycles", "35,118", "estimated (Vela 5.1.0)"),
    Card("Time", "0.070 ms", "estimated (Vela 5.1.0)"),
    Card("Operators", "59 NPU, 2 CPU", "counted"),
    Card("Delegates", "1", "counted"),
    Card("Constants", "29.5 KiB", "estimated (Vela 5.1.0)"),
)


@pytest.fixture
def cards(qtbot):
    view = FigureCards()
    qtbot.addWidget(view)
    # The same with and without the stylesheet of the application.
    view.setStyleSheet("QLabel { font-size: 11px; }")
    view.render_cards(CARDS, DARK)
    view.resize(900, 80)
    view.show()
    qtbot.waitExposed(view)
    return view


def shown(view, text):
    """Return how many labels show a text."""
    return sum(label.isVisible() and label.text() == text for label in view.findChildren(QLabel))


def test_that_every_card_of_a_wide_row_has_its_origin(cards):
    assert shown(cards, "estimated (Vela 5.1.0)") == 3
    assert shown(cards, "counted") == 2


def test_that_many_cards_in_a_narrow_panel_share_one_line_of_origins(cards, qtbot):
    wide = cards.minimumHeight()
    cards.resize(320, 200)
    text = "estimated (Vela 5.1.0); Operators, Delegates: counted"
    qtbot.waitUntil(lambda: shown(cards, text) == 1)
    assert not shown(cards, "counted")
    assert cards.minimumHeight() < 3 * wide
    for card in CARDS:
        assert shown(cards, card.value) == 1
    assert cards.texts()[2] == "Operators: 59 NPU, 2 CPU, counted"
    cards.resize(900, 80)
    qtbot.waitUntil(lambda: shown(cards, "counted") == 2)


def test_that_no_value_of_a_narrow_card_is_cut(cards, qtbot):
    cards.resize(320, 200)
    qtbot.waitUntil(lambda: not shown(cards, "counted"))
    values = {card.value for card in CARDS}
    for label in cards.findChildren(QLabel):
        if label.text() in values:
            assert label.width() >= label.sizeHint().width()


def test_that_the_most_frequent_origin_comes_first_and_without_titles():
    assert origins_text(CARDS[:1]) == "estimated (Vela 5.1.0)"
    assert origins_text(CARDS[1:4]) == "counted; Time: estimated (Vela 5.1.0)"
    assert origins_text(()) == ""
