"""The few figures that stand above all others, as cards."""

from __future__ import annotations

from collections.abc import Iterator

from ui.figures import DASH, count, decibel, figure, percent
from ui.models.quality_table import cosine_text
from ui.widgets.figure_cards import Card
from workbench.errors import WorkbenchError
from workbench.project.model import Project
from workbench.results import EvaluateResult, FormatMemory, VerifyResult
from workbench.results.quality import TextQuality
from workbench.targets import target_of

MEASURED = "measured on host (PyTorch)"

COMPUTED = "computed (TOSA model)"


def quality_origin(project: Project | None) -> str:
    """Return how figures of a project's quality come about."""
    try:
        return (target_of(project.target.id).emulation if project else "") or MEASURED
    except WorkbenchError:
        return MEASURED


def quality_cards(
    value: EvaluateResult, memory: FormatMemory | None = None, source: str = MEASURED
) -> list[Card]:
    """Return the cards of an evaluation; figures that do not exist have none.

    Args:
        value: The evaluation.
        memory: What values of number formats take.
        source: How the figures come about, in words.
    """
    cards = [
        Card("SQNR", decibel(value.sqnr_db), source, "All outputs; more is better"),
        Card("Cosine", cosine_text(value.cosine), source, "1 is the same direction"),
        Card("Max error", figure(value.max_abs_error), source, "In units of the output"),
    ]
    pairs = (
        ("Top-1", value.top1_float, value.top1_quantized),
        ("Top-5", value.top5_float, value.top5_quantized),
    )
    for name, before, after in pairs:
        if before is not None and after is not None:
            text = f"{100 * before:.2f} \u2192 {percent(after)}"
            cards.append(Card(name, text, source, "Float, then quantized"))
    if value.metric_name:
        text = f"{figure(value.metric_float)} \u2192 {figure(value.metric_quantized)}"
        cards.append(Card(value.metric_name, text, source, "Float, then quantized"))
    return [*cards, *_text_cards(value.text, "quantized", source), *_memory_cards(memory)]


def _text_cards(text: TextQuality | None, side: str, source: str) -> Iterator[Card]:
    """Yield how a text was read: by the float model, and by what stands in for it."""
    if text is None:
        return
    is_integer = side == "integer"
    after = text.perplexity_integer if is_integer else text.perplexity_quantized
    mean, worst = (
        (text.kl_integer, text.worst_integer) if is_integer
        else (text.kl_quantized, text.worst_quantized)
    )  # fmt: skip
    if after is None or mean is None or worst is None:
        return
    over = f"over {count(text.tokens)} tokens of the text"
    values = f"{text.perplexity_float:.3f} \u2192 {after:.3f}"
    yield Card("Perplexity", values, source, f"Float, then {side}; less is better; {over}")
    hint = f"Mean of KL(float || {side}) {over}; at most {worst:.3g}"
    yield Card("KL divergence", f"{mean:.3g} nats", source, hint)


def _memory_cards(memory: FormatMemory | None) -> Iterator[Card]:
    if memory is None:
        return
    pairs = (
        ("Weights", memory.weight_bits, memory.weight_density),
        ("What flows", memory.data_bits, memory.data_density),
    )
    for name, bits, density in pairs:
        if bits is not None and density is not None:
            hint = "Average bits of an element, and how many times smaller than float32"
            yield Card(name, f"{bits:.2f} bits, {density:.2f}\u00d7", "computed", hint)


def verify_cards(value: VerifyResult) -> list[Card]:
    """Return the cards of a comparison."""
    exact = value.exact / value.elements if value.elements else None
    if value.runtime:
        by = f"computed ({value.runtime})"
        return [
            Card("Max difference", figure(value.max_abs_error), by,
                 "Of the exported file's outputs to the float model's"),
            Card("Same arg-max", f"{value.argmax_equal} of {value.samples}", by,
                 "Samples with the same greatest output"),
            Card("Samples", count(value.samples), by, "Inputs that both have run"),
        ]  # fmt: skip
    return [
        Card("Equal bit for bit", percent(exact), COMPUTED,
             f"{count(value.exact)} of {count(value.elements)} output elements"),
        Card("Max difference", f"{value.max_lsb} LSB", COMPUTED, "One LSB is the output's scale"),
        Card("Same arg-max", f"{value.argmax_equal} of {value.samples}" if value.samples else DASH,
             COMPUTED, "Samples with the same greatest output"),
        Card("Samples", count(value.samples), COMPUTED, "Inputs that both have run"),
        *_text_cards(value.text, "integer", COMPUTED),
    ]  # fmt: skip
