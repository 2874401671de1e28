"""Cards with figures, in wide and in narrow panels."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from ui.shared.figure_cards import Card, FigureCards, origins_text
from ui.shared.theme import DARK, LIGHT

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


@pytest.fixture
def narrow(qtbot):
    """Cards in a narrow page that is visible before it has any."""
    page = QWidget()
    qtbot.addWidget(page)
    page.setStyleSheet("QLabel { font-size: 11px; }")
    layout = QVBoxLayout(page)
    view = FigureCards(page)
    layout.addWidget(view)
    layout.addStretch(1)
    page.resize(320, 300)
    page.show()
    qtbot.waitExposed(page)
    yield view
    del page


def test_that_cards_in_a_visible_page_have_room_at_once(narrow, qtbot):
    narrow.render_cards(CARDS, DARK)
    height = sum(shown(narrow, card.value) and 20 for card in CARDS[:3])
    assert narrow.minimumHeight() > height > 0


def test_that_cards_that_are_shown_again_are_alike(narrow, qtbot):
    for theme in (DARK, LIGHT, DARK):
        narrow.render_cards(CARDS, theme)
        qtbot.waitUntil(lambda: shown(narrow, CARDS[0].value) == 1)
        assert not shown(narrow, "counted")
        assert not shown(narrow, "estimated (Vela 5.1.0)")
