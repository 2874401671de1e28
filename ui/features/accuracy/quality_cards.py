"""Cards and tables of evaluation and verification results."""

from __future__ import annotations

from collections.abc import Iterator

from ui.shared.explanations import COMPUTED, MEASURED
from ui.shared.figure_cards import Card
from ui.shared.number_format import DASH, count, decibel, figure, percent
from ui.shared.sortable_table import Column
from workbench.results import (
    CompiledProgram,
    EvaluateResult,
    FormatMemory,
    IntegerQuality,
    OutputQuality,
    PartQuality,
    Reading,
    SampleQuality,
    TensorQuality,
    VerifyResult,
)
from workbench.results.quality import TextQuality

SQNR = "Signal-to-quantization-noise ratio; a dash if both are equal or not comparable"

COSINE = "Cosine between the float and the quantized values"

ADDED = (
    "Part of all added error that this operation itself adds: its output against float arithmetic "
    "on its own quantized inputs. SQNR includes the error of everything before it."
)

ERROR = "Maximum absolute difference, in units of the tensor"


def cosine_text(value: float | None) -> str:
    """Return a cosine with enough digits to tell values near 1 apart."""
    return DASH if value is None else f"{value:.6f}"


def describe_output(row: OutputQuality) -> str:
    """Return the tooltip of an output."""
    lines = [
        row.name,
        f"SQNR  {decibel(row.sqnr_db)}",
        f"cosine  {cosine_text(row.cosine)}",
        f"max error  {figure(row.max_abs_error)}",
    ]
    if isinstance(row, PartQuality):
        lines.append(f"float model  {figure(row.minimum)} to {figure(row.maximum)}")
        lines += ["constant in the quantized model"] if row.constant else []
        lines += ["shares its range with the other parts of the output"] if row.shared else []
    return "\n".join(lines)


def _worst_samples(row: OutputQuality) -> str:
    samples = row.worst_samples if isinstance(row, PartQuality) else ()
    return ", ".join(map(str, samples)) or DASH


def _added_text(row: TensorQuality) -> str:
    if row.added_share is None:
        return "error added here  not known"
    alone = f", {decibel(row.added_sqnr_db)} alone" if row.added_sqnr_db is not None else ""
    return f"error added here  {percent(row.added_share)} of all{alone}"


def describe_quality(row: TensorQuality) -> str:
    """Return the figures of a tensor, one per line."""
    is_renamed = row.origin and row.origin != row.tensor
    name = f"{row.tensor}, in {row.origin} of the graph" if is_renamed else row.tensor
    lines = (
        name,
        f"{row.op}  {row.module}".strip(),
        f"SQNR  {decibel(row.sqnr_db)}",
        _added_text(row),
        f"cosine  {cosine_text(row.cosine)}",
        f"max error  {figure(row.max_abs_error)}",
        "measured in PyTorch",
    )
    return "\n".join(lines)


OUTPUT_COLUMNS: tuple[Column[OutputQuality], ...] = (
    Column("Output", lambda r: r.name),
    Column("SQNR", lambda r: decibel(r.sqnr_db), lambda r: r.sqnr_db, SQNR),
    Column("Cosine", lambda r: cosine_text(r.cosine), lambda r: r.cosine, COSINE),
    Column("Max error", lambda r: figure(r.max_abs_error), lambda r: r.max_abs_error, ERROR),
    Column("Worst samples", _worst_samples, None, "Those with the lowest SQNR at this part"),
)

TENSOR_COLUMNS: tuple[Column[TensorQuality], ...] = (
    Column("Tensor", lambda r: r.tensor),
    Column("SQNR", lambda r: decibel(r.sqnr_db), lambda r: r.sqnr_db, SQNR),
    Column(
        "Error added here",
        lambda r: percent(r.added_share),
        lambda r: r.added_share,
        ADDED,
        lambda r: r.added_share,
    ),
    Column("Max error", lambda r: figure(r.max_abs_error), lambda r: r.max_abs_error, ERROR),
    Column("Cosine", lambda r: cosine_text(r.cosine), lambda r: r.cosine, COSINE),
    Column("Module", lambda r: r.module or DASH),
)

READING_COLUMNS: tuple[Column[Reading], ...] = (
    Column("Arithmetic model", lambda r: f"{r.title} (main)" if r.main else r.title),
    Column("SQNR", lambda r: decibel(r.sqnr_db), lambda r: r.sqnr_db, SQNR),
    Column("Top-1", lambda r: percent(r.top1), lambda r: r.top1),
    Column("Max error", lambda r: figure(r.max_abs_error), lambda r: r.max_abs_error, ERROR),
    Column("Cosine", lambda r: cosine_text(r.cosine), lambda r: r.cosine, COSINE),
    Column("Origin", lambda r: r.marks),
)

INTEGER_COLUMNS: tuple[Column[IntegerQuality], ...] = (
    Column("Tensor", lambda r: r.tensor),
    Column("Equal", lambda r: percent(r.exact), lambda r: r.exact, "Fraction of bit-exact elements"),
    Column(
        "Max LSB",
        lambda r: str(r.max_lsb),
        lambda r: r.max_lsb,
        "Maximum difference in quantization steps of the tensor",
    ),
    Column("SQNR", lambda r: decibel(r.sqnr_db), lambda r: r.sqnr_db, SQNR),
    Column("Cosine", lambda r: cosine_text(r.cosine), lambda r: r.cosine),
    Column("Max error", lambda r: figure(r.max_abs_error), lambda r: r.max_abs_error, ERROR),
    Column("Module", lambda r: r.module or DASH),
)

SAMPLE_COLUMNS: tuple[Column[SampleQuality], ...] = (
    Column("Sample", lambda r: str(r.sample), lambda r: r.sample, "Index in the data set"),
    Column("SQNR", lambda r: decibel(r.sqnr_db), lambda r: r.sqnr_db, SQNR),
    Column("Max error", lambda r: figure(r.max_abs_error), lambda r: r.max_abs_error, ERROR),
    Column("Label", lambda r: _class(r.label), lambda r: r.label),
    Column(
        "Float",
        lambda r: _class(r.float_class),
        lambda r: r.float_class,
        "Class predicted by the float model",
    ),
    Column(
        "Quantized",
        lambda r: _class(r.quantized_class),
        lambda r: r.quantized_class,
        "Class predicted by the quantized model",
    ),
)


def describe_reading(row: Reading) -> str:
    """Return the tooltip of a row of arithmetic models of one exported file, side by side."""
    return f"{row.title}\n{row.marks}"


def divergence_text(value: VerifyResult) -> str:
    """Return a sentence about the first difference of the integer program."""
    over = f"over {value.tensor_samples} sample{'s' if value.tensor_samples != 1 else ''}"
    if not value.first_divergence:
        return f"All {len(value.tensors)} tensors are bit-exact, {over}."
    first = next(t for t in value.tensors if t.tensor == value.first_divergence)
    module = f" in {first.module}" if first.module else ""
    return (
        f"First difference inside: {first.tensor}{module}, {percent(1 - first.exact)} of its "
        f"elements by at most {first.max_lsb} LSB, {over}."
    )


def _class(number: int | None) -> str:
    return DASH if number is None else str(number)


def describe_integer(row: IntegerQuality) -> str:
    """Return the tooltip of a tensor of the integer program."""
    return "\n".join(
        (
            row.tensor,
            f"{row.op}  {row.module}".strip(),
            f"equal  {percent(row.exact)}",
            f"max  {row.max_lsb} LSB",
            "computed (TOSA reference model)",
        )
    )


def describe_sample(row: SampleQuality) -> str:
    """Return the tooltip of a sample."""
    return f"Sample {row.sample}: {decibel(row.sqnr_db)} over all outputs"


def output_rows(value: EvaluateResult) -> list[OutputQuality]:
    """Return the outputs, each followed by the parts that it joins."""
    rows: list[OutputQuality] = []
    for index, output in enumerate(value.outputs):
        rows.append(output)
        rows += [
            part.model_copy(update={"name": f"\u2514 {part.name}"})
            for part in value.parts
            if part.output == index
        ]
    return rows


def quality_cards(
    value: EvaluateResult, memory: FormatMemory | None = None, source: str = MEASURED
) -> list[Card]:
    """Return the cards of an evaluation. Missing figures have no card.

    Args:
        value: The evaluation.
        memory: Memory of values in number formats.
        source: Origin of the figures.
    """
    cards = [
        Card("SQNR", decibel(value.sqnr_db), source, "All outputs; higher is better"),
        Card("Cosine", cosine_text(value.cosine), source, "All outputs; 1 is identical direction"),
        Card("Max error", figure(value.max_abs_error), source, "In units of the output"),
    ]
    pairs = (
        ("Top-1", value.top1_float, value.top1_quantized),
        ("Top-5", value.top5_float, value.top5_quantized),
    )
    for name, before, after in pairs:
        if before is not None and after is not None:
            text = f"{100 * before:.2f} \u2192 {percent(after)}"
            cards.append(Card(name, text, source, "Float → quantized"))
    if value.parts:
        worst = min(value.parts, key=lambda part: part.decibels)
        whole = value.outputs[worst.output].name
        hint = f"{worst.name} of {whole}: the lowest of {len(value.parts)} parts"
        cards.append(Card("Worst part", decibel(worst.sqnr_db), source, hint))
    if value.metric_name:
        sides = (value.metric_float, value.metric_quantized)
        text = " \u2192 ".join(DASH if side is None else value.metric_text(side) for side in sides)
        cards.append(Card(value.metric_name, text, source, "Float → quantized"))
    return [*cards, *_text_cards(value.text, "quantized", source), *_memory_cards(memory)]


def _text_cards(text: TextQuality | None, side: str, source: str) -> Iterator[Card]:
    """Yield the cards of a text: perplexity and KL divergence from the float model."""
    if text is None:
        return
    is_integer = side == "integer"
    after = text.perplexity_integer if is_integer else text.perplexity_quantized
    mean, worst = (
        (text.kl_integer, text.worst_integer) if is_integer else (text.kl_quantized, text.worst_quantized)
    )
    if after is None or mean is None or worst is None:
        return
    over = f"over {count(text.tokens)} tokens"
    values = f"{text.perplexity_float:.3f} \u2192 {after:.3f}"
    yield Card("Perplexity", values, source, f"Float → {side}; lower is better; {over}")
    hint = f"Mean of KL(float || {side}) {over}; at most {worst:.3g}"
    yield Card("KL divergence", f"{mean:.3g} nats", source, hint)


def _memory_cards(memory: FormatMemory | None) -> Iterator[Card]:
    if memory is None:
        return
    pairs = (
        ("Weights", memory.weight_bits, memory.weight_density),
        ("Activations", memory.data_bits, memory.data_density),
    )
    for name, bits, density in pairs:
        if bits is not None and density is not None:
            hint = "Average bits per element, and compression relative to float32"
            yield Card(name, f"{bits:.2f} bits, {density:.2f}\u00d7", "computed", hint)


def _compiled_cards(compiled: CompiledProgram | None) -> Iterator[Card]:
    if compiled is None:
        return
    hint = (
        f"{count(compiled.equal)} of {count(compiled.elements)} elements equal to the TOSA "
        "reference model; executed on the simulator (no timing)"
    )
    share = compiled.equal / compiled.elements if compiled.elements else None
    if compiled.refused:
        share, hint = None, f"Not checked: {compiled.refused}"
    yield Card("Compiled program equal", percent(share), COMPUTED, hint)


def verify_cards(value: VerifyResult) -> list[Card]:
    """Return the cards of a comparison."""
    exact = value.exact / value.elements if value.elements else None
    if value.runtime:
        by = f"computed ({value.runtime})"
        return [
            Card(
                "Max difference",
                figure(value.max_abs_error),
                by,
                "Maximum difference of the exported file's outputs from the float model's",
            ),
            Card(
                "Same class",
                f"{value.argmax_equal} of {value.samples}",
                by,
                "Samples with the same largest output",
            ),
            Card("Samples", count(value.samples), by, "Inputs that both models ran"),
        ]
    return [
        Card(
            "Bit-exact",
            percent(exact),
            COMPUTED,
            f"{count(value.exact)} of {count(value.elements)} output elements",
        ),
        Card(
            "Max difference", f"{value.max_lsb} LSB", COMPUTED, "1 LSB is one quantization step of the output"
        ),
        Card(
            "Same class",
            f"{value.argmax_equal} of {value.samples}" if value.samples else DASH,
            COMPUTED,
            "Samples with the same largest output",
        ),
        Card("Samples", count(value.samples), COMPUTED, "Inputs that both models ran"),
        *_compiled_cards(value.compiled),
        *_text_cards(value.text, "integer", COMPUTED),
    ]
