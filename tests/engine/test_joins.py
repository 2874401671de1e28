"""Tensors of unlike size that a network joins or adds inside: found, and what is suggested helps."""

import math

import pytest
import torch

from tests.engine import joining_networks as networks
from tests.engine.in_process import project
from workbench.engine.quantization.weight_transforms import equalize
from workbench.graph.snapshot import GraphSnapshot
from workbench.project import edits
from workbench.project.model import DataSource, Evaluation
from workbench.results import GRAPH_FILE
from workbench.suggestions.joins import equalize_joins, lossy_joins, widen_joins

pytestmark = [pytest.mark.engine, pytest.mark.shared_results]
DATA = DataSource(spec="joining_networks.py:samples")
ALL = {"calibration": DATA, "evaluation": Evaluation(hold_out=False)}


def evaluated(engine, made):
    assert engine.run(made, "evaluate") == "done", engine.failure
    return engine.result(made, "evaluate")


def graph(engine, made):
    return GraphSnapshot.load(engine.path(made, "export") / GRAPH_FILE)


def joins_of(engine, made):
    quality = evaluated(engine, made)
    return lossy_joins(graph(engine, made), quality)


def sqnr(exact, rounded):
    return 10 * math.log10(float(exact.square().sum() / (exact - rounded).square().sum()))


def test_that_a_small_operand_is_found_with_the_ranges_and_the_loss_that_torch_computes(engine):
    made = project("joining_networks.py:unlike_branches", **ALL)
    (loss,) = joins_of(engine, made)
    model, _ = networks.unlike_branches()
    first = list(networks.samples())[:8]
    with torch.no_grad():
        small = torch.cat([model.small(x).relu() for x in first])
        large = torch.cat([model.large(x).relu() for x in networks.samples()])
    assert (loss.node.id, loss.operand.module, loss.is_sum) == ("cat", "", False)
    assert loss.operand.maximum == pytest.approx(float(small.max()))
    assert loss.quality.step == pytest.approx(float(large.max()) / 255, rel=0.1)
    step = loss.quality.step
    assert float(small.max()) < step
    own = float(small.max()) / 255
    assert loss.alone == pytest.approx(sqnr(small, torch.round(small / own) * own), abs=1.0)
    assert loss.decibels == 0.0


@pytest.mark.slow
def test_that_sums_are_found_and_joins_of_like_size_or_of_outputs_are_not(engine):
    loss, *_ = joins_of(engine, project("joining_networks.py:unlike_sum", **ALL))
    assert (loss.node.id, loss.operand.module, loss.is_sum) == ("add", "small", True)
    for name in ("boxes_and_scores", "like_branches"):
        assert joins_of(engine, project(f"joining_networks.py:{name}", **ALL)) == []


@pytest.mark.parametrize(("name", "node"), [("unlike_channels", "cat"), ("unlike_sum", "add")])
def test_that_16_bits_around_a_join_bring_back_what_it_lost(engine, name, node):
    made = project(f"joining_networks.py:{name}", **ALL)
    before = evaluated(engine, made)
    (card,) = widen_joins(graph(engine, made), before)
    assert card.id == f"wide_join:{node}"
    changed = card.edit(made)
    after = evaluated(engine, changed)
    assert after.sqnr_db > max(before.sqnr_db + 10, 40)
    assert list(widen_joins(graph(engine, changed), after)) == []
    wide = {rule.match for rule in changed.rules if rule.config == "a16w8"}
    assert {node, "conv2d", "conv2d_1"} < wide


def test_that_layers_around_a_join_are_equalized_and_compute_the_same(engine):
    made = project("joining_networks.py:unlike_branches", **ALL)
    before = evaluated(engine, made)
    (card,) = equalize_joins(made, graph(engine, made), before)
    changed = card.edit(made)
    assert changed.improvers == ("equalize",)
    assert evaluated(engine, changed).sqnr_db > before.sqnr_db + 30
    assert list(equalize_joins(changed, graph(engine, made), before)) == []
    model, example = networks.unlike_branches()
    module = torch.export.export(model, example).module(check_guards=False)
    with torch.no_grad():
        assert equalize(module) == 2
        for x in networks.samples():
            torch.testing.assert_close(module(x), model(x), rtol=1e-4, atol=1e-5)


def test_that_a_join_read_by_something_else_than_layers_is_not_equalized():
    for made in (networks.unlike_channels, networks.read_twice):
        model, example = made()
        module = torch.export.export(model, example).module(check_guards=False)
        before = {name: value.clone() for name, value in module.named_parameters()}
        with torch.no_grad():
            equalize(module)
        assert all(torch.equal(before[n], v) for n, v in module.named_parameters() if n.startswith("large"))


def test_that_what_is_trained_is_not_equalized(engine):
    made = project("joining_networks.py:unlike_branches", **ALL)
    before = evaluated(engine, made)
    trained = edits.use_trained(made, "trained.safetensors")
    assert list(equalize_joins(trained, graph(engine, made), before)) == []
