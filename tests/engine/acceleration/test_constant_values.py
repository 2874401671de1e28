"""Quantized weights have the same values, to the bit, without wide integers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torchao.quantization.pt2e.quantize_pt2e  # noqa: F401 - registers the operators
from torchao.quantization.pt2e.constant_fold import ConstantFolder

from tests.for_each import for_each
from workbench.engine.acceleration import constant_values
from workbench.engine.acceleration.constant_values import computed, quick_constants

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]

DEQUANTIZE = torch.ops.quantized_decomposed.dequantize_per_channel.default
WIDE = torch.int64
LIMITS = {torch.int8: 2**7, torch.int16: 2**15, torch.int32: 2**31}


def weights(dtype: torch.dtype, *shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    high = LIMITS[dtype]
    values = torch.randint(-high, high, shape, dtype=WIDE, generator=generator)
    values.view(-1)[:4] = torch.tensor([-high, high - 1, 0, high // 2 + 1])
    return values.to(dtype)


def call(
    integers: torch.Tensor,
    axis: int = 0,
    zero_point: int = 0,
    scale: torch.dtype = torch.float32,
    wide: torch.dtype = WIDE,
) -> tuple[Any, ...]:
    channels = integers.shape[axis]
    scales = torch.linspace(1e-7, 3.0, channels, dtype=scale)
    zero_points = torch.full((channels,), zero_point, dtype=wide)
    return integers, scales, zero_points, axis, -(2**7), 2**7 - 1, integers.dtype


CALLS = {
    "int8": call(weights(torch.int8, 16, 3, 3, 3)),
    "int16": call(weights(torch.int16, 16, 8)),
    "int32": call(weights(torch.int32, 4096)),
    "zero points of 32 bits": call(weights(torch.int8, 8, 8), wide=torch.int32),
    "another axis": call(weights(torch.int8, 8, 4, 3, 3), axis=1),
    "a zero point": call(weights(torch.int8, 8, 4), zero_point=3),
    "scales of 64 bits": call(weights(torch.int8, 8, 4), scale=torch.float64),
    "transposed": call(weights(torch.int8, 8, 4).t()),
    "channels last": call(weights(torch.int8, 8, 4, 3, 3).contiguous(memory_format=torch.channels_last)),
}
# What is computed another way.
QUICK = ("int8", "int16", "int32", "zero points of 32 bits")


@for_each("name", CALLS)
def test_that_weights_have_the_same_bits_and_layout(name: str) -> None:
    arguments = CALLS[name]
    stock, quick = DEQUANTIZE(*arguments), computed(DEQUANTIZE, arguments, {})
    assert quick.dtype == stock.dtype
    assert quick.stride() == stock.stride()
    assert torch.equal(quick.view(torch.int32), stock.view(torch.int32))


def test_that_signs_of_zero_and_infinite_scales_are_kept() -> None:
    integers = torch.tensor([[0, -1], [0, 5], [0, -7]], dtype=torch.int8)
    scales = torch.tensor([-0.5, float("inf"), float("nan")])
    arguments = (integers, scales, torch.zeros(3, dtype=WIDE), 0, -128, 127, torch.int8)
    stock, quick = DEQUANTIZE(*arguments), computed(DEQUANTIZE, arguments, {})
    assert torch.equal(quick.view(torch.int32), stock.view(torch.int32))


class Counted:
    """Stands for the operator, and counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        return DEQUANTIZE(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return other == DEQUANTIZE

    __hash__ = None  # type: ignore[assignment]


@for_each("name", CALLS)
def test_that_the_operator_is_called_where_the_short_way_does_not_hold(name: str) -> None:
    operator = Counted()
    computed(operator, CALLS[name], {})
    assert operator.calls == (name not in QUICK)


def test_that_a_wanted_type_is_left_to_the_operator() -> None:
    operator = Counted()
    values = computed(operator, CALLS["int8"], {"out_dtype": torch.float64})
    assert operator.calls == 1
    assert values.dtype == torch.float64


def test_that_another_source_turns_the_short_way_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constant_values, "PINS", ((constant_values.PINS[0][0], "another"),))
    operator = Counted()
    computed(operator, CALLS["int8"], {})
    assert operator.calls == 1
    stock = ConstantFolder.call_function
    with quick_constants():
        assert ConstantFolder.call_function is stock
