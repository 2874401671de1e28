"""The quick converted module gives the stock module's numbers, bit for bit."""

from __future__ import annotations

import pytest
import torch
from torch import fx, nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e

from tests.engine.acceleration import programs
from tests.for_each import for_each
from workbench.engine.acceleration.range_search import quick_search
from workbench.engine.evaluation.quick_modules import fast_quantized_module, requantized

pytestmark = [
    pytest.mark.engine,
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

Q = torch.ops.quantized_decomposed


def bits(x: torch.Tensor) -> torch.Tensor:
    """Return the bits of floats, so that even the sign of a zero is compared."""
    return x.view(torch.int32) if x.dtype is torch.float32 else x


@pytest.mark.parametrize("case", programs.marked(programs.CASES, {"mixed"}))
def test_that_every_output_bit_is_that_of_the_stock_module(case: str) -> None:
    module, samples = programs.converted(case)
    fast = fast_quantized_module(module)
    extremes = [torch.zeros_like(samples[0]), 1e3 * samples[0], 1e-6 * samples[1]]
    with torch.no_grad():
        for sample in (*samples, *extremes):
            assert torch.equal(bits(fast(sample)), bits(module(sample)))
    left = [node for node in fast.graph.nodes if "quantized_decomposed" in str(node.target)]
    assert left == []


def test_that_an_unfolded_module_gives_the_same_bits() -> None:
    module, samples = programs.prepared("a8w8")
    with torch.no_grad(), quick_search():
        module(samples[0])
        converted = convert_pt2e(module, fold_quantize=False)
        fast = fast_quantized_module(converted)
        assert torch.equal(bits(fast(samples[1])), bits(converted(samples[1])))


def test_that_the_given_module_is_not_altered() -> None:
    module, samples = programs.converted("a8w8")
    code, state = module.code, {name: value.clone() for name, value in module.state_dict().items()}
    fast_quantized_module(module)
    assert module.code == code
    assert module.state_dict().keys() == state.keys()
    assert all(torch.equal(module.state_dict()[name], value) for name, value in state.items())
    with torch.no_grad():
        module(samples[0])


@for_each("numel", [100, 100_000])
@for_each(
    ("zero_point", "qmin", "qmax", "dtype"),
    [
        (-7, -128, 127, torch.int8),
        (-128, -128, 127, torch.int8),
        (0, -127, 127, torch.int8),
        (0, -8, 7, torch.int8),
        (120, 0, 255, torch.uint8),
        (0, -32767, 32767, torch.int16),
    ],
)
def test_that_rounding_to_a_grid_equals_quantize_and_dequantize(
    numel: int, zero_point: int, qmin: int, qmax: int, dtype: torch.dtype
) -> None:
    torch.manual_seed(1)
    for scale in torch.rand(20).mul(0.1).add(1e-5).tolist():
        halves = (torch.randint(-300, 300, (numel // 2,)) + 0.5) * scale
        x = torch.cat([torch.randn(numel // 2) * 10, halves])
        x[0], x[1] = 3e38 if numel > 10_000 else 1e9, -1e-30
        args = (scale, zero_point, qmin, qmax, dtype)
        stock = Q.dequantize_per_tensor(Q.quantize_per_tensor(x, *args), *args)
        quick = requantized(x, args[:4], 1.0 / scale, True)
        assert torch.equal(bits(quick), bits(stock))
        again = requantized(quick, args[:4], 1.0 / scale, True)
        assert torch.equal(bits(again), bits(quick))


class Pair(nn.Module):
    """Two quantizations whose parameters do not match each other."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = Q.quantize_per_tensor(x, 0.1, 0, -128, 127, torch.int8)
        return Q.dequantize_per_tensor(y, 0.2, 0, -128, 127, torch.int8)


class InPlace(nn.Module):
    """A change in place after a dequantize."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = Q.quantize_per_tensor(x, 0.125, 0, -128, 127, torch.int8)
        return Q.dequantize_per_tensor(y, 0.125, 0, -128, 127, torch.int8).add_(1)


@pytest.mark.parametrize("network", [Pair(), InPlace()], ids=["parameters differ", "in place"])
def test_that_an_unknown_pattern_stays_as_it_is(network: nn.Module) -> None:
    x = torch.linspace(-2, 2, 64)
    module = torch.export.export(network, (x,)).module(check_guards=False)
    fast = fast_quantized_module(module)
    assert isinstance(fast, fx.GraphModule)
    assert all(node.target is not requantized for node in fast.graph.nodes)
    assert torch.equal(fast(x), module(x))


def test_that_the_sign_of_zero_is_kept_where_it_can_be_told() -> None:
    class Division(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = Q.quantize_per_tensor(x, 0.125, 0, -128, 127, torch.int8)
            return 1 / Q.dequantize_per_tensor(y, 0.125, 0, -128, 127, torch.int8).relu()

    x = torch.full((20_000,), -0.01)
    module = torch.export.export(Division(), (x,)).module(check_guards=False)
    assert torch.equal(fast_quantized_module(module)(x), module(x))
