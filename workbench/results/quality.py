"""How far programs are apart: float and quantized, quantized and integer."""

from __future__ import annotations

from workbench.project.frozen import Frozen


class TensorQuality(Frozen):
    """Float against quantized at one tensor, over the evaluated samples."""

    tensor: str
    module: str
    op: str
    sqnr_db: float | None
    cosine: float | None
    max_abs_error: float | None


class OutputQuality(Frozen):
    """Float against quantized at one output of the model."""

    name: str
    sqnr_db: float | None
    cosine: float | None
    max_abs_error: float | None


class EvaluateResult(Frozen):
    """How good the quantized model is. Numbers that do not exist (no labels) are None.

    ``sqnr_db`` is 10 log10(sum float^2 / sum (float - quantized)^2), None when both are equal.
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
    warnings: tuple[str, ...] = ()


class VerifyResult(Frozen):
    """The integer program on the TOSA reference model against the quantized model; computed.

    ``histogram`` maps integer minus quantized, in steps of the output's grid (LSB), to the number
    of output elements.
    """

    samples: int
    elements: int
    exact: int
    max_lsb: int
    argmax_equal: int
    histogram: dict[int, int]
    outputs: tuple[OutputQuality, ...] = ()
    warnings: tuple[str, ...] = ()
