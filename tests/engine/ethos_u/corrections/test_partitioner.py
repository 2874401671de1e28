"""The parts for the NPU have one order, whatever the process."""

import pytest
import torch
from torch import nn

pytestmark = pytest.mark.engine


class Chain(nn.Module):
    """Convolutions with a function between them that the NPU does not take."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(3, 3, 1) for _ in range(4))

    def forward(self, x):
        for layer in self.layers:
            x = torch.nn.functional.relu6(layer(x))
        return x


def tagged(model, x, partitioner):
    """Return the graph of a quantized model, with the marks of a partitioner, and its parts."""
    from executorch.backends.arm.ethosu import EthosUCompileSpec
    from executorch.backends.arm.quantizer import EthosUQuantizer, get_symmetric_quantization_config
    from executorch.exir import to_edge
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    from workbench.engine.acceleration.range_search import quick_search
    from workbench.engine.runtime.accelerated import accelerated

    spec = EthosUCompileSpec("ethos-u55-128")
    quantizer = EthosUQuantizer(spec).set_global(get_symmetric_quantization_config())
    module = torch.export.export(model.eval(), (x,)).module(check_guards=False)
    prepared = prepare_pt2e(module, quantizer)
    prepared(x)
    with accelerated(), quick_search():
        edge = to_edge(torch.export.export(convert_pt2e(prepared), (x,))).exported_program()
        found = partitioner(spec).partition(edge)
    return found.tagged_exported_program.graph, found.partition_tags


class ConstantFirst(nn.Module):
    """An added constant and a convolution: scales of channels are registered before the constant."""

    def __init__(self):
        super().__init__()
        self.constant = nn.Parameter(torch.randn(3, 4, 4))
        self.layer = nn.Conv2d(3, 3, 1)

    def forward(self, x):
        return self.layer(torch.nn.functional.relu6(x + self.constant))


@pytest.mark.parametrize(("model", "count"), [(Chain, 4), (ConstantFirst, 2)])
def test_that_parts_for_the_npu_come_in_the_order_of_the_program(model, count):
    from workbench.engine.ethos_u.corrections.partitioner import OrderedPartitioner

    graph, parts = tagged(model(), torch.randn(1, 3, 4, 4), OrderedPartitioner)
    marks = [node.meta.get("delegation_tag") for node in graph.nodes if node.op == "call_function"]
    assert len(parts) == count
    assert list(parts) == [m for m in dict.fromkeys(marks) if m]


class Alone(nn.Module):
    """A convolution without a batch behind a function: the batch is added between the two."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Conv1d(4, 4, 3)

    def forward(self, x):
        return self.layer(torch.relu(x))


def test_that_no_part_for_the_npu_returns_a_float_value():
    from executorch.backends.arm.ethosu import EthosUPartitioner

    from workbench.engine.ethos_u.corrections.partitioner import OrderedPartitioner

    def ends(partitioner):
        graph, _ = tagged(Alone(), torch.randn(4, 8), partitioner)
        return [
            node.meta["val"].dtype
            for node in graph.nodes
            if (mark := node.meta.get("delegation_tag"))
            and any(user.meta.get("delegation_tag") != mark for user in node.users)
        ]

    assert set(ends(OrderedPartitioner)) == {torch.int8}
    assert torch.float32 in ends(EthosUPartitioner)
