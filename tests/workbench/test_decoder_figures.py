"""The figures of decoders: on their page, and what int8 caches save and cost."""

import json

from tests import decoder_figures as figures

KEPT = json.loads(figures.KEPT.read_text("utf-8"))


def test_that_the_page_has_the_figures_that_were_kept():
    assert figures.PAGE.read_text("utf-8") == figures.page(KEPT)


def test_that_int8_caches_take_a_quarter_and_lose_little():
    for kind in ("buffers", "handed on"):
        for context in map(str, figures.CONTEXTS):
            whole, small = (KEPT[f"{kind}, {form}"][context] for form in ("float", "int8"))
            assert small["caches"] * 4 == whole["caches"]
        whole, small = (KEPT[f"{kind}, {form}"][str(figures.CONTEXTS[0])] for form in ("float", "int8"))
        assert small["perplexity"] < whole["perplexity"] * 1.01


def test_that_caches_grow_with_the_context():
    for rows in KEPT.values():
        sizes = [rows[str(context)]["caches"] for context in figures.CONTEXTS]
        assert sizes == sorted(sizes)
        assert sizes[-1] > sizes[0]
