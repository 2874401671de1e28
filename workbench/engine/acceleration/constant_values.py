"""The values of quantized weights are computed without wide integers.

``dequantize_per_channel`` subtracts the zero points, which are 64 bits wide, from the integers.
This makes a tensor eight times as large as int8 weights, which takes most of the time. Where all
zero points are zero the difference is the integer itself, and its float32 is the same from either
width: both are rounded to nearest, ties to even. So the product with the scale has the same bits.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from workbench.engine.toolchain_patches.patching import replaced, sources_match

if TYPE_CHECKING:
    from collections.abc import Iterator

PINS = (
    ("torch.ao.quantization.fx._decomposed:dequantize_per_channel", "95d093032bfd1784"),
    ("torch.ao.quantization.fx._decomposed:_permute_to_axis_zero", "464be9eabec1a246"),
)


@contextmanager
def quick_constants() -> Iterator[None]:
    """Let the folding of constants use ``computed`` while the block runs."""
    from torchao.quantization.pt2e.constant_fold import ConstantFolder

    if not sources_match("The quick values of constants", PINS):
        yield
        return
    stock = ConstantFolder.call_function

    def call_function(self: Any, target: Any, args: Any, kwargs: Any) -> Any:
        values = _without_wide_integers(target, args, kwargs)
        return stock(self, target, args, kwargs) if values is None else values

    with replaced(ConstantFolder, "call_function", call_function):
        yield


def computed(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return ``target(*args, **kwargs)``, the same bits in less time for quantized weights."""
    values = None
    if sources_match("The quick values of constants", PINS):
        values = _without_wide_integers(target, args, kwargs)
    return target(*args, **kwargs) if values is None else values


def _without_wide_integers(target: Any, args: Any, kwargs: Any) -> Any:
    """Return the values of integers with a scale for each first index and zero points of zero.

    None for another operator or other arguments.
    """
    import torch

    if target != torch.ops.quantized_decomposed.dequantize_per_channel.default or kwargs:
        return None
    integers, scales, zero_points, axis, _, _, dtype = args
    tensors = (integers, scales, zero_points)
    if axis != 0 or not all(type(one) is torch.Tensor for one in tensors):
        return None
    if (
        integers.dtype not in (torch.int8, torch.int16, torch.int32)
        or integers.dtype != dtype
        or integers.dim() == 0
        or not integers.is_contiguous()
        or scales.dtype != torch.float32
        or scales.shape != (integers.shape[0],)
        or zero_points.dtype not in (torch.int64, torch.int32)
        or zero_points.shape != scales.shape
        or any(one.requires_grad for one in tensors)
        or bool(zero_points.any())
    ):
        return None
    return integers.to(torch.float32) * scales.view(-1, *[1] * (integers.dim() - 1))
