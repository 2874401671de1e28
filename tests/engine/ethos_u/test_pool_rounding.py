"""Which average pools are computed as the NPU rounds: those whose means may lie between two integers."""

from types import SimpleNamespace

import torch
from torch import fx

from tests.for_each import for_each
from workbench.engine.ethos_u.pool_rounding import halves_away_from_zero

_Q = torch.ops.quantized_decomposed
GRID = (0.5, 0, -128, 127, torch.int8)


def pooled(*settings):
    """Return a quantized graph with one average pool between equal grids."""
    graph = fx.Graph()
    value = graph.placeholder("x")
    for is_behind in (False, True):
        codes = graph.call_function(_Q.quantize_per_tensor.default, (value, *GRID))
        value = graph.call_function(_Q.dequantize_per_tensor.default, (codes, *GRID))
        if not is_behind:
            value = graph.call_function(torch.ops.aten.avg_pool2d.default, (value, *settings))
    graph.output(value)
    return fx.GraphModule(torch.nn.Module(), graph)


@for_each(
    ("settings", "rounds"),
    [
        (([2, 2],), True),
        (([7, 7],), False),
        (([3, 3], [2, 2]), False),
        # At the borders fewer elements count, or fewer are there.
        (([3, 3], [2, 2], [1, 1], False, False), True),
        (([3, 3], [2, 2], [0, 0], True), True),
        (([3, 3], [2, 2], [0, 0], False, True, 4), True),
    ],
)
def test_that_only_means_that_can_be_halves_are_rounded_as_the_npu_does(settings, rounds):
    module, lowered = pooled(*settings), SimpleNamespace(graph=fx.Graph())
    torch.manual_seed(0)
    x = torch.randint(-8, 8, (1, 2, 15, 15)) / 2
    before = module(x)
    with halves_away_from_zero(module, lowered) as is_changed:
        assert is_changed == rounds
        inside = module(x)
    if settings[0] == [2, 2]:
        assert not torch.equal(inside, before)
    assert torch.equal(inside, before) or rounds
    assert torch.equal(module(x), before)
