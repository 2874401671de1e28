"""The figures of the decoder of sentences: on their page and picture, and what they say."""

import json
from xml.etree import ElementTree

from tests import text_decoder_figures as figures

KEPT = json.loads(figures.KEPT.read_text("utf-8"))


def rows(tokens):
    return [KEPT[f"{context} / {tokens}"] for context in figures.CONTEXTS]


def test_that_the_page_and_its_picture_have_the_figures_that_were_kept():
    assert figures.PAGE.read_text("utf-8") == figures.page(KEPT)
    drawn = figures.PICTURE.read_text("utf-8")
    assert drawn == figures.picture(KEPT)
    root = ElementTree.fromstring(drawn)
    right = [float(e.get("x")) + float(e.get("width")) for e in root.iter() if e.get("x") and e.get("width")]
    assert max(right) < int(root.get("width"))


def test_that_the_compiled_program_predicts_as_well_as_the_float_model():
    first = KEPT[f"{figures.CONTEXTS[0]} / 1"]
    assert first["perplexity_integer"] < first["perplexity_float"] * 1.02
    assert all(text["program"].strip() for text in first["texts"])


def test_that_prompts_take_less_time_for_a_token_in_a_program_of_their_own():
    for one, many in zip(rows(1), rows(figures.PROMPT_TOKENS), strict=True):
        assert many["ms"] < one["ms"] * figures.PROMPT_TOKENS / 2


def test_that_memory_grows_with_the_context():
    for key in ("caches", "pools", "scratch", "program"):
        sizes = [row[key] for row in rows(1)]
        assert sizes == sorted(sizes), key
        assert sizes[0] < sizes[-1], key
