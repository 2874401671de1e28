"""Improvers that compare each layer of the quantized program with the float model."""

import copy
import itertools
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from tests.engine import improved_networks, networks
from tests.engine.in_process import project
from tests.problems import refused
from workbench import api
from workbench.analysis.ranges import MethodRanges, read_chosen
from workbench.engine.quantization import improvement
from workbench.engine.quantization.float_layers import layers
from workbench.engine.quantization.layer_walk import rows
from workbench.npu import convolution
from workbench.npu.program import load
from workbench.project import edits, store
from workbench.project.model import DataSource, Evaluation
from workbench.results import IMPROVED_WEIGHTS

pytestmark = [pytest.mark.engine, pytest.mark.shared_results]
DATA = {"calibration": DataSource(spec="improved_networks.py:samples")}


@pytest.fixture(autouse=True)
def _networks(request):
    if "engine" in request.fixturenames:
        folder = request.getfixturevalue("engine").folder
        shutil.copy(Path(improved_networks.__file__), folder)


def improved(made, *improvers, **settings):
    for improver in improvers:
        made = edits.set_improver(made, improver, on=True)
    return edits.set_improving(made, **settings)


def improvements(engine, made):
    assert engine.run(made, "prepare") == "done", engine.events
    return engine.result(made, "prepare").improvements


def sqnr(engine, made):
    assert engine.run(made, "evaluate") == "done", engine.events
    return engine.result(made, "evaluate").sqnr_db


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Linear(6, 5), (2, 3, 6)),
        (nn.Conv1d(4, 6, 3, stride=2, padding=2, dilation=2, groups=2), (2, 4, 11)),
        (nn.Conv2d(4, 8, (3, 2), stride=(1, 2), padding=(1, 0), groups=4), (2, 4, 7, 9)),
        (nn.Conv2d(3, 4, 3), (3, 9, 8)),
        (nn.Conv3d(2, 3, (1, 3, 2), padding=(0, 1, 1), dilation=(1, 2, 1)), (1, 2, 4, 6, 5)),
    ],
    ids=["linear", "conv1d", "conv2d", "unbatched", "conv3d"],
)
def test_that_rows_of_inputs_times_the_weights_are_a_layers_outputs(layer, shape):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    module = torch.export.export(layer, (x,)).module(check_guards=False)
    (known,) = layers(module)
    inputs, outputs = rows(known.node, known, x, layer(x))
    weight = layer.weight.reshape(known.groups, -1, inputs.shape[-1])
    bias = layer.bias.reshape(known.groups, 1, -1)
    assert torch.allclose(inputs @ weight.transpose(1, 2) + bias, outputs, atol=1e-5)


@pytest.mark.parametrize(
    ("model", "improver", "gain"),
    [
        pytest.param("uneven", "gptq", 0.5, marks=pytest.mark.slow),
        pytest.param("uneven", "rounding", 0.5, marks=pytest.mark.slow),
        pytest.param("uneven", "norms", 0.5, marks=pytest.mark.slow),
        pytest.param("uneven", "clips", 0.3, marks=pytest.mark.slow),
        pytest.param("normed", "scales", 0.3, marks=pytest.mark.slow),
        pytest.param("overwriting", "rounding", 0.5, marks=pytest.mark.slow),
    ],
)
def test_that_an_improver_gains_on_samples_that_calibration_did_not_see(engine, model, improver, gain):
    target = "ethos-u85-256" if model == "normed" else "ethos-u55-128"
    plain = project(model, "a8w4", target, **DATA)
    made = improved(plain, improver)
    assert sqnr(engine, made) > sqnr(engine, plain) + gain
    (told,) = improvements(engine, made)
    assert told.places
    assert told.held_out
    assert told.after_db > told.before_db


def improved_weights(engine, made):
    return load_file(engine.path(made, "prepare") / IMPROVED_WEIGHTS)


@pytest.mark.slow
def test_that_scales_are_left_out_of_a_layer_without_a_gain_on_samples_held_back(engine):
    data = DataSource(spec="improved_networks.py:moving_samples")
    made = improved(
        project("improved_networks.py:two_norms", "a8w4", "ethos-u85-256", calibration=data), "scales"
    )
    (told,) = improvements(engine, made)
    assert told.places == 1
    assert told.left
    assert {*improved_weights(engine, made)} == {"steady.weight", "steady_norm.weight"}


@pytest.mark.slow
def test_that_a_transform_that_lowers_the_quality_on_held_out_samples_is_left_out(engine):
    # Evaluation has data of its own: none of the calibration samples is taken for it.
    data = DataSource(spec="improved_networks.py:surprising_samples")
    settings = {"calibration": data, "evaluation": Evaluation(data=data)}
    made = improved(project("improved_networks.py:one_norm", "a8w4", "ethos-u85-256", **settings), "smooth")
    (told,) = improvements(engine, made)
    assert not told.kept
    assert told.places
    assert told.after_db < told.before_db
    assert improved_weights(engine, made) == {}


@pytest.mark.slow
def test_that_clips_are_left_out_where_rounding_alone_is_better(engine):
    plain = project("small", "a8w4", **DATA)
    alone, both = improved(plain, "gptq"), improved(plain, "clips", "gptq")
    (alone_told,) = improvements(engine, alone)
    clips, rounding = improvements(engine, both)
    assert not clips.kept
    assert clips.after_db < clips.before_db == alone_told.after_db
    assert rounding == alone_told
    mine, other = (improved_weights(engine, each) for each in (alone, both))
    assert {*mine} == {*other}
    assert all(torch.equal(mine[name], other[name]) for name in mine)
    assert not engine.result(both, "prepare").ranges


def folded(state, weight, norm):
    """A convolution's weights [out, d] with its batch norm, as PyTorch defines it."""
    flat = state[weight].double().flatten(1)
    if norm is None:
        return flat
    scale = state[f"{norm}.weight"] / (state[f"{norm}.running_var"] + 1e-5).sqrt()
    return flat * scale.double()[:, None]


@pytest.mark.parametrize(
    ("config", "limit", "improvers"),
    [
        ("a8w4", 7, ("gptq",)),
        pytest.param("a8w4", 7, ("clips", "rounding"), marks=pytest.mark.slow),
        pytest.param("a8w8", 127, ("rounding",), marks=pytest.mark.slow),
        pytest.param("a8w8-per-tensor", 127, ("clips", "gptq"), marks=pytest.mark.slow),
        pytest.param("a8w4", 7, ("rounding", "norms"), marks=pytest.mark.slow),
    ],
)
def test_that_the_chosen_integers_are_those_of_the_compiled_program(
    engine, monkeypatch, config, limit, improvers
):
    made = improved(project("uneven", config, **DATA), *improvers)
    engine.lowered(made)
    seen = []
    decode = convolution.load_weights

    def recorded(state, ifm, kernel, *, depthwise):
        weights = decode(state, ifm, kernel, depthwise=depthwise)
        seen.append(weights.matrix)
        return weights

    monkeypatch.setattr(convolution, "load_weights", recorded)
    program = load(engine.path(made, "lower") / "program.pte")
    program.run([next(iter(networks.samples()))[0].numpy()])
    state = {k: v.clone() for k, v in networks.uneven()[0].state_dict().items()}
    changed = load_file(engine.path(made, "prepare") / IMPROVED_WEIGHTS)
    nearest = {k: v.clone() for k, v in state.items()}
    state |= changed
    differ = 0
    for name, norm in (("first", "bn"), ("each", None), ("last", None)):
        weight, former = (folded(s, f"{name}.weight", norm) for s in (state, nearest))
        per_tensor = config.endswith("per-tensor")
        step, old = (
            (w.abs().amax() if per_tensor else w.abs().amax(1, keepdim=True)) / limit
            for w in (weight, former)
        )
        integers = (weight / step).round()
        # The changed weights lie on the grid that observers take from them.
        if f"{name}.weight" in changed:
            assert torch.allclose(weight / step, integers, atol=1e-3)
        differ += int((integers != (former / old).round()).sum())
        columns = {tuple(sorted(row.int().tolist())) for row in integers}
        decoded = {tuple(sorted(column.astype(np.int64).tolist())) for matrix in seen for column in matrix.T}
        assert columns <= decoded, name
    assert differ


@pytest.mark.slow
def test_that_the_float_model_is_unchanged_by_activation_aware_scales(engine):
    made = improved(project("normed", "a8w4", "ethos-u85-256", **DATA), "scales")
    (told,) = improvements(engine, made)
    assert told.places == 1
    model, _ = networks.normed()
    better = copy.deepcopy(model)
    better.load_state_dict(
        {**model.state_dict(), **load_file(engine.path(made, "prepare") / IMPROVED_WEIGHTS)}
    )
    assert not torch.equal(better.norm.weight, model.norm.weight)
    for sample, _ in networks.samples():
        assert torch.allclose(better(sample), model(sample), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_that_layers_in_float_and_in_16_bits_keep_their_weights_or_get_a_grid_of_8(engine):
    made = project("uneven", "a8w4", **DATA)
    made = edits.assign(made, "module_name", "each", "float")
    made = improved(edits.assign(made, "module_name", "last", "a16w8"), "gptq")
    (told,) = improvements(engine, made)
    assert told.places == 2
    changed = load_file(engine.path(made, "prepare") / IMPROVED_WEIGHTS)
    assert "each.weight" not in changed
    steps = changed["last.weight"].flatten(1) * 127
    steps = steps / changed["last.weight"].flatten(1).abs().amax(1, keepdim=True)
    assert torch.allclose(steps, steps.round(), atol=1e-2)


@pytest.mark.slow
def test_that_the_same_settings_give_the_same_weights_and_another_seed_other_ones(engine):
    made = improved(project("uneven", "a8w4", **DATA), "gptq", samples=8)
    other = edits.set_improving(made, seed=1)
    for each in (made, other):
        improvements(engine, each)
    first, second = ((engine.path(each, "prepare") / IMPROVED_WEIGHTS).read_bytes() for each in (made, other))
    assert first != second
    shutil.rmtree(engine.path(made, "prepare"))
    improvements(engine, made)
    assert (engine.path(made, "prepare") / IMPROVED_WEIGHTS).read_bytes() == first


def test_that_too_few_samples_are_refused(engine):
    few = DataSource(spec="improved_networks.py:samples", limit=7)
    made = improved(project("uneven", "a8w4", calibration=few), "gptq")
    assert engine.run(made, "prepare") == "failed"
    assert engine.failure.code == "improvers-too-few-samples"


def test_that_two_roundings_in_a_file_are_refused_and_by_edits_replace_each_other(engine):
    made = project("uneven", "a8w4", **DATA)
    both = made.model_copy(update={"improvers": ("gptq", "rounding")})
    assert engine.run(both, "prepare") == "failed"
    assert engine.failure.code == "improvers-exclude-each-other"
    assert improved(made, "gptq", "rounding").improvers == ("rounding",)
    assert improved(made, "rounding", "gptq").improvers == ("gptq",)


def test_that_layers_changed_before_the_time_limit_are_kept(engine, monkeypatch):
    """The clock jumps behind the second layer."""
    times = itertools.chain([0.0] * 4, itertools.repeat(1000.0))
    clock = SimpleNamespace(monotonic=lambda: next(times))
    monkeypatch.setattr(improvement, "time", clock)
    made = improved(project("uneven", "a8w4", **DATA), "gptq", "norms", time_limit_s=600)
    first, second = improvements(engine, made)
    assert (first.places, second.places) == (2, 0)
    assert "time limit of 600 s" in first.left
    assert "time limit of 600 s" in second.left
    assert [*load_file(engine.path(made, "prepare") / IMPROVED_WEIGHTS)] == [
        "bn.bias",
        "each.bias",
        "each.weight",
        "first.weight",
    ]


@pytest.mark.slow
def test_that_zero_inputs_of_a_layer_leave_its_weights(engine):
    made = improved(project("improved_networks.py:silent", "a8w4", **DATA), "gptq")
    (told,) = improvements(engine, made)
    assert told.places == 1
    assert told.left


@pytest.mark.slow
def test_that_ranges_of_a_project_go_before_learned_ones(engine):
    made = improved(project("uneven", "a8w4", **DATA), "clips")
    assert engine.run(made, "calibrate") == "done"
    chosen = engine.result(made, "calibrate").improved
    assert chosen == engine.result(made, "prepare").ranges
    for wanted in ({}, {"relu": (0.0, 1.5)}):
        pinned = made
        for tensor, ends in wanted.items():
            pinned = edits.fix_range(pinned, tensor, *ends)
        assert read_chosen(pinned, engine.path(made, "calibrate"), MethodRanges())[0] == (
            {**chosen, **wanted}
        )


@pytest.mark.slow
@pytest.mark.parametrize("improvers", [("clips", "rounding"), ("equalize", "norms")])
def test_that_the_script_of_a_project_with_improvers_makes_the_same_bytes(engine, improvers):
    made = improved(project("uneven", "a8w4", **DATA), *improvers)
    file = engine.folder / "net.qwb"
    store.save(made, file)
    opened, path = api.open(file), engine.folder / "scripts" / "make.py"
    with refused("script-improvers" if "clips" not in improvers else "calibration-outdated"):
        api.script(opened, path, cache=engine.cache)
    engine.lowered(made)
    path.parent.mkdir()
    api.script(opened, path, cache=engine.cache).save(path)
    program = engine.folder / "script.pte"
    done = subprocess.run([sys.executable, path, program], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    assert program.read_bytes() == (engine.path(made, "lower") / "program.pte").read_bytes()
