"""Sliding windows and spectra are the same values as slices, joins and products."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from tests.engine import window_networks
from tests.engine.in_process import Engine, project
from tests.engine.test_delegate_corrections import is_right
from workbench.engine.ethos_u.corrections.unsupported_operators import plain_operators
from workbench.engine.fx.functional_writes import with_functional_writes
from workbench.project import edits

pytestmark = pytest.mark.engine
FILTERED = (
    "frequencies_set_to_zero",
    "frequencies_set",
    "frequencies_masked",
    "frequencies_pasted",
    "parts_written",
)
NAMES = (
    "columns",
    "strided_columns",
    "tiles_and_back",
    "folds",
    "folded_rows",
    "frames",
    "rows",
    "frames_apart",
    "pairs",
    "power",
    "magnitude",
    "rotary",
    "spectral_layer",
    "global_filter",
    "correlated",
    "whole_transforms",
    "inverse",
    "complex_layers",
    "shifted_plane",
    *FILTERED,
)
# Spectra that 8 bits do not hold.
WIDE = ("magnitude", "spectral_layer", "global_filter", "correlated", "inverse", "complex_layers", *FILTERED)
LEFT_TO_THE_CPU = ("im2col", "col2im", "unfold", "stft", "istft", "real", "imag")


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    made = Engine(tmp_path_factory.mktemp("windows"))
    shutil.copy(Path(window_networks.__file__), made.folder)
    yield made
    made.close()


def quantizer(dtype):
    activation = SimpleNamespace(dtype=dtype)
    config = SimpleNamespace(input_activation=activation)
    rule = SimpleNamespace(
        node_finder=SimpleNamespace(find_nodes=lambda module: module.graph.nodes), quantization_config=config
    )
    return SimpleNamespace(
        global_config=config,
        tosa_spec="TOSA-1.0+INT+int16+int4+cf",
        quantizer=SimpleNamespace(quantizers=[rule], set_node_finder=lambda config, finder: None),
    )


def written(name, dtype=torch.int16):
    """Return the largest error of the network as it is written, and its operators."""
    changed = name in window_networks.CHANGES
    model, (x,) = window_networks.spectrum_changed(name) if changed else getattr(window_networks, name)()
    module = with_functional_writes(torch.export.export(model, (x,))).module()
    plain_operators(module, quantizer(dtype))
    operators = [
        str(node.target).split(".")[1]
        for node in module.graph.nodes
        if node.op == "call_function" and "aten" in str(node.target)
    ]
    return float((module(x) - model(x)).detach().abs().max()), operators


@pytest.mark.slow
@pytest.mark.parametrize("name", [*NAMES, *window_networks.CHANGES])
def test_that_windows_and_spectra_keep_their_values(name):
    error, operators = written(name)
    assert error < 1e-4
    assert not set(operators) & set(LEFT_TO_THE_CPU)
    assert not [name for name in operators if "fft" in name or "complex" in name]


def test_that_a_magnitude_stays_in_float_in_eight_bits():
    error, operators = written("magnitude", torch.int8)
    assert error == 0
    assert "_fft_r2c" in operators


@pytest.mark.parametrize("name", ["frequencies_masked", "rolled", "by_complex"])
def test_that_what_the_cpu_cannot_compute_of_complex_numbers_is_real_in_eight_bits(name):
    error, operators = written(name, torch.int8)
    assert error < 1e-4
    assert not [name for name in operators if "fft" in name or "complex" in name]


def test_that_other_windows_are_left_as_they_are():
    def made(run, x):
        class Network(torch.nn.Module):
            def forward(self, x):
                return run(x)

        module = torch.export.export(Network(), (x,)).module()
        plain_operators(module, quantizer(torch.int16))
        assert torch.equal(module(x), run(x))
        return [str(node.target) for node in module.graph.nodes]

    image, signal = torch.randn(1, 2, 8, 8), torch.randn(1, 64)
    fold = torch.nn.functional.fold
    assert "aten.col2im.default" in made(lambda x: fold(x[0, :, :, 0].repeat(9, 4)[:, :9], (5, 5), 3), image)
    assert "aten.abs.default" in made(torch.abs, signal)


@pytest.mark.slow
@pytest.mark.parametrize("config", ["a8w8", "a16w8"])
@pytest.mark.parametrize("device", ["ethos-u55-128", "ethos-u85-256"])
@pytest.mark.parametrize("name", [name for name in NAMES if name not in WIDE])
def test_that_windows_and_spectra_run_on_the_npu(name, device, config, engine):
    made = project(f"window_networks.py:{name}", config, device)
    assert is_right(engine, made)
    assert {node.cause for node in engine.result(made, "lower").cpu_nodes} == {"border"}


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in WIDE if name != "magnitude"])
def test_that_spectra_are_multiplied_and_turned_back_on_the_npu(name, engine):
    made = project(f"window_networks.py:{name}", "a16w8", "ethos-u85-256")
    assert engine.run(made, "verify") == "done", engine.failure
    verified = engine.result(made, "verify")
    assert verified.compiled.equal == verified.compiled.elements
    assert engine.result(made, "evaluate").outputs[0].sqnr_db > 40
    assert {node.cause for node in engine.result(made, "lower").cpu_nodes} == {"border"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["global", "node_name"])
def test_that_a_magnitude_in_16_bits_runs_on_the_npu_whatever_rule_gives_them(kind, engine):
    made = project("window_networks.py:magnitude", "a8w8" if kind == "node_name" else "a16w8")
    if kind == "node_name":
        made = edits.assign_many(made, kind, ["fft_rfft", "abs_1"], "a16w8")
    assert engine.run(made, "verify", "evaluate") == "done", engine.failure
    verified = engine.result(made, "verify")
    assert verified.compiled.equal == verified.compiled.elements
    assert verified.max_lsb <= 8
    assert {node.cause for node in engine.result(made, "lower").cpu_nodes} == {"border"}


@pytest.mark.slow
@pytest.mark.parametrize("config", ["a8w8", "a16w8"])
def test_that_an_inverse_spectrogram_is_right(config, engine):
    assert is_right(engine, project("window_networks.py:inverse", config, "ethos-u55-128"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["long_mean", "mean_of_a_picture"])
@pytest.mark.parametrize("device", ["ethos-u55-128", "ethos-u85-256"])
def test_that_a_mean_over_more_places_than_a_register_counts_is_right(device, name, engine):
    made = project(f"window_networks.py:{name}", "a8w8", device)
    assert is_right(engine, made)
    assert {node.cause for node in engine.result(made, "lower").cpu_nodes} == {"border"}
