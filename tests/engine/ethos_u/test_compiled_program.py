"""Outputs of a compiled program beside those of the reference model, and what differs."""

from types import SimpleNamespace

import numpy as np
import pytest

from tests.engine.in_process import CALIBRATED, project
from workbench.errors import WorkbenchError

pytestmark = pytest.mark.engine


class Delegate:
    """A machine that computes given bytes."""

    commands, scratch_bytes, index = (), 1, 0

    def __init__(self, outputs):
        self._outputs = outputs

    def run_samples(self, inputs, samples, options):
        del inputs, options
        return [SimpleNamespace(outputs=self._outputs, findings=())] * samples


@pytest.fixture
def comparing(monkeypatch):
    """Return a comparison of one delegate that computes the given integers."""
    from workbench.engine.ethos_u.compiled_program import CompiledDelegates

    def make(computed):
        module = "workbench.engine.ethos_u.compiled_program"
        machine = Delegate([np.asarray(computed, np.int8).view(np.uint8)])
        monkeypatch.setattr(f"{module}._machines", lambda lowered: [machine])
        monkeypatch.setattr(f"{module}.output_names", lambda flatbuffer: ["sum"])
        context = SimpleNamespace(result=lambda stage, kind: SimpleNamespace(vela=()))
        known = SimpleNamespace(attrs={"origin": "add"}, module="head")
        graph = SimpleNamespace(nodes_by_id={"delegate_0/sum": known})
        return CompiledDelegates(context, SimpleNamespace(tosa=[b""], device_graph=graph))

    return make


def compare(found, *expected, samples=1):
    """Compare the delegate for some samples, of each of which its TOSA gives the same."""
    from workbench.engine.ethos_u.compiled_program import ExecutedCalls
    from workbench.engine.ethos_u.tosa_delegates import TosaCall

    outputs = [np.stack([np.asarray(values, np.int8)] * samples) for values in expected]
    return found.compare([TosaCall(0, [], outputs)], 0, ExecutedCalls())


def test_that_the_first_difference_is_kept_with_both_values(comparing):
    found = comparing([1, -2, 7, 4])
    differing = compare(found, [[1, -2], [3, 5]], samples=2)
    assert [at for _, at in differing] == [0, 1]
    result = found.result(2)
    assert (result.elements, result.equal, result.max_lsb) == (8, 4, 4)
    first = result.first_difference
    assert (first.sample, first.output, first.element) == (0, "sum", 2)
    assert (first.expected, first.computed) == (3, 7)


def test_that_a_missing_output_is_a_fault_of_the_program(comparing):
    found = comparing([1, 2])
    compare(found, [1, 2], [3])
    (fault,) = found.result(1).findings
    assert (fault.severity, fault.code, fault.delegate) == ("error", "npu-output-missing", 0)
    assert "sum (add in module head)" not in fault.message
    assert found.result(1).refused


def test_that_an_output_of_another_size_is_a_fault_of_the_program(comparing):
    found = comparing([1, 2, 3])
    compare(found, [1, 2])
    (fault,) = found.result(1).findings
    assert (fault.severity, fault.code, fault.delegate) == ("error", "npu-output-size", 0)
    # Which output it is, and the module that makes it.
    assert "sum (add in module head)" in fault.message
    assert found.result(1).refused


@pytest.mark.parametrize("shapes", [[(2, 3)], [(3, 2), (1,)]])
def test_that_outputs_of_another_number_or_shape_are_one_problem(shapes):
    import torch

    from workbench.engine.ethos_u.reference_model import Tally

    wrong = [torch.zeros(shape) for shape in shapes]
    tally = Tally([None], integer_io=False)
    with pytest.raises(WorkbenchError) as raised:
        tally.add([torch.zeros(3, 2)], wrong)
    assert [info.code for info in raised.value.infos] == ["program-outputs-differ"]


def test_that_temporary_values_of_another_width_do_not_count_as_a_tensor():
    from workbench.engine.ethos_u.compiled_tensors import CompiledTensor
    from workbench.npu.memory import Access

    def written(values):
        places = 64 + values.itemsize * np.arange(values.size)
        return Access("OFM", True, 1, 64, values.reshape(1, 1, -1), places.reshape(1, 1, -1))

    sums, result = np.asarray([70_000, 2, 3], np.int32), np.asarray([5, 6, 7], np.int16)
    like = np.zeros((1, 3), np.int16)
    found = CompiledTensor((written(sums), written(result))).values_as(like)
    assert found.tolist() == [[5, 6, 7]]
    assert CompiledTensor((written(result), written(sums))).values_as(like) is None


@pytest.mark.slow
def test_that_a_program_that_lost_a_delegate_with_its_checks_is_compared(engine):
    made = project("wide_networks.py:one_hot", target="ethos-u85-256", **CALIBRATED)
    told = engine.verified(made).compiled
    assert (told.equal, told.refused) == (told.elements, "")
    assert told.elements > 0
