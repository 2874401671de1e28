"""Ranges that a project fixes: what they change, what they cannot, and what they never touch."""

import pytest

from tests.engine.in_process import CALIBRATED, project
from workbench.graph.snapshot import GraphSnapshot
from workbench.numerics.tensors import activations, choice_of, histogram_of
from workbench.project import edits
from workbench.results import GRAPH_FILE, load_arrays

pytestmark = pytest.mark.engine


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


def test_that_the_range_of_a_tensor_that_is_gone_is_a_warning(engine):
    made = edits.fix_range(project("small", **CALIBRATED), "gone", 0.0, 1.0)
    assert engine.run(made, "convert") == "done"
    (warning,) = engine.result(made, "convert").warnings
    assert "fixed range of gone has no effect" in warning


def test_that_ranges_of_a_program_with_branches_are_refused(engine):
    made = project("branching", target="ethos-u85-256", **CALIBRATED)
    assert engine.run(edits.fix_range(made, "x", -1.0, 1.0), "convert") == "failed"
    assert "torch.cond" in engine.failure.message
    assert engine.failure.where.id == "x"


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
    assert "KL divergence takes no range of" in warning
    assert "8 bits only" in warning
    assert scales(engine, made) == scales(engine, plain)
