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
_INFINITY, _SIGN, _CUT = 0x7F800000, -0x80000000, (1 << _DROPPED) - 1
_LEAST_WORD = (_REBIAS + 1) << _DROPPED
_TOO_LARGE_WORD = (_REBIAS + _NOT_A_NUMBER) << _DROPPED


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
    """Return float32 values as they are after a trip through dlfloat16; see ``encode``.

    The same as decoding what was encoded, on the float32 words themselves: the fraction is cut to
    9 bits, what is too small becomes a zero of its sign, what is too large NaN.
    """
    word = _saturated(x, saturate).contiguous().view(torch.int32)
    kept = word.bitwise_and(_MAGNITUDE).clamp_max_(_INFINITY).add_(_HALF).bitwise_and_(~_CUT)
    too_small, too_large = kept < _LEAST_WORD, kept >= _TOO_LARGE_WORD
    kept.masked_fill_(too_small, 0).bitwise_or_(word.bitwise_and(_SIGN))
    return kept.view(torch.float32).masked_fill_(too_large, float("nan"))


def _saturated(x: Tensor, saturate: bool) -> Tensor:
    return x.clamp(-LARGEST, LARGEST) if saturate else x
