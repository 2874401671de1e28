"""Programs of TensorFlow Lite: what Vela compiled gives what LiteRT's reference kernels give."""

import contextlib

import numpy as np
import pytest

from tests import tflite_models as ops
from tests.litert_search import DEVICES, NETWORKS, chain, compiled, differences
from tests.problems import refused
from tests.tflite_cells import CELLS, EXPLAINED, cell
from workbench.engine.ethos_u.cpu_operators import compute
from workbench.errors import WorkbenchError
from workbench.npu.inputs import drawn_inputs
from workbench.npu.program import load

pytestmark = pytest.mark.engine
U55, _, U85 = DEVICES


def parts_on_cpu(w):
    """A convolution, a mean over channels that stays on the CPU, a split there, and a softmax."""
    x = ops.mean(w, ops.convolution(w, w.input(1, 8, 8, 3), 8), (3,))
    parts = [w.activation((1, 8, 1), like=x) for _ in range(8)]
    first, *_, last = w.call("UNPACK", [x], parts, "UnpackOptions", num=8, axis=2)
    return w.done(ops.function(w, "SOFTMAX", ops.reshaped(w, last, (1, 8))), first)


def largest_differences(model, device, folder):
    """Return how far each output of the compiled model is from LiteRT's."""
    return largest_differences_of(compiled(model, device, folder, "net"))


def largest_differences_of(pair):
    """Return the same for a model's file and what Vela made of it."""
    original, made = pair
    program = load(made)
    inputs = drawn_inputs(program.inputs)
    outputs = program.run(inputs, operators=compute).outputs
    wanted = compute("tflite::whole", [np.frombuffer(original.read_bytes(), np.uint8), *inputs], ())
    return [int(np.abs(a.astype(int) - b).max()) for a, b in zip(outputs, wanted, strict=True)]


def test_that_parts_on_the_npu_and_on_the_cpu_compute_what_litert_does(tmp_path):
    assert largest_differences(parts_on_cpu(ops.Writer(3)), U55, tmp_path) == [0, 0]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("device", DEVICES)
def test_that_a_softmax_is_that_of_litert_in_every_element(dtype, device, tmp_path):
    for seed in range(3):
        w = ops.Writer(seed, dtype)
        x = w.input(1, 6, 50, scale=None if dtype == "int8" else 10 / 32768)
        assert largest_differences(w.done(ops.function(w, "SOFTMAX", x)), device, tmp_path) == [0]


@pytest.mark.slow
def test_that_chains_and_networks_compute_what_litert_does(tmp_path):
    models = {f"chain_{seed}": chain(seed) for seed in range(8)}
    models |= {name: make(0) for name, make in NETWORKS.items()}
    pairs = [compiled(model, device, tmp_path, name) for name, model in models.items() for device in DEVICES]
    for pair, result in zip(pairs, differences(pairs), strict=True):
        (output,) = result["reference"]["outputs"]
        assert output["max_abs_difference"] <= (1 if "chain" not in pair[0].name else 0), pair


def outcomes(dtype, device, folder):
    """Return what became of each cell that Vela compiles and LiteRT takes: whether all is equal."""
    known = {}
    for name in CELLS:
        pair = compiled(cell(name, dtype), device, folder, name)
        if pair is not None and b"ethos-u" in pair[1].read_bytes():
            with contextlib.suppress(WorkbenchError):
                known[name] = not any(largest_differences_of(pair))
    return known


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("device", DEVICES)
def test_that_operators_and_short_chains_compute_what_litert_does(dtype, device, tmp_path):
    known = outcomes(dtype, device, tmp_path)
    assert {name for name, is_equal in known.items() if not is_equal} == EXPLAINED[dtype]
    assert sum(known.values()) >= 60


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
def test_that_sixteen_bit_slopes_and_sums_are_those_of_real_numbers(device, tmp_path):
    w = ops.Writer(0, "int16")
    x, y = w.input(1, 6, 7, 5), w.activation((1, 6, 7, 5))
    slopes = w.random.integers(-100, 100, (1, 1, 5)).astype(np.int16)
    w.call("PRELU", [x, w.constant(slopes, scale=0.004, zero=0)], [y])
    total = w.activation((1, 6, 7, 1), scale=4 * x.scale)
    axis = w.constant(np.array([3], np.int32))
    w.call("SUM", [x, axis], [total], "ReducerOptions", 2, keepDims=True)
    program = load(compiled(w.done(y, total), device, tmp_path, "net")[1])
    inputs = drawn_inputs(program.inputs)
    bent, summed = program.run(inputs, operators=compute).outputs
    real = inputs[0] * x.scale
    expected = np.clip(np.where(real > 0, real, real * slopes * 0.004) / y.scale, -32768, 32767)
    assert np.abs(bent - expected).max() < 1
    assert np.abs(summed - real.sum(3, keepdims=True) / total.scale).max() < 1


def test_that_litert_refuses_what_it_cannot_compute():
    w = ops.Writer(0)
    model = np.frombuffer(w.done(ops.requantized(w, w.input(1, 4))), np.uint8)
    with refused("litert-refused"):
        compute("tflite::whole", [model, np.zeros((2, 2), np.int8)], ())
    with refused("litert-refused"):
        compute("tflite::whole", [model, np.zeros((1, 4), np.int16)], ())
    with refused("litert-refused"):
        compute("tflite::whole", [model], ())
    with refused("litert-refused"):
        compute("tflite::whole", [model[:40], np.zeros((1, 4), np.int8)], ())
    with refused("litert-refused"):
        compute("tflite::whole", [model[:0], np.zeros((1, 4), np.int8)], ())


def test_that_a_missing_litert_is_told_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ai_edge_litert.interpreter", None)
    with refused("litert-missing"):
        compute("tflite::whole", [np.zeros(8, np.uint8)], ())
