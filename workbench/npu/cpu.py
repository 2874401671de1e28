"""Operators of a program that run on the CPU around and between delegates.

Quantizing and dequantizing are computed as ExecuTorch's own kernels do, in float32. Source:
ExecuTorch 1.5.1, ``kernels/quantized/cpu/op_quantize.cpp`` and ``op_dequantize.cpp``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.errors import Place, failure
from workbench.pte.program import DTYPES

_Array = npt.NDArray[Any]
Arguments = Sequence[Any]


@dataclass(frozen=True)
class Output:
    """Type and shape of an output as the program plans it."""

    dtype: str
    shape: tuple[int, ...]


# Computes one kernel: its name, its arguments without the outputs, what it gives.
CpuOperators = Callable[[str, Arguments, Sequence[Output]], Sequence[_Array]]


def run_kernel(
    name: str, arguments: Arguments, outputs: Sequence[Output] = (), others: CpuOperators | None = None
) -> Sequence[_Array]:
    """Return the outputs of one kernel.

    Args:
        name: As the program names it, e.g. "quantized_decomposed::quantize_per_tensor.out".
        arguments: Without the outputs: arrays, numbers, texts, lists, None.
        outputs: As the program plans them.
        others: Computes kernels that are not known here.

    Raises:
        WorkbenchError: it is not known here, and there is nothing else to compute it.
    """
    known = _KERNELS.get(name.rpartition("::")[2])
    if known is not None:
        return (known(*arguments),)
    if others is not None:
        return others(name, arguments, outputs)
    raise failure(
        f"The program runs {name} on the CPU, which is not simulated.",
        "Quantize the module it comes from, or integer inputs and outputs, so that a delegate takes it.",
        Place(kind="file", id="program"),
        code="npu-cpu-operator",
    )


def _quantize(values: _Array, scale: float, zero_point: int, least: int, most: int, dtype: int) -> _Array:
    """Return ``zero_point + rint(values / scale)``, limited; halves go to the even neighbour."""
    if np.isnan(values).any():
        raise failure(
            "A value to quantize is not a number.", "Look for it in the inputs.", code="quantize-nan"
        )
    inverse = np.float32(1.0) / np.float32(scale)
    scaled = np.rint(values.astype(np.float32) * inverse) + np.float32(zero_point)
    limited = np.clip(scaled.astype(np.float64), least, most)
    return np.asarray(limited, _numpy_type(dtype))


def _dequantize(values: _Array, scale: float, zero_point: int, *others: int | None) -> _Array:
    """Return ``(values - zero_point) * scale`` in float32.

    The others are the least and the largest value, their type and the type of the result.
    """
    target = others[3] if len(others) > 3 else None
    if target is not None and DTYPES.get(target) != "float32":
        raise failure(
            f"A tensor is dequantized to {DTYPES.get(target)}, not to float32.", code="dequantize-type"
        )
    steps = (values.astype(np.int64) - zero_point).astype(np.float32)
    return np.asarray(steps * np.float32(scale), np.float32)


def _quantize_channels(values: _Array, scales: _Array, zeros: _Array, axis: int, *limits: int) -> _Array:
    """Quantize each slice along an axis with a scale of its own."""
    least, most, dtype = limits
    slices = [
        _quantize(part, float(scale), int(zero), least, most, dtype)
        for part, scale, zero in zip(np.moveaxis(values, axis, 0), scales, zeros, strict=True)
    ]
    return np.moveaxis(np.stack(slices), 0, axis)


def _numpy_type(code: int) -> np.dtype[Any]:
    name = DTYPES.get(code, "")
    if name not in {"uint8", "int8", "int16", "uint16", "int32"}:
        raise failure(f"A tensor is quantized to {name or code}, which no kernel does.", code="quantize-type")
    return np.dtype(name)


_KERNELS: dict[str, Callable[..., _Array]] = {
    "quantize_per_tensor.out": _quantize,
    "dequantize_per_tensor.out": _dequantize,
    "quantize_per_channel.out": _quantize_channels,
}
