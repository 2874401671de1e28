"""Differences between programs: float and quantized, quantized and integer."""

from __future__ import annotations

from workbench.project.frozen import Frozen


class TokenStep(Frozen):
    """One decoding step: the token read, the next token of the text, and their probabilities.

    ``chance_*`` is the probability that a program assigned to the next token; ``kl_*`` is KL(float
    || program) of its probabilities in nats. Values of the integer program are None if it was not
    run. ``max_lsb`` is its largest difference from the quantized model in steps of the output grid;
    None for float outputs.
    """

    sample: int
    token: str
    follows: str
    chance_float: float
    chance_quantized: float
    kl_quantized: float
    chance_integer: float | None = None
    kl_integer: float | None = None
    max_lsb: int | None = None


class TextQuality(Frozen):
    """Float, quantized and integer program on the same text (teacher forcing).

    A perplexity is exp of the mean over ``tokens`` of -ln of the next token's probability; ``kl_*``
    are means and ``worst_*`` maxima of KL(float || program) in nats. Values of the integer program
    are None if it was not run. ``steps`` are the first steps.
    """

    tokens: int
    sequences: int
    perplexity_float: float
    perplexity_quantized: float
    kl_quantized: float
    worst_quantized: float
    perplexity_integer: float | None = None
    kl_integer: float | None = None
    worst_integer: float | None = None
    steps: tuple[TokenStep, ...] = ()


class TensorQuality(Frozen):
    """Float against quantized at one tensor, over the evaluated samples.

    ``error_share`` is its noise-to-signal ratio divided by the sum over all tensors, which locates
    the error independent of the tensors' sizes. ``tensor`` is a node of the prepared graph,
    ``origin`` its node in the exported graph.
    """

    tensor: str
    module: str
    op: str
    sqnr_db: float | None
    cosine: float | None
    max_abs_error: float | None
    error_share: float | None = None
    origin: str = ""


class IntegerQuality(Frozen):
    """Quantized model against the integer program at one tensor; computed.

    ``exact`` is the share of equal elements; ``max_lsb`` is the largest difference in steps of the
    grid. ``origin`` is the operation of the exported graph that produces the tensor.
    """

    tensor: str
    module: str
    op: str
    sqnr_db: float | None
    cosine: float | None
    max_abs_error: float | None
    max_lsb: int
    exact: float
    origin: str = ""


class SampleQuality(Frozen):
    """Float against quantized over all outputs of one sample, by its number in the data."""

    sample: int
    sqnr_db: float | None
    max_abs_error: float | None
    label: int | None = None
    float_class: int | None = None
    quantized_class: int | None = None


class OutputQuality(Frozen):
    """Float against quantized at one output of the model."""

    name: str
    sqnr_db: float | None
    cosine: float | None
    max_abs_error: float | None


class Reading(Frozen):
    """The model with one arithmetic compared to float, over the same samples as the others.

    ``marks`` is the origin of the numbers (emulated, computed by which tool); ``main`` selects the
    one that the other figures of a result are based on.
    """

    id: str
    title: str
    marks: str
    sqnr_db: float | None
    cosine: float | None
    max_abs_error: float | None
    top1: float | None = None
    main: bool = False


class EvaluateResult(Frozen):
    """The quality of the quantized model. Values that do not exist (no labels) are None.

    ``sqnr_db`` is 10 log10(sum float^2 / sum (float - quantized)^2), None if both are equal.
    ``readings`` are shown side by side if a target has several arithmetics.
    """

    samples: int
    data: str
    calibrated_on: str
    sqnr_db: float | None
    cosine: float | None
    max_abs_error: float | None
    top1_float: float | None = None
    top1_quantized: float | None = None
    top5_float: float | None = None
    top5_quantized: float | None = None
    metric_name: str = ""
    metric_float: float | None = None
    metric_quantized: float | None = None
    outputs: tuple[OutputQuality, ...] = ()
    tensors: tuple[TensorQuality, ...] = ()
    worst: tuple[SampleQuality, ...] = ()
    readings: tuple[Reading, ...] = ()
    text: TextQuality | None = None
    warnings: tuple[str, ...] = ()


class VerifyResult(Frozen):
    """A program run on a reference and compared to the model; computed.

    For integers: the TOSA reference model against the quantized model. For a file exported for
    another compiler: ``runtime`` computed it, ``max_abs_error`` is its largest difference from the
    float model, grid steps are not set, and ``readings`` are added. ``histogram`` maps the
    difference integer - quantized, in steps of the output grid (LSB), to the number of output
    elements. ``tensors`` are compared over the first ``tensor_samples`` samples, in program order;
    ``first_divergence`` is the first one that is not bit-exact, "" if all are.
    """

    samples: int
    elements: int
    exact: int
    max_lsb: int
    argmax_equal: int
    histogram: dict[int, int]
    outputs: tuple[OutputQuality, ...] = ()
    tensors: tuple[IntegerQuality, ...] = ()
    tensor_samples: int = 0
    first_divergence: str = ""
    text: TextQuality | None = None
    runtime: str = ""
    max_abs_error: float | None = None
    readings: tuple[Reading, ...] = ()
    warnings: tuple[str, ...] = ()
