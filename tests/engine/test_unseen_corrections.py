"""Corrections without which ordinary networks are refused, withheld or lose most of their accuracy."""

import pytest

from tests.engine.test_corrections import U85, assert_right, decibel, engine, network, places, worst

__all__ = ["engine"]
pytestmark = pytest.mark.engine


@pytest.mark.slow
def test_that_a_mask_may_be_padded_behind_what_it_masks(engine):
    name = "unseen_networks.py:padded_keys"
    for config in ("a8w8", "a16w8"):
        assert decibel(engine, name, config, U85) > (24 if config == "a8w8" else 40)
    assert decibel(engine, name, "a8w8", U85, bounded_masks=False) < 15


def test_that_capsules_that_are_zero_leave_the_others_as_they_are(engine):
    name = "unseen_networks.py:empty_capsules"
    for config in ("a8w8", "a16w8"):
        assert decibel(engine, name, config) > (24 if config == "a8w8" else 45)
    assert decibel(engine, name, "a8w8", guarded_quotients=False) < 10


def test_that_the_logarithm_of_a_mask_leaves_the_scores_as_they_are(engine):
    name = "unseen_networks.py:logarithms_of_masks"
    assert decibel(engine, name) > 24
    assert decibel(engine, name, bounded_masks=False) < 10


def test_that_rows_without_probabilities_leave_the_others_as_they_are(engine):
    name = "unseen_networks.py:masked_probabilities"
    assert decibel(engine, name) > 24
    assert decibel(engine, name, guarded_quotients=False) < 10


@pytest.mark.slow
def test_that_steps_stay_steps_in_16_bits(engine):
    made = network("unseen_networks.py:stairs", "a16w8")
    assert engine.verified(made).max_lsb <= 1
    assert len(places(engine, made, "steps_in_float", "prepare")) == 5
    assert_right(engine, made)
    assert engine.verified(network("unseen_networks.py:stairs", "a16w8", steps_in_float=False)).max_lsb > 1000
    # A table of 8 bits has a value for every code.
    made = network("unseen_networks.py:stairs")
    assert engine.run(made, "prepare") == "done", engine.failure
    assert not places(engine, made, "steps_in_float", "prepare")


@pytest.mark.slow
def test_that_single_values_and_numbers_make_single_values(engine):
    made = network("unseen_networks.py:single_values")
    assert engine.verified(made).max_lsb <= 1
    assert [output.shape for output in engine.result(made, "export").outputs] == [(), (), (), (4, 8)]
    assert places(engine, made, "numbers_with_single_values", "prepare")
    off = network("unseen_networks.py:single_values", numbers_with_single_values=False)
    assert engine.run(off, "calibrate") == "failed"
    assert engine.failure.code == "prepared-program-differs"


def test_that_an_output_whose_change_of_layout_becomes_none_is_kept(engine):
    made = network("unseen_networks.py:sequence_both_ways")
    assert_right(engine, made)
    assert engine.verified(made).compiled.equal == engine.verified(made).compiled.elements > 0
    off = network("unseen_networks.py:sequence_both_ways", outputs_kept=False)
    compiled = engine.verified(off).compiled
    assert compiled.findings or compiled.refused


@pytest.mark.slow
def test_that_constants_are_stacked_with_values(engine):
    for config in ("a8w8", "a16w8"):
        made = network("unseen_networks.py:rotations", config)
        assert_right(engine, made)
        assert "stack" in places(engine, made, "folded_constants", "prepare")
    assert decibel(engine, "unseen_networks.py:rotations", "a16w8") > 45


def test_that_weights_from_operators_with_several_results_are_constants(engine):
    made = network("unseen_networks.py:standardized_weights")
    assert_right(engine, made)
    assert len(places(engine, made, "folded_constants", "prepare")) == 2


def test_that_single_values_are_compared_with_numbers(engine):
    made = network("unseen_networks.py:single_comparisons")
    assert_right(engine, made)
    assert [output.shape for output in engine.result(made, "export").outputs] == [
        (4, 8),
        (),
        (),
        (2,),
        (4, 8),
    ]
    # The last one is read beside a whole tensor, which has its dimensions.
    assert len(places(engine, made, "numbers_with_single_values", "prepare")) == 4
    off = network("unseen_networks.py:single_comparisons", numbers_with_single_values=False)
    assert engine.run(off, "calibrate") == "failed"


@pytest.mark.slow
def test_that_a_linear_may_have_computed_weights(engine):
    made = network("unseen_networks.py:computed_weights")
    assert_right(engine, made)
    assert decibel(engine, "unseen_networks.py:computed_weights") > 25
    off = network("unseen_networks.py:computed_weights", products_of_computed_weights=False)
    assert engine.run(off, "lower", "evaluate") == "failed"


@pytest.mark.slow
def test_that_a_square_in_an_exponent_is_a_product_in_16_bits(engine):
    name = "unseen_networks.py:soft_histogram"
    right = worst(engine, name, "a16w8")
    assert len(places(engine, network(name, "a16w8"), "squares_in_exponents", "prepare")) == 1
    assert worst(engine, name, "a16w8", squares_in_exponents=False) > 2 * right
    made = network("unseen_networks.py:normed_layers", "a16w8")
    assert engine.run(made, "prepare") == "done", engine.failure
    assert not places(engine, made, "squares_in_exponents", "prepare")
