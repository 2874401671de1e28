"""Tensors that are constant, dead, infinite, NaN or never reached, through a real calibration."""

import warnings

import pytest

from tests.engine.in_process import project
from workbench.project import edits
from workbench.project.model import DataSource, ModelSource

pytestmark = pytest.mark.engine

ODD = '''
import torch
from torch import nn


class Odd(nn.Module):
    """A convolution with a dead channel, a constant tensor, and a logarithm."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 1)
        self.conv.weight.data[1] = 0.0
        self.conv.bias.data[:] = 0.0
        self.last = nn.Conv2d(4, 2, 1)

    def forward(self, x):
        y = self.conv(x).relu() * 0.0
        return self.last(y) + torch.log(x[:, :2].abs())


def net():
    torch.manual_seed(0)
    return Odd().eval(), (torch.ones(1, 3, 8, 8),)


def usual():
    yield torch.full((1, 3, 8, 8), 2.0)


def with_zero():
    yield torch.full((1, 3, 8, 8), 2.0)
    yield torch.zeros((1, 3, 8, 8))


class Root(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 1)

    def forward(self, x):
        return self.conv(torch.sqrt(x))


def root():
    return Root().eval(), (torch.ones(1, 3, 8, 8),)


class Upper(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)
        self.up = nn.ConvTranspose2d(4, 4, 2, 2)

    def forward(self, x):
        return self.up(self.norm(self.conv(x)).relu())


def upper():
    return Upper().eval(), (torch.ones(1, 3, 8, 8),)


class Joined(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Conv2d(3, 4, 1), nn.Conv2d(3, 4, 1)

    def forward(self, x):
        return torch.cat([self.one(x).relu(), self.other(x)], 1)


def joined():
    return Joined().eval(), (torch.ones(1, 3, 8, 8),)


def negative():
    yield torch.ones(1, 3, 8, 8)
    yield -torch.ones(1, 3, 8, 8)
'''


@pytest.fixture
def odd(engine):
    (engine.folder / "odd.py").write_text(ODD)

    def made(model, data):
        base = project("small", calibration=DataSource(spec=f"odd.py:{data}"))
        return edits.set_model(base, ModelSource(spec=f"odd.py:{model}"))

    return made


def test_that_constant_tensors_and_dead_channels_are_named_after_one_sample(engine, odd):
    made = odd("net", "usual")
    assert engine.run(made, "convert") == "done"
    rows = engine.result(made, "calibrate").ranges
    constant = next(r for r in rows if r.op == "aten.mul.Tensor")
    assert constant.problem == "constant: always 0"
    assert constant.zeros == 1.0
    weight = next(r for r in rows if r.kind == "weight" and r.module == "conv")
    assert (weight.dead, weight.channels) == (1, 4)
    assert weight.zeros == 0.25


def test_that_infinite_values_are_left_out_and_their_sample_is_named(engine, odd):
    made = odd("net", "with_zero")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert engine.run(made, "convert") == "done"
    rows = engine.result(made, "calibrate").ranges
    (log,) = [r for r in rows if r.op == "aten.log.default"]
    assert log.problem == "infinite in sample 1; such values were ignored"
    assert log.maximum == pytest.approx(0.6931472)


def test_that_tensors_with_one_range_are_named_with_it(engine, odd):
    made = odd("joined", "negative")
    assert engine.run(made, "calibrate") == "done"
    rows = {row.node: row for row in engine.result(made, "calibrate").ranges if row.kind == "activation"}
    # A ReLU whose range holds what it is joined with.
    assert rows["relu"].minimum < 0
    assert set(rows["relu"].shared) >= {"conv2d_1"}
    assert "conv2d_1" not in rows
    assert rows["x"].shared == ()


def test_that_nan_stops_calibration_with_tensor_and_sample(engine, odd):
    assert engine.run(odd("root", "negative"), "calibrate") == "failed"
    assert engine.failure.code == "tensor-not-finite"
    assert engine.failure.where.id == "pow_1"
    assert engine.failure.where.id == "pow_1"


@pytest.mark.slow
def test_that_ranges_are_in_program_order_with_weights_beside_their_operation(engine, odd):
    made = odd("upper", "usual")
    assert engine.run(made, "calibrate") == "done"
    kinds = [row.kind for row in engine.result(made, "calibrate").ranges]
    assert kinds == ["activation", "weight", "activation", "weight", "activation"]
