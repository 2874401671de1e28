"""Observers in threads of their own keep what they keep in the program's thread."""

import numpy as np
import pytest
import torch

from tests.engine.in_process import CALIBRATED, Engine, project
from workbench.engine.calibration.observer_threads import ObserverThreads, can_observe_beside
from workbench.engine.stages import calibrate
from workbench.errors import WorkbenchError, failure

pytestmark = pytest.mark.engine


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def calibrated(engine, monkeypatch, made, *, beside):
    """Calibrate from nothing; return all arrays of the result, and the tensors seen in threads."""
    seen, observe = [], ObserverThreads.observe

    def counted(self, number, work, x):
        seen.append(number)
        observe(self, number, work, x)

    monkeypatch.setattr(ObserverThreads, "observe", counted)
    if not beside:
        monkeypatch.setattr(calibrate, "can_observe_beside", lambda _module: False)
    assert engine.run(made, "calibrate") == "done"
    path = engine.path(made, "calibrate")
    with np.load(path / "arrays.npz") as arrays:
        return ({name: arrays[name] for name in arrays.files}, (path / "result.json").read_text(), seen)


@pytest.mark.parametrize(
    "network",
    [
        "two_inputs",
        pytest.param("small", marks=pytest.mark.slow),
        pytest.param("softmax", marks=pytest.mark.slow),
    ],
)
def test_that_the_statistics_are_the_same_bit_for_bit(engine, tmp_path_factory, monkeypatch, network):
    other = Engine(tmp_path_factory.mktemp("other"))
    made = project(network, **(CALIBRATED if network == "small" else {}))
    try:
        with monkeypatch.context() as patch:
            arrays, result, seen = calibrated(engine, patch, made, beside=True)
        with monkeypatch.context() as patch:
            expected, alone, none = calibrated(other, patch, made, beside=False)
    finally:
        other.close()
    assert seen
    assert not none
    assert result == alone
    assert arrays.keys() == expected.keys()
    assert all(arrays[n].tobytes() == values.tobytes() for n, values in expected.items())


def test_that_each_observer_takes_its_tensors_in_order_and_the_first_error_is_raised():
    taken = {number: [] for number in range(5)}
    with ObserverThreads() as threads:
        for value in range(40):
            for number, values in taken.items():
                threads.observe(number, values.append, torch.tensor(value))
        threads.wait()
        assert all([int(v) for v in values] == list(range(40)) for values in taken.values())

        def refuse(x):
            raise failure(f"tensor {int(x)}", code="test")

        for value in range(3):
            threads.observe(value, refuse, torch.tensor(value))
        with pytest.raises(WorkbenchError, match="tensor 0"):
            threads.wait()


def test_that_a_program_that_changes_tensors_is_observed_in_its_thread():
    class Changing(torch.nn.Module):
        def forward(self, x):
            y = x * 2
            return y.relu_() + x

    class Plain(torch.nn.Module):
        def forward(self, x):
            return (x * 2).relu() + x

    given = (torch.zeros(4),)
    changing, plain = (
        torch.export.export(net(), given).module(check_guards=False) for net in (Changing, Plain)
    )
    assert not can_observe_beside(changing)
    assert can_observe_beside(plain)
