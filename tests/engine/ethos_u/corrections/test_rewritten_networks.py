"""What is written for the NPU before calibration computes what the model does."""

import math
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.engine.in_process import project
from tests.for_each import for_each
from workbench.engine.ethos_u.applied_corrections import correction_functions
from workbench.engine.ethos_u.corrections.batch_norm_folding import made_foldable
from workbench.engine.ethos_u.quantization import prepare, quantizer
from workbench.engine.fx.functional_writes import with_functional_writes
from workbench.project.opened import OpenProject

LEAST = torch.finfo(torch.float32).min


class Network(nn.Module):
    def __init__(self, compute, *parts):
        super().__init__()
        self.compute, self.parts = compute, nn.ModuleList(parts)

    def forward(self, *inputs):
        return self.compute(self.parts, *inputs)


def normed(module):
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            part.running_mean.uniform_(-1, 1)
            part.running_var.uniform_(0.3, 2)
            if part.affine:
                part.weight.data.uniform_(0.5, 1.5)
                part.bias.data.uniform_(-0.5, 0.5)
    return module.eval()


def decibel(module, *inputs, target="ethos-u85-256"):
    """Return how near a network with observers is to the model, both in float [dB]."""
    made = project("networks.py:net", target=target)
    program = with_functional_writes(torch.export.export(module, inputs))
    floating = program.module(check_guards=False)
    functions, _ = correction_functions(made.target.options, "quantizer")
    made_foldable(floating, functions["batch_norm_folding"])
    with torch.no_grad():
        prepared = prepare(floating, quantizer(OpenProject(made, Path())))
        given, wanted = prepared(*inputs).double(), module(*inputs).double()
    noise = float((given - wanted).square().sum())
    return math.inf if noise == 0 else 10 * math.log10(float(wanted.square().sum()) / noise)


def conv(before=3, after=6, **rest):
    return nn.Conv2d(before, after, 3, padding=1, **rest)


def beside(norm, y):
    return torch.relu(norm(y)) + y


NORMS = {
    "two": lambda p, x: torch.relu(p[2](p[1](p[0](x)))),
    "three": lambda p, x: torch.relu(p[3](p[2](p[1](p[0](x))))),
    "read twice": lambda p, x: torch.relu(p[2](p[1](p[0](x)))) + p[1](p[0](x)),
    "read between": lambda p, x: beside(p[2], p[1](p[0](x))),
    "read before": lambda p, x: beside(lambda y: p[2](p[1](y)), p[0](x)),
    "after a depthwise": lambda p, x: beside(p[2], p[4](p[1](p[0](x)))),
    "apart": lambda p, x: torch.relu(p[2](functional.dropout(p[1](p[0](x)), 0.1, False))),
}


@for_each("name", NORMS)
def test_that_norms_that_follow_each_other_are_all_computed(name):
    torch.manual_seed(0)
    norms = [nn.BatchNorm2d(6), nn.BatchNorm2d(6), nn.BatchNorm2d(6, affine=False)]
    module = normed(Network(NORMS[name], conv(), *norms, conv(6, 6, groups=6)))
    assert decibel(module, torch.randn(1, 3, 8, 8)) > 100


def test_that_norms_after_sequences_vectors_and_transposed_convolutions_are_computed():
    torch.manual_seed(0)
    for parts, shape in (
        ((nn.Conv1d(3, 6, 3), nn.BatchNorm1d(6), nn.BatchNorm1d(6)), (1, 3, 9)),
        ((nn.Linear(3, 6), nn.BatchNorm1d(6), nn.BatchNorm1d(6, affine=False)), (2, 3)),
        ((nn.ConvTranspose2d(3, 6, 3), nn.BatchNorm2d(6), nn.BatchNorm2d(6)), (1, 3, 5, 5)),
    ):
        assert decibel(normed(nn.Sequential(*parts)), torch.randn(shape)) > 100


def rows_masked_everywhere(number):
    mask = torch.zeros(6, 6)
    mask[:, 4:] = number
    mask[5] = number
    return mask


MASKS = {
    "-inf": lambda a, k: a + torch.full((6, 6), -math.inf).triu(1),
    "least float": lambda a, k: a + torch.full((6, 6), LEAST).triu(1),
    "-1e9": lambda a, k: a + torch.full((6, 6), -1e9).triu(1),
    "-10,000": lambda a, k: a + torch.full((6, 6), -1e4).triu(1),
    "rows of the least float": lambda a, k: a + rows_masked_everywhere(LEAST),
    "rows of -1e9": lambda a, k: a + rows_masked_everywhere(-1e9),
    "rows of -10,000": lambda a, k: a + rows_masked_everywhere(-1e4),
    "rows filled": lambda a, k: a.masked_fill(rows_masked_everywhere(-1.0) < 0, LEAST),
    "computed, BERT": lambda a, k: a + (1 - k)[:, None] * -3.4e38,
    "computed, -10,000": lambda a, k: a + (1.0 - k)[:, None] * -10000.0,
    "computed, subtracted": lambda a, k: a - (1 - k[:, None]) * 1e9,
    "computed, of the rest": lambda a, k: a + (k[:, None] - 1) * 1e5,
    "computed, scaled after": lambda a, k: (a + (1 - k)[:, None] * -1e9) / 4.0,
    "filled": lambda a, k: a.masked_fill(k[:, None] == 0, -1e9),
    "chosen": lambda a, k: torch.where(k[:, None] > 0, a, torch.full_like(a, LEAST)),
    "inverted": lambda a, k: a + (1 - k[:, None]).masked_fill((1 - k[:, None]).bool(), LEAST),
}


@for_each("name", ["-inf", "computed, BERT", "filled"])
def test_that_masked_scores_are_those_of_the_model(name):
    assert_masked(name)


@pytest.mark.slow
@for_each("name", MASKS)
def test_that_scores_under_every_mask_are_those_of_the_model(name):
    assert_masked(name)


def assert_masked(name):
    torch.manual_seed(0)
    module = Network(
        lambda p, x, k: torch.softmax(MASKS[name](p[0](x) @ p[1](x).transpose(1, 2), k), -1) @ p[2](x),
        nn.Linear(8, 8),
        nn.Linear(8, 8),
        nn.Linear(8, 8),
    ).eval()
    kept = torch.tensor([[1.0, 1, 1, 1, 0, 0]])
    assert decibel(module, torch.randn(1, 6, 8), kept) > 75


def less_its_largest(a, k):
    a = a.masked_fill_(k[:, None] == 0, -math.inf)
    return (a - a.amax(-1, keepdim=True)).exp()


# What reads masked scores, by the scores and the mask of columns.
COMPARED = {
    "softmax": lambda a, k: torch.softmax(MASKS["-inf"](a, None), -1),
    "chosen numbers": lambda a, k: torch.where(k[:, None] > 0, a, -1e9).softmax(-1),
    "least of others": lambda a, k: (a + torch.diag(torch.full((6,), math.inf))).amin(-1),
    "least, computed": lambda a, k: (a + (1 - k[:, None]) * 1e9).amin(-1),
    "softmin": lambda a, k: functional.softmin(a.masked_fill(torch.eye(6).bool(), 1e9), -1),
    "place": lambda a, k: a.gather(2, torch.where(k[:, None] > 0, a, -1e9).argmax(-1, keepdim=True)),
    "nearest": lambda a, k: a.gather(2, (a + torch.eye(6) * 1e6).topk(2, largest=False).indices),
    "exponential": lambda a, k: torch.exp(-(a * a).masked_fill(k[:, None] == 0, math.inf)),
    "sigmoid": lambda a, k: a.masked_fill(k[:, None] == 0, -math.inf).sigmoid(),
    "less its largest": less_its_largest,
    "no column": lambda a, k: a.masked_fill(k[:, None] < 2, -math.inf).softmax(-1).nan_to_num(),
    "no least": lambda a, k: torch.isinf(a.masked_fill(k[..., None] == 0, math.inf).amin(-1)) * a[..., 0],
    "padded": lambda a, k: functional.max_pool2d(functional.pad(a, (1, 2, 0, 1), value=-math.inf), 3, 2),
    "padded rows": lambda a, k: functional.pad(a, (1, 1), value=-1e9).unfold(-1, 2, 1).amax(-1),
    "padded end": lambda a, k: functional.pad(a, (0, 2), value=-1e9).softmax(-1)[..., :6],
}


@for_each("name", COMPARED)
def test_that_no_range_is_spanned_by_a_mask(name):
    torch.manual_seed(0)
    module = Network(lambda p, x, k: COMPARED[name](p[0](x) @ x.transpose(1, 2), k), nn.Linear(8, 8)).eval()
    inputs = torch.randn(1, 6, 8), torch.tensor([[1.0, 0, 1, 1, 0, 0]])
    assert decibel(module, *inputs) > 75
    program = with_functional_writes(torch.export.export(module, inputs))
    made = project("networks.py:net")
    with torch.no_grad():
        prepared = prepare(program.module(check_guards=False), quantizer(OpenProject(made, Path())))
        prepared(*inputs)
    ranges = [m for m in prepared.modules() if hasattr(m, "min_val") and m.min_val.numel() == 1]
    assert ranges
    assert all(-100 < float(one.min_val) <= float(one.max_val) < 100 for one in ranges)


LIMITS = {
    "least float": (torch.tensor([-0.5, LEAST, 0.1]), torch.tensor([0.5, 1.0, -LEAST])),
    "-1e9": (torch.tensor([-0.5, -1e9, 0.1]), torch.tensor([0.5, 1.0, 1e9])),
    "-inf": (torch.tensor([-math.inf] * 3), torch.tensor([0.5, 1.0, math.inf])),
}


@for_each("name", LIMITS)
def test_that_limits_that_no_value_reaches_are_none(name):
    low, high = (limit.view(1, 3, 1) for limit in LIMITS[name])
    torch.manual_seed(0)
    for clamp in (
        lambda p, x: torch.minimum(torch.maximum(p[0](x), low), high),
        lambda p, x: torch.clamp(p[0](x), low, high),
    ):
        assert decibel(Network(clamp, nn.Conv1d(2, 3, 3)).eval(), torch.randn(1, 2, 12)) > 100


def test_that_a_limit_that_is_a_number_may_be_open():
    module = Network(lambda p, x: x.clamp(LEAST, 0.5) + x.clamp(-0.3, math.inf), nn.Identity())
    assert decibel(module, torch.randn(1, 2, 12) * 1000) > 100


ALONE = {
    "nearest by 2.05": (1, lambda x: functional.interpolate(x, scale_factor=2.05)),
    "nearest by 1.5": (1, lambda x: functional.interpolate(x, scale_factor=1.5)),
    "nearest by 3": (1, lambda x: functional.interpolate(x, scale_factor=3)),
    "nearest to a size": (1, lambda x: functional.interpolate(x, size=23)),
    "nearest, recomputed": (
        1,
        lambda x: functional.interpolate(x, scale_factor=2.3, recompute_scale_factor=True),
    ),
    "average": (0, lambda x: functional.avg_pool1d(x, 2)),
    "average, ceil": (1, lambda x: functional.avg_pool1d(x, 4, 3, 2, True, False)),
    "maximum": (0, lambda x: functional.max_pool1d(x, 3, 2, 1)),
    "maximum, dilated": (1, lambda x: functional.max_pool1d(x, 3, 2, 1, 2, True)),
    "adaptive": (0, lambda x: functional.adaptive_avg_pool1d(x, 3)),
    "adaptive to one": (0, lambda x: functional.adaptive_avg_pool1d(x, 1)),
    "softplus with a low limit": (1, lambda x: functional.softplus(x, 1, 0.5)),
    "filled": (1, lambda x: x.index_fill(-1, torch.tensor([0, 2]), 0.5)),
    "rolled": (1, lambda x: x.roll((2, -1), (1, 2))),
}


@for_each("name", ["nearest by 2.05", "average, ceil", "filled"])
def test_that_operators_over_one_dimension_keep_their_arguments(name):
    assert_arguments_kept(name)


@pytest.mark.slow
@for_each("name", ALONE)
def test_that_every_operator_over_one_dimension_keeps_its_arguments(name):
    assert_arguments_kept(name)


def assert_arguments_kept(name):
    torch.manual_seed(0)
    batched, compute = ALONE[name]
    x = torch.randn(1, 2, 10) if batched else torch.randn(2, 10)
    module = Network(lambda p, x: compute(p[0](x)), nn.Conv1d(2, 4, 3, padding=1)).eval()
    assert decibel(module, x) > 100


@pytest.mark.slow
@for_each("target", ["ethos-u55-128", "ethos-u85-256"])
def test_that_transposed_convolutions_in_groups_and_alone_are_computed(target):
    torch.manual_seed(0)
    for module, shape in (
        (nn.ConvTranspose2d(6, 4, 3, stride=2, groups=2), (1, 6, 6, 6)),
        (nn.ConvTranspose1d(2, 4, 3, stride=2), (2, 12)),
        (nn.ConvTranspose1d(2, 4, 3, stride=3, padding=2, dilation=2), (2, 2, 12)),
        (nn.ConvTranspose2d(3, 4, (4, 3), (2, 3), (1, 0), (0, 2)), (2, 3, 6, 5)),
    ):
        assert decibel(module.eval(), torch.randn(shape), target=target) > 100


@for_each("dim", [0, 1, -1])
def test_that_logarithms_of_probabilities_are_those_of_the_model(dim):
    torch.manual_seed(0)
    module = Network(lambda p, x: functional.log_softmax(20 * p[0](x), dim), nn.Linear(8, 5))
    assert decibel(module, torch.randn(3, 4, 8)) > 100
