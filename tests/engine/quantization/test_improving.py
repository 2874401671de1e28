"""Improvers of the float weights: exact where they must be, and worth it on weights they suit."""

import pytest
import torch

from tests.engine import networks
from tests.engine.in_process import ALL_SAMPLES, CALIBRATED, project
from tests.engine.remedies import follow
from tests.problems import refused
from workbench.engine.fx import programs
from workbench.engine.quantization.weight_transforms import equalize, smooth
from workbench.project import edits
from workbench.project.opened import OpenProject
from workbench.script import script

pytestmark = [pytest.mark.engine, pytest.mark.shared_results]
SAMPLES = [(sample,) for sample, _ in networks.samples()]


def exported(made):
    model, inputs = made()
    return torch.export.export(model, inputs).module(check_guards=False)


def outputs(module):
    with torch.no_grad():
        return torch.cat([module(*sample).flatten() for sample in SAMPLES])


def sqnr(engine, made):
    assert engine.run(made, "evaluate") == "done", engine.events
    return engine.result(made, "evaluate").sqnr_db


def improved(made, *improvers):
    for improver in improvers:
        made = edits.set_improver(made, improver, on=True)
    return made


def test_that_equalised_layers_compute_the_same_in_float():
    module = exported(networks.uneven)
    before = outputs(module)
    with torch.no_grad():
        assert equalize(module) == 2
    assert torch.allclose(outputs(module), before, rtol=1e-4, atol=1e-5)
    assert module.each.weight.flatten(1).abs().amax(1).std() < 1.0


def test_that_smoothed_linears_compute_the_same_in_float():
    module = exported(networks.normed)
    before = outputs(module)
    with torch.no_grad():
        assert smooth(module, SAMPLES) == 1
    assert torch.allclose(outputs(module), before, rtol=1e-4, atol=1e-5)
    assert module.norm.weight.max() < 10.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "config", "improver"),
    [
        ("uneven", "a8w8-per-tensor", "equalize"),
        ("normed", "a8w8", "smooth"),
        ("uneven", "a8w4", "bias"),
        pytest.param("overwriting", "a8w4", "bias", marks=pytest.mark.slow),
    ],
)
def test_that_an_improver_is_worth_it_where_it_fits(engine, model, config, improver):
    target = "ethos-u85-256" if model == "normed" else "ethos-u55-128"
    plain = project(model, config, target, **CALIBRATED)
    if improver == "smooth":
        # The weights of a norm that go into the next layer are smooth already.
        options = {**plain.target.options, "norms_into_next_layer": False}
        plain = edits.set_target(plain, plain.target.model_copy(update={"options": options}))
    assert sqnr(engine, improved(plain, improver)) > sqnr(engine, plain) + 0.3


def test_that_values_stay_what_they_were_where_operators_write_into_their_input():
    module = exported(networks.overwriting)
    before = outputs(module)
    programs.write_nowhere(module)
    assert torch.equal(outputs(module), before)
    schemas = [getattr(node.target, "_schema", None) for node in module.graph.nodes]
    assert not any(schema is not None and schema.is_mutable for schema in schemas)


def test_that_what_improvers_change_and_leave_alone_is_said(engine):
    made = improved(project("clamped", "a8w4", **CALIBRATED), "equalize", "smooth", "bias")
    assert engine.run(made, "prepare") == "done", engine.events
    said = [each.sentence for each in engine.result(made, "prepare").improvements]
    assert said == [
        "Finds no pairs of layers to change. 1 pair stays as it is: ReLU6 stands between, which "
        "no scale of a channel passes.",
        "Finds no layer norms with linears after them to change.",
        "Changes 1 bias. 1 layer left as it is: no gain on samples held back.",
    ]


def test_that_improvers_are_undone_by_taking_them_out(engine):
    plain = project("uneven", "a8w4", **CALIBRATED)
    before = sqnr(engine, plain)
    sqnr(engine, improved(plain, "bias"))
    assert edits.set_improver(improved(plain, "bias"), "bias", on=False) == plain
    assert sqnr(engine, plain) == before


def test_that_a_project_with_improvers_has_no_script(tmp_path):
    made = improved(project("uneven"), "equalize")
    with refused("script-improvers"):
        script(OpenProject(made, tmp_path), tmp_path / "x.py")


@pytest.mark.slow
def test_that_a_model_with_branches_refuses_improvers(engine):
    made = improved(project("branching", target="ethos-u85-256", **ALL_SAMPLES), "bias")
    follow(engine, "improvers-branches-not-supported", made, edits.set_improver(made, "bias", on=False))
