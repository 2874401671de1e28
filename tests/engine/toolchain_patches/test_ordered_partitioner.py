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


def test_that_parts_for_the_npu_come_in_the_order_of_the_program():
    from executorch.backends.arm.ethosu import EthosUCompileSpec
    from executorch.backends.arm.quantizer import (
        EthosUQuantizer,
        get_symmetric_quantization_config,
    )
    from executorch.exir import to_edge
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    from workbench.engine.toolchain_patches.gate import accelerated
    from workbench.engine.toolchain_patches.ordered_partitioner import OrderedPartitioner
    from workbench.engine.toolchain_patches.range_search import quick_search

    inputs = (torch.randn(1, 3, 4, 4),)
    spec = EthosUCompileSpec("ethos-u55-128")
    quantizer = EthosUQuantizer(spec).set_global(get_symmetric_quantization_config())
    module = torch.export.export(Chain().eval(), inputs).module(check_guards=False)
    prepared = prepare_pt2e(module, quantizer)
    prepared(*inputs)
    with accelerated(), quick_search():
        edge = to_edge(torch.export.export(convert_pt2e(prepared), inputs)).exported_program()
        found = OrderedPartitioner(spec).partition(edge)
    nodes = found.tagged_exported_program.graph.nodes
    marks = [node.meta.get("delegation_tag") for node in nodes if node.op == "call_function"]
    assert len(found.partition_tags) == 4
    assert list(found.partition_tags) == [m for m in dict.fromkeys(marks) if m]
