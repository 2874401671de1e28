"""Branches and loops: rules, reports, ranges and formats reach what is inside of them."""

import pytest
import torch

from tests.engine import networks
from tests.engine.in_process import ALL_SAMPLES, project
from tests.engine.remedies import follow
from workbench.engine.formats.operations import Operation
from workbench.graph.snapshot import GraphSnapshot
from workbench.project import edits
from workbench.project.configs import FormatConfig
from workbench.project.model import DataSource
from workbench.results import GRAPH_FILE

pytestmark = [pytest.mark.engine, pytest.mark.shared_results]

INTEGER = {
    "data_in_width": 6,
    "data_in_frac_width": 3,
    "weight_width": 5,
    "weight_frac_width": 3,
    "bias_width": 8,
    "bias_frac_width": 6,
}


def branching(target="ethos-u85-256", **fields):
    return project("branching", target=target, **{**ALL_SAMPLES, **fields})


@pytest.mark.slow
def test_that_a_rule_for_a_module_reaches_into_a_branch_and_no_other(engine):
    made = edits.assign(branching(), "module_name", "b", "a16w8")
    assert engine.run(made, "convert") == "done"
    graph = GraphSnapshot.load(engine.path(made, "export") / GRAPH_FILE)
    assert graph.nodes_by_id["cond/true/conv2d"].module == "a"
    assert graph.nodes_by_id["cond/false/conv2d"].module == "b"
    told = {note.node: note for note in engine.result(made, "prepare").annotations}
    assert told["cond/false/conv2d"].config == "a16w8"
    assert told["cond/true/conv2d"].config == "a8w8"
    assert told["cond/false/conv2d"].module == "b"
    ranges = {row.node: row for row in engine.result(made, "calibrate").ranges}
    assert ranges["cond/false/conv2d"].dtype == "int16"
    assert ranges["cond/true/relu"].dtype == "int8"


@pytest.mark.slow
def test_that_the_next_rules_find_branches_as_they_were_exported(engine):
    assert engine.run(branching(), "convert") == "done"
    made = edits.assign(branching(), "module_name", "a", "float")
    assert engine.run(made, "convert") == "done"
    told = {note.node: note for note in engine.result(made, "prepare").annotations}
    assert not told["cond/true/conv2d"].quantized
    assert told["cond/false/conv2d"].config == "a8w8"


def test_that_what_is_outside_of_a_loop_and_inside_has_its_own_report(engine):
    made = project("looping", target="ethos-u85-256", **ALL_SAMPLES)
    assert engine.run(made, "prepare") == "done"
    told = {note.node: note for note in engine.result(made, "prepare").annotations}
    assert {"relu", "while_loop/body/mul", "while_loop/cond/sum_1"} <= set(told)
    assert told["relu"].quantized
    assert told["while_loop/body/mul"].by


@pytest.mark.slow
def test_that_16_bits_with_weights_in_a_branch_are_refused_and_8_bits_help(engine):
    wide = edits.assign(branching(), "module_name", "b", "a16w8")
    follow(engine, "branch-int16-weights", wide, edits.assign(wide, "module_name", "b", "a8w8"))


@pytest.mark.slow
def test_that_what_cannot_be_lowered_of_branches_is_refused_and_8_bits_help(engine):
    floating = edits.assign(branching(), "module_name", "b", "float")
    follow(engine, "branch-float-weights", floating, edits.assign(floating, "module_name", "b", "a8w8"))
    (warning,) = engine.result(floating, "prepare").warnings
    assert "Weights inside branches" in warning


def test_that_branches_of_an_archive_that_names_no_modules_are_told(engine):
    model, inputs = networks.branching()
    program = torch.export.export(model.eval(), inputs)
    torch.export.save(program, engine.folder / "made.pt2")
    made = branching()
    made = edits.set_model(made, made.model.model_copy(update={"spec": "made.pt2"}))
    assert engine.run(made, "export") == "done", engine.failure
    first, second = engine.result(made, "export").warnings
    assert "cond/true" in first
    assert "cond/false" in second
    assert "rules for modules or types do not apply there" in first


@pytest.mark.slow
def test_that_a_branch_without_a_sample_stops_quantizing_with_its_name(engine):
    (engine.folder / "positive.py").write_text(
        "import torch\n\n\ndef ones():\n    yield torch.ones(1, 3, 8, 8)\n"
    )
    made = branching(calibration=DataSource(spec="positive.py:ones"))
    fixed, unseen = made, ["cond/false/x", "cond/false/conv2d"]
    for tensor in unseen:
        fixed = edits.fix_range(fixed, tensor, -2.0, 2.0)
    failure = follow(engine, "branch-not-calibrated", made, fixed)
    assert "conv2d" in failure.message
    assert failure.where.id == "cond"
    assert [r.node for r in engine.result(made, "calibrate").ranges if "no cal" in r.problem] == unseen


def test_that_formats_are_emulated_inside_of_branches(engine):
    config = FormatConfig(scheme="integer", parameters=INTEGER)
    made = edits.assign(branching("formats"), "global", "", "float")
    made = edits.assign(made, "module_name", "b", config)
    assert engine.run(made, "evaluate") == "done", engine.failure
    told = {note.node: note for note in engine.result(made, "prepare").annotations}
    assert [node for node, note in told.items() if note.quantized] == ["cond/false/conv2d"]
    memory = engine.result(made, "convert").memory
    # Two convolutions of 12 weights and 4 biases; one of them with 5 and 8 bits.
    assert memory.weight_elements == 32
    assert memory.weight_bits == pytest.approx((12 * 5 + 4 * 8 + 16 * 32) / 32)


def test_that_a_branch_computes_what_the_format_itself_does(engine):
    config = FormatConfig(scheme="integer", parameters=INTEGER)
    made = edits.assign(branching("formats"), "global", "", "float")
    made = edits.assign(made, "module_name", "b", config)
    assert engine.run(made, "evaluate") == "done", engine.failure
    model, _ = networks.branching()
    onto = Operation("conv2d", "integer", INTEGER)
    signal = noise = 0.0
    with torch.no_grad():
        for x, _ in networks.samples():
            floating = model(x)
            signal += float(floating.double().square().sum())
            if not x.sum() > 0:
                emulated = onto(x, model.b.weight, model.b.bias)
                noise += float((floating - emulated).double().square().sum())
    expected = 10 * torch.log10(torch.tensor(signal / noise)).item()
    assert engine.result(made, "evaluate").sqnr_db == pytest.approx(expected, abs=1e-3)


def test_that_formats_are_emulated_in_what_a_loop_repeats(engine):
    config = FormatConfig(scheme="integer", parameters=INTEGER)
    made = edits.assign(project("looping", target="formats", **ALL_SAMPLES), "global", "", config)
    assert engine.run(made, "evaluate") == "done", engine.failure
    told = {note.node: note for note in engine.result(made, "prepare").annotations}
    assert told["while_loop/body/mul"].quantized
    assert engine.result(made, "evaluate").sqnr_db < 60


def test_that_the_quality_of_tensors_inside_of_branches_is_told(engine):
    made = branching()
    assert engine.run(made, "evaluate") == "done", engine.failure
    rows = {row.tensor: row for row in engine.result(made, "evaluate").tensors}
    grids = {row.node: row.scale for row in engine.result(made, "calibrate").ranges}
    inside = rows["cond/true/relu"]
    assert inside.module == ""
    assert rows["cond/true/conv2d"].module == "a"
    assert rows["cond/false/conv2d"].module == "b"
    assert 15 < inside.sqnr_db < 60
    assert grids["cond/true/relu"] / 4 < inside.max_abs_error < 20 * grids["cond/true/relu"]
    assert inside.origin == "cond/true/relu"


@pytest.mark.slow
def test_that_a_loop_executorch_cannot_lower_is_refused_in_a_sentence(engine):
    made = project("looping", target="ethos-u85-256", **ALL_SAMPLES)
    assert engine.run(made, "lower", "evaluate") == "failed"
    assert engine.failure.code == "loop-not-lowerable"
    assert engine.failure.where.id == "while_loop"
