"""The search with random float networks: the same seed draws the same, and faults are reduced."""

import warnings

import numpy as np
import pytest
import torch

from tests.float_search.drafts import drawn
from tests.float_search.ideal import ideal
from tests.float_search.judge import Judge, Verdict, decibels
from tests.float_search.minimiser import minimised
from tests.float_search.networks import Input, Network, operations_of, smaller
from tests.float_search.oracle import eager, loaded, unseen
from tests.float_search.tensors import OPERATIONS

pytestmark = pytest.mark.engine
SEEDS = range(40)


@pytest.fixture(scope="module")
def networks():
    return [drawn(seed, OPERATIONS) for seed in SEEDS]


def network(*statements, parts=None, shape=(1, 4, 6, 6)):
    shapes = {f"v{n}": shape for n in range(1, 10)}
    given = (Input("x1", shape, "normal"),)
    last = statements[-1].split(" = ")[0]
    return Network(7, given, parts or {}, statements, (last,), shapes)


def module_of(network, folder):
    path = folder / "net.py"
    path.write_text(network.source())
    return loaded(path)


def test_that_the_same_seed_draws_the_same_network(networks):
    again = [drawn(seed, OPERATIONS) for seed in SEEDS]
    assert [one.as_json() for one in again] == [one.as_json() for one in networks]
    assert len({one.source() for one in networks}) == len(networks)
    assert [Network.from_json(one.as_json()) for one in networks] == networks


def test_that_eager_torch_runs_what_is_drawn(networks, tmp_path):
    steady = 0
    for one in networks:
        module = module_of(one, tmp_path)
        model, example = module.net()
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = model(*(tensor.clone() for tensor in example))
        assert len(one.outputs) == (len(result) if isinstance(result, tuple) else 1)
        first = result[0] if isinstance(result, tuple) else result
        steady += bool(torch.isfinite(first).all())
    assert steady > 0.9 * len(networks)


def test_that_writes_views_masks_and_norms_are_drawn():
    drawn_names = {name for seed in range(100) for name in operations_of(drawn(seed, OPERATIONS))}
    assert {"[]=", "*=", "zeros_like", "chunk", "interpolate", "softmax"} <= drawn_names
    assert any(name.startswith("BatchNorm") for name in drawn_names)


def test_that_a_fault_is_reduced_to_the_statement_that_has_it(tmp_path):
    parts = {"c1": "self.c1 = nn.Conv2d(4, 4, 3, padding=1)", "a1": "self.a1 = nn.ReLU()"}
    large = network(
        "v1 = self.c1(x1)",
        "v1[:, :2] *= 3",
        "v2 = self.a1(v1)",
        "v3 = v2.flip(-1)",
        "v4 = v3 + x1",
        parts=parts,
    )

    def judge(source):
        (tmp_path / "net.py").write_text(source)
        try:
            eager(loaded(tmp_path / "net.py"))
        except (RuntimeError, ValueError, NameError):
            return Verdict("invalid")
        return Verdict("differs" if ".flip(" in source else "right")

    small, verdict = minimised(large, judge(large.source()), judge)
    assert verdict.word == "differs"
    assert [text.split(" = ")[1] for text in small.statements] == ["v2.flip(-1)"]
    assert [given.name for given in small.inputs] == ["v2"]


def test_that_a_step_smaller_is_never_larger(networks):
    for one in networks[:10]:
        for candidate in smaller(one):
            assert len(candidate.statements) <= len(one.statements)
            assert candidate != one


def test_that_the_bound_keeps_writes_into_views(tmp_path):
    written = network("v1 = x1 * 1.5", "v2 = v1[:, :2]", "v2 *= 3", "v3 = v1.tanh()")
    module = module_of(written, tmp_path)
    expected = [[value.numpy() for value in sample] for sample in eager(module)]
    figures = {}
    for config in ("a8w8", "a16w8"):
        outputs = ideal(module, config, unseen(module))
        (figures[config],) = decibels(expected, [[v.numpy() for v in o] for o in outputs])
    assert 28 < figures["a8w8"] < 60 < figures["a16w8"]


def test_that_the_figure_is_the_ratio_of_signal_and_error():
    signal = np.full((4,), 10.0)
    assert decibels([[signal]], [[signal + 1]]) == [pytest.approx(20.0)]
    assert decibels([[signal]], [[signal[:2]]]) is None
    assert decibels([[signal]], [[]]) is None


@pytest.mark.slow
def test_that_a_network_is_judged_by_eager_torch():
    parts = {"c1": "self.c1 = nn.Conv2d(4, 4, 3, padding=1)"}
    right = network("v1 = self.c1(x1)", "v2 = torch.relu(v1)", parts=parts)
    random = network("v1 = x1 + torch.rand(())")
    judge = Judge("ethos-u85-256", "a8w8")
    try:
        assert judge(right.source(), deliver=True).word == "right"
        assert judge(random.source()).word == "invalid"
    finally:
        judge.close()
