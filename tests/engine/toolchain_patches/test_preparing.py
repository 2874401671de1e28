"""A program prepared from memory is the one that would have been prepared anew."""

from functools import partial

import pytest
import torch
from executorch.backends.arm.ethosu import EthosUCompileSpec
from executorch.backends.arm.quantizer import EthosUQuantizer
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from tests.engine.toolchain_patches import programs
from tests.engine.toolchain_patches.test_statistics import EDITS
from workbench.engine.toolchain_patches.preparing import TransformMemory, remembered_transforms

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(True, id="convolutions"),
        pytest.param(False, id="attention", marks=pytest.mark.slow),
    ],
)
def floating(request):
    is_image = request.param
    network = programs.Convolutions if is_image else programs.AttentionBlock
    shape = programs.IMAGE if is_image else programs.TOKENS
    torch.manual_seed(0)
    data = [torch.randn(shape) for _ in range(2)]
    program = torch.export.export(network().eval(), (data[0],))
    make = partial(program.module, check_guards=False)
    return network, make, data, TransformMemory(make)


def described(module):
    return [
        (n.op, n.name, str(n.target), str(n.args), str(n.kwargs), sorted(n.meta),
         repr(n.meta.get("custom")))
        for n in module.graph.nodes
    ]  # fmt: skip


def quantizer(target, configure):
    made = EthosUQuantizer(EthosUCompileSpec(target))
    configure(made)
    return made


def test_that_edits_prepared_from_memory_equal_those_prepared_anew(floating):
    network, make, data, memory = floating
    for of, _, target, name, configure in EDITS:
        if of is not network:
            continue
        stock = prepare_pt2e(make(), quantizer(target, configure))
        with remembered_transforms(memory):
            prepare_pt2e(memory.module(), quantizer(target, configure))
            hits = memory.hits
            ours = prepare_pt2e(memory.module(), quantizer(target, configure))
        assert memory.hits == hits + 1, name
        assert described(ours) == described(stock), name
        with torch.no_grad():
            for x in data:
                assert torch.equal(ours(x), stock(x)), name
            ours, stock = convert_pt2e(ours), convert_pt2e(stock)
            assert described(ours) == described(stock), name
            assert torch.equal(ours(data[0]), stock(data[0])), name
