"""The built-in executor of TOSA against the reference model, element by element."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests import npu_programs, tosa_operators
from workbench.engine.ethos_u.intermediates import exposed
from workbench.engine.ethos_u.tosa.executor import KERNELS, Executor
from workbench.engine.ethos_u.tosa.program import NotExecuted, blocks_of

pytestmark = pytest.mark.engine

TOSA = Path(__file__).parents[2] / "data" / "tosa"
RANGES = {"BOOL": (0, 1), "INT8": (-128, 127), "INT16": (-(1 << 15), (1 << 15) - 1)}
SAMPLES = 3


def visible(program):
    """Return the tensors that the reference model can give: it has no output of 48 bits."""
    block = next(iter(blocks_of(program).values()))
    names = [n for n in Executor(program).computed if block.tensors[n].dtype != "INT48"]
    return list(dict.fromkeys([*block.outputs, *names]))


def reference(program, inputs, names):
    """Return tensors of all samples, or None if a value of one has no result."""
    import tosa_reference_model as model

    rows = []
    for at in range(len(inputs[0]) if inputs else 1):
        sample = [np.ascontiguousarray(values[at]) for values in inputs]
        outputs, status = model.run(
            exposed(program, names), sample, verbosity="NONE", initialize_variable_tensor_from_numpy=True
        )
        if status != model.GraphStatus.TOSA_VALID:
            return None
        rows.append([np.array(values) for values in outputs])
    return {name: np.stack(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def outcome(program, inputs):
    """Return "equal", "refused by both", or what differs."""
    names = visible(program)
    wanted = reference(program, inputs, names)
    try:
        computed = Executor(program).run(inputs, names)
    except NotExecuted:
        return "left to the reference model" if wanted is not None else "refused by both"
    if wanted is None:
        return "computed what has no result"
    for name in names:
        ours, theirs = computed[name], wanted[name].reshape(computed[name].shape)
        if ours.dtype.itemsize != theirs.dtype.itemsize or not np.array_equal(ours, theirs):
            return f"{name} differs"
    return "equal"


def random_operators(seeds):
    """Return the outcomes of all operators for some seeds."""
    return Counter(
        (name, outcome(*tosa_operators.drawn(name, seed)))
        for name in tosa_operators.OPERATORS
        for seed in seeds
    )


def assert_equal(outcomes):
    wrong = {
        k: n
        for k, n in outcomes.items()
        if k[1] not in {"equal", "refused by both", "left to the reference model"}
    }
    assert not wrong
    assert sum(n for k, n in outcomes.items() if k[1] == "equal") > 0.9 * outcomes.total()


def test_that_every_operator_is_drawn():
    assert set(tosa_operators.OPERATORS) == set(KERNELS)


def test_that_operators_equal_the_reference_model():
    assert_equal(random_operators(range(4)))


@pytest.mark.slow
def test_that_operators_equal_the_reference_model_for_many_seeds():
    first = int(os.environ.get("TOSA_SEED", "1000"))
    assert_equal(random_operators(range(first, first + 60)))


def of_programs(seeds):
    """Return the outcomes of random programs of several operators."""
    outcomes = Counter()
    for seed in seeds:
        case = npu_programs.drawn(seed)
        try:
            program = npu_programs.program_of(case)
        except npu_programs.Impossible:
            continue
        kind = npu_programs.NUMPY[case.dtype]
        limits, g = np.iinfo(kind), np.random.default_rng([seed, 2])
        shape = (SAMPLES, *case.shape)
        outcomes["", outcome(program, [g.integers(limits.min, limits.max, shape, kind)])] += 1
    return outcomes


def test_that_every_tensor_of_programs_equals_the_reference_model():
    assert_equal(of_programs(range(60)))


@pytest.mark.slow
def test_that_every_tensor_of_many_programs_equals_the_reference_model():
    first = int(os.environ.get("TOSA_SEED", "1000"))
    assert_equal(of_programs(range(first, first + 1500)))


@pytest.mark.parametrize("path", sorted(TOSA.glob("*.tosa")), ids=lambda path: path.stem)
def test_that_every_tensor_of_stored_programs_equals_the_reference_model(path):
    program, g = path.read_bytes(), np.random.default_rng(0)
    block = next(iter(blocks_of(program).values()))
    inputs = []
    for name in block.inputs:
        tensor = block.tensors[name]
        least, most = RANGES.get(tensor.dtype, (0, 3))
        kind = npu_programs.NUMPY.get(tensor.dtype, np.bool_)
        inputs.append(g.integers(least, most, (SAMPLES, *tensor.shape), endpoint=True).astype(kind))
    assert outcome(program, inputs) == "equal"


def test_that_samples_do_not_depend_on_each_other():
    program, inputs = tosa_operators.drawn("CONV2D", 1)
    together = Executor(program).run(inputs)
    for at in range(SAMPLES):
        alone = Executor(program).run([values[at : at + 1] for values in inputs])
        for name, values in alone.items():
            assert np.array_equal(values[0], together[name][at])


def test_that_the_executor_uses_neither_the_reference_model_nor_the_simulator():
    source = Path(sys.modules[Executor.__module__].__file__).parent
    for path in source.glob("*.py"):
        text = path.read_text()
        assert "workbench.npu" not in text
        assert "import tosa_reference_model" not in text
