"""Differences between programs: float and quantized, quantized and integer."""

from __future__ import annotations

import math
from typing import Literal

from workbench.project.frozen import Frozen
from workbench.results.programs import FormComparison
from workbench.results.task_quality import TaskQuality


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


# Every tensor of both graphs is compared, which takes longer than a run.
TENSOR_SAMPLES = 8


class TensorQuality(Frozen):
    """Float against quantized at one tensor, over the first ``TENSOR_SAMPLES`` evaluated samples.

    ``error_share`` is its noise-to-signal ratio divided by the sum over all tensors, which locates
    the error independent of the tensors' sizes. ``added_sqnr_db`` compares the quantized tensor
    with its operation in float on the quantized inputs: the error that this operation itself adds
    [dB]; ``added_share`` is that noise-to-signal ratio divided by the sum over all tensors. Both
    are over at most four samples, and None where the operation cannot be computed alone (inside of
    branches and loops, and where a buffer that the program changes is read). ``minimum``,
    ``maximum``, ``rms`` and ``zeros``, the share of values that are 0, are those of the float
    model, ``step`` is that of the tensor's static grid; None if unknown. ``tensor`` is a node of
    the prepared graph, ``origin`` its node in the exported graph.
    """

    tensor: str
    module: str
    op: str
    sqnr_db: float | None
    cosine: float | None
    max_abs_error: float | None
    error_share: float | None = None
    added_sqnr_db: float | None = None
    added_share: float | None = None
    minimum: float | None = None
    maximum: float | None = None
    rms: float | None = None
    zeros: float | None = None
    step: float | None = None
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
    """Two programs compared at one output: float and quantized, or quantized and integer.

    ``bits`` is the width of its integers, ``max_lsb`` the largest difference in steps of its grid;
    None for float outputs, and where the quantized model is not compared with the integer program.
    ``rounding_lsb`` is how far roundings of single operators move this output of the quantized
    model; known where the difference is above the default limit. ``not_finite`` counts the elements
    that are NaN or infinite in one program and other in the second; the other figures leave them
    out. Against the float model, ``decided`` counts the classes that the float model gives and
    ``decided_equal`` those that are equal: one per sample for a vector whose largest element is
    clearly the largest, one per element for ``whole`` numbers.
    """

    name: str
    sqnr_db: float | None
    cosine: float | None
    max_abs_error: float | None
    bits: int | None = None
    max_lsb: int | None = None
    rounding_lsb: int | None = None
    not_finite: int = 0
    decided: int = 0
    decided_equal: int = 0
    whole: bool = False

    @property
    def decibels(self) -> float:
        """The SQNR [dB]: infinite without a difference, -inf if there is one and no SQNR."""
        if self.not_finite:
            return -math.inf
        if self.sqnr_db is None:
            return -math.inf if self.max_abs_error else math.inf
        return self.sqnr_db if math.isfinite(self.sqnr_db) else -math.inf


class PartQuality(OutputQuality):
    """Two programs compared at a tensor that an output joins.

    ``output`` is the position of the output among those of the model. ``minimum`` and ``maximum``
    are those of the float model. ``constant`` is whether all samples give the same elements, while
    they vary in the float model. ``shared`` is whether the program returns it joined, so that all
    parts of the output have one grid. ``worst_samples`` are the numbers of those with the lowest
    SQNR at this part, the lowest first.
    """

    output: int
    minimum: float | None = None
    maximum: float | None = None
    constant: bool = False
    shared: bool = False
    worst_samples: tuple[int, ...] = ()


class Dependence(Frozen):
    """What the outputs of a program depend on, compared with the float model.

    ``ignored`` are inputs that change an output of the float model and none of the program's,
    ``constant`` outputs that vary over the samples in the float model only. ``unused`` are inputs
    that change no output of the float model either.
    """

    ignored: tuple[str, ...] = ()
    constant: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()


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
    ``class_output`` is the output of the model that top-1 is counted on.
    ``readings`` are shown side by side if a target has several arithmetics. ``held_out`` is whether
    calibration did not see the samples. ``dependence`` is None if it could not be determined.
    ``compared`` is the exported program's comparison with the model on the first of these samples,
    where calibration has others. ``parts`` are the tensors that outputs join; none of outputs that
    join nothing. ``task`` has the figures of the program's own metrics.
    Arrays beside it: ``picture_N`` [H, W, 3] of the shown samples N, those of ``task`` or else the
    first of ``worst``, and their masks ``label_N``, ``float_N`` and ``quantized_N`` [H, W]; uint8.
    """

    samples: int
    data: str
    held_out: bool = False
    calibrated_on: str
    sqnr_db: float | None
    cosine: float | None
    max_abs_error: float | None
    class_output: int = 0
    top1_float: float | None = None
    top1_quantized: float | None = None
    top5_float: float | None = None
    top5_quantized: float | None = None
    metric_name: str = ""
    metric_float: float | None = None
    metric_quantized: float | None = None
    task: TaskQuality | None = None
    outputs: tuple[OutputQuality, ...] = ()
    parts: tuple[PartQuality, ...] = ()
    tensors: tuple[TensorQuality, ...] = ()
    worst: tuple[SampleQuality, ...] = ()
    readings: tuple[Reading, ...] = ()
    text: TextQuality | None = None
    compared: tuple[FormComparison, ...] = ()
    dependence: Dependence | None = None
    warnings: tuple[str, ...] = ()

    def metric_text(self, value: float) -> str:
        """Return a figure of the metric: shares, which the program's own metrics are, in per cent."""
        return f"{100 * value:.1f} %" if self.task is not None else f"{value:.4g}"


class CompiledDifference(Frozen):
    """The first output element at which a compiled delegate and its TOSA differ.

    ``output`` is the TOSA tensor. ``tensor`` is the first tensor inside the delegate that differs,
    in the order of the commands, where one can be read back; else the output. ``operation``,
    ``module``, ``origin`` (the node of the exported graph) and ``source_line`` belong to the
    operation that computes it, ``command`` and ``offset`` [bytes] to its last command. They are ""
    and None if unknown.
    """

    sample: int
    delegate: int
    output: str
    tensor: str = ""
    element: int
    expected: int
    computed: int
    operation: str = ""
    module: str = ""
    origin: str = ""
    source_line: str = ""
    command: str = ""
    offset: int | None = None


class CompiledFinding(Frozen):
    """A remark on one command of an executed delegate; "error" if a device may compute otherwise.

    ``offset`` is the command's place in its stream [bytes].
    """

    severity: Literal["error", "warning"]
    code: str
    message: str
    delegate: int
    command: str
    offset: int
    module: str = ""


class CompiledProgram(Frozen):
    """The compiled program, executed on the functional simulator, against its TOSA; computed.

    Each delegate gets the same integers as its TOSA on the reference model; ``elements`` are those
    of all its outputs, ``max_lsb`` is the largest difference of two integers. ``refused`` says why
    it was not executed to the end; "" if all samples were. ``whole_refused`` says why the whole
    program, with its CPU operators, was not executed; "" if it was: for all samples, of a program
    with state for the first one. ``whole_max_lsb`` is then the largest difference of its outputs
    from the integer program's in steps of their grids, None if nothing was compared.
    """

    samples: int
    elements: int
    equal: int
    max_lsb: int
    first_difference: CompiledDifference | None = None
    findings: tuple[CompiledFinding, ...] = ()
    refused: str = ""
    whole_refused: str = ""
    whole_max_lsb: int | None = None


class AgainstFloat(Frozen):
    """SQNR [dB] of both programs against the float model, over the verified samples.

    None if they are equal to it. ``outputs``, and ``parts`` that they join, are those of the
    integer program, over the first ``samples``, which are evaluation samples; ``data`` is their
    name and ``held_out`` whether calibration did not see them.
    """

    quantized_sqnr_db: float | None
    integer_sqnr_db: float | None
    samples: int = 0
    data: str = ""
    held_out: bool = False
    outputs: tuple[OutputQuality, ...] = ()
    parts: tuple[PartQuality, ...] = ()
    dependence: Dependence | None = None


class TosaExecutors(Frozen):
    """Which executor computed the TOSA of the delegates.

    ``reference_samples`` counts the samples that the TOSA reference model computed: the first one,
    and every one where something disagreed. ``executor_samples`` are those of the built-in one.
    ``equal_tensors`` are the tensors inside delegates that both computed, all with equal integers.
    ``left`` says why something was left to the reference model; ``differs`` names a tensor where
    the two gave different integers: the reference model then computed everything.
    """

    reference_samples: int
    executor_samples: int
    equal_tensors: int
    left: tuple[str, ...] = ()
    differs: str = ""

    @property
    def sentence(self) -> str:
        """Which executor computed how many samples, in one line."""
        if not self.reference_samples and not self.executor_samples:
            return "No TOSA: no operator runs on the NPU."
        reference = _samples(self.reference_samples)
        if self.differs:
            return (
                f"The TOSA reference model computed {reference}; the built-in executor differed in "
                f"{self.differs}."
            )
        if not self.executor_samples:
            why = f" (the built-in executor does not: {'; '.join(self.left)})" if self.left else ""
            return f"The TOSA reference model computed {reference}{why}."
        why = f", and what the built-in executor does not: {'; '.join(self.left)}" if self.left else ""
        return (
            f"The built-in executor computed the TOSA program on {_samples(self.executor_samples)}, the "
            f"TOSA reference model also on {reference} ({self.equal_tensors:,} tensors equal){why}."
        )


def _samples(count: int) -> str:
    return f"{count:,} sample" if count == 1 else f"{count:,} samples"


class VerifyResult(Frozen):
    """A program run on a reference and compared to the model; computed.

    For integers: the TOSA reference model against the quantized model. For a file exported for
    another compiler: ``runtime`` computed it, ``max_abs_error`` is its largest difference from the
    float model, grid steps are not set, and ``readings`` are added. ``histogram`` maps the
    difference integer - quantized, in steps of the output grid (LSB), to the number of output
    elements. ``tensors`` are compared over the first ``tensor_samples`` samples, in program order;
    ``first_divergence`` is the first one that is not bit-exact, "" if all are. ``decided`` counts
    the samples that have an arg-max: their first output is a vector, and its largest element
    exceeds all others by more than one step in the quantized model; ``decided_equal`` counts those
    where the integer program has the same one.
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
    decided: int = 0
    decided_equal: int = 0
    against_float: AgainstFloat | None = None
    compiled: CompiledProgram | None = None
    executors: TosaExecutors | None = None
    runtime: str = ""
    max_abs_error: float | None = None
    readings: tuple[Reading, ...] = ()
    warnings: tuple[str, ...] = ()
