"""The choice of integers for weights: better than the nearest ones, near the best there are."""

import itertools

import pytest
import torch

from workbench.engine.quantization.rounding import Problem, descended, learned, second_order

pytestmark = pytest.mark.engine


def nearest_of_all(given):
    """Return the integers of learned rounding: for each output the way with the least error."""
    ways = torch.stack(learned(given, lambda: None))
    chosen = torch.stack([given.error(way) for way in ways]).argmin(0)
    return ways.gather(0, chosen[None, ..., None].expand(1, *ways.shape[1:]))[0]


METHODS = {"gptq": second_order, "rounding": nearest_of_all}


def problem(seed, rows=4, size=5, count=400, limit=7, groups=2):
    """Weights of a layer whose inputs hang together, on the grids that observers choose."""
    generator = torch.Generator().manual_seed(seed)
    mixed = torch.randn(groups, size, size, generator=generator, dtype=torch.float64)
    x = torch.randn(groups, count, size, generator=generator, dtype=torch.float64) @ mixed
    weight = torch.randn(groups, rows, size, generator=generator, dtype=torch.float64)
    gram = x.transpose(1, 2) @ x / count
    scale = weight.abs().amax(-1, keepdim=True) / limit
    pinned = (weight / scale).abs() > limit - 1e-6
    return x, Problem(weight, gram, weight @ gram, scale, limit, pinned)


def error(x, given, integers):
    """The squared error of the outputs [g, o], from the inputs themselves."""
    moved = x @ (integers * given.scale - given.weight).transpose(1, 2)
    return moved.square().mean(1)


def test_that_the_error_is_that_of_the_layers_outputs():
    x, given = problem(0)
    assert torch.allclose(given.error(given.nearest()), error(x, given, given.nearest()))


@pytest.mark.parametrize("method", METHODS)
def test_that_outputs_are_nearer_than_with_the_nearest_integers(method):
    nearest, chosen = 0.0, 0.0
    for seed in range(2):
        x, given = problem(seed, rows=8, size=16)
        integers = METHODS[method](given)
        assert torch.equal(integers, integers.round())
        assert integers.abs().max() <= given.limit
        nearest += float(error(x, given, given.nearest()).sum())
        chosen += float(error(x, given, integers).sum())
    assert chosen < 0.8 * nearest


def test_that_learned_rounding_is_near_the_best_of_all_integers_around():
    ours, best = 0.0, 0.0
    for seed in range(2):
        x, given = problem(seed, groups=1)
        integers = nearest_of_all(given)
        base = torch.floor(given.weight / given.scale)
        for row in range(given.weight.shape[1]):
            corners = torch.tensor(list(itertools.product((0, 1), repeat=given.weight.shape[-1])))
            options = (base[0, row] + corners).clamp(-7, 7)
            fixed = given.pinned[0, row]
            options = torch.where(fixed, 7 * torch.sign(given.weight[0, row]), options)
            moved = (options * given.scale[0, row] - given.weight[0, row]) @ x[0].T
            best += float(moved.square().mean(1).min())
        ours += float(error(x, given, integers).sum())
    assert ours <= 1.1 * best


@pytest.mark.parametrize("method", METHODS)
def test_that_each_grid_keeps_the_weight_that_observers_take_it_from(method):
    for seed in range(2):
        _, given = problem(seed)
        assert torch.all(METHODS[method](given).abs().amax(-1) == given.limit)


def test_that_wanted_outputs_count_and_not_the_weights_alone():
    """The quantized program's inputs are half of the float program's: weights have to double."""
    x, given = problem(3, rows=8, size=16)
    doubled = Problem(
        given.weight,
        given.gram / 4,
        given.weight @ given.gram / 2,
        2.5 * given.scale,
        given.limit,
        torch.zeros_like(given.pinned),
    )
    wanted = x @ given.weight.transpose(1, 2)
    for method in METHODS.values():
        outputs = x / 2 @ (method(doubled) * doubled.scale).transpose(1, 2)
        assert (outputs - wanted).square().mean() < 0.1 * wanted.square().mean()


def test_that_a_change_of_a_single_weight_gains_nothing_more():
    _, given = problem(1)
    known = given.damped()
    integers = descended(known, given.nearest(), lambda: None)
    for group, row, column in itertools.product(range(2), range(4), range(5)):
        for step in (-1, 1):
            moved = integers.clone()
            moved[group, row, column] += step
            if moved.abs().max() <= 7 and not known.pinned[group, row, column]:
                assert known.error(moved)[group, row] >= known.error(integers)[group, row] - 1e-12
