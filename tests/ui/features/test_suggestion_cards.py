"""Suggestion cards as a person uses them: read, show, apply, see what it gained, take back."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton

from tests.fakes import engine as fake_engine
from tests.fakes.engine import leave_results
from tests.fakes.results import result_of
from tests.ui.shell.test_window import run_to
from ui.features.suggestions.suggestions_panel import NO_SUGGESTION
from ui.shared.labels import Label
from ui.shared.suggestion_cards import UNKNOWN, WAITING, GainFigures, ModuleTable, SuggestionCards
from workbench.project import edits
from workbench.results import CpuNode, PartQuality, save_result
from workbench.suggestions import ModuleSaving, Suggestion, Written


def program(*left, cycles=1000):
    result = result_of("lower")
    report = result.vela[0].model_copy(update={"cycles_total": cycles})
    return result.model_copy(update={"cpu_nodes": left, "vela": (report,)})


def suggestions(opened, qtbot):
    """Run everything and return the panel with its cards."""
    run_to(opened, qtbot, "")
    panel = opened.window.reveal("suggestions")
    qtbot.waitUntil(lambda: panel.has("lower"))
    return panel


LEFT = CpuNode(
    node="linear", op="aten.linear.default", module="head", reason="It was not quantized.", cause="float"
)


def card_of_head(opened, qtbot, monkeypatch):
    """Return the cards of a program whose module head a rule left in float."""
    with qtbot.waitSignal(opened.session.planned_anew):
        opened.document.apply("", lambda p: edits.assign(p, "module_name", "head", "float"))
    leave_results(monkeypatch, lower=program(LEFT))
    panel = suggestions(opened, qtbot)
    qtbot.waitUntil(lambda: len(panel.cards.cards) == 1)
    return panel.cards


@pytest.fixture
def cards(opened, qtbot, monkeypatch):
    return card_of_head(opened, qtbot, monkeypatch)


def press(cards, qtbot, name):
    button = next(b for b in cards.cards[0].findChildren(QPushButton) if b.text() == name)
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    if name == "Apply":
        qtbot.waitUntil(lambda: cards.texts() == [f"Applied: Assign a8w8 to head. {WAITING}"])


def test_that_a_card_with_a_long_line_of_code_fits_a_narrow_panel(qtbot):
    def least_width(*written):
        cards = SuggestionCards()
        qtbot.addWidget(cards)
        advice = Suggestion("s", "Use it", "It helps.", "Less.", written=written)
        cards.render_cards([advice], [], "")
        return cards.widget().minimumSizeHint().width()

    line = "x = x.to(memory_format=torch.channels_last, non_blocking=True)"
    assert least_width(Written("deep/folder/model.py, forward()", "", line)) < 200


def lower_without(opened, qtbot, monkeypatch):
    leave_results(monkeypatch, lower=program(cycles=1200))
    run_to(opened, qtbot, "lower")


def test_that_a_card_says_what_to_expect_and_undo_takes_its_gain_back(cards, opened, qtbot, monkeypatch):
    # A card says what, why and what to expect.
    said = cards.texts()[0]
    assert said.startswith("Assign a8w8 to head. ")
    assert "Rule 2 leaves head in float" in said
    assert "Expected: " in said
    press(cards, qtbot, "Show")
    assert opened.context.selection.value.nodes == {"linear"}
    # A card is whole in a narrow panel, beside its scroll bar.
    width = cards.width()
    cards.resize(200, 120)
    qtbot.waitUntil(lambda: cards.widget().width() <= cards.viewport().width())
    cards.resize(width, 400)
    # A card shows its gain in the columns of all cards.
    (figures,) = cards.cards[0].findChildren(GainFigures)
    texts = [label.text() for label in figures.findChildren(Label)]
    assert texts[::2] == ["CPU ops", "NPU cycles", "SQNR", "Bytes"]
    assert texts[1] == "0"
    assert texts[3::2] == ["\u2013"] * 3
    # Applying is one step and shows what it gained.
    press(cards, qtbot, "Apply")
    assert opened.document.undo_stack.undoText() == "Assign a8w8 to head"
    assert [r.config for r in opened.document.project.rules] == ["a8w8", "a8w8"]
    banner = opened.window.docks["suggestions"].panel.frames["lower"].banner
    assert banner.isVisible()
    assert banner.button.text() == "Compile"
    lower_without(opened, qtbot, monkeypatch)
    qtbot.waitUntil(lambda: "Operators on the CPU 1 → 0, counted" in cards.texts()[0])
    assert "1,000 → 1,200 (+20.0 %), estimated (Vela 5.1.0)" in cards.texts()[0]
    # Undo brings the suggestion back, and redo its gain.
    qtbot.waitUntil(lambda: "1 → 0" in "".join(cards.texts()))
    opened.document.undo_stack.undo()
    qtbot.waitUntil(lambda: [t.partition(". ")[0] for t in cards.texts()] == ["Assign a8w8 to head"])
    opened.document.undo_stack.redo()
    qtbot.waitUntil(lambda: "1 → 0" in "".join(cards.texts()))


def test_that_nothing_to_suggest_is_said_and_no_gain_claimed_for_two_changes_at_once(
    opened, qtbot, monkeypatch
):
    # Nothing to suggest is said.
    leave_results(monkeypatch, lower=program(LEFT.model_copy(update={"cause": "other"})))
    panel = suggestions(opened, qtbot)
    qtbot.waitUntil(lambda: panel.cards.note.text() == NO_SUGGESTION)
    assert panel.cards.texts() == []
    # A gain is not claimed for two changes at once.
    cards = card_of_head(opened, qtbot, monkeypatch)
    press(cards, qtbot, "Apply")
    opened.document.apply("", lambda p: edits.assign(p, "module_name", "stem", "a16w8"))
    lower_without(opened, qtbot, monkeypatch)
    qtbot.waitUntil(lambda: cards.texts() == [f"Applied: Assign a8w8 to head. {UNKNOWN}"])


def lossy(decibels, *, shared=True):
    """Return an evaluation of an output that joins a box and a score of this SQNR [dB]."""
    box, score = (
        PartQuality(
            name=name,
            sqnr_db=sqnr,
            cosine=None,
            max_abs_error=0.1,
            output=0,
            minimum=0.0,
            maximum=peak,
            shared=shared,
        )
        for name, sqnr, peak in (("box", 40.0, 200.0), ("score", decibels, 0.5))
    )
    return result_of("evaluate").model_copy(update={"parts": (box, score)})


@pytest.mark.parametrize(("after", "titles"), [(35.0, 1), (3.0, 0)])
def test_that_a_split_is_tried_before_it_is_offered(opened, qtbot, monkeypatch, after, titles):
    # The last one is for the alternative, which is tried where the split is not enough.
    left = [lossy(3.0), lossy(after, shared=False), lossy(after, shared=False)]
    usual, tries = fake_engine.write_result, 2 if titles else 3

    def leave(stage, folder):
        usual(stage, folder)
        if stage == "evaluate":
            save_result(left.pop(0), folder)
        if stage == "lower":
            save_result(program(), folder)

    monkeypatch.setattr(fake_engine, "write_result", leave)
    panel = suggestions(opened, qtbot)
    qtbot.waitUntil(lambda: len(left) == 3 - tries and not panel.suggesting.trials.is_trying)
    qtbot.waitUntil(lambda: len(panel.cards.cards) == titles)
    for text in panel.cards.texts():
        assert text.startswith("Return the 2 parts of output one by one.")
        assert "Tried: lowest SQNR of a part of the outputs 3.0 → 35.0 dB" in text
    assert opened.document.project.split_outputs == ()


def test_that_a_card_shows_what_modules_save_and_lose_and_counts_those_without_a_row(qtbot):
    modules = tuple(
        ModuleSaving(name=f"body.{n}", cycles=100, ms=0.1, bytes=4000 - n, sqnr_db=-0.25, points=None)
        for n in range(10)
    )
    cards = SuggestionCards()
    qtbot.addWidget(cards)
    card = Suggestion(id="per_tensor", title="t", evidence="e", expected="x", modules=modules)
    cards.render_cards([card], [], "")
    (table,) = cards.findChildren(ModuleTable)
    texts = [label.text() for label in table.findChildren(Label)]
    assert texts[:4] == ["Module", "ms", "bytes", "dB"]
    assert texts[4:8] == ["body.0", "\u22120.100", "\u22124,000", "\u22120.25"]
    assert "and 2 more" in texts
    assert "body.8" not in texts
