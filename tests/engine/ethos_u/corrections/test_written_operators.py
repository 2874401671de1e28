"""Operators without a pattern are the same values with operators that have one."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.for_each import for_each
from workbench.engine.ethos_u.corrections.float_rewrites import logarithms_of_quotients
from workbench.engine.ethos_u.corrections.undefined_values import defined_operands
from workbench.engine.ethos_u.corrections.unsupported_operators import plain_operators
from workbench.engine.fx.functional_writes import with_functional_writes

pytestmark = pytest.mark.engine

# Of 8 classes.
WEIGHTS = torch.linspace(0.5, 2, 8)
# By the name of the operator that is not there afterwards.
WRITTEN = {
    "mT": lambda x: x.mT,
    "mH": lambda x: x.mH,
    "adjoint": lambda x: x.adjoint() + 1,
    "numpy_T": lambda x: x.flatten(1).T,
    "matrix_H": lambda x: x[0, 0].H,
    "swapaxes": lambda x: x.swapaxes(1, 2),
    "swapdims": lambda x: x.swapdims(2, 3),
    "hsplit": lambda x: x.hsplit(2)[1],
    "vsplit": lambda x: x[0].vsplit(2)[0],
    "dsplit": lambda x: torch.cat(x.dsplit(2), 1),
    "tensor_split": lambda x: x.tensor_split(3, 1)[1],
    "narrow": lambda x: x.narrow(1, 2, 4),
    "diff": lambda x: x.diff(dim=-1),
    "broadcast_to": lambda x: x[:, :1].broadcast_to(1, 5, 6, 6) + 1,
    "atleast_3d": lambda x: torch.atleast_3d(x[0, 0]) * 2,
    "hstack": lambda x: torch.hstack([x, x * 2]),
    "column_stack": lambda x: torch.column_stack([x[0, 0], x[0, 1]]),
    "kron": lambda x: torch.kron(x[0, 0], torch.ones(2, 2)),
    "outer": lambda x: torch.outer(x[0, 0, 0], x[0, 1, 0]),
    "inner": lambda x: torch.inner(x[0, 0], x[0, 1]),
    "dot": lambda x: torch.dot(x[0, 0, 0], x[0, 1, 0]).view(1, 1),
    "tensordot": lambda x: torch.tensordot(x, x, dims=([2, 3], [2, 3])),
    "linalg_multi_dot": lambda x: torch.linalg.multi_dot([x[0, 0], x[0, 1], x[0, 2]]),
    "linalg_matrix_power": lambda x: torch.linalg.matrix_power(x[0, 0] * 0.3, 3),
    "baddbmm": lambda x: torch.baddbmm(x[0], x[0], x[0], beta=0.5, alpha=0.1),
    "addbmm": lambda x: torch.addbmm(x[0, 0], x[0], x[0], alpha=0.1),
    "linalg_cross": lambda x: torch.linalg.cross(x[:, :3], x[:, 3:6], dim=1),
    "tril": lambda x: x.tril(),
    "triu": lambda x: x.triu(1),
    "diag": lambda x: torch.diag(x[0, 0, 0]),
    "diag_embed": lambda x: torch.cat(
        [torch.diag_embed(x, *at).flatten() for at in ((), (1,), (-2, 3, 0), (1, 1, 2))]
    ),
    "linalg_vector_norm": lambda x: x.norm(p=float("inf"), dim=1),
    "cosine_similarity": lambda x: functional.cosine_similarity(x, x.flip(-1), dim=-1),
    "cdist": lambda x: torch.cdist(x.flatten(2), x.flip(1).flatten(2)),
    "aminmax": lambda x: sum(torch.aminmax(x, dim=1)),
    "var_mean": lambda x: sum(torch.var_mean(x, (2, 3))),
    "std_mean": lambda x: sum(torch.std_mean(x, (2, 3), correction=0)),
    "nansum": lambda x: x.nansum(1),
    "nanmean": lambda x: x.nanmean((1, 2)),
    "relu6": lambda x: functional.relu6(x * 4),
    "softplus": lambda x: functional.softplus(x, beta=2.0),
    "softshrink": lambda x: functional.softshrink(x, 0.3),
    "erfc": torch.erfc,
    "hypot": lambda x: torch.hypot(x, x.flip(1)),
    "logaddexp": lambda x: torch.logaddexp(x, x.flip(1)),
    "addcdiv": lambda x: torch.addcdiv(x, x, x.abs() + 1, value=0.5),
    "fmax": lambda x: torch.fmax(x, x.flip(1)),
    "fmin": lambda x: torch.fmin(x, x.flip(1)),
    "multiply": lambda x: torch.multiply(x, 3.0),
    "true_divide": lambda x: torch.true_divide(x, 3.0),
    "special_expit": torch.special.expit,
    "cross_entropy": lambda x: functional.cross_entropy(x, x.flip(1).argmax(1), label_smoothing=0.1),
    "nll_loss": lambda x: torch.stack(
        [
            functional.nll_loss(x, x.argmax(1) - 1, WEIGHTS, ignore_index=-1),
            functional.nll_loss(x[0, :, 0], x[0, :, 1].argmax(1), reduction="sum"),
            functional.nll_loss(x, x.argmax(1), ignore_index=2, reduction="none").sum(),
            functional.nll_loss(x[0, :, 0, 0], x[0, :, 0, 1].argmax(), WEIGHTS),
        ]
    ),
}
RESIZED = {
    "three times": {"scale_factor": 3},
    "smaller": {"size": (4, 5)},
    "by one and a half": {"scale_factor": (1.5, 2.5)},
    "exact": {"size": (9, 4), "mode": "nearest-exact"},
    "bilinear": {"scale_factor": 2, "mode": "bilinear"},
    "at the corners": {"size": (11, 5), "mode": "bilinear", "align_corners": True},
}
# What U55 and U65 have no operator for; few places, and many.
SELECTED = {
    "flip": (lambda x, _: x.flip(1, 3), [0]),
    "index_select": (lambda x, places: x.index_select(1, places), [7, 0, 1, 3]),
    "rows": (lambda x, places: x.flatten(1, 2).index_select(1, places), [7 * n % 48 for n in range(40)]),
    "take": (lambda x, places: x.take(places).view(1, 3), [1, -2, 9]),
}


# Additions to places, some of them named twice.
ADDED = {
    "rows": (lambda x, at: x[0].index_put((at,), x[0, :3].relu(), accumulate=True), [1, 1, -1]),
    "one value": (lambda x, at: x[0].index_put((at,), x[0, 0, 0, 0], accumulate=True), [[1, 1], [0, 5]]),
    "last": (lambda x, at: torch.ops.aten.index_put(x, [None, None, None, at], x[..., :2], True), [2, 2]),
    "elements": (lambda x, at: x[0, 0].index_put((at, at), x[0, 1, 0, :4], accumulate=True), [0, 4, 4, -2]),
    "in place": (lambda x, at: torch.zeros(4, 6, 6).index_put_((at,), x[0, :2], accumulate=True), [3, 3]),
}


class Of(nn.Module):
    def __init__(self, compute, places=None):
        super().__init__()
        self.compute = compute
        if places is not None:
            self.register_buffer("places", torch.tensor(places))

    def forward(self, x):
        given = (self.places,) if hasattr(self, "places") else ()
        return self.compute(x * 1.5, *given)


VOLUMES = {
    "conv3d": nn.Conv3d(2, 4, 3, (2, 1, 2), (1, 0, 2), bias=False),
    "dilated": nn.Conv3d(2, 4, (2, 3, 1), padding=2, dilation=(2, 1, 2)),
    "same": nn.Conv3d(2, 4, 3, padding="same"),
    "groups": nn.Conv3d(2, 4, 3, groups=2),
    "mean": nn.AvgPool3d((2, 3, 3), (2, 2, 1), 1),
    "depth": nn.AvgPool3d((3, 1, 1), 1),
    "largest": nn.MaxPool3d((2, 3, 2), (2, 1, 2), (1, 1, 0), (1, 2, 1)),
    "norm": nn.BatchNorm3d(2).eval(),
    "response": nn.LocalResponseNorm(3),
}


def quantizer(is_small, *, quantizes=True):
    made = SimpleNamespace(input_activation=SimpleNamespace(dtype=torch.int16))
    every = SimpleNamespace(find_nodes=lambda module: module.graph.nodes)
    rule = SimpleNamespace(node_finder=every, quantization_config=made if quantizes else None)
    return SimpleNamespace(
        global_config=made,
        tosa_spec="TOSA-1.0+INT" + "+u55" * is_small,
        quantizer=SimpleNamespace(quantizers=[rule]),
    )


def written(compute, places=None, *, is_small, x=None, quantizes=True):
    """Return the largest error of a function as it is written, and its operators."""
    torch.manual_seed(0)
    model, x = Of(compute, places).eval(), torch.randn(1, 8, 6, 6) if x is None else x
    program = with_functional_writes(torch.export.export(model, (x,)))
    module = program.module(check_guards=False)
    plain_operators(module, quantizer(is_small, quantizes=quantizes))
    module.graph.lint()
    calls = [node for node in module.graph.nodes if node.op == "call_function"]
    for node in calls:
        if isinstance(value := node.meta["val"], torch.Tensor):
            assert value.shape == node.meta["val"].shape
    names = {str(node.target).split(".")[1] for node in calls if "aten" in str(node.target)}
    with torch.no_grad():
        return float((module(x) - model(x)).abs().max()), names


@for_each("name", ADDED)
def test_that_what_is_added_to_a_place_twice_is_added_twice(name):
    error, names = written(*ADDED[name], is_small=False)
    assert error < 1e-5
    assert not names & {"index_put", "index_put_", "index_add"}


def test_that_what_is_added_to_computed_places_is_added_twice():
    def added(x):
        return x[0].index_put(((x[0, :3, 0, 0] > 0).long(),), x[0, :3], accumulate=True)

    error, names = written(added, is_small=False)
    assert error < 1e-5
    assert "index_add" in names


def places(x):
    """Return places that depend on the data, some of them counted from the end."""
    return (x[0, :3, 0, 0] > 0).long() * 2 + torch.tensor([0, -2, 1])


# Writes and additions to places that several computed indices name.
COMPUTED = {
    "between": lambda x: torch.ops.aten.index_put(x, [None, places(x), places(x)], x[:, 0, :3]),
    "apart": lambda x: torch.ops.aten.index_put(x, [None, places(x), None, places(x)], x[0, :3, :1]),
    "grid": lambda x: x[0, 0].index_put((places(x)[:, None], places(x)), x[0, 1, :3, :3]),
    "one number": lambda x: torch.ops.aten.index_put(x, [None, None, places(x)[0]], x.mean()),
    "beside constant ones": lambda x: x[0].index_put((torch.tensor([[1], [2]]), places(x)), x[0, :2, :3]),
    "added": lambda x: x[0].index_put((places(x), places(x), places(x)), x[0, 0, 0, :3], accumulate=True),
    "added to a grid": lambda x: x[0, 0].index_put((places(x)[:, None], places(x)), x[0, 1, 0, 0], True),
    "added apart": lambda x: torch.ops.aten.index_put(
        x, [places(x) * 0, None, places(x)], x[0, :3, None, 0], True
    ),
}


def test_that_wide_means_read_no_rows_behind_their_last_window():
    x = torch.randn(1, 2, 32, 32)
    error, names = written(lambda x: functional.avg_pool2d(x, (9, 3), 2), is_small=True, x=x)
    assert error < 1e-6
    assert "slice" in names
    assert "slice" not in written(lambda x: functional.avg_pool2d(x, 9, 5), is_small=True, x=x)[1]


@for_each("name", COMPUTED)
def test_that_places_in_several_dimensions_are_one_list_of_places(name):
    error, names = written(COMPUTED[name], is_small=False)
    assert error < 1e-5
    assert "index_add" in names if "added" in name else "remainder" in names


@pytest.mark.slow
@for_each("name", WRITTEN)
def test_that_an_operator_is_written_with_others_and_keeps_its_values(name):
    error, names = written(WRITTEN[name], is_small=False)
    assert error < 1e-5
    assert name not in names


@for_each("name", SELECTED)
def test_that_selections_of_the_small_devices_keep_their_values(name):
    error, names = written(*SELECTED[name], is_small=True)
    assert error < 1e-6
    assert not names & {"flip", "index_select", "take"}


def test_that_the_large_devices_keep_their_operators_for_selections():
    assert "flip" in written(*SELECTED["flip"], is_small=False)[1]
    assert "index_select" in written(*SELECTED["index_select"], is_small=False)[1]


@for_each("name", RESIZED)
def test_that_interpolations_of_the_small_devices_keep_their_values(name):
    error, names = written(lambda x: functional.interpolate(x, **RESIZED[name]), is_small=True)
    assert error < 1e-5
    assert not any("upsample" in operator for operator in names)


def test_that_interpolations_that_every_device_has_are_left():
    for factor in (2, 4):
        _, names = written(lambda x, f=factor: functional.interpolate(x, scale_factor=f), is_small=True)
        assert "upsample_nearest2d" in names


@for_each("name", VOLUMES)
def test_that_what_is_computed_over_three_dimensions_keeps_its_values(name):
    x = torch.randn(1, 2, 5, 6, 7)
    error, names = written(VOLUMES[name], is_small=False, x=x)
    assert error < 1e-5
    assert not names & {"avg_pool3d", "conv3d", "max_pool3d"}


def test_that_what_a_rule_leaves_in_float_stays_one_operator_on_the_cpu():
    x = torch.randn(1, 2, 5, 6, 7)
    assert "conv3d" in written(VOLUMES["same"], is_small=True, x=x, quantizes=False)[1]
    for compute in (lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear"), torch.fliplr):
        _, names = written(compute, is_small=True, quantizes=False)
        assert names & {"upsample_bilinear2d", "flip"}


def test_that_values_of_a_whole_network_are_kept_where_torch_would_write_them_worse():
    _, names = written(lambda x: functional.layer_norm(x, (6,)) @ x.transpose(2, 3), is_small=True)
    assert {"layer_norm", "matmul"} <= names


# More places than a register of Vela counts: even, odd, among other dimensions, and just as many.
LONG = {
    "mean": (lambda x: x.mean(-1), (1, 2, 70000)),
    "odd": (lambda x: x.mean(-1, keepdim=True), (1, 2, 70001)),
    "sum": (lambda x: x.sum(1) * 1e-3, (2, 131073, 2)),
    "two": (lambda x: x.mean((1, 3)), (1, 65537, 2, 3)),
    "all": (lambda x: x.mean().view(1, 1), (1, 65537)),
}


@for_each("name", LONG)
def test_that_a_reduction_over_many_places_is_one_over_rows_and_over_them(name):
    compute, shape = LONG[name]
    longest = 0
    torch.manual_seed(1)
    model, x = Of(compute).eval(), torch.rand(shape)
    module = torch.export.export(model, (x,)).module(check_guards=False)
    plain_operators(module, quantizer(is_small=False))
    for node in module.graph.nodes:
        if "mean" in str(node.target) or "sum" in str(node.target):
            (given,) = node.all_input_nodes
            longest = max(longest, *(given.meta["val"].shape[dim] for dim in node.args[1]))
    assert 0 < longest <= 1 << 16
    torch.testing.assert_close(module(x), model(x), rtol=1e-4, atol=1e-5)


def test_that_a_reduction_over_as_many_places_as_a_register_counts_is_left_as_it_is():
    error, names = written(lambda x: x.mean(-1), is_small=False, x=torch.rand(1, 2, 1 << 16))
    assert error == 0
    assert names == {"mul", "mean"}


def odds(x):
    """Return the logit of a part, as detectors write it for their reference points."""
    part = x.sigmoid().clamp(min=0, max=1)
    return torch.log(part.clamp(min=1e-3) / (1 - part).clamp(min=1e-3))


# Logarithms of quotients, and whether both parts are above zero whatever the input is.
QUOTIENTS = {
    "logit": (lambda x: torch.logit(x.sigmoid(), eps=1e-3), True),
    "logit without a guard": (lambda x: torch.logit(x.sigmoid() * 0.5 + 0.2), True),
    "clamped apart": (odds, True),
    "clamped": (lambda x: torch.log(x.clamp(0.01, 0.99) / (1 - x.clamp(0.01, 0.99))), True),
    "sigmoid": (lambda x: torch.log(x.sigmoid() / (1 - x.sigmoid())), True),
    "ratio": (lambda x: torch.log((x.abs() + 1e-3) / (x.flip(1) ** 2 + 0.1)), True),
    "probabilities": (lambda x: torch.log(x.softmax(1) / (x.flip(1).exp() + 1)), True),
    "negative": (lambda x: torch.log((x.exp() * -1) / (-1 - x.exp())), False),
    "number": (lambda x: torch.log(x.exp() / 3), False),
    "clamped above": (lambda x: torch.log(x.clamp(max=-0.5) / x.clamp(max=-1)), False),
    "less than one": (lambda x: torch.log(x.clamp(-3, -2) / (0.5 - x.clamp(2, 3))), False),
}


@for_each("name", QUOTIENTS)
def test_that_the_logarithm_of_a_quotient_of_positive_numbers_is_a_difference(name):
    compute, is_positive = QUOTIENTS[name]
    torch.manual_seed(0)
    model, x = Of(compute).eval(), torch.randn(1, 4, 6)
    module = torch.export.export(model, (x,)).module(check_guards=False)
    plain_operators(module, quantizer(is_small=False))
    written = logarithms_of_quotients(module, quantizer(is_small=False))
    assert bool(written) is is_positive
    with torch.no_grad():
        torch.testing.assert_close(module(x), model(x), rtol=1e-5, atol=1e-5)


def test_that_the_logarithm_of_a_quotient_in_float_is_left_as_it_is():
    module = torch.export.export(Of(odds).eval(), (torch.randn(1, 4, 6),)).module(check_guards=False)
    assert logarithms_of_quotients(module, quantizer(is_small=False, quantizes=False)) == []


def shares(x):
    """Return the shares of what is above 2: zero by zero where nothing is."""
    x = torch.relu(x - 2)
    return x / x.sum(-1, keepdim=True)


def of_both_signs(x):
    """Return a root with the sign of its operand."""
    return torch.where(x >= 0, torch.sqrt(x), -torch.sqrt(-x))


def asked(x):
    """Return a logarithm, or its operand where there is none."""
    y = x.log()
    return torch.where(y.isnan(), x, y)


# Functions that make what is no number, and whether nothing but a choice reads it.
UNDEFINED = {
    "logarithm": (lambda x: torch.where(x > 0, x.log(), torch.zeros_like(x)), True),
    "roots": (of_both_signs, True),
    "gamma": (lambda x: torch.where(x <= 0.1, 12 * x, 1.055 * x ** (1 / 2.4) - 0.055), True),
    "filled": (lambda x: x.sqrt().masked_fill(x < 0, 1.0), True),
    "arc": (lambda x: torch.where(x.abs() < 1, x.acos(), x), True),
    "root or zero": (lambda x: x.sqrt().nan_to_num(), True),
    "shares": (lambda x: shares(x).nan_to_num(0.0), True),
    "shares or zeros": (lambda x: torch.where(shares(x).isnan(), torch.zeros_like(x), shares(x)), True),
    "entropy": (lambda x: torch.where(x > 0, -x.relu() * x.relu().log(), torch.zeros_like(x)), True),
    "quotient": (lambda x: torch.where(x > 0.1, x.flip(0) / x, torch.zeros_like(x)), True),
    "quotient asked later": (lambda x: torch.where((y := x.relu() / x.relu()) < 3, y, x), False),
    "logarithm or zero": (lambda x: x.log().nan_to_num(), False),
    "shares or one": (lambda x: shares(x).nan_to_num(1.0), False),
    "asked": (asked, False),
    "read": (lambda x: torch.stack([torch.where(x > 0, y := x.log(), x), y]), False),
}


@for_each("name", UNDEFINED)
def test_that_a_choice_between_numbers_needs_no_others(name):
    compute, is_written = UNDEFINED[name]
    torch.manual_seed(0)
    model, x = Of(compute).eval(), torch.randn(3, 4, 6)
    module = torch.export.export(model, (x,)).module(check_guards=False)
    assert bool(defined_operands(module, quantizer(is_small=False))) is is_written
    with torch.no_grad():
        torch.testing.assert_close(module(x), model(x), equal_nan=True)
    computed = _Floats(module)
    computed.run(x)
    assert any(value.isnan().any() for value in computed.values) is not is_written


class _Floats(torch.fx.Interpreter):
    """Runs a module and keeps the floats that it computes."""

    def __init__(self, module):
        super().__init__(module)
        self.values = []

    def run_node(self, n):
        value = super().run_node(n)
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            self.values.append(value)
        return value
