"""Quantization to number formats without torch, for predictions in the window.

Textbook forms in float64, equal to the engine's functions, which are authoritative. Values are
rows [N, B], one block per row. Sources: those of ``workbench formats list``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.errors import failure
from workbench.targets.formats.parameters import Role, impossible, read
from workbench.targets.formats.schemes import spec_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = NDArray[np.float64]
    Parameters = Mapping[str, Any]
    from collections.abc import Mapping

    from workbench.analysis.histogram import Histogram
    from workbench.project.configs import FormatConfig


_TERNARY_THRESHOLD = 0.7
_E2M1_LARGEST, _E4M3_LARGEST = 6.0, 448.0


def placed(rows: Values, scheme: str, parameters: Parameters) -> Values:
    """Return rows of finite values [N, B] on the grid of a format.

    Args:
        rows: One block per row, or one slice per row for formats with a scale per slice.
        scheme: Name of a number format for operands.
        parameters: All its parameters, validated.
    """
    values: Values = _FORMS[scheme](rows, parameters)
    return values


def _fixed(x: Values, parameters: Parameters) -> Values:
    width, frac = parameters["width"], parameters["frac_width"]
    scale = 2.0 ** (width // 2 if frac is None else frac)
    signed = parameters["is_signed"]
    low = -(2.0 ** (width - 1)) if signed else 0.0
    high = 2.0 ** (width - 1 if signed else width) - 1
    whole = np.floor(x * scale) if parameters.get("floor") else np.rint(x * scale)
    values: Values = np.clip(whole, low, high) / scale
    return values


def _floats(x: Values, bits: int, least: float, largest: float) -> Values:
    """Return the nearest floats with so many fraction bits, ties to even, saturating."""
    value = np.clip(x, -largest, largest)
    step = np.exp2(np.maximum(_floor(np.abs(value)), least) - bits)
    values: Values = np.rint(value / step) * step
    return values


def _floor(x: Values) -> Values:
    """Return floor(log2) of values; -2000 for 0."""
    _, exponent = np.frexp(x)
    return np.where(x > 0, exponent - 1.0, -2000.0)


def _largest(rows: Values) -> Values:
    largest: Values = np.abs(rows).max(axis=1, keepdims=True)
    return largest


def _integers(rows: Values, exponent: Values, low: float, high: float) -> Values:
    step = np.exp2(exponent)
    values: Values = np.clip(np.rint(rows / step), low, high) * step
    return values


def _bias(parameters: Parameters) -> int:
    bias = parameters["exponent_bias"]
    return int(2 ** (parameters["exponent_width"] - 1) - 1 if bias is None else bias)


def _minifloat(x: Values, parameters: Parameters) -> Values:
    bits = parameters["width"] - parameters["exponent_width"] - 1
    most = 2 ** parameters["exponent_width"] - 1 - _bias(parameters)
    return _floats(x, bits, 1 - _bias(parameters), (2 - 2.0**-bits) * 2.0**most)


def _denorm(x: Values, parameters: Parameters) -> Values:
    bits = parameters["width"] - parameters["exponent_width"] - 2
    most = 2 ** parameters["exponent_width"] - 2 - _bias(parameters)
    return _floats(x, bits, -_bias(parameters) - 1, (2 - 2.0**-bits) * 2.0**most)


def _powers(x: Values, least: Values | float, most: Values | float) -> Values:
    """Return signed powers of two, nearest in the logarithm; zero stays zero."""
    mantissa, exponent = np.frexp(np.abs(x))
    nearest = np.where(mantissa * 2 > np.sqrt(2.0), exponent, exponent - 1)
    values: Values = np.sign(x) * np.exp2(np.clip(nearest, least, most))
    return values


def _log(x: Values, parameters: Parameters) -> Values:
    bits = parameters["width"] - 1
    bias = 2 ** (bits - 1) - 1 if parameters["exponent_bias"] is None else parameters["exponent_bias"]
    return _powers(x, -bias, 2**bits - 1 - bias)


def _binary(x: Values, parameters: Parameters) -> Values:
    if parameters["bipolar"]:
        return np.where(x >= 0, 1.0, -1.0)
    return np.where(x > 0, 1.0, 0.0)


def _residual(x: Values, parameters: Parameters) -> Values:
    if parameters.get("residual_sign") is False:
        return x
    levels = parameters["levels"]
    means = parameters["means"] or [2 * m / (levels * (levels + 1)) for m in range(levels, 0, -1)]
    left, total = x, np.zeros_like(x)
    for mean in means:
        part = np.where(left >= 0, abs(mean), -abs(mean))
        left, total = left - part, total + part
    return total


def _ternary(rows: Values, parameters: Parameters) -> Values:
    size = np.abs(rows)
    kept = size > _TERNARY_THRESHOLD * size.mean(axis=1, keepdims=True)
    signs = np.sign(rows) * kept
    if not parameters["scaling_factor"]:
        values: Values = signs
        return values
    count = np.maximum(kept.sum(axis=1, keepdims=True), 1)
    return np.asarray(signs * ((size * kept).sum(axis=1, keepdims=True) / count), np.float64)


def _block_fp(rows: Values, parameters: Parameters) -> Values:
    bits, bias = parameters["width"] - 1, _bias(parameters)
    most = 2 ** parameters["exponent_width"] - 1 - bias
    exponent = np.clip(_floor(_largest(rows)) + 1, -bias, most)
    return _integers(rows, exponent - bits, -(2.0**bits - 1), 2.0**bits - 1)


def _block_minifloat(rows: Values, parameters: Parameters) -> Values:
    bits, top = parameters["width"] - parameters["exponent_width"] - 1, 2 ** parameters["exponent_width"] - 1
    largest = _largest(rows)
    bias = np.clip(top - _floor(largest), 0, 2 ** parameters["exponent_bias_width"] - 1)
    scale = np.exp2(np.where(largest > 0, top - bias, 0.0))
    values: Values = _floats(rows / scale, bits, 1 - top, 2 - 2.0**-bits) * scale
    return values


def _block_log(rows: Values, parameters: Parameters) -> Values:
    top, largest = 2 ** (parameters["width"] - 1) - 1, _largest(rows)
    mantissa, exponent = np.frexp(largest)
    ceiling = np.where(largest > 0, exponent - (mantissa == 0.5), -2000.0)
    bias = np.clip(top - ceiling, 0, 2 ** parameters["exponent_bias_width"] - 1)
    return _powers(rows, -bias, top - bias)


def _scale(exponents: Values, bits: int) -> Values:
    limit = 2.0 ** (bits - 1) - 1
    return np.clip(exponents, -limit, limit)


def _mxint(rows: Values, parameters: Parameters) -> Values:
    bits = parameters["width"]
    exponent = _scale(_floor(_largest(rows)), parameters["scale_bits"])
    return _integers(rows, exponent + 2 - bits, -(2.0 ** (bits - 1)), 2.0 ** (bits - 1) - 1)


def _mxint_hardware(rows: Values, parameters: Parameters) -> Values:
    bits, half = parameters["width"], 2.0 ** (parameters["exponent_width"] - 1)
    exponent = np.clip(_floor(_largest(rows)), -half, half - 1)
    return _integers(rows, exponent + 2 - bits, -(2.0 ** (bits - 1)), 2.0 ** (bits - 1) - 1)


def _mxfp(rows: Values, parameters: Parameters) -> Values:
    width, bits = parameters["exponent_width"], parameters["frac_width"]
    most = 2**width - 2 ** (width - 1) - ((width, bits) == (5, 2))
    # E4M3 has a code for NaN among those of its largest exponent.
    is_e4m3 = (width, bits) == (4, 3)
    largest = _E4M3_LARGEST if is_e4m3 else (2 - 2.0**-bits) * 2.0**most
    scale = np.exp2(_scale(_floor(_largest(rows)) - most, parameters["scale_bits"]))
    values: Values = _floats(rows / scale, bits, 2 - 2 ** (width - 1), largest) * scale
    return values


def _nvfp4(rows: Values, parameters: Parameters) -> Values:
    del parameters
    largest = _largest(rows)
    whole = float(largest.max()) / (_E2M1_LARGEST * _E4M3_LARGEST) or 1.0
    scale = _floats(largest / _E2M1_LARGEST / whole, 3, -6, _E4M3_LARGEST) * whole
    divisor = np.where(scale > 0, scale, 1.0)
    return _floats(rows / divisor, 1, 0, _E2M1_LARGEST) * scale


_FORMS: Mapping[str, Callable[[Any, Parameters], Any]] = {
    "integer": _fixed,
    "fixed": _fixed,
    "integer_floor": lambda x, parameters: _fixed(x, {**parameters, "floor": True}),
    "logicnets": _fixed,
    "minifloat_ieee": _minifloat,
    "minifloat_denorm": _denorm,
    "log": _log,
    "binary": _binary,
    "binary_residual": _residual,
    "lutnet": _residual,
    "ternary": _ternary,
    "block_fp": _block_fp,
    "block_minifloat": _block_minifloat,
    "block_log": _block_log,
    "mxint": _mxint,
    "mxint_hardware": _mxint_hardware,
    "mxfp": _mxfp,
    "nvfp4": _nvfp4,
}


DRAWS = 1 << 16
_POINTS = 1 << 14
# Block size for whole dimensions, which the histogram does not contain.
_WHOLE = 256
_SLICES = frozenset({"ternary"})


@dataclass(frozen=True)
class Prediction:
    """The predicted effect of a format on a tensor.

    ``levels`` are the grid values [L] in use; for block formats, those of a block with the largest
    value. ``block`` is the number of elements per block, 1 for none.
    """

    levels: NDArray[np.float64]
    sqnr_db: float | None
    block: int


def predict(histogram: Histogram, config: FormatConfig, role: Role) -> Prediction:
    """Return the predicted effect of a format's textbook form on a histogram.

    Raises:
        WorkbenchError: unknown format, or missing or invalid parameters.
    """
    spec = spec_of(config.scheme)
    parameters = read(spec.name, spec.parameters, config.parameters, role)
    if reason := impossible(spec.name, parameters):
        raise failure(reason, code="format-parameters-impossible")
    block = _block(parameters) if spec.block else 1
    values = histogram.draws(DRAWS)
    rows = values[np.newaxis] if spec.name in _SLICES else values[:, np.newaxis]
    if spec.block:
        count = values.size // block
        rows = values[: count * block].reshape(count, block)
    quantized = placed(rows, spec.name, parameters)
    noise, signal = float(np.square(rows - quantized).mean()), float(np.square(rows).mean())
    sqnr = 10 * math.log10(signal / noise) if noise > 0 and signal > 0 else None
    points = np.linspace(histogram.low, histogram.high, _POINTS)
    is_row = spec.block or spec.name in _SLICES
    rows = points[np.newaxis] if is_row else points[:, np.newaxis]
    levels = np.unique(placed(rows, spec.name, parameters))
    return Prediction(levels, sqnr, block)


def _block(parameters: Mapping[str, Any]) -> int:
    """Return the number of elements per block."""
    sizes_given = parameters.get("block_size", parameters.get("parallelism"))
    sizes = [sizes_given] if isinstance(sizes_given, int) else list(sizes_given)
    return min(math.prod(_WHOLE if size < 0 else size for size in sizes), DRAWS)
