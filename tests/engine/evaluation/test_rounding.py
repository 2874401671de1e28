"""How far roundings of single operators move the outputs of a quantized model."""

import pytest
import torch
import torch.ao.quantization.fx._decomposed

from workbench.engine.evaluation.rounding import largest_steps

pytestmark = pytest.mark.engine
STEP = 0.1


class Scaled(torch.nn.Module):
    """A product with a constant, between two grids of the same step."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        operators = torch.ops.quantized_decomposed
        grid = STEP, 0, -128, 127, torch.int8
        for factor in (1.0, self.factor):
            codes = operators.quantize_per_tensor(x * factor, *grid)
            x = operators.dequantize_per_tensor(codes, *grid)
        return x


def moved(factor, scale=STEP):
    module = torch.fx.symbolic_trace(Scaled(factor))
    return largest_steps(module, [(torch.linspace(-3, 3, 500),)], [scale])


def test_that_one_rounding_moves_by_one_step():
    assert moved(0.0) == [1]


def test_that_a_gain_multiplies_the_steps_before_it():
    assert moved(4.0) in ([4], [5])


def test_that_the_steps_of_a_float_output_are_not_counted():
    assert moved(4.0, scale=None) == [0]


def test_that_the_same_model_gives_the_same_steps():
    assert moved(3.0) == moved(3.0)
