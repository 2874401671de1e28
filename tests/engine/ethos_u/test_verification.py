"""What *verify* proves, and by which executor."""

import shutil

import numpy as np
import pytest

from tests.engine.in_process import CALIBRATED, project
from workbench.engine.ethos_u import reference_model
from workbench.engine.evaluation.sample_outputs import SampleOutputs

# What is verified is shared; what *evaluate* and *verify* give is what these tests are about.
pytestmark = [pytest.mark.engine, pytest.mark.shared_results(own=("evaluate", "verify"))]

# As many as the data of the test has.
SAMPLES = 8


def verified(engine, name="small", samples=SAMPLES, **settings):
    made = project(name, **{**CALIBRATED, **settings})
    given = made.verification.model_copy(update={"samples": samples})
    made = made.model_copy(update={"verification": given})
    # Not what another executor gave.
    shutil.rmtree(engine.path(made, "verify"), ignore_errors=True)
    return engine.verified(made)


def wrong_from(monkeypatch, first, name=None):
    """Let the built-in executor give a wrong integer, from a sample of a batch on."""
    from workbench.engine.ethos_u.tosa.executor import Executor

    right = Executor.run

    def run(self, inputs, extra_names=(), samples=1):
        values = right(self, inputs, extra_names, samples)
        chosen = name(self) if name else self.outputs[0]
        if chosen in values and len(values[chosen]) > first:
            changed = np.array(values[chosen])
            changed[first:].reshape(-1)[:1] ^= 1
            values[chosen] = changed
        return values

    monkeypatch.setattr(Executor, "run", run)


def test_that_every_sample_is_computed_and_executed(engine):
    result = verified(engine)
    executors, compiled = result.executors, result.compiled
    assert (result.samples, executors.executor_samples) == (SAMPLES, SAMPLES)
    assert 1 <= executors.reference_samples < SAMPLES
    assert executors.equal_tensors > len(result.tensors) > 0
    assert (executors.left, executors.differs) == ((), "")
    assert result.tensor_samples == 4
    assert (compiled.samples, compiled.refused, compiled.whole_refused) == (SAMPLES, "", "")
    assert compiled.elements == compiled.equal == result.elements
    assert compiled.whole_max_lsb == 0


# The NPU rounds averages otherwise than torch: the quantized model is computed again.
@pytest.mark.slow
@pytest.mark.parametrize(("name", "again"), [("small", []), ("averaged", ["verify"])])
def test_that_verify_gives_the_same_with_what_evaluate_computed(engine, monkeypatch, name, again):
    with monkeypatch.context() as patched:
        patched.setattr(reference_model, "load_outputs", lambda _: SampleOutputs())
        alone = verified(engine, name)
    assert alone.max_lsb == 0
    made = project(name, **CALIBRATED)
    given = made.verification.model_copy(update={"samples": SAMPLES})
    made = made.model_copy(update={"verification": given})
    shutil.rmtree(engine.path(made, "verify"))
    computed, quantized = [], reference_model.quantized_module

    def counted(context):
        computed.append(context.stage)
        return quantized(context)

    monkeypatch.setattr(reference_model, "quantized_module", counted)
    assert engine.run(made, "verify") == "done"
    assert engine.result(made, "verify") == alone
    assert computed == again


def test_that_run_takes_what_verify_executed(engine, monkeypatch):
    from workbench.npu.machine import Machine

    made = project("small", **CALIBRATED)
    walks, walk = [], Machine.run_samples

    def counted(self, inputs, samples, options=None):
        walks.append(samples)
        return walk(self, inputs, samples, options)

    monkeypatch.setattr(Machine, "run_samples", counted)
    engine.verified(made)
    before = list(walks)
    assert engine.run(made, "run", "evaluate") == "done", engine.failure
    simulated = engine.result(made, "run")
    assert sum(before) == SAMPLES
    assert walks == before
    assert simulated.functional.samples == SAMPLES
    assert simulated.functional.operations
    agreement = simulated.functional.against_reference
    assert agreement.exact == agreement.elements > 0


@pytest.mark.parametrize("inside", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_that_the_reference_model_computes_all_where_the_executor_is_wrong(engine, monkeypatch, inside):
    right = verified(engine, samples=6)
    wrong_from(monkeypatch, 0, (lambda e: e.visible[0]) if inside else None)
    again = verified(engine, samples=6)
    assert again.executors.differs.startswith("tensor ")
    assert (again.executors.reference_samples, again.executors.executor_samples) == (6, 0)
    known = {"executors": None}
    assert again.model_copy(update=known) == right.model_copy(update=known)


def test_that_a_wrong_sample_is_settled_by_the_reference_model(engine, monkeypatch):
    # The first sample is right; the compiled program disagrees with a later one.
    wrong_from(monkeypatch, 1)
    result = verified(engine, samples=8)
    assert result.executors.differs
    assert (result.executors.reference_samples, result.executors.executor_samples) == (8, 0)
    assert result.compiled.equal == result.compiled.elements


def test_that_an_operator_the_executor_does_not_know_is_left_to_the_reference_model(engine, monkeypatch):
    from workbench.engine.ethos_u.tosa import executor

    known = verified(engine, samples=5)
    fewer = {name: kernel for name, kernel in executor.KERNELS.items() if name != "RESCALE"}
    monkeypatch.setattr(executor, "KERNELS", fewer)
    result = verified(engine, samples=5)
    assert result.executors.left == ("the operator RESCALE",)
    assert (result.executors.reference_samples, result.executors.executor_samples) == (5, 0)
    assert result.histogram == known.histogram


@pytest.mark.slow
def test_that_samples_take_each_its_own_branch(engine):
    result = verified(engine, "branching", target="ethos-u85-256")
    assert (result.executors.executor_samples, result.executors.differs) == (SAMPLES, "")
    assert result.executors.left == ()
    assert result.compiled.equal == result.compiled.elements > 0
