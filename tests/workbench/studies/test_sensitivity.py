"""Gains of sparing a unit, and sums of noise."""

import pytest

from tests.fakes.projects import make_project
from workbench.studies.sensitivity import Noise, SensitivityResult, Unit, UnitSensitivity, give


def unit(name, noise):
    made = Unit(name=name, kind="module_name", matches=(name,), operators=("conv",))
    return UnitSensitivity(unit=made, without=Noise(signal=100.0, noise=noise))


def result(*units, noise=1.0):
    whole = Noise(signal=100.0, noise=noise)
    return SensitivityResult(data="x", samples=1, total=2, labelled=False, quantized=whole, units=units)


def test_that_sqnr_is_ten_times_the_logarithm():
    assert Noise(signal=100.0, noise=1.0).sqnr_db == pytest.approx(20.0)
    assert Noise(signal=1.0, noise=0.0).sqnr_db is None
    assert Noise(signal=0.0, noise=1.0).sqnr_db is None
    assert Noise(signal=0.5, noise=0.5).sqnr_db == 0.0


def test_that_sums_are_added():
    found = Noise(signal=1.0, noise=2.0, hits=3).plus(Noise(signal=10.0, noise=20.0, hits=30))
    assert (found.signal, found.noise, found.hits) == (11.0, 22.0, 33)


def test_that_a_gain_is_the_difference_to_the_whole_model():
    found = result(unit("a", 0.1), unit("b", 10.0), unit("c", 0.0))
    gains = [found.gain_db(each) for each in found.units]
    assert gains[:2] == pytest.approx([10.0, -10.0])
    assert gains[2] is None
    assert result(unit("a", 0.1), noise=0.0).gain_db(unit("a", 0.1)) is None


def test_that_the_unit_with_the_largest_gain_is_first():
    found = result(unit("a", 0.5), unit("b", 10.0), unit("c", 0.0), unit("d", 0.1))
    assert [each.unit.name for each in found.worst_first()] == ["d", "a", "c", "b"]


def test_that_a_unit_is_given_a_config_by_its_rules():
    found = give(make_project(), unit("body", 1.0).unit, "a16w8")
    assert [(r.kind, r.match, r.config) for r in found.rules][-1] == ("module_name", "body", "a16w8")


def test_that_a_unit_of_operators_has_no_weights():
    assert Unit(name="add", kind="node_name", matches=("add",), operators=("add",)).weights == 0
