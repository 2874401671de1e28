"""Options of Vela and of ExecuTorch's transformations change what they say, and no more."""

from __future__ import annotations

import pytest

from tests.engine import networks
from tests.engine.in_process import project
from tests.problems import refused
from workbench.analysis.answers import answers_of
from workbench.engine.ethos_u import estimate
from workbench.graph.snapshot import GraphSnapshot
from workbench.project import edits
from workbench.project.model import TargetChoice
from workbench.results import GRAPH_FILE
from workbench.targets import target_of

pytestmark = [pytest.mark.engine, pytest.mark.shared_results]
DEVICE = "ethos-u85-256"


@pytest.fixture
def lowered(engine):
    """A function that lowers a model and returns the project with the TOSA program and the .pte."""

    def made(model, config="a8w8", **options):
        choice = TargetChoice(id=DEVICE, options=options)
        wanted = edits.set_target(project(model, config, DEVICE), choice)
        assert engine.run(wanted, "lower", "evaluate") == "done", engine.failure
        folder = engine.path(wanted, "lower")
        tosa, program = folder / "delegate_0.tosa", folder / "program.pte"
        return wanted, tosa.read_bytes(), program.read_bytes()

    return made


def verdict(engine, made):
    """Return whether the compiled program is the quantized model."""
    assert engine.run(made, "verify", "evaluate") == "done", engine.failure
    results = {"lower": engine.result(made, "lower"), "verify": engine.result(made, "verify")}
    return answers_of(made, lambda _kind, stage: results.get(stage)).gate.verdict


@pytest.mark.slow
def test_that_each_transformation_changes_the_program_and_it_stays_right(engine, lowered):
    made, usual, _ = lowered("masked", "a16w8")
    assert verdict(engine, made) == "right"
    for options in ({"softmax": "STABLE"}, {"negative_infinity": -40.0}):
        made, tosa, _ = lowered("masked", "a16w8", **options)
        assert tosa != usual, options
        assert verdict(engine, made) == "right", options


@pytest.mark.slow
def test_that_transformations_of_masks_change_nothing_where_a_correction_has_rewritten_them(lowered):
    _, usual, _ = lowered("masked")
    for options in ({"softmax": "STABLE"}, {"negative_infinity": -40.0}):
        assert lowered("masked", **options)[1] == usual, options
    # Without the correction they change the program.
    stock = {"bounded_masks": False}
    _, usual, _ = lowered("masked", **stock)
    for options in ({"softmax": "STABLE"}, {"negative_infinity": -40.0}):
        assert lowered("masked", **stock, **options)[1] != usual, options


@pytest.mark.slow
@pytest.mark.parametrize("model", ["small", pytest.param("masked", marks=pytest.mark.slow)])
def test_that_an_option_of_vela_leaves_the_tosa_program_alone(lowered, model):
    _, usual, program = lowered(model)
    _, tosa, other = lowered(model, cop_format="COP2")
    assert tosa == usual
    assert other != program


def test_that_the_engine_gives_vela_no_flag_that_writes_elsewhere(engine, tmp_path, monkeypatch):
    """A command may come from a study, which does not check the options of its project."""
    current = tmp_path / "current"
    current.mkdir()
    monkeypatch.chdir(current)
    for flag in ("--supported-ops-report", "--output-d=elsewhere"):
        wanted = TargetChoice(id=DEVICE, options={"extra_flags": flag})
        assert engine.run(edits.set_target(project("small", target=DEVICE), wanted), "lower") == "failed"
        assert engine.failure.code in {"vela-flag-lists", "vela-flag-reserved"}
        complete = target_of(DEVICE).complete(wanted)
        with refused(engine.failure.code):
            estimate._arguments(tmp_path, DEVICE, complete.options, None, "tosa")
    assert list(current.iterdir()) == []


def test_that_every_operation_says_what_bounds_it_and_where_it_came_from(engine):
    made = project("small", target="ethos-u85-256")
    assert engine.run(made, "lower", "evaluate") == "done", engine.failure
    (report,) = engine.result(made, "lower").vela
    graph = GraphSnapshot.load(engine.path(made, "export") / GRAPH_FILE)
    units = {"MACs", "output", "commands", "weight decoding", "SRAM", "external memory"}
    busy = [operation for operation in report.operations if operation.cycles]
    assert {operation.bound for operation in busy} <= units
    weighted = [operation for operation in report.operations if operation.weight_bytes]
    model, _ = networks.small()
    sizes = {name: m.weight.numel() for name, m in model.named_modules() if hasattr(m, "weight")}
    assert {o.module: o.weights for o in weighted} == {o.module: sizes[o.module] for o in weighted}
    assert sum(o.weights for o in weighted) <= report.weights_bytes
    assert any(operation.sram_traffic or operation.external_traffic for operation in busy)
    roots = [graph.nodes_by_id[o.root] for o in weighted]
    assert {node.op for node in roots} == {"aten.conv2d.default", "aten.linear.default"}
    assert all("networks.py" in node.source for node in roots)


ACTIVE = """
import torch
from torch import nn


def net():
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 8, 3), nn.Hardswish(), nn.Conv2d(8, 8, 3), nn.GELU()]
    layers += [nn.Flatten(), nn.Linear(1152, 5), nn.Tanh()]
    return nn.Sequential(*layers).eval(), (torch.randn(1, 3, 16, 16),)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "config"),
    [("ethos-u55-128", "a8w8"), pytest.param("ethos-u85-256", "a16w8", marks=pytest.mark.slow)],
)
def test_that_layers_in_front_of_functions_and_the_functions_are_in_their_modules(engine, target, config):
    # The NPU computes a function in the table of the layer before it; both have one name in Vela.
    (engine.folder / "active.py").write_text(ACTIVE)
    made = project("active.py:net", config, target)
    assert engine.run(made, "lower") == "done", engine.failure
    (report,) = engine.result(made, "lower").vela
    layers = [row for row in report.operations if row.weight_bytes and row.macs]
    assert [row.module for row in layers] == ["0", "2", "5"]
    functions = {(row.module, row.root) for row in report.operations if row.operator == "LUT"}
    assert functions >= {("1", "hardswish"), ("3", "gelu"), ("6", "tanh")}


CLAMPED = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 4, 3)

    def forward(self, x):
        kept = self.first(x).relu()
        return self.second(kept) + kept[:, :4, 1:-1, 1:-1]


def net():
    torch.manual_seed(0)
    return Net().eval(), (torch.randn(1, 3, 16, 16),)
"""


@pytest.mark.slow
def test_that_a_layer_whose_relu_is_written_in_forward_is_in_its_own_module(engine):
    (engine.folder / "clamped.py").write_text(CLAMPED)
    made = project("clamped.py:net")
    assert engine.run(made, "lower") == "done", engine.failure
    (report,) = engine.result(made, "lower").vela
    layers = [row for row in report.operations if row.weight_bytes and row.macs]
    assert [row.module for row in layers] == ["first", "second"]
    assert {row.module for row in report.operations if row.operator == "Clamp"} <= {""}
