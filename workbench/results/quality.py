"""How far programs are apart: float and quantized, quantized and integer."""

from __future__ import annotations

from workbench.project.frozen import Frozen


class TokenStep(Frozen):
    """One step: the token that was read, the one that follows in the text, and what they gave.

    ``chance_*`` is the probability that a program gave to the token that follows; ``kl_*`` how far
    its probabilities are from those of the float model, KL(float || program) in nats. The integer
    program's are None where it was not run. ``max_lsb`` is its largest difference from the
    quantized model in steps of the output's grid; None for float outputs.
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
    """Float, quantized and integer program on a text that all of them read as it stands.

    A perplexity is exp of the mean over ``tokens`` of -ln of the probability given to the token
    that follows; ``kl_*`` are means and ``worst_*`` maxima of KL(float || program) in nats. The
    integer program's are None where it was not run. ``steps`` are the first of all.
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

    ``error_share`` is its noise over signal as a part of the sum of all tensors' noise over
    signal: where in the program the error is, whatever the tensors' sizes. ``tensor`` is a node of
    the prepared graph, ``origin`` what it is in the exported one.
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

    ``exact`` is the share of elements that are equal, ``max_lsb`` how many steps of the grid the
    others differ at most. ``origin`` is the operation of the exported graph that makes the tensor.
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
    """One way to compute the model against float, over the same samples as its neighbours.

    ``marks`` says what kind of numbers they are (emulated, computed by what); ``main`` whether the
    other figures of a result follow it.
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
    """How good the quantized model is. Numbers that do not exist (no labels) are None.

    ``sqnr_db`` is 10 log10(sum float^2 / sum (float - quantized)^2), None when both are equal.
    ``readings`` stand side by side where a target's arithmetic can be read in several ways.
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
    """A program on a reference against the model; computed.

    Of integers it is the TOSA reference model against the quantized model. Where a file was
    exported for another compiler, ``runtime`` computed it, ``max_abs_error`` is how far it is from
    the float model at most, and steps of a grid say nothing; ``readings`` stand beside it.
    ``histogram`` maps integer minus quantized, in steps of the output's grid (LSB), to the number
    of output elements.
    ``tensors`` are compared over the first ``tensor_samples`` samples, in the order of the program;
    ``first_divergence`` is the first of them that is not equal bit for bit, "" if all are.
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
