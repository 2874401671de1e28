"""The example plug-in, end to end: the numbers differ as it says; what is wrong has its line."""

import shutil
from pathlib import Path

import pytest

from tests.engine.in_process import CALIBRATED, project
from workbench.project import edits
from workbench.project.configs import Activation, Observer, QuantConfig

EXAMPLE = Path(__file__).parents[3] / "resources" / "plugins" / "example.py"
pytestmark = [pytest.mark.engine, pytest.mark.shared_results]


@pytest.fixture
def plugged(engine):
    shutil.copy(EXAMPLE, engine.folder / "example.py")
    return engine


def observed(**observer):
    return project("small", QuantConfig(activation=Activation(observer=Observer(**observer))), **CALIBRATED)


def test_that_an_observer_of_a_plugin_widens_ranges_by_a_quarter(plugged):
    scales = []
    for made in (observed(kind="minmax"), observed(kind="plugin", plugin="example.py:Headroom")):
        assert plugged.run(made, "calibrate") == "done", plugged.failure
        scales.append([r.scale for r in plugged.result(made, "calibrate").ranges if r.kind == "activation"])
    assert scales[1] == pytest.approx([1.25 * scale for scale in scales[0]], rel=1e-5)


@pytest.mark.slow
def test_that_the_program_of_an_observer_of_a_plugin_is_right(plugged):
    made = observed(kind="plugin", plugin="example.py:Headroom")
    assert plugged.verified(made).max_lsb <= 1


FOUND = edits.assign(
    project("small", **CALIBRATED), "finder", "example.py:FirstLayer", "example.py:sixbit_weights"
)


def test_that_a_finder_gives_the_first_layer_a_config_of_the_plugin(plugged):
    made = FOUND
    assert plugged.run(made, "calibrate") == "done", plugged.failure
    found = {n.node: (n.config, n.by) for n in plugged.result(made, "prepare").annotations}
    assert found["conv2d"] == ("sixbit_weights", "example.py:FirstLayer")
    assert found["linear"][0] == "a8w8"
    codes = {r.node: (r.qmin, r.qmax) for r in plugged.result(made, "calibrate").ranges if r.kind == "weight"}
    assert codes["_param_constant0"] == (-31, 31)
    assert codes["_param_constant2"] == (-127, 127)


@pytest.mark.slow
def test_that_a_config_of_a_plugin_runs_on_the_npu(plugged):
    assert plugged.run(FOUND, "verify", "evaluate") == "done", plugged.failure
    assert plugged.result(FOUND, "lower").delegates == 1
    assert plugged.result(FOUND, "verify").max_lsb <= 1


@pytest.mark.slow
def test_that_a_torchao_quantizer_decides_its_nodes_and_they_run_on_the_npu(plugged):
    made = edits.assign(project("small", **CALIBRATED), "quantizer", "", "example.py:SymmetricLinears")
    assert plugged.run(made, "verify", "evaluate") == "done", plugged.failure
    found = {n.node: n.config for n in plugged.result(made, "prepare").annotations}
    assert (found["linear"], found["conv2d"]) == ("SymmetricLinears", "a8w8")
    grid = {r.node: (r.qmin, r.zero_point) for r in plugged.result(made, "calibrate").ranges}
    assert grid["linear"] == (-127, 0)
    assert plugged.result(made, "lower").delegates == 1
    assert plugged.result(made, "verify").max_lsb <= 1


def test_that_an_edited_plugin_is_run_again_and_an_unedited_one_is_not(plugged):
    made = edits.assign(project("small", **CALIBRATED), "global", "", "example.py:sixbit_weights")
    assert plugged.run(made, "calibrate") == "done"
    assert plugged.run(made, "calibrate") == "done"
    assert plugged.computed == []
    path = plugged.folder / "example.py"
    path.write_text(
        path.read_text()
        .replace("weight_qmax=31", "weight_qmax=15")
        .replace("weight_qmin=-31", "weight_qmin=-15")
    )
    assert plugged.run(made, "calibrate") == "done"
    assert plugged.computed == ["prepare", "calibrate"]
    codes = {r.node: r.qmax for r in plugged.result(made, "calibrate").ranges}
    assert codes["_param_constant0"] == 15


WRONG = """
from executorch.backends.arm.quantizer.arm_quantizer_utils import NodeFinder
from torchao.quantization.pt2e import MinMaxObserver
from torchao.quantization.pt2e.quantizer import Quantizer

def raising(*, is_qat):
    raise ValueError("no config today")

def nothing(*, is_qat):
    return 42

class Listing(NodeFinder):
    def find_nodes(self, model):
        return list(model.graph.nodes)

class Lost(NodeFinder):
    def find_nodes(self, model):
        yield next(n for n in model.graph.nodes if n.name == model.nonsense)

class Tired(MinMaxObserver):
    def forward(self, x):
        raise RuntimeError("too many samples")

class Broken(Quantizer):
    def annotate(self, model):
        return 1 // 0
    def validate(self, model):
        pass

class Odd:
    pass
"""


@pytest.mark.parametrize(
    ("kind", "match", "config", "words"),
    [
        ("global", "", "wrong.py:raising", ["wrong.py", "line 7", "no config today"]),
        ("global", "", "wrong.py:nothing", ["does not return a QuantizationConfig"]),
        ("global", "", "wrong.py:absent", ["has no absent"]),
        ("finder", "wrong.py:Listing", "a8w8", ["returns a list, not an iterator"]),
        ("finder", "wrong.py:Lost", "a8w8", ["wrong.py", "line 18", "nonsense"]),
        ("quantizer", "", "wrong.py:Broken", ["wrong.py", "line 26", "ZeroDivisionError"]),
        ("quantizer", "", "wrong.py:Odd", ["does not return a Quantizer"]),
    ],
)
def test_that_what_is_wrong_in_a_plugin_is_one_sentence(engine, kind, match, config, words):
    (engine.folder / "wrong.py").write_text(WRONG)
    made = edits.assign(project("small", **CALIBRATED), kind, match, config)
    assert engine.run(made, "prepare") == "failed"
    assert all(word in engine.failure.message for word in words), engine.failure.message


@pytest.mark.parametrize(
    ("name", "words"),
    [("Tired", ["wrong.py", "line 22", "too many samples"]), ("Odd", ["does not return a Uniform"])],
)
def test_that_a_wrong_observer_is_one_sentence(engine, name, words):
    (engine.folder / "wrong.py").write_text(WRONG)
    assert engine.run(observed(kind="plugin", plugin=f"wrong.py:{name}"), "calibrate") == "failed"
    assert all(word in engine.failure.message for word in words), engine.failure.message
