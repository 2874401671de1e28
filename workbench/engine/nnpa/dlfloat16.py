"""dlfloat16: the accelerator's 16-bit float, to the bit.

One sign bit, 6 exponent bits with bias 31, 9 fraction bits: 2^(e-31) (1+m/512). There are no
subnormals; only e = 0, m = 0 is zero. 0x7FFF and 0xFFFF are "not a number or infinity". Rounding
is half away from zero on the magnitude.

Source: onnx-mlir, src/Accelerators/NNPA/Support/Stickify/DLF16Conversion.hpp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

LARGEST = 8573157376.0
_MAGNITUDE, _NOT_A_NUMBER = 0x7FFFFFFF, 0x7FFF
_HALF, _DROPPED, _REBIAS = 0x2000, 14, (127 - 31) << 9


def encode(x: Tensor, *, saturate: bool) -> Tensor:
    """Return the 16-bit codes of float32 values as int32, from 0 to 65535.

    Args:
        x: Float32 values [...].
        saturate: Values beyond the largest become the largest, as when data moves to the
            accelerator; else they become "not a number or infinity", as in its results.
    """
    word = _saturated(x, saturate).contiguous().view(torch.int32).to(torch.int64)
    magnitude = (((word & _MAGNITUDE) + _HALF) >> _DROPPED) - _REBIAS
    code = magnitude.clamp_(0, _NOT_A_NUMBER) | torch.where(word < 0, 0x8000, 0)
    return code.to(torch.int32)


def decode(code: Tensor) -> Tensor:
    """Return the float32 values of 16-bit codes; exact. "Not a number or infinity" gives NaN."""
    wide = code.to(torch.int64) & 0xFFFF
    magnitude = wide & _NOT_A_NUMBER
    word = torch.where(magnitude == 0, 0, (magnitude + _REBIAS) << _DROPPED)
    value = word.to(torch.int32).view(torch.float32)
    value = torch.where(wide > _NOT_A_NUMBER, -value, value)
    return value.masked_fill(magnitude == _NOT_A_NUMBER, float("nan"))


def rounded(x: Tensor, *, saturate: bool) -> Tensor:
    """Return float32 values as they are after a trip through dlfloat16; see ``encode``."""
    return decode(encode(x, saturate=saturate))


def _saturated(x: Tensor, saturate: bool) -> Tensor:
    return x.clamp(-LARGEST, LARGEST) if saturate else x
