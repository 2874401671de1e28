"""Compiled programs against the TOSA reference model, byte for byte.

The programs were compiled by Vela 5.1.0 from what ExecuTorch 1.5.1 gave it: single operators in 8
and 16 bits and small networks, for U55, U65 and U85. Inputs are random over the whole range,
outputs those of the reference model of tosa-tools 2026.5.0 on the same TOSA.
"""

import functools
from dataclasses import replace

import numpy as np
import pytest

from tests.for_each import for_each
from tests.workbench.npu.streams import compiled
from workbench.npu.counters import totals
from workbench.npu.machine import Machine
from workbench.npu.program import load
from workbench.npu.state import Options


@pytest.fixture(scope="module")
def cases():
    return compiled()


@functools.cache
def result_of(name):
    """Return what a program gives, computed once for all tests that only look at it."""
    case = compiled()[name]
    return load(case.blob).run(case.inputs)


# Others compute the same operations, with less work or for other inputs.
FURTHER = ("conv_deep", "conv5s3", "mixed_1", "mixed_2", "functional6_1", "masked_0")
OPERATORS = ("u55_a8", "u55_a16", "u85_a8", "u85_a16")


def kind_of(name):
    if any(part in name for part in FURTHER):
        return "further"
    return next((kind for kind in OPERATORS if name.startswith(f"{kind}_")), "network")


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        ("u55_a8", 39),
        ("u85_a16", 42),
        ("network", 19),
        pytest.param("u55_a16", 42, marks=pytest.mark.slow),
        pytest.param("u85_a8", 49, marks=pytest.mark.slow),
        pytest.param("further", 9, marks=pytest.mark.slow),
    ],
)
def test_that_compiled_programs_give_the_bytes_of_the_reference_model(cases, kind, count):
    chosen = {name: case for name, case in cases.items() if kind_of(name) == kind}
    assert len(chosen) == count
    differing = [name for name, case in chosen.items() if case.differs(result_of(name).outputs)]
    assert differing == []


def together(machine, inputs, samples):
    """Return outputs of some samples at once, the first as given, and of each by itself."""
    g = np.random.default_rng(0)
    rows = [
        np.stack(
            [np.asarray(v), *(g.permutation(np.ravel(v)).reshape(np.shape(v)) for _ in range(samples - 1))]
        )
        for v in inputs
    ]
    at_once = [result.outputs for result in machine.run_samples(rows, samples)]
    alone = [machine.run([row[at] for row in rows]).outputs for at in range(samples)]
    return at_once, alone


@pytest.mark.parametrize("every", [9, pytest.param(1, marks=pytest.mark.slow)])
def test_that_samples_at_once_give_what_each_gives_by_itself(cases, every):
    for name in list(cases)[::every]:
        (machine,) = load(cases[name].blob).machines
        at_once, alone = together(machine, cases[name].inputs, 3)
        assert not cases[name].differs(at_once[0]), name
        for some, others in zip(at_once, alone, strict=True):
            assert [one.tobytes() for one in some] == [one.tobytes() for one in others], name


def test_that_samples_that_go_different_ways_give_what_each_gives_by_itself(cases):
    names = ("net_branching85_0_0", "net_branching85_0_1")
    (machine,) = load(cases[names[0]].blob).machines
    rows = [np.stack(pair) for pair in zip(*(cases[name].inputs for name in names), strict=True)]
    for name, result in zip(names, machine.run_samples(rows, 2), strict=True):
        assert not cases[name].differs(result.outputs)


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_that_correct_programs_have_no_findings(cases, every):
    chosen = [name for name in cases if name.startswith(("net_", "digits", "u85_a8", "u55_a16"))]
    found = {}
    for name in chosen[::every]:
        result = load(cases[name].blob).run(cases[name].inputs, Options(check=True))
        assert not cases[name].differs(result.outputs), name
        if result.findings:
            found[name] = [str(finding) for finding in result.findings]
    assert found == {}


def test_that_both_branches_of_a_condition_are_taken(cases):
    paths = []
    for name in ("net_branching85_0_0", "net_branching85_0_1"):
        result = result_of(name)
        assert not cases[name].differs(result.outputs)
        paths.append([one.offset for one in result.counters])
    assert paths[0] != paths[1]


@for_each("name", ["digits_u55_0", "digits_u55_u65_512", "digits_u55_u85_128", "digits_u55_u85_2048"])
def test_that_multiplications_are_those_that_vela_reports(name):
    assert totals(result_of(name).counters)["macs"] == 673_642


def test_that_a_program_gives_the_same_again_and_again(cases):
    case = cases["net_masked_1"]
    program = load(case.blob)
    for _ in range(3):
        assert not case.differs(program.run(case.inputs).outputs)


def test_that_counters_add_up_to_what_the_delegate_holds(cases):
    case = cases["digits_u55_0"]
    result = load(case.blob).run(case.inputs, Options(counters=True))
    convolutions = [one for one in result.counters if one.command == "NPU_OP_CONV"]
    assert sum(one.weights for one in convolutions) == 28_112
    assert all(0 < one.accumulator_peak < 1 << one.accumulator_bits - 1 for one in convolutions)
    assert all(one.written_bytes >= np.prod(one.ofm) for one in convolutions)
    assert any(one.saturated for one in convolutions)
    assert {one.copied_bytes for one in convolutions} == {0}


@for_each(("name", "wrong", "findings"), [("u85_a16_lstm", 12, ["tables-in-chain"]), ("u55_a8_min", 52, [])])
def test_that_wrong_code_of_the_compiler_shows_in_the_outputs(name, wrong, findings):
    case = compiled("faults_of_vela")[name]
    result = load(case.blob).run(case.inputs, Options(check=True))
    differing = result.outputs[0].reshape(-1) != case.outputs[0].reshape(-1)
    assert np.count_nonzero(differing) == wrong
    assert [finding.code for finding in result.findings] == findings


@for_each("wait", ["NPU_OP_DMA_WAIT", "NPU_OP_KERNEL_WAIT"])
def test_that_waits_left_out_of_correct_programs_are_reported(cases, wait):
    found = {}
    for name in ("net_normed_0", "u55_a16_softmax_0", "u55_a8_conv_group_0", "u85_a8_convT_0"):
        machine = Machine(cases[name].blob)
        if not any(command.name == wait for command in machine.commands):
            continue
        machine.commands = tuple(
            replace(command, name="NPU_OP_PMU_MASK") if command.name == wait else command
            for command in machine.commands
        )
        result = machine.run(cases[name].inputs, Options(check=True))
        found[name] = {finding.code for finding in result.findings}
    assert found
    assert all(codes == {"missing-wait"} for codes in found.values())


def test_that_block_dependencies_raised_in_correct_programs_are_reported(cases):
    """Kernels that wait for all of the one before must not begin while seven blocks are left."""
    reported = 0
    for name in ("digits_u55_0", "net_normed_0", "u55_a8_conv_group_0", "u85_a8_convT_0"):
        machine = Machine(cases[name].blob)
        assert machine.run(cases[name].inputs, Options(check=True)).findings == ()
        most = machine.device.most_dependent_blocks
        machine.commands = tuple(
            replace(command, parameter=most) if command.name == "NPU_SET_BLOCKDEP" else command
            for command in machine.commands
        )
        result = machine.run(cases[name].inputs, Options(check=True))
        found = {finding.code for finding in result.findings}
        assert found <= {"missing-block-dependency"}
        reported += bool(found)
    assert reported >= 3
