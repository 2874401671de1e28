"""How a text was read, in the numerics panel."""

from __future__ import annotations

import pytest

from tests.fakes.engine import leave_results
from tests.fakes.results import result_of
from tests.ui.shell.test_window import run_to
from workbench.results.quality import TextQuality, TokenStep

READ = TextQuality(
    tokens=2,
    sequences=1,
    perplexity_float=4.7868,
    perplexity_quantized=4.8251,
    kl_quantized=0.0094,
    worst_quantized=0.301,
    steps=(
        TokenStep(
            sample=0, token="t", follows="h", chance_float=0.5, chance_quantized=0.4, kl_quantized=0.001
        ),
        TokenStep(
            sample=1, token="h", follows="e", chance_float=0.9, chance_quantized=0.8, kl_quantized=0.018
        ),
    ),
)
VERIFIED = READ.model_copy(
    update={
        "perplexity_integer": 4.9,
        "kl_integer": 0.02,
        "worst_integer": 0.4,
        "steps": tuple(
            step.model_copy(update={"chance_integer": 0.3, "kl_integer": 0.02, "max_lsb": 7})
            for step in READ.steps
        ),
    }
)


@pytest.fixture
def panel(opened, qtbot, monkeypatch):
    texts = {"evaluate": READ, "verify": VERIFIED}
    changed = {stage: {"text": text} for stage, text in texts.items()}
    results = {stage: result_of(stage).model_copy(update=text) for stage, text in changed.items()}
    leave_results(monkeypatch, **results)
    run_to(opened, qtbot, "")
    made = opened.window.reveal("accuracy")
    qtbot.waitUntil(lambda: made.has("evaluate") and made.has("verify"))
    return made


def text_of(model, row):
    return [model.index(row, column).data() for column in range(model.columnCount())]


def test_that_perplexity_divergence_and_every_token_are_told(panel):
    quality, verify = panel.cards.texts(), panel.comparison.cards.texts()
    assert "Perplexity: 4.787 \u2192 4.825, measured in PyTorch" in quality
    assert "KL divergence: 0.0094 nats, measured in PyTorch" in quality
    assert "Perplexity: 4.787 \u2192 4.900, computed (TOSA model)" in verify
    assert "KL divergence: 0.02 nats, computed (TOSA model)" in verify

    # Every token is told.
    assert panel.pages.isTabVisible(2)
    assert text_of(panel.tokens, 1) == ["1", "h", "e", "0.018", "90.00 %", "80.00 %"]
    verified = panel.comparison.tokens
    assert text_of(verified, 0)[3:] == ["0.02", "7", "50.00 %", "40.00 %", "30.00 %"]
