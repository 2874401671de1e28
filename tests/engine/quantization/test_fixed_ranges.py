"""Ranges that a project fixes: what they change, what they cannot, and what they never touch."""

import pytest

from tests.engine.in_process import CALIBRATED, project
from workbench.analysis.ranges import activations, choice_of, histogram_of
from workbench.graph.snapshot import GraphSnapshot
from workbench.project import edits
from workbench.project.model import DataSource
from workbench.results import GRAPH_FILE, load_arrays

pytestmark = [pytest.mark.engine, pytest.mark.shared_results]


def scales(engine, made):
    """Return scale and zero point of every quantize operator by the tensor it stands on."""
    graph = GraphSnapshot.load(engine.path(made, "convert") / GRAPH_FILE)
    found = {}
    for node in graph.nodes:
        if node.kind == "quantize":
            source = graph.producers(node.id)[0].id
            found[source] = node.outputs[0].qparams
    return found


def test_that_a_fixed_range_makes_the_grid_without_calibrating_again(engine):
    made = project("small", **CALIBRATED)
    assert engine.run(made, "convert") == "done"
    before = scales(engine, made)
    fixed = edits.fix_range(made, "linear", -0.5, 1.5)
    assert engine.run(fixed, "convert") == "done"
    assert engine.computed == ["convert"]
    after = scales(engine, fixed)
    assert {name for name in before if before[name] != after[name]} == {"linear"}
    assert engine.result(fixed, "convert").warnings == ()
    assert after["linear"].scale == pytest.approx((2.0 / 255,))
    assert engine.run(edits.free_ranges(fixed, ["linear"]), "convert") == "done"
    assert engine.computed == []


@pytest.mark.slow
def test_that_the_grid_of_a_bias_follows_the_fixed_range_of_its_input(engine):
    made = edits.fix_range(project("functional6"), "x", -8.0, 8.0)
    assert engine.run(made, "verify", "evaluate") == "done", engine.failure
    assert engine.result(made, "verify").max_lsb <= 1


def test_that_the_range_of_a_tensor_that_is_gone_is_a_warning(engine):
    made = edits.fix_range(project("small", **CALIBRATED), "gone", 0.0, 1.0)
    assert engine.run(made, "convert") == "done"
    (warning,) = engine.result(made, "convert").warnings
    assert "fixed range of gone has no effect" in warning


@pytest.mark.slow
def test_that_ranges_inside_branches_and_loops_are_told_apart_and_fixed(engine):
    made = project("branching", target="ethos-u85-256", **CALIBRATED)
    assert engine.run(made, "convert") == "done"
    before = scales(engine, made)
    rows = engine.result(made, "calibrate").ranges
    nodes = [row.node for row in rows]
    assert {"x", "cond/true/x", "cond/true/relu", "cond/false/conv2d"} <= set(nodes)
    assert len(nodes) == len(set(nodes))
    known = GraphSnapshot.load(engine.path(made, "prepare") / GRAPH_FILE).nodes_by_id
    assert set(nodes) <= set(known)
    edited = edits.fix_range(made, "cond/true/relu", 0.0, 1.0)
    edited = edits.choose_method(edited, "tensor", "x", "minmax")
    assert engine.run(edited, "evaluate", "lower") == "done", engine.events
    after = scales(engine, edited)
    # The quantizer gives the result of the condition the grid of its first branch.
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"x", "cond/true/relu", "getitem"}
    assert after["cond/true/relu"].scale == (pytest.approx(1 / 255),)
    assert engine.result(edited, "convert").warnings == ()


def test_that_a_branch_that_never_runs_can_be_given_ranges(engine):
    (engine.folder / "positive.py").write_text(
        "import torch\n\n\ndef ones():\n    yield torch.ones(1, 3, 8, 8)\n"
    )
    made = project("branching", target="ethos-u85-256", calibration=DataSource(spec="positive.py:ones"))
    made = edits.choose_method(made, "all", "", "mse")
    assert engine.run(made, "convert") == "failed"
    rows = {row.node: row for row in engine.result(made, "calibrate").ranges}
    assert "no calibration sample" in rows["cond/false/conv2d"].problem
    assert rows["cond/true/relu"].problem == ""
    fixed = edits.fix_range(made, "cond/false/conv2d", -2.0, 2.0)
    fixed = edits.fix_range(fixed, "cond/false/x", -1.0, 1.0)
    assert engine.run(fixed, "convert") == "done", engine.failure
    assert scales(engine, fixed)["cond/false/conv2d"].scale == (pytest.approx(4 / 255),)


def test_that_a_chosen_method_follows_the_calibration_and_never_feeds_it_again(engine):
    made = edits.choose_method(project("small", **CALIBRATED), "all", "", "percentile")
    assert engine.run(made, "convert") == "done", engine.events
    before = scales(engine, made)
    edited = edits.choose_method(made, "module", "fc", "kl")
    assert engine.run(edited, "convert") == "done"
    assert engine.computed == ["convert"]
    assert {n for n, q in scales(engine, edited).items() if q != before[n]} == {"linear"}
    fewer = edits.drop_samples(made, [0, 1, 2])
    assert engine.run(fewer, "convert") == "done"
    followed = scales(engine, fewer)
    assert followed != before
    rows = engine.result(fewer, "calibrate").ranges
    arrays = load_arrays(engine.path(fewer, "calibrate"))
    for row in activations(rows):
        grid = choice_of(row, histogram_of(row, arrays), "percentile").grid
        assert followed[row.node].scale == (grid.scale,)
        assert followed[row.node].zero_point == (grid.zero_point,)


def test_that_a_method_which_declines_leaves_the_range_and_says_so(engine):
    plain = project("small", "a16w8", target="ethos-u85-256", **CALIBRATED)
    made = edits.choose_method(plain, "all", "", "kl")
    assert engine.run(plain, "convert") == "done"
    assert engine.run(made, "convert") == "done"
    (warning,) = engine.result(made, "convert").warnings
    assert "KL divergence is not applicable to" in warning
    assert "8 bits only" in warning
    assert scales(engine, made) == scales(engine, plain)
