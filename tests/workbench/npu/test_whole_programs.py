"""Whole ``.pte`` and ``.bpte`` files: CPU operators, weights outside, test vectors."""

import numpy as np
import pytest

from tests.for_each import for_each
from tests.problems import refused
from tests.workbench.npu.streams import DATA
from workbench.errors import WorkbenchError
from workbench.npu.program import load
from workbench.npu.state import Options
from workbench.pte.program import decode

PROGRAMS = DATA.parent / "programs"


@for_each("name", ["u55", "u65", "u85"])
def test_that_a_program_quantizes_computes_and_dequantizes(name):
    program = load(PROGRAMS / f"{name}.pte")
    (tensor,) = program.inputs
    values = np.random.default_rng(0).standard_normal(tensor.shape)
    (found,) = program.run([values], Options(check=True)).outputs
    assert (found.dtype, found.shape) == (np.float32, program.outputs[0].shape)
    method = decode((PROGRAMS / f"{name}.pte").read_bytes()).method()
    first, last = method.calls[0].values, method.calls[-1].values
    scale, zero = (method.values[index].content for index in first[1:3])
    quantized = np.clip(np.rint(values / scale) + zero, -128, 127).astype(np.int8)
    (steps,) = program.machines[0].run([quantized]).outputs
    scale, zero = (method.values[index].content for index in last[1:3])
    assert np.allclose(found.reshape(-1), (steps.view(np.int8).astype(float) - zero) * scale)
    assert len(np.unique(found)) > 1


@for_each("name", ["u55", "u65", "u85"])
def test_that_samples_of_a_program_give_what_each_gives_by_itself(name):
    program = load(PROGRAMS / f"{name}.pte")
    g = np.random.default_rng(0)
    samples = [[g.standard_normal(tensor.shape) for tensor in program.inputs] for _ in range(3)]
    asked = []

    def execute(index, numbers, inputs):
        asked.append((index, tuple(numbers)))
        return program.machines[index].run_samples(inputs, len(numbers))

    results = program.run_samples(samples, execute)
    assert asked == [(0, (0, 1, 2))]
    for sample, result in zip(samples, results, strict=True):
        for found, wanted in zip(result.outputs, program.run(sample).outputs, strict=True):
            assert np.array_equal(found, wanted)


def test_that_a_constant_input_becomes_a_constant_channel_of_a_copy():
    program = load(PROGRAMS / "u85.pte")
    (found,) = program.run([np.full((1, 4, 8, 8), 0.5, np.float32)]).outputs
    assert len(np.unique(found)) == 1
    assert abs(float(found.flat[0]) - 0.5) < 0.05


def test_that_test_vectors_are_within_one_step_of_the_quantized_model():
    program = load(DATA / "digits" / "digits.bpte")
    assert len(program.cases) == 4
    for case in program.cases:
        (found,) = program.run(case.inputs).outputs
        (expected,) = case.expected
        step = np.diff(np.unique(found)).min()
        assert np.abs(found - expected).max() < 1.01 * step
        assert found.argmax() == expected.argmax()


def test_that_weights_outside_of_the_program_are_needed():
    content = (DATA / "digits" / "digits.bpte").read_bytes()
    with pytest.raises(WorkbenchError) as raised:
        load(content)
    assert raised.value.codes == ("npu-weights-missing",)
    weights = DATA / "digits" / "digits.ptd"
    assert load(content, data=[weights]).machines[0].device.family == "ethos-u55"


def test_that_a_file_of_weights_must_be_one(tmp_path):
    wrong = tmp_path / "weights.ptd"
    for content in (b"", b"\0" * 100, (DATA / "digits" / "digits.ptd").read_bytes()[:200]):
        wrong.write_bytes(content)
        with pytest.raises(WorkbenchError):
            load((DATA / "digits" / "digits.bpte").read_bytes(), data=[wrong])


def test_that_an_operator_of_the_cpu_is_refused_by_name():
    program = load(PROGRAMS / "no_delegate.pte")
    with pytest.raises(WorkbenchError, match=r"aten::convolution\.out"):
        program.run([np.zeros((1, 2, 8, 8), np.float32)])


def test_that_operators_of_the_cpu_can_be_supplied():
    asked = []

    def operators(name, arguments, outputs):
        asked.append(name)
        shapes = {"aten::mean.out": (1, 4), "aten::permute_copy.out": (4, 3), "aten::addmm.out": (1, 3)}
        if name == "aten::convolution.out":
            values, weights, bias, stride = arguments[:4]
            assert (values.shape, weights.shape, bias.shape) == ((1, 2, 8, 8), (4, 2, 3, 3), (4,))
            assert stride == [1, 1]
        return [np.full(shapes.get(name, (1, 4, 8, 8)), len(asked), np.float32)]

    program = load(PROGRAMS / "no_delegate.pte")
    (found,) = program.run([np.zeros((1, 2, 8, 8), np.float32)], operators=operators).outputs
    assert asked == [
        "aten::convolution.out",
        "aten::relu.out",
        "aten::mean.out",
        "aten::permute_copy.out",
        "aten::addmm.out",
    ]
    assert found.tolist() == [[5.0, 5.0, 5.0]]


def test_that_a_delegate_of_another_backend_is_refused_by_name():
    with pytest.raises(WorkbenchError, match="XnnpackBackend") as raised:
        load(PROGRAMS / "xnnpack.pte")
    assert raised.value.codes == ("npu-other-backend",)


def test_that_inputs_of_another_shape_or_type_are_refused():
    program = load(PROGRAMS / "u55.pte")
    shapes = (1, 2, 8, 7), (2, 1, 8, 8)
    for wrong in (*(np.zeros(s, np.float32) for s in shapes), np.zeros((1, 2, 8, 8), np.int32)):
        with pytest.raises(WorkbenchError, match="in0"):
            program.run([wrong])


def test_that_a_value_that_is_no_number_is_refused():
    program = load(PROGRAMS / "u55.pte")
    values = np.zeros((1, 2, 8, 8), np.float32)
    values[0, 0, 0, 0] = np.nan
    with refused("quantize-nan"):
        program.run([values])


def test_that_values_beyond_the_range_are_limited():
    program = load(PROGRAMS / "u85.pte")
    far = program.run([np.full((1, 4, 8, 8), np.inf, np.float32)]).outputs[0]
    large = program.run([np.full((1, 4, 8, 8), 1e30, np.float32)]).outputs[0]
    assert np.array_equal(far, large)


@pytest.mark.parametrize("count", [16, pytest.param(100, marks=pytest.mark.slow)])
def test_that_damaged_programs_are_refused_or_computed(count):
    content = (PROGRAMS / "u55.pte").read_bytes()
    generator = np.random.default_rng(0)
    outcomes = set()
    for _ in range(count):
        broken = bytearray(content)
        broken[int(generator.integers(len(broken)))] ^= 1 << int(generator.integers(8))
        try:
            load(bytes(broken)).run([np.zeros((1, 2, 8, 8), np.float32)])
            outcomes.add("computed")
        except WorkbenchError:
            outcomes.add("refused")
    assert outcomes == {"computed", "refused"}
