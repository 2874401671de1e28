"""The error that each operation itself adds, against plain arithmetic and at a known culprit."""

import copy
import math
from types import SimpleNamespace

import pytest
import torch
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e

from tests.engine.acceleration import programs
from tests.engine.in_process import project, without
from workbench.engine.calibration.statistics import value_hashes
from workbench.engine.evaluation.added_error import FloatOperations
from workbench.engine.evaluation.reference_outputs import FloatReference
from workbench.engine.evaluation.tensors import QuickComparison, TensorComparison
from workbench.project import edits

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]


def both(case):
    """Return the calibrated module of a case, the converted one, and its samples."""
    module, data = programs.prepared(case)
    with torch.no_grad():
        for sample in data:
            module(sample)
        return module, convert_pt2e(copy.deepcopy(module)), data


def figures(comparison, data):
    with torch.no_grad():
        for index, sample in enumerate(data):
            comparison.add(index, SimpleNamespace(inputs=(sample,), begins=True, carried=0))
    return list(comparison.result())


class Watch(torch.fx.Interpreter):
    """Keeps the value of every node."""

    def __init__(self, module):
        super().__init__(module)
        self.values = {}

    def run_node(self, n):
        self.values[n.name] = super().run_node(n)
        return self.values[n.name]


def test_that_it_is_float_arithmetic_on_the_quantized_inputs():
    prepared, converted, data = both("two delegates")
    torch.manual_seed(0)
    layer = programs.TwoDelegates().after
    found = {t.tensor: t for t in figures(TensorComparison(prepared, converted), data)}
    node = next(n for n in converted.graph.nodes if n.name == "conv2d_1")
    rounded = next(iter(next(iter(node.users)).users))
    signal = noise = 0.0
    with torch.no_grad():
        for sample in data:
            watch = Watch(converted)
            watch.run(sample)
            alone = layer(watch.values[node.args[0].name]).double()
            error = alone - watch.values[rounded.name].double()
            signal, noise = signal + float((alone**2).sum()), noise + float((error**2).sum())
    wanted = 10 * math.log10(signal / noise)
    assert found["conv2d_1"].added_sqnr_db == pytest.approx(wanted)
    assert found["conv2d_1"].sqnr_db < wanted
    # What enters has only its own error.
    assert found["x"].added_sqnr_db == found["x"].sqnr_db
    assert sum(t.added_share for t in found.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("case", programs.marked(("a8w8", "a16w8 attention", "U-Net"), {"a8w8"}))
def test_that_the_quick_way_gives_the_same_figures_and_again_after_an_edit(case):
    prepared, converted, data = both(case)
    reference = FloatReference()
    wanted = figures(TensorComparison(prepared, converted), data)

    def quick():
        hashes = value_hashes(prepared)
        return figures(QuickComparison(prepared, converted, hashes, reference), data)

    first, kept = quick(), set(reference.sums)
    assert [t.added_sqnr_db for t in first] == pytest.approx([t.added_sqnr_db for t in wanted])
    assert kept
    # Of what is known only the last tensor is computed anew.
    del reference.sums[list(reference.sums)[-1]]
    assert quick() == first


@pytest.mark.shared_results
def test_that_the_clipped_operation_is_named_and_not_what_follows_it(engine):
    made = without(project("functional6"), "plain_operators")
    made = edits.fix_range(made, "conv2d", -0.05, 0.05)
    assert engine.run(made, "evaluate") == "done", engine.failure
    tensors = {t.tensor: t for t in engine.result(made, "evaluate").tensors}
    assert tensors["conv2d_1"].sqnr_db < 15
    assert tensors["conv2d_1"].added_sqnr_db > 20
    assert max(tensors.values(), key=lambda t: t.added_share or 0.0).tensor == "conv2d"
    assert tensors["conv2d"].added_share > 0.9


class Long(torch.nn.Module):
    """Indices that are computed in many steps, before a table that is quantized is read."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(64, 4))

    def forward(self, x):
        index = x.long()
        for _ in range(700):
            index = index + 1
        return torch.relu(self.table[index % 64])


def test_that_long_chains_without_figures_are_followed_and_what_does_not_fit_is_left_out():
    x = torch.arange(3.0)
    graph = torch.export.export(Long(), (x,)).module(check_guards=False)
    relu = next(n.name for n in graph.graph.nodes if "relu" in str(n.target))
    operations = FloatOperations(graph, {"x"})
    assert operations.inputs_of([relu]) == {"x"}
    (alone,) = operations.outputs([relu], {"x": x}).values()
    assert torch.equal(alone, graph(x))
    # Values of another shape are refused by torch, and the figure is left out.
    view = torch.export.export(Viewed(), (torch.randn(2, 6),)).module(check_guards=False)
    name = next(n.name for n in view.graph.nodes if "view" in str(n.target))
    assert FloatOperations(view, {"x"}).outputs([name], {"x": torch.randn(2, 7)}) == {}


class Viewed(torch.nn.Module):
    def forward(self, x):
        return x.view(3, 4)
