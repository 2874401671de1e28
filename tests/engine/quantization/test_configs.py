"""Every config, observer and device family through the real quantizer, compiler and model."""

import hashlib
import itertools

import pytest
from executorch.backends.arm._passes.decompose_lstm_pass import DecomposeLstmPass

from tests.engine.in_process import ALL_SAMPLES, project, without
from tests.engine.remedies import follow
from tests.for_each import for_each
from workbench.project import edits
from workbench.project.configs import Activation, Observer, QuantConfig, Weight
from workbench.project.model import DataSource, TargetChoice

pytestmark = [pytest.mark.engine, pytest.mark.shared_results]


FAMILIES = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")
PRESETS = ("a8w8", "a8w8-per-tensor", "a16w8", "a8w4")
# Two presets on a family each; all their pairs in .ci/test --all.
QUICK_PAIRS = {("a8w8", "ethos-u55-128"), ("a8w4", "ethos-u85-256")}
PAIRS = [
    pytest.param(*pair, marks=() if pair in QUICK_PAIRS else pytest.mark.slow)
    for pair in itertools.product(PRESETS, FAMILIES)
]


@pytest.mark.parametrize(("config", "target"), PAIRS)
def test_that_every_preset_verifies_on_every_family(engine, config, target):
    made = project("small", config, target, **ALL_SAMPLES)
    assert engine.run(made, "verify", "evaluate") == "done"
    lowered, verified = engine.result(made, "lower"), engine.result(made, "verify")
    assert lowered.delegates == 1
    assert lowered.target == target
    assert verified.elements == 8 * 4
    assert verified.max_lsb <= 1
    assert verified.argmax_equal == 8


OBSERVERS = [
    Observer(kind="minmax"),
    Observer(kind="moving_average"),
    Observer(kind="percentile", percentile=99.0),
    Observer(kind="fixed", minimum=-8.0, maximum=16.0),
]


@for_each("observer", OBSERVERS)
def test_that_every_observer_gives_ranges(engine, observer):
    assert_ranges(engine, observer, symmetric=observer.kind == "minmax")


@pytest.mark.slow
@for_each("observer", OBSERVERS)
def test_that_every_observer_gives_ranges_of_the_other_kind(engine, observer):
    assert_ranges(engine, observer, symmetric=observer.kind != "minmax")


def assert_ranges(engine, observer, symmetric):
    made = observed(observer, symmetric)
    assert engine.run(made, "calibrate") == "done"
    ranges = [r for r in engine.result(made, "calibrate").ranges if r.kind == "activation"]
    assert ranges
    if symmetric:
        assert {r.zero_point for r in ranges} == {0}
    if observer.kind == "fixed":
        assert {(r.minimum, r.maximum) for r in ranges} == {(-8.0, 16.0)}


@pytest.mark.slow
@pytest.mark.parametrize("observer", OBSERVERS, ids=lambda o: o.kind)
@pytest.mark.parametrize("symmetric", [False, True])
def test_that_every_observer_gives_a_program(engine, observer, symmetric):
    assert engine.verified(observed(observer, symmetric)).max_lsb <= 1


def observed(observer, symmetric):
    config = QuantConfig(activation=Activation(symmetric=symmetric, observer=observer))
    return project("small", config, **ALL_SAMPLES)


def test_that_a_percentile_clips_more_than_the_extremes(engine):
    scales = []
    for observer in (Observer(kind="minmax"), Observer(kind="percentile", percentile=90.0)):
        config = QuantConfig(activation=Activation(observer=observer))
        made = project("small", config, **ALL_SAMPLES)
        assert engine.run(made, "calibrate") == "done"
        scales.append(engine.result(made, "calibrate").ranges[0].scale)
    assert scales[1] < 0.8 * scales[0]


def test_that_ranges_equal_those_of_torchaos_own_observer(engine):
    import torch
    from torchao.quantization.pt2e import HistogramObserver

    from tests.engine import networks

    made = project("small", **ALL_SAMPLES)
    assert engine.run(made, "calibrate") == "done"
    observer = HistogramObserver(
        dtype=torch.int8, quant_min=-128, quant_max=127, qscheme=torch.per_tensor_affine, eps=2**-16
    )
    for sample, _ in networks.samples():
        observer(sample)
    scale, zero_point = observer.calculate_qparams()
    found = engine.result(made, "calibrate").ranges[0]
    assert (found.minimum, found.maximum) == (float(observer.min_val), float(observer.max_val))
    assert (found.scale, found.zero_point) == (float(scale), int(zero_point))


def test_that_uint8_io_is_accepted_beside_int8_inside(engine):
    made = edits.assign(project("small", **ALL_SAMPLES), "io", "", "uint8")
    assert engine.run(made, "convert") == "done"
    assert "uint8" in {r.dtype for r in engine.result(made, "calibrate").ranges}


@pytest.mark.slow
def test_that_integer_io_needs_no_kernel_on_the_cpu(engine):
    made = project("small", **ALL_SAMPLES)
    options = {**made.target.options, "integer_io": True}
    made = edits.set_target(made, TargetChoice(id=made.target.id, options=options))
    assert engine.run(made, "package", "evaluate") == "done"
    lowered = engine.result(made, "lower")
    assert lowered.kernels == ()
    assert lowered.cpu_nodes == ()
    assert engine.result(made, "verify").max_lsb <= 1


def test_that_a_float_project_delegates_nothing_and_says_so(engine):
    made = project("small", "float", **ALL_SAMPLES)
    assert engine.run(made, "verify") == "done"
    lowered = engine.result(made, "lower")
    assert lowered.delegates == 0
    assert len(lowered.warnings) == 1
    assert engine.result(made, "evaluate").max_abs_error < 1e-5


def test_that_a_module_left_in_float_is_on_the_cpu_with_its_reason(engine):
    made = edits.assign(project("small", **ALL_SAMPLES), "module_name", "fc", "float")
    on_cpu = {n.module: n.reason for n in engine.lowered(made).cpu_nodes}
    assert "not quantized" in on_cpu["fc"] or "float" in on_cpu["fc"]
    reports = engine.result(made, "prepare").annotations
    assert not any(r.quantized for r in reports if r.module == "fc")


def test_that_a_type_an_operator_and_a_node_can_be_named(engine):
    made = edits.assign(
        project("small", **ALL_SAMPLES), "module_type", "torch.nn.modules.linear.Linear", "a16w8"
    )
    made = edits.assign(made, "node_target", "aten.conv2d.default", "a16w8")
    assert engine.run(made, "prepare") == "done"
    found = {r.node: r.config for r in engine.result(made, "prepare").annotations if r.quantized}
    assert found["linear"] == "a16w8"
    assert found["conv2d"] == "a16w8"
    made = edits.assign(made, "node_name", "conv2d", "a8w8")
    assert engine.run(made, "prepare") == "done"
    found = {r.node: r.config for r in engine.result(made, "prepare").annotations if r.quantized}
    assert found["conv2d"] == "a8w8"


def test_that_a_class_named_without_its_module_gets_the_same(engine):
    full, short = (
        edits.assign(project("small"), "module_type", name, "a16w8")
        for name in ("torch.nn.modules.linear.Linear", "Linear")
    )
    found = []
    for made in (full, short):
        assert engine.run(made, "prepare") == "done", engine.failure
        notes = engine.result(made, "prepare").annotations
        found.append({note.node: note.config for note in notes})
    assert found[0] == found[1]
    assert found[0]["linear"] == "a16w8"


def test_that_a_class_name_of_two_classes_stops_the_run(engine):
    (engine.folder / "two.py").write_text(TWO_CLASSES)
    made = edits.assign(project("two.py:net"), "module_type", "Linear", "a16w8")
    assert engine.run(made, "prepare") == "failed"
    assert "two.Linear" in engine.failure.hint
    assert "torch.nn.modules.linear.Linear" in engine.failure.hint


TWO_CLASSES = """
import torch
from torch import nn


class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        return self.inner(x) * 2.0


def net():
    return nn.Sequential(Linear()).eval(), (torch.ones(1, 4),)
"""


def test_that_an_operator_torch_lacks_is_refused_by_name(engine):
    made = edits.assign(project("small"), "node_target", "aten.nonsense.default", "a8w8")
    assert engine.run(made, "prepare") == "failed"
    assert "aten.nonsense.default" in engine.failure.message


@pytest.mark.slow
def test_that_a_retargeted_program_equals_one_lowered_from_the_start(engine, tmp_path_factory):
    from tests.engine.in_process import Engine

    first = project("small", **ALL_SAMPLES)
    assert engine.run(first, "lower", "evaluate") == "done"
    moved = edits.set_target(first, TargetChoice(id="ethos-u65-512"))
    assert engine.run(moved, "lower", "evaluate") == "done"
    assert engine.computed == ["lower"]
    assert engine.result(moved, "lower").retargeted
    fresh = Engine(tmp_path_factory.mktemp("fresh"))
    try:
        assert fresh.run(moved, "lower", "evaluate", accelerate=False) == "done"
        digests = {
            hashlib.sha256((e.path(moved, "lower") / "program.pte").read_bytes()).hexdigest()
            for e in (engine, fresh)
        }
        slow, fast = fresh.result(moved, "lower"), engine.result(moved, "lower")
    finally:
        fresh.close()
    assert len(digests) == 1
    assert slow.vela == fast.vela
    assert slow.cpu_nodes == fast.cpu_nodes


@pytest.mark.slow
def test_that_two_delegates_around_a_cpu_operator_verify(engine):
    made = without(project("functional6"), "plain_operators")
    assert engine.run(made, "verify", "evaluate") == "done"
    lowered = engine.result(made, "lower")
    assert lowered.delegates == 2
    assert len(lowered.vela) == 2
    relu = next(n for n in lowered.cpu_nodes if "hardtanh" in n.op or "relu6" in n.op or "clamp" in n.op)
    assert relu.reason
    assert engine.result(made, "verify").max_lsb <= 2
    unpatterned = [r for r in engine.result(made, "prepare").annotations if "relu6" in r.op]
    assert "no pattern" in unpatterned[0].reason


@pytest.mark.slow
def test_that_two_inputs_and_two_outputs_go_through(engine):
    made = project("two_inputs")
    assert engine.run(made, "package") == "done"
    assert len(engine.result(made, "evaluate").outputs) == 2
    assert engine.result(made, "verify").max_lsb <= 1


@pytest.mark.slow
def test_that_sixteen_bit_softmax_on_u55_fails_in_a_sentence(engine):
    made = without(project("softmax", "a16w8"), "rounded_convolutions")
    assert engine.run(made, "lower", "evaluate") == "failed"
    assert engine.failure.code == "int16-convolution-shared"
    assert "a8w8" in engine.failure.hint


@pytest.mark.slow
def test_that_an_eight_bit_softmax_on_u55_is_lowered(engine):
    assert engine.run(project("softmax", "a8w8"), "lower", "evaluate") == "done"


@pytest.mark.slow
def test_that_both_branches_of_a_condition_are_quantized(engine):
    made = project("branching", target="ethos-u85-256", **ALL_SAMPLES)
    assert engine.run(made, "verify") == "done"
    assert engine.result(made, "export").branches == ("cond",)
    assert engine.result(made, "evaluate").sqnr_db > 20
    assert engine.result(made, "lower").delegates == 1
    assert engine.result(made, "verify").max_lsb <= 1


@pytest.mark.slow
def test_that_a_condition_on_u55_is_refused_in_a_sentence(engine):
    made = project("branching", **ALL_SAMPLES)
    assert engine.run(made, "lower") == "failed"
    assert engine.failure.code == "branches-not-supported"
    assert engine.result(made, "evaluate").sqnr_db > 20


@pytest.mark.slow
def test_that_data_that_changes_is_warned_of_and_never_compared_with_older_results(engine):
    calibration = DataSource(spec="networks.py:unseeded_samples")
    unseeded = project("small", calibration=calibration)
    assert engine.run(unseeded, "run") == "done"
    (warning,) = engine.result(unseeded, "calibrate").warnings
    assert "Seed" in warning
    agreement = engine.result(unseeded, "run").against_reference
    assert agreement.exact == agreement.elements
    assert engine.run(project("small", **ALL_SAMPLES), "calibrate") == "done"
    assert engine.result(project("small", **ALL_SAMPLES), "calibrate").warnings == ()


@pytest.mark.slow
def test_that_a_failing_pass_names_the_module_and_float_helps(engine, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("Such a cell is not supported.")

    monkeypatch.setattr(DecomposeLstmPass, "_build_cell_step", fail)
    refused = project("recurrent", target="ethos-u85-256")
    floating = edits.assign(refused, "module_name", "rnn", "float")
    assert follow(engine, "preparing-failed", refused, floating).where.id == "rnn"


def test_that_per_channel_and_four_bit_weights_are_told_apart(engine):
    for weight, channels, qmax in (
        (Weight(), 8, 127),
        (Weight(per_channel=False), 1, 127),
        (Weight(bits=4), 8, 7),
    ):
        made = project("small", QuantConfig(weight=weight))
        assert engine.run(made, "calibrate") == "done"
        found = next(r for r in engine.result(made, "calibrate").ranges if r.kind == "weight")
        assert (found.channels, found.qmax) == (channels, qmax)


def test_that_the_body_of_a_loop_is_quantized(engine):
    made = project("looping", target="ethos-u85-256", **ALL_SAMPLES)
    assert engine.run(made, "evaluate") == "done"
    assert engine.result(made, "export").branches == ("while_loop",)
    assert engine.result(made, "calibrate").ranges
    assert engine.result(made, "evaluate").cosine > 0.95
