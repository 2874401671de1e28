"""A program prepared from memory is the one that would have been prepared anew."""

from functools import partial

import pytest
import torch
from executorch.backends.arm.ethosu import EthosUCompileSpec
from executorch.backends.arm.quantizer import EthosUQuantizer
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from tests.engine.acceleration import programs
from tests.engine.calibration.test_statistics import EDITS
from workbench.engine.acceleration.range_search import quick_search
from workbench.engine.ethos_u.transform_memory import TransformMemory, remembered_transforms

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def convolutions():
    return floating(programs.Convolutions, programs.IMAGE)


@pytest.fixture(scope="module")
def attention():
    return floating(programs.AttentionBlock, programs.TOKENS)


def floating(network, shape):
    """Return what makes the module of a network, samples, and a memory for all its edits."""
    torch.manual_seed(0)
    data = [torch.randn(shape) for _ in range(2)]
    program = torch.export.export(network().eval(), (data[0],))
    make = partial(program.module, check_guards=False)
    return make, data, TransformMemory(make)


def described(module):
    return [
        (n.op, n.name, str(n.target), str(n.args), str(n.kwargs), sorted(n.meta), repr(n.meta.get("custom")))
        for n in module.graph.nodes
    ]


def quantizer(target, configure):
    made = EthosUQuantizer(EthosUCompileSpec(target))
    configure(made)
    return made


def edits_of(network, quick):
    """Return the edits of a network as parameters, slow but for one."""
    return [
        pytest.param(target, configure, id=name, marks=[pytest.mark.slow] * (name != quick))
        for of, _, target, name, configure in EDITS
        if of is network
    ]


@pytest.mark.parametrize(("target", "configure"), edits_of(programs.Convolutions, "point in a16w8"))
def test_that_an_edit_prepared_from_memory_equals_one_prepared_anew(convolutions, target, configure):
    assert_same_with_memory(*convolutions, target, configure)


@pytest.mark.slow
@pytest.mark.parametrize(("target", "configure"), edits_of(programs.AttentionBlock, ""))
def test_that_an_edit_of_attention_prepared_from_memory_equals_one_prepared_anew(
    attention, target, configure
):
    assert_same_with_memory(*attention, target, configure)


def assert_same_with_memory(make, data, memory, target, configure):
    stock = prepare_pt2e(make(), quantizer(target, configure))
    with remembered_transforms(memory):
        prepare_pt2e(memory.module(), quantizer(target, configure))
        hits = memory.hits
        ours = prepare_pt2e(memory.module(), quantizer(target, configure))
    assert memory.hits == hits + 1
    assert described(ours) == described(stock)
    with torch.no_grad():
        for x in data:
            assert torch.equal(ours(x), stock(x))
        with quick_search():
            ours, stock = convert_pt2e(ours), convert_pt2e(stock)
        assert described(ours) == described(stock)
        assert torch.equal(ours(data[0]), stock(data[0]))
