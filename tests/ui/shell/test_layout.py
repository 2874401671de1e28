"""At every size and in both themes, nothing of the frame and of the outcome is cut or covered."""

from __future__ import annotations

from itertools import combinations

import pytest
from PySide6.QtWidgets import QApplication, QLabel, QPushButton, QToolButton

from tests.ui.shell.test_window import run_to

# The sizes of the design; the second and third are one screen with a scale of 1 and 1.5.
SIZES = [(1280, 720), (1600, 1000), (1066, 666), (2560, 1440)]


@pytest.fixture
def done(opened, qtbot):
    run_to(opened, qtbot, "")
    qtbot.waitUntil(lambda: opened.window.workspaces.current == "outcome")
    panel = opened.window.docks["outcome"].panel
    qtbot.waitUntil(lambda: len(panel.cards) == 4)
    return opened


def settle(qtbot):
    for _ in range(3):
        QApplication.processEvents()
        qtbot.wait(20)


def boxes(parent, kinds):
    """Return the places of the visible parts inside a widget, in its coordinates."""
    parts = [w for kind in kinds for w in parent.findChildren(kind) if w.isVisibleTo(parent)]
    return {w: w.rect().translated(w.mapTo(parent, w.rect().topLeft())) for w in parts}


def test_that_the_bar_and_the_outcome_fit_every_size_in_both_themes(done, qtbot):
    window, panel = done.window, done.window.docks["outcome"].panel
    for width, height in SIZES:
        for _ in ("dark", "light"):
            window.actions_by_id["theme"].trigger()
            settle(qtbot)
            window.resize(width, height)
            settle(qtbot)
            assert (window.width(), window.height()) == (width, height)
            bar = boxes(window.pipeline, (QPushButton, QToolButton, QLabel))
            for part, box in bar.items():
                assert window.pipeline.rect().contains(box), (width, part)
            for (one, a), (other, b) in combinations(bar.items(), 2):
                nested = one.isAncestorOf(other) or other.isAncestorOf(one)
                assert nested or not a.intersects(b), (width, one, other)
            assert "\u2026" not in window.pipeline.status.text(), width
            for card in panel.cards:
                for part, box in boxes(card, (QPushButton, QLabel)).items():
                    assert card.rect().contains(box), (width, part.text())
                for part in (card.figure, card.lines):
                    assert part.height() >= part.heightForWidth(part.width()), (width, part.text())
                # Pictures are not empty: a bar has the colour of the theme's accent.
                if card.answer.bars:
                    colours = set()
                    picture = card.picture.grab().toImage()
                    row = card.picture.height() // (2 * len(card.answer.bars))
                    for x in range(0, picture.width(), 3):
                        colours.add(picture.pixelColor(x, row).name())
                    assert done.context.theme.accent.lower() in colours, (width, card.answer.id)
