"""NNPA as a target: which products become int8, with the numbers of the array functions."""

import shutil
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.engine.nnpa import networks
from tests.problems import refused
from workbench.engine.nnpa import arithmetic, toolchain
from workbench.engine.nnpa.arithmetic import matmul, product, weight_of
from workbench.project import edits
from workbench.project.model import DataSource, ModelSource, Project, TargetChoice
from workbench.project.opened import OpenProject
from workbench.protocol import RunStudy, StudyProgress
from workbench.studies.documents import load_study, study_folder
from workbench.studies.sensitivity import SensitivityResult

pytestmark = [pytest.mark.engine, pytest.mark.shared_results]

NETWORKS = Path(networks.__file__)


@pytest.fixture
def lane(engine):
    shutil.copy(NETWORKS, engine.folder / "nets.py")
    return engine


def ruled(model="n", samples="", config="int8-dyn", **options):
    made = Project(
        name="n",
        model=ModelSource(spec=model),
        calibration=DataSource(spec=f"nets.py:{samples}") if samples else None,
        target=TargetChoice(id="nnpa", options=options),
    )
    return edits.assign(made, "global", "", config)


def emulated(model, *inputs, project=None, **options):
    """Return the emulated program of a model, and the report on it by node."""
    project = project or ruled(**options)
    rules = toolchain.quantizer(OpenProject(project, Path()))
    module = torch.export.export(model.eval(), inputs).module(check_guards=False)
    prepared = toolchain.prepare(module, rules)
    report = toolchain.report(rules, prepared, project)
    prepared(*inputs)
    with torch.no_grad():
        return toolchain.convert(prepared)(*inputs), {note.node: note for note in report}


@pytest.mark.parametrize("reading", ["nnpa", "document"])
@pytest.mark.parametrize("mode", ["asym", "sym"])
@pytest.mark.parametrize("shape", [(5, 16), (2, 5, 16), (1, 2, 5, 16)])
def test_that_a_linear_layer_has_the_numbers_of_the_array_function(reading, mode, shape):
    torch.manual_seed(1)
    linear, x = nn.Linear(16, 8), torch.randn(shape)
    y, notes = emulated(linear, x, reading=reading, activations=mode)
    expected = matmul(x, linear.weight.detach().t(), linear.bias.detach(), mode, reading).y
    assert torch.equal(y, expected)
    assert notes["linear"].quantized


class Times(nn.Module):
    """x @ W, and what is done with it."""

    def __init__(self, weight=(16, 8), added=None, *, computed=False, front=False):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(weight))
        self.added = None if added is None else nn.Parameter(torch.randn(added))
        self.computed, self.front = computed, front

    def forward(self, x):
        y = x @ self.weight
        if self.added is None:
            return y
        added = self.added * x.mean() if self.computed else self.added
        return added + y if self.front else y + added


CASES = {
    "two dimensions": (Times(), (5, 16), ""),
    "a bias": (Times(added=(8,)), (5, 16), ""),
    "a bias in front": (Times(added=(8,), front=True), (5, 16), ""),
    "a computed bias": (Times(added=(8,), computed=True), (5, 16), "bias"),
    "a bias of two dimensions": (Times(added=(1, 8)), (5, 16), "bias"),
    "a number": (Times(added=()), (5, 16), "bias"),
    "three dimensions": (Times(added=(8,)), (2, 5, 16), ""),
    "three and a computed bias": (Times(added=(8,), computed=True), (2, 5, 16), "computed-bias"),
    "three and a residual": (Times(added=(2, 5, 8), computed=True), (2, 5, 16), ""),
    "three and a bias of two": (Times(added=(1, 8)), (2, 5, 16), ""),
    "four dimensions": (Times(added=(8,)), (1, 2, 5, 16), ""),
    "a stack of weights": (Times((2, 16, 8)), (2, 5, 16), ""),
    "a stack with a bias": (Times((2, 16, 8), (8,)), (2, 5, 16), "stack-and-bias"),
    "other stacks": (Times((2, 16, 8)), (1, 5, 16), "leading-dimensions"),
    "a matrix before a stack": (Times((2, 16, 8)), (5, 16), "matrix-and-stack"),
    "one dimension": (Times(), (16,), "one-dimension"),
}


@pytest.mark.parametrize("name", CASES)
def test_that_products_are_quantized_as_the_compiler_does_and_say_why_not(name):
    model, shape, why = CASES[name]
    _, notes = emulated(model, torch.randn(shape))
    assert notes["matmul"].quantized == (why == "")
    assert notes["matmul"].cause == why


def test_that_an_addition_taken_in_is_computed_with_the_product():
    torch.manual_seed(2)
    model, x = Times(added=(8,)), torch.randn(5, 16)
    y, notes = emulated(model, x)
    expected = matmul(x, model.weight.detach(), model.added.detach(), "asym", "nnpa").y
    assert torch.equal(y, expected)
    assert notes["add"].quantized


def test_that_computed_operands_convolutions_and_others_stay_float_and_say_why():
    _, notes = emulated(*networks.transformer())
    assert [n for n, note in notes.items() if note.quantized] == [
        "linear",
        "linear_1",
        "linear_2",
        "linear_3",
        "linear_4",
    ]
    assert notes["scaled_dot_product_attention"].cause == "attention"
    _, notes = emulated(*networks.convolutional())
    assert notes["conv2d"].cause == "convolution"
    assert notes["linear"].quantized

    class Inner(nn.Module):
        def forward(self, x):
            return x @ x

    _, notes = emulated(Inner(), torch.randn(4, 4))
    assert notes["matmul"].cause == "computed-operand"


def test_that_a_linear_on_two_dimensions_needs_its_gemm_rewritten():
    model, x = networks.mlp()
    y, notes = emulated(model, x, rewrite_gemm=False)
    assert torch.equal(y, model(x))
    assert notes["linear"].cause == "gemm-transposed"
    _, notes = emulated(nn.Linear(16, 8), torch.randn(2, 5, 16), rewrite_gemm=False)
    assert notes["linear"].quantized


@pytest.mark.parametrize("types", ["Conv", "Gemm", "Conv,Gemm", ""])
def test_that_operation_types_without_matmul_quantize_nothing_and_say_so(types):
    model, x = networks.mlp()
    y, notes = emulated(model, x, op_types=types)
    assert torch.equal(y, model(x))
    assert notes["linear"].cause == "operation-types"
    _, notes = emulated(model, x, op_types="Conv, matmul")
    assert notes["linear"].quantized


def test_that_rules_leave_modules_in_float_or_on_the_cpu():
    model, x = networks.mlp()
    project = edits.assign(ruled(), "module_name", "first", "float")
    project = edits.assign(project, "module_name", "last", "cpu")
    y, notes = emulated(model, x, project=project)
    assert torch.equal(y, model(x))
    assert notes["linear"].cause == "no-rule"
    assert notes["linear_1"].cause == "kept-on-cpu"
    project = edits.assign(ruled(), "node_target", "aten.relu.default", "cpu")
    _, notes = emulated(model, x, project=project)
    assert notes["relu"].cause == "kept-on-cpu"
    assert notes["linear"].quantized


def test_that_a_range_is_taken_at_every_call():
    torch.manual_seed(3)
    linear = nn.Linear(16, 8)
    x = torch.randn(4, 16)
    project = ruled(reading="document")
    rules = toolchain.quantizer(OpenProject(project, Path()))
    module = torch.export.export(linear, (x,)).module(check_guards=False)
    program = toolchain.convert(toolchain.prepare(module, rules))
    weight, bias = linear.weight.detach().t(), linear.bias.detach()
    with torch.no_grad():
        for scale in (1.0, 100.0):
            expected = matmul(x * scale, weight, bias, "asym", "document").y
            assert torch.equal(program(x * scale), expected)


def test_that_asymmetric_weights_are_computed_in_both_readings():
    torch.manual_seed(4)
    x, w, c = torch.rand(6, 32), torch.rand(32, 8) + 0.5, torch.randn(8)
    weight = weight_of(w, "asym")
    assert float(weight.by.zero_point) == -128
    document = product(x, weight, c, "asym", "document").y
    exact = x @ w + c
    assert (document - exact).abs().max() < 0.2
    symmetric = matmul(x, w, c, "asym", "document").y
    assert (document - exact).square().sum() < (symmetric - exact).square().sum()
    emulation = product(x, weight, c, "asym", "nnpa").y
    assert (emulation - document).abs().max() < 0.25
    assert not torch.equal(emulation, document)


def test_that_weights_as_a_what_if_are_quantized_and_told():
    linear, x = nn.Linear(16, 8), torch.randn(4, 16)
    y, notes = emulated(linear, x, weights="asym", reading="document")
    weight = weight_of(linear.weight.detach().t(), "asym")
    expected = product(x, weight, linear.bias.detach(), "asym", "document").y
    assert torch.equal(y, expected)
    assert notes["linear"].quantized


def test_that_evaluation_measures_both_readings_and_follows_the_chosen_one(lane):
    for chosen in ("nnpa", "document"):
        made = ruled("nets.py:transformer", "sentences", reading=chosen)
        assert lane.run(made, "evaluate") == "done", lane.events
        result = lane.result(made, "evaluate")
        readings = {each.id: each for each in result.readings}
        assert set(readings) == {"nnpa", "document"}
        assert [each.id for each in result.readings if each.main] == [chosen]
        assert readings[chosen].sqnr_db == pytest.approx(result.sqnr_db)
        assert readings["document"].sqnr_db != readings["nnpa"].sqnr_db
        assert all(each.sqnr_db > 20 and "emulated" in each.marks for each in result.readings)
    quality = {t.tensor: t.sqnr_db for t in result.tensors}
    assert quality["x"] is None
    assert quality["linear_4"] is not None


@pytest.mark.shared_results(False)
def test_that_numbers_are_the_same_without_the_quick_ways(lane):
    made = ruled("nets.py:transformer", "sentences")
    assert lane.run(made, "evaluate") == "done"
    quick = lane.result(made, "evaluate")
    shutil.rmtree(lane.path(made, "evaluate"))
    assert lane.run(made, "evaluate", accelerate=False) == "done"
    assert lane.result(made, "evaluate").tensors == quick.tensors


def test_that_ranges_are_told_as_taken_at_every_call_with_their_samples(lane):
    made = ruled("nets.py:mlp", "with_silence")
    assert lane.run(made, "calibrate") == "done"
    rows = {row.node: row for row in lane.result(made, "calibrate").ranges}
    row = rows["x"]
    assert (row.dynamic, row.dtype) == ("asym", "int8")
    assert "all zeros in 2 of 12 samples" in row.problem
    assert not rows["relu"].problem
    assert {r.kind for r in rows.values() if not r.dynamic} == {"weight"}
    # Nothing is seen again when the same is calibrated once more.
    again = edits.assign(made, "module_name", "last", "float")
    assert lane.run(again, "calibrate") == "done"
    assert any("No samples needed" in str(e) for e in lane.events)


def test_that_samples_without_a_range_are_computed_as_zeros_and_not_refused(lane):
    made = ruled("nets.py:mlp", "with_silence")
    assert lane.run(made, "evaluate") == "done"
    assert lane.result(made, "evaluate").sqnr_db > 30
    linear = nn.Linear(16, 8)
    for x in (torch.zeros(2, 16), torch.full((2, 16), 1e-30)):
        y, _ = emulated(linear, x)
        held = matmul(torch.zeros(2, 16), linear.weight.detach().t(), linear.bias.detach(), "asym", "nnpa").y
        assert torch.equal(y, held)


def test_that_values_without_a_range_are_told_with_the_node():

    class Overflow(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(16, 8)

        def forward(self, x):
            return self.fc(x.log())

    with refused("array-not-finite") as caught:
        emulated(Overflow(), -torch.ones(2, 16))
    assert caught.value.infos[0].where.id == "linear"


def test_that_sensitivity_and_evaluation_agree(lane):
    made = ruled("nets.py:transformer", "sentences")
    assert lane.run(made, "evaluate") == "done"
    whole = lane.result(made, "evaluate").sqnr_db
    lane.events = []
    lane.send(
        RunStudy(
            job="test",
            study="sensitivity",
            project=made,
            folder=str(lane.folder),
            options={},
            cache_root=str(lane.cache.root),
        )
    )
    assert lane.follow() == "done"
    told = [event for event in lane.events if isinstance(event, StudyProgress)]
    result = load_study(SensitivityResult, study_folder(lane.cache, told[-1].key))
    assert result.quantized.sqnr_db == pytest.approx(whole)
    assert {m for unit in result.units for m in unit.unit.matches} >= {"attention.qkv", "up"}


def test_that_a_student_computes_as_the_program_and_its_gradients_go_straight_through():
    model, x = networks.mlp()
    expected, _ = emulated(model, x)
    floating = torch.export.export(model, (x,)).module(check_guards=False)
    qat_model = toolchain.qat_model(floating, OpenProject(ruled(), Path()))
    y = qat_model.module(x)
    assert torch.equal(y.detach(), expected)
    y.sum().backward()
    model(x).sum().backward()
    mine, plain = qat_model.parameters["first.weight"].grad, model.first.weight.grad
    assert torch.allclose(mine, plain, rtol=0.05, atol=0.02)
    assert float(mine.abs().sum()) > 0


def test_that_branches_are_refused_with_a_sentence(lane):
    made = ruled("networks.py:branching")
    assert lane.run(made, "prepare") == "failed"
    assert lane.failure.code == "nnpa-branches-not-supported"


@pytest.mark.parametrize("saturate", [True, False])
def test_that_rounding_is_decoding_what_was_encoded(saturate):
    generator = torch.Generator().manual_seed(11)
    words = torch.randint(-(2**31), 2**31, (400_000,), generator=generator, dtype=torch.int64)
    edges = torch.tensor(
        [
            0,
            1,
            0x7F800000,
            0x7FFFFFFF,
            0x7FC00000,
            0x30004000,
            0x30003FFF,
            0x30002000,
            0x4FFFC000,
            0x4FFFBFFF,
            0x4FFFA000,
        ]
    )
    words = torch.cat([words, edges, edges | -(2**31)]).to(torch.int32)
    x = words.view(torch.float32)
    mine = arithmetic.rounded(x, saturate=saturate)
    plain = arithmetic.decode(arithmetic.encode(x, saturate=saturate))
    assert torch.equal(mine.isnan(), plain.isnan())
    same = mine.view(torch.int32) == plain.view(torch.int32)
    assert bool((same | mine.isnan()).all())


def test_that_a_product_in_parts_is_quantized_and_says_what_differs():
    class Wide(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1, 2**21 + 8))

        def forward(self, x):
            return x @ self.weight

    _, notes = emulated(Wide(), torch.ones(1, 1))
    assert notes["matmul"].quantized
    assert notes["matmul"].cause == "split"


def test_that_weights_without_a_range_are_warned_of_and_computed_as_zeros(lane):
    linear, x = nn.Linear(16, 8), torch.randn(2, 16)
    linear.weight.data.zero_()
    y, notes = emulated(linear, x)
    assert notes["linear"].cause == "weight-range"
    assert torch.equal(y, arithmetic.rounded(linear.bias.detach(), saturate=True).expand(2, 8))
    made = ruled("nets.py:silent")
    assert lane.run(made, "prepare") == "done"
    assert "All values are zero" in lane.result(made, "prepare").warnings[0]


def test_that_weights_that_are_no_numbers_are_told_with_the_node():
    from workbench.errors import WorkbenchError

    linear = nn.Linear(16, 8)
    linear.weight.data[0, 0] = float("nan")
    with pytest.raises(WorkbenchError) as caught:
        emulated(linear, torch.randn(2, 16))
    (info,) = caught.value.infos
    assert (info.code, info.where.id) == ("array-not-finite", "linear")
    assert "1 of 128" in info.message
