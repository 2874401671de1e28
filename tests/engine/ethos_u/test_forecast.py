"""What Vela refuses as a whole is told before anything is compiled, and nothing else is."""

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.engine.in_process import CALIBRATED, project, without
from tests.engine.remedies import follow, follow_forecast, forecast
from workbench.project import edits
from workbench.project.configs import QuantConfig, Weight
from workbench.project.model import TargetChoice

pytestmark = [pytest.mark.engine, pytest.mark.shared_results]
RESIDUAL = "wide_networks.py:residual"
U85 = "ethos-u85-256"


# What Vela and ExecuTorch refuse without the corrections that let it go.
ALONE = dict.fromkeys(
    ("rounded_convolutions", "zeros_for_transposed", "sums_in_8_bits", "release_passthrough"), False
)


def uncorrected(model, config, device="ethos-u55-128", **fields):
    return on_device(project(model, config, device, **fields), device)


def on_device(made, device):
    return edits.set_target(made, TargetChoice(id=device, options=ALONE))


def foreseen(engine, made):
    told = forecast(engine, made)
    codes = ("operator-not-supported", "int16-convolution-shared", "int16-value-read-again")
    return [info.where.id for info in told if info.code in codes]


class Refused(NamedTuple):
    """A network in 16 bits, what the compiler says of a node of it, and two rules that help."""

    model: str
    device: str
    node: str
    words: str
    rules: list[tuple[str, str, str]]

    def project(self):
        return uncorrected(self.model, "a16w8", self.device, **CALIBRATED)

    def remedied(self):
        """Return the project with each rule, and for the device that the message proposes."""
        made = [edits.assign(self.project(), *rule) for rule in self.rules]
        return [*made, *([] if self.device == U85 else [on_device(self.project(), U85)])]


REFUSED = [
    Refused(
        RESIDUAL,
        "ethos-u65-256",
        "conv2d_2",
        "could not run on NPU",
        [("node_name", "add_1", "cpu"), ("module_name", "b", "a8w8")],
    ),
    Refused(
        "softmax",
        "ethos-u65-256",
        "conv2d",
        "could not run on NPU",
        [("node_name", "softmax", "cpu"), ("module_name", "conv", "a8w8")],
    ),
    Refused(
        "wide_networks.py:growing",
        "ethos-u65-256",
        "conv_transpose2d",
        "could not run on NPU",
        [("node_name", "conv_transpose2d", config) for config in ("cpu", "a8w8")],
    ),
    Refused(
        "wide_networks.py:summing",
        "ethos-u85-256",
        "cumsum",
        "only supports torch.int8 weights",
        [("node_name", "cumsum", config) for config in ("cpu", "a8w8")],
    ),
]


def named(cases, quick):
    """Return cases as parameters, slow where the model has not ``quick`` in its name."""
    return [
        pytest.param(case, id=case.model, marks=[pytest.mark.slow] * (quick not in case.model))
        for case in cases
    ]


@pytest.mark.slow
@pytest.mark.parametrize("case", named(REFUSED, ""))
def test_that_what_is_refused_in_16_bits_is_foreseen_and_not_where_a_rule_helps(engine, case):
    assert foreseen(engine, case.project()) == [case.node]
    for rule in case.rules:
        assert foreseen(engine, edits.assign(case.project(), *rule)) == []


@pytest.mark.parametrize("case", named(REFUSED, "summing"))
def test_that_what_is_foreseen_comes_true(engine, case):
    assert engine.run(case.project(), "lower", "evaluate") == "failed"
    assert engine.failure.where.id == case.node
    assert case.words in engine.failures[-1].message


@pytest.mark.slow
@pytest.mark.parametrize("case", named(REFUSED[:2], ""))
def test_that_what_is_said_to_help_a_convolution_that_is_read_often_helps(engine, case):
    follow_forecast(engine, "int16-convolution-shared", case.project(), *case.remedied())


@pytest.mark.slow
@pytest.mark.parametrize("case", named(REFUSED[2:], ""))
def test_that_what_is_said_to_help_an_operator_helps(engine, case):
    follow_forecast(engine, "operator-not-supported", case.project(), *case.remedied())


TRANSPOSED_CONVOLUTION = ("node_target", "aten.conv_transpose2d.input")
PER_TENSOR = QuantConfig(weight=Weight(bits=4, per_channel=False))


@pytest.mark.parametrize("target", ["ethos-u55-128", pytest.param("ethos-u85-256", marks=pytest.mark.slow)])
def test_that_4_bits_a_channel_are_warned_of_where_executorch_takes_the_wrong_axis(engine, target):
    made = uncorrected("wide_networks.py:growing", "a8w4", target)
    assert foreseen(engine, made) == ["conv_transpose2d"]
    assert engine.run(made, "convert") == "failed"
    for config in ("a8w8", PER_TENSOR):
        assert foreseen(engine, edits.assign(made, *TRANSPOSED_CONVOLUTION, config)) == []


@pytest.mark.slow
@pytest.mark.parametrize("config", ["a8w8", PER_TENSOR])
@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u85-256"])
def test_that_8_bits_or_one_grid_for_the_tensor_help_there(engine, target, config):
    made = uncorrected("wide_networks.py:growing", "a8w4", target)
    helped = edits.assign(made, *TRANSPOSED_CONVOLUTION, config)
    assert engine.run(helped, "verify", "evaluate") == "done", engine.failure
    assert engine.result(helped, "verify").max_lsb <= 1


LET_GO = (RESIDUAL, "softmax", "wide_networks.py:growing", "wide_networks.py:summing")


def let_go(model):
    return project(model, "a16w8", **CALIBRATED if model == RESIDUAL else {})


def test_that_nothing_is_foreseen_where_a_correction_lets_it_go(engine):
    for model in LET_GO:
        assert foreseen(engine, let_go(model)) == []


@pytest.mark.slow
@pytest.mark.parametrize("model", LET_GO)
def test_that_what_a_correction_lets_go_is_lowered(engine, model):
    assert engine.run(let_go(model), "lower", "evaluate") == "done", engine.failure


def test_that_eight_bits_and_u85_are_not_warned_of(engine):
    assert foreseen(engine, project(RESIDUAL, "a8w8")) == []
    assert foreseen(engine, project(RESIDUAL, "a16w8", "ethos-u85-256")) == []
    assert foreseen(engine, project("attending", "a16w8")) == []


def masked():
    return uncorrected("masked", "a16w8")


def test_that_products_that_read_a_value_twice_are_foreseen(engine):
    assert foreseen(engine, masked()) == ["matmul_1"]
    assert foreseen(engine, edits.assign(masked(), "node_name", "matmul_1", "cpu")) == []
    assert foreseen(engine, project("masked")) == []


@pytest.mark.slow
def test_that_products_that_read_a_value_twice_go_once_a_remedy_is_followed(engine):
    remedied = (
        edits.assign(masked(), "node_name", "matmul_1", "cpu"),
        edits.assign(masked(), "global", "", "a8w8"),
        on_device(masked(), U85),
    )
    follow_forecast(engine, "int16-value-read-again", masked(), *remedied)
    failure = follow(engine, "passthrough-partition", masked(), *remedied, skip=("evaluate",))
    assert failure.where.id == "matmul_1"


def joined(engine):
    """Return a project with the clamp of a join kept, and the same without the correction."""
    shutil.copy(Path(__file__).parents[1] / "corrected_networks.py", engine.folder)
    corrected = project("corrected_networks.py:joined")
    return corrected, without(corrected, "keep_relu_clamps")


@pytest.mark.slow
def test_that_a_program_without_a_correction_says_that_it_is_off(engine):
    _, plain = joined(engine)
    assert engine.run(plain, "lower", "evaluate") == "done", engine.failure
    (warning,) = engine.result(plain, "lower").warnings
    assert "keep_relu_clamps=true" in warning


@pytest.mark.slow
def test_that_a_lost_clamp_comes_true_and_the_remedy_brings_it_back(engine):
    corrected, plain = joined(engine)
    assert engine.run(plain, "verify", "evaluate") == "done", engine.failure
    assert engine.result(plain, "verify").max_lsb > 3
    assert engine.run(corrected, "verify", "evaluate") == "done", engine.failure
    assert engine.result(corrected, "verify").max_lsb <= 1
    assert engine.result(corrected, "lower").warnings == ()
