"""Corrections after TOSA, on graphs that ExecuTorch makes in one release alone."""

import pytest
import torch
from executorch.exir.dialects._ops import ops as exir_ops
from torch import fx

from workbench.engine.ethos_u.corrections.after_tosa import sums_of_one_dimension

pytestmark = pytest.mark.engine
SUM = exir_ops.edge.aten.sum.dim_IntList
VALUES = torch.arange(2 * 3 * 4 * 5, dtype=torch.int32).reshape(2, 3, 4, 5) ** 2


def summed(*dimensions):
    """Return a graph with one sum as ExecuTorch 1.4 leaves it, and the sum."""
    graph = fx.Graph()
    value = graph.placeholder("x")
    value.meta["val"] = VALUES
    node = graph.call_function(SUM, (value, list(dimensions), True))
    node.meta["val"] = VALUES.sum(dimensions, keepdim=True, dtype=torch.int32)
    graph.output(node)
    return graph, node


@pytest.mark.parametrize("dimensions", [(2, 3), (1, 2, 3), (3, 1), (-2, -1)])
def test_that_a_sum_over_several_dimensions_is_one_for_each(dimensions):
    graph, node = summed(*dimensions)
    assert list(sums_of_one_dimension(graph, None)) == [node.name]
    sums = graph.find_nodes(op="call_function", target=SUM)
    assert [tuple(one.args[1]) for one in sums] == [(axis,) for axis in dimensions]
    computed = fx.GraphModule(torch.nn.Module(), graph)(VALUES)
    assert torch.equal(computed, VALUES.sum(dimensions, keepdim=True))
    for one in sums:
        source = one.args[0].meta["val"].shape
        (axis,) = one.args[1]
        sizes = [1 if at == axis % len(source) else size for at, size in enumerate(source)]
        assert [*one.meta["val"].shape] == sizes
        assert one.meta["val"].dtype == torch.int32


def test_that_a_sum_over_one_dimension_is_left_alone():
    graph, node = summed(2)
    assert list(sums_of_one_dimension(graph, None)) == []
    assert graph.find_nodes(op="call_function", target=SUM) == [node]
