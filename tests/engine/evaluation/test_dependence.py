"""What outputs depend on, and the classes that they give, on programs that are written out."""

import pytest
import torch

from tests.for_each import for_each
from workbench.engine.data import Sample
from workbench.engine.evaluation.dependence import Variation, with_inputs
from workbench.engine.evaluation.measures import Accumulator, OutputAccumulator
from workbench.results import Dependence, ExportResult, TensorSpec

pytestmark = pytest.mark.engine

PAIRS = [Sample(i, (torch.tensor([1.0 + i, -2.0]), torch.tensor([0.5, 3.0 * i])), None) for i in range(3)]


def both(a, b):
    return [a + b]


def found(floating, program, samples=PAIRS, names=("a", "b")):
    return with_inputs(
        Dependence(), lambda s: floating(*s.inputs), lambda s: program(*s.inputs), samples, names
    )


@for_each(
    ("program", "ignored"),
    [
        (both, ()),
        (lambda a, b: [a * 2.0], ("b",)),
        (lambda a, b: [b + 0.0], ("a",)),
        (lambda a, b: [torch.ones(2)], ("a", "b")),
        (lambda a, b: [a, b], ()),
    ],
)
def test_that_an_input_that_only_the_program_ignores_is_found(program, ignored):
    assert found(both, program) == Dependence(ignored=ignored)


def test_that_an_input_that_both_ignore_is_unused():
    assert found(lambda a, b: [a], lambda a, b: [a]) == Dependence(unused=("b",))


def test_that_a_change_that_no_grid_shows_is_not_missed():
    def hardly(a, b):
        return [100.0 + a + 0.001 * b]

    assert found(hardly, lambda a, b: [100.0 + a]) == Dependence()


def test_that_one_sample_is_compared_with_its_own_values_in_another_order():
    one = [Sample(0, (torch.tensor([1.0, 2.0]),), None)]
    assert found(lambda a: [a], lambda a: [a * 0], one, ("x",)).ignored == ("x",)
    same = [Sample(0, (torch.ones(3),), None)]
    assert found(lambda a: [a], lambda a: [a * 0], same, ("x",)).ignored == ("x",)


def test_that_a_program_may_write_to_what_it_is_given():
    def writes(a, b):
        a *= 0.0
        return [a + b]

    before = [tuple(t.clone() for t in s.inputs) for s in PAIRS]
    assert found(both, writes).ignored == ("a",)
    for sample, inputs in zip(PAIRS, before, strict=True):
        assert all(map(torch.equal, sample.inputs, inputs))


def test_that_samples_that_do_not_fit_together_are_left_out():
    def indexed(values, index):
        return [values[index]]

    samples = [
        Sample(0, (torch.arange(2.0), torch.tensor([1])), None),
        Sample(1, (torch.arange(9.0) + 1, torch.tensor([8])), None),
    ]
    names = ("values", "index")
    assert found(indexed, indexed, samples, names) == Dependence()
    assert found(indexed, lambda v, i: [v[:1]], samples, names).ignored == ("index",)


def varied(floats, outputs, inputs=("x",)):
    variation = Variation()
    for a, b in zip(floats, outputs, strict=True):
        variation.add(a, b)
    specs = tuple(TensorSpec(name=name, shape=(1,), dtype="float32") for name in inputs)
    return variation.result(ExportResult(nodes=0, inputs=specs, outputs=()))


MOVING = [[torch.tensor([1.0]), torch.tensor([5.0])], [torch.tensor([2.0]), torch.tensor([5.0])]]
STILL = [[torch.tensor([1.0]), torch.tensor([5.0])]] * 2


def test_that_an_output_that_only_the_program_holds_still_is_constant():
    assert varied(MOVING, MOVING) == Dependence()
    assert varied(STILL, STILL) == Dependence()
    assert varied(MOVING, STILL) == Dependence(constant=("output 0",), ignored=("x",))
    assert varied(MOVING, STILL, ("x", "mask")) == Dependence(constant=("output 0",))
    assert varied(STILL, MOVING) == Dependence()


def test_that_a_program_with_an_output_that_moves_does_not_ignore_its_input():
    other = [[torch.tensor([1.0]), torch.tensor([5.0 + i])] for i in range(2)]
    floats = [[torch.tensor([1.0 + i]), torch.tensor([5.0 + i])] for i in range(2)]
    assert varied(floats, other) == Dependence(constant=("output 0",))


def test_that_nan_and_infinity_are_counted_and_left_out():
    nan, inf = float("nan"), float("inf")
    sums = Accumulator()
    sums.add(torch.tensor([1.0, nan, inf, 2.0, nan]), torch.tensor([1.0, 3.0, inf, 4.0, nan]))
    quality = sums.output("output 0")
    assert quality.not_finite == 2
    assert quality.max_abs_error == 2.0
    assert quality.decibels == -inf
    assert (sums.signal, sums.noise) == (5.0, 4.0)


def classes(pairs):
    sums = OutputAccumulator()
    for a, b in pairs:
        sums.add(torch.tensor(a), torch.tensor(b))
    found = sums.output("output 0")
    return found.decided, found.decided_equal, found.whole


@for_each(
    ("pairs", "counts"),
    [
        ([([[0.0, 1.0, 5.0]], [[0.0, 2.0, 4.0]])], (1, 1, False)),
        ([([[0.0, 1.0, 5.0]], [[6.0, 2.0, 4.0]])], (1, 0, False)),
        # Nearly a tie: any rounding turns it.
        ([([0.0, 4.9, 5.0], [0.0, 5.0, 4.9])], (0, 0, False)),
        # A lead is clear relative to all samples, also with two classes.
        ([([0.0, 9.0], [0.0, 9.0]), ([0.1, 0.0], [0.0, 0.1])], (1, 1, False)),
        # A picture is no vector, and one value has no largest.
        ([([[0.0, 1.0], [2.0, 3.0]], [[0.0, 1.0], [2.0, 3.0]])], (0, 0, False)),
        ([([5.0], [1.0])], (0, 0, False)),
        ([([3, 4, 5], [3, 4, 6])], (3, 2, True)),
        ([([0.0, 1.0, 5.0], [0.0, float("nan"), 5.0])], (1, 0, False)),
    ],
)
def test_that_classes_are_those_that_the_float_model_decides(pairs, counts):
    assert classes(pairs) == counts
