"""Emulated number formats as a target: what rules give, against the formats' own functions."""

import copy
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.engine.in_process import ALL_SAMPLES, project
from tests.engine.training.test_training import sqnr, trained
from tests.fakes.formats import parameters
from workbench.engine.formats import toolchain
from workbench.engine.formats.operations import Operation
from workbench.engine.formats.schemes import SCHEMES, quantize
from workbench.project import edits
from workbench.project.configs import FormatConfig
from workbench.project.model import ModelSource, Project, TargetChoice
from workbench.project.opened import OpenProject
from workbench.protocol import RunStudy, StudyProgress
from workbench.studies.documents import load_study, study_folder
from workbench.studies.sensitivity import SensitivityResult

pytestmark = [pytest.mark.engine, pytest.mark.shared_results]

INTEGER = {
    "data_in_width": 8,
    "data_in_frac_width": 5,
    "weight_width": 6,
    "weight_frac_width": 4,
    "bias_width": 8,
    "bias_frac_width": 6,
}
PARAMETERS = parameters([1, 4])


def ruled(config, kind="global", match=""):
    made = Project(name="n", model=ModelSource(spec="n"), target=TargetChoice(id="formats"))
    return edits.assign(made, kind, match, config)


def emulated(model, inputs, made, *, fold=True):
    """Return the emulated program of a model, and the report on it."""
    rules = toolchain.quantizer(OpenProject(made, Path()))
    module = torch.export.export(model.eval(), inputs).module(check_guards=False)
    prepared = toolchain.prepare(module, rules)
    report = toolchain.report(rules, prepared, made)
    prepared(*inputs)
    return toolchain.convert(prepared, fold=fold), {note.node: note for note in report}


def test_that_rules_give_formats_to_data_weight_and_bias_apart(engine):
    made = project("small", "float", "formats", **ALL_SAMPLES)
    config = FormatConfig(scheme="integer", parameters=INTEGER)
    made = edits.assign(made, "module_name", "fc", config)
    assert engine.run(made, "evaluate") == "done"
    prepared = engine.result(made, "prepare")
    assert [a.node for a in prepared.annotations if a.quantized] == ["linear"]
    assert engine.result(made, "evaluate").sqnr_db > 10
    memory = engine.result(made, "convert").memory
    assert memory.data_bits < 32
    assert memory.weight_elements > 32


def test_that_the_numbers_are_those_of_the_formats_themselves():
    linear, x = nn.Linear(16, 8), torch.randn(4, 16)
    config = FormatConfig(scheme="integer", parameters=INTEGER)
    program, _ = emulated(linear, (x,), ruled(config))
    expected = Operation("linear", "integer", INTEGER)(x, linear.weight, linear.bias)
    assert torch.equal(program(x), expected)
    by_hand = nn.functional.linear(
        quantize(x, "integer", INTEGER, "data"),
        quantize(linear.weight, "integer", INTEGER, "weight"),
        quantize(linear.bias, "integer", INTEGER, "bias"),
    )
    assert torch.equal(program(x), by_hand)


def test_that_a_quantized_result_is_what_the_next_operation_reads():
    first, second, x = nn.Linear(16, 16), nn.Linear(16, 4), torch.randn(4, 16)
    parameters = {"width": 8, "frac_width": 5, "data_out_width": 6, "data_out_frac_width": 2}
    made = ruled(FormatConfig(scheme="fixed", parameters=parameters))
    program, _ = emulated(nn.Sequential(first, second), (x,), made)
    operation = Operation("linear", "fixed", parameters)
    between = operation(x, first.weight, first.bias)
    assert torch.equal(program(x), operation(between, second.weight, second.bias))


def test_that_the_form_of_mase_is_taken_where_it_is_wanted():
    parameters = {"width": 8, "exponent_width": 4, "exponent_bias": 7}
    x = torch.full((1, 4), 1.99)
    textbook = FormatConfig(scheme="minifloat_ieee", parameters=parameters)
    program, _ = emulated(nn.ReLU(), (x,), ruled(textbook))
    assert torch.equal(program(x), torch.full((1, 4), 2.0))
    mase = textbook.model_copy(update={"mase_compatible": True})
    program, _ = emulated(nn.ReLU(), (x,), ruled(mase))
    assert torch.equal(program(x), torch.full((1, 4), 1.875))


class Table(nn.Module):
    """Every operation of MASE's table that has no weights of its own, one output for each."""

    def forward(self, x, y):
        functional = nn.functional
        return {
            "add": x + y,
            "sub": x - y,
            "mul": x * y,
            "matmul": x @ y.transpose(1, 2),
            "bmm": torch.bmm(x, y.transpose(1, 2)),
            "relu": functional.relu(x),
            "selu": functional.selu(x),
            "tanh": torch.tanh(x),
            "gelu": functional.gelu(x),
            "softsign": functional.softsign(x),
            "softplus": functional.softplus(x),
        }


@pytest.mark.parametrize("scheme", ["integer", "block_fp", "mxint"])
def test_that_every_operation_without_weights_is_emulated(scheme):
    x, y = torch.randn(2, 4, 8), torch.randn(2, 4, 8)
    config = FormatConfig(scheme=scheme, parameters=PARAMETERS[scheme])
    program, notes = emulated(Table(), (x, y), ruled(config))
    second = {"matmul": y.transpose(1, 2), "bmm": y.transpose(1, 2)}
    for name, found in program(x, y).items():
        operation = Operation(name, scheme, PARAMETERS[scheme])
        takes_two = name in {"add", "sub", "mul", "matmul", "bmm"}
        expected = operation(x, second.get(name, y)) if takes_two else operation(x)
        assert torch.equal(found, expected), name
    floats = {name for name, note in notes.items() if not note.quantized}
    assert floats <= {"transpose", "transpose_1"}


@pytest.mark.parametrize(
    ("name", "layer", "shape"),
    [
        ("conv1d", nn.Conv1d(4, 8, 3, padding=1), (2, 4, 8)),
        ("conv2d", nn.Conv2d(4, 8, 3, stride=2), (2, 4, 8, 8)),
        ("linear", nn.Linear(8, 4), (2, 8)),
        ("batch_norm2d", nn.BatchNorm2d(4), (2, 4, 8, 8)),
        ("instance_norm2d", nn.InstanceNorm2d(4, affine=True), (2, 4, 8, 8)),
        ("group_norm", nn.GroupNorm(2, 4), (2, 4, 8, 8)),
        ("layer_norm", nn.LayerNorm(8), (2, 4, 8)),
        ("rms_norm", nn.RMSNorm(8), (2, 4, 8)),
    ],
)
def test_that_every_operation_with_weights_is_emulated(name, layer, shape):
    x = torch.randn(shape)
    program, notes = emulated(layer, (x,), ruled(FormatConfig(scheme="integer", parameters=INTEGER)))
    assert [note.quantized for note in notes.values()] == [True]
    placed = copy.deepcopy(layer)
    with torch.no_grad():
        for role in ("weight", "bias"):
            if getattr(placed, role, None) is not None:
                value = quantize(getattr(layer, role), "integer", INTEGER, role)
                getattr(placed, role).copy_(value)
        expected = placed(quantize(x, "integer", INTEGER, "data"))
    assert torch.allclose(program(x), expected, atol=1e-6), name


def test_that_two_operands_of_one_tensor_keep_their_own_formats():
    class Square(nn.Module):
        def forward(self, x):
            return x @ x

    x = torch.randn(4, 4)
    program, _ = emulated(Square(), (x,), ruled(FormatConfig(scheme="integer", parameters=INTEGER)))
    assert torch.equal(program(x), Operation("matmul", "integer", INTEGER)(x, x))


def test_that_patterns_types_and_nodes_are_assigned_by_the_same_stack():
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    made = ruled("integer-8", "pattern", "[02]")
    made = edits.assign(made, "node_target", "aten.relu.default", "mxint-8")
    made = edits.assign(made, "node_name", "linear_1", "float")
    _, notes = emulated(model, (torch.randn(2, 8),), made)
    assert [(n.node, n.config) for n in notes.values()] == [
        ("linear", "integer-8"),
        ("relu", "mxint-8"),
        ("linear_1", "float"),
    ]


def test_that_what_is_no_operation_of_the_table_stays_float_and_says_so():
    class Attention(nn.Module):
        def forward(self, x):
            return nn.functional.scaled_dot_product_attention(x, x, x).softmax(-1)

    _, notes = emulated(Attention(), (torch.randn(1, 2, 4, 8),), ruled("integer-8"))
    assert notes["scaled_dot_product_attention"].cause == "products-only"
    assert notes["softmax"].cause == "not-in-table"


@pytest.mark.parametrize("scheme", sorted(PARAMETERS))
def test_that_gradients_flow_through_every_format(scheme):
    model = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(64, 4))
    x = torch.randn(2, 2, 4, 4)
    config = FormatConfig(scheme=scheme, parameters=PARAMETERS[scheme])
    program, _ = emulated(model, (x,), ruled(config), fold=False)
    weights = [p for p in program.parameters() if p.dim() > 1]
    program(x).square().sum().backward()
    assert len(weights) == 2
    assert all(w.grad is not None and bool(w.grad.isfinite().all()) for w in weights)
    assert any(float(w.grad.abs().sum()) > 0 for w in weights)


def test_that_every_format_a_rule_may_choose_is_tried_here():
    from workbench.targets.formats.schemes import SPECS

    assert {spec.name for spec in SPECS if spec.operand} == set(PARAMETERS)
    assert set(PARAMETERS) <= set(SCHEMES)


def test_that_a_shape_a_format_cannot_take_is_told_with_the_node(engine):
    config = FormatConfig(
        scheme="block_fp",
        mase_compatible=True,
        parameters={
            "width": 7,
            "exponent_width": 8,
            "exponent_bias": 127,
            "block_size": [16],
            "skip_first_dim": False,
        },
    )
    made = edits.assign(project("small", "float", "formats"), "node_target", "aten.relu.default", config)
    assert engine.run(made, "prepare") == "failed"
    assert engine.failure.where.kind == "node"


def test_that_sensitivity_and_evaluation_agree_on_emulated_programs(engine):
    made = project("small", "mxfp-4", "formats", **ALL_SAMPLES)
    assert engine.run(made, "evaluate") == "done"
    whole = engine.result(made, "evaluate").sqnr_db
    engine.events = []
    engine.send(
        RunStudy(
            job="test",
            study="sensitivity",
            project=made,
            folder=str(engine.folder),
            options={},
            cache_root=str(engine.cache.root),
        )
    )
    assert engine.follow() == "done"
    told = [event for event in engine.events if isinstance(event, StudyProgress)]
    result = load_study(SensitivityResult, study_folder(engine.cache, told[-1].key))
    assert result.quantized.sqnr_db == pytest.approx(whole)
    assert {m for unit in result.units for m in unit.unit.matches} >= {"conv", "fc"}


def test_that_a_fixed_range_has_no_effect_on_a_format_and_says_so(engine):
    made = project("small", "integer-8", "formats", **ALL_SAMPLES)
    made = edits.fix_range(made, "relu", 0.0, 0.1)
    assert engine.run(made, "convert") == "done"
    assert any("relu has no effect" in w for w in engine.result(made, "convert").warnings)


def test_that_ranges_of_formats_have_histograms_and_no_grid_of_integers(engine):
    made = project("small", "integer-8", "formats", **ALL_SAMPLES)
    assert engine.run(made, "calibrate") == "done"
    found = engine.result(made, "calibrate").ranges
    assert {row.kind for row in found} == {"activation", "weight"}
    assert {(row.dtype, row.scale) for row in found} == {("integer 8", 0.0)}
    assert all(row.minimum < row.maximum for row in found)


def test_that_training_through_formats_wins_quality_that_evaluation_finds(engine):
    made = project("small", "mxfp-4", "formats", **ALL_SAMPLES)
    ternary = FormatConfig(scheme="ternary")
    made = edits.assign(made, "node_target", "aten.linear.default", ternary)
    result, after = trained(engine, made, epochs=5, learning_rate=0.005)
    best = max(epoch.sqnr_db for epoch in result.epochs)
    assert best > result.start_db
    assert sqnr(engine, after) == pytest.approx(best, abs=1.0)
    assert sqnr(engine, after) > sqnr(engine, made)
