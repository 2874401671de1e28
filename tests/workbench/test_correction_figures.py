"""The figures of the corrections: complete, on their page, and none costs without a gain."""

import json

from tests import correction_figures as figures
from workbench.targets.ethos_u.corrections import CORRECTIONS

KEPT = json.loads(figures.KEPT.read_text("utf-8"))
ROW = figures.Row("fine_tables", "networks.py:any")
GOOD = {"outcome": "right", "quality": 40.0, "steps": 1, "cycles": 1000, "cpu": 0}


def complaint(**without):
    return figures.complaint(ROW, {"with": GOOD, "without": {**GOOD, **without}})


def test_that_every_correction_has_figures():
    assert list(KEPT) == [row.key for row in figures.ROWS]
    assert {row.correction for row in figures.ROWS} == {row.id for row in CORRECTIONS}


def test_that_the_page_has_the_figures_that_were_kept():
    assert figures.PAGE.read_text("utf-8") == figures.page(KEPT)


def test_that_no_correction_costs_without_a_gain():
    told = [figures.complaint(row, KEPT[row.key]) for row in figures.ROWS]
    assert [text for text in told if text] == []
    assert set(figures.EXCEPTIONS) <= set(KEPT)


def test_that_a_cost_without_a_gain_is_told():
    assert complaint(cycles=960) == ""
    assert complaint(cycles=900)
    assert complaint(quality=40.6)
    assert complaint(quality=40.4) == ""


def test_that_a_gain_may_cost():
    assert complaint(cycles=500, quality=39.0) == ""
    assert complaint(cycles=500, outcome="refused", quality=None) == ""
    assert complaint(cycles=500, outcome="wrong") == ""
    assert complaint(cycles=500, cpu=2) == ""
    assert complaint(quality=45.0, cycles=1200) == ""
    assert complaint(cycles=500, steps=90) == ""
    assert complaint(quality=45.0, steps=90)


def test_that_a_program_that_is_wrong_with_its_correction_is_told():
    assert figures.complaint(ROW, {"with": {**GOOD, "outcome": "wrong"}, "without": GOOD})
