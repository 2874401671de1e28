"""One scale for each weight, module by module: what is saved, lost and chosen."""

import math

import pytest

from tests.fakes.projects import make_project, snapshot
from tests.fakes.results import result_of
from tests.workbench.suggestions.test_suggestions import CHAIN
from workbench.studies.sensitivity import Noise, SensitivityResult, Unit, UnitSensitivity
from workbench.suggestions import (
    Figures,
    Measurements,
    ModuleSaving,
    coarser_by,
    further,
    module_cells,
    suggest,
    tried,
)

WHOLE = Noise(signal=1000.0, noise=1.0, hits=90)


def study(**noise):
    """Return a study of modules with this noise of the outputs with one scale for each weight."""
    units = tuple(
        UnitSensitivity(
            unit=Unit(name=name, kind="module_name", matches=(name,), operators=()),
            per_tensor=None if value is None else Noise(signal=1000.0, noise=value, hits=88),
        )
        for name, value in noise.items()
    )
    return SensitivityResult(data="x", samples=100, total=100, labelled=True, quantized=WHOLE, units=units)


def program(**modules):
    """Return a program with cycles and weight bytes by module; 1000 cycles are 1 ms."""
    report = result_of("lower").vela[0]
    rows = tuple(
        report.operations[0].model_copy(
            update={"module": name.replace("_", "."), "root": "", "cycles": cycles, "weight_bytes": stored}
        )
        for name, (cycles, stored) in modules.items()
    )
    changes = {"operations": rows, "flash_bytes": 1 << 16, "cycles_total": 1000, "inference_ms": 1.0}
    stored = sum(row.weight_bytes for row in rows)
    return result_of("lower").model_copy(
        update={"vela": (report.model_copy(update=changes),), "pte_bytes": 10_000 + stored, "cpu_nodes": ()}
    )


BEFORE = program(stem_conv=(300, 4000), head=(500, 6000))
AFTER = program(stem_conv=(200, 3000), head=(500, 2000))


def figures(lowered, sqnr_db=35.0):
    evaluated = result_of("evaluate")
    output = evaluated.outputs[0].model_copy(update={"sqnr_db": sqnr_db})
    return Figures(evaluated.model_copy(update={"outputs": (output,), "parts": ()}), lowered)


def per_tensor(sensitivity=None):
    known = Measurements(coarser=coarser_by(sensitivity) if sensitivity else ())
    cards = {s.id: s for s in suggest(make_project(), BEFORE, snapshot(), CHAIN, known)}
    return cards["per_tensor"]


def test_that_a_study_says_what_each_module_loses():
    units = {unit.name: unit for unit in coarser_by(study(stem=2.0, head=1.1, pool=None))}
    assert units.keys() == {"stem", "head"}
    assert units["stem"].noise == pytest.approx(1.0)
    assert units["stem"].sqnr_db == pytest.approx(-10 * math.log10(2))
    assert units["stem"].points == pytest.approx(-2.0)


def test_that_the_trial_says_what_each_module_saves():
    known = study(stem=2.0, head=1.1)
    card = tried(per_tensor(known), figures(BEFORE), figures(AFTER, 34.0))
    assert [(row.name, row.cycles, row.bytes) for row in card.modules] == [
        ("head", 0, 4000),
        ("stem", 100, 1000),
    ]
    assert [row.ms for row in card.modules] == pytest.approx([0.0, 0.1])
    assert [row.sqnr_db for row in card.modules] == pytest.approx([-0.414, -3.010], abs=0.001)
    without = tried(per_tensor(), figures(BEFORE), figures(AFTER, 34.0))
    assert [(row.name, row.bytes) for row in without.modules] == [("head", 4000), ("stem.conv", 1000)]
    assert {row.sqnr_db for row in without.modules} == {None}
    assert "Sensitivity" in without.expected


def test_that_the_modules_that_lose_least_are_tried_alone():
    card = per_tensor(study(stem=2.0, head=1.1))
    chosen = further(card, figures(BEFORE), figures(AFTER, 30.0))
    assert (chosen.id, chosen.kind, chosen.improves) == ("per_tensor_modules", "per_tensor_modules", "size")
    assert [row.name for row in chosen.modules] == ["head"]
    changed = chosen.edit(make_project())
    assert [(r.match, r.config) for r in changed.rules] == [("", "a8w8"), ("head", "a8w8-per-tensor")]


@pytest.mark.parametrize("noise", [{"stem": 1.05, "head": 1.05}, {"stem": 3.0, "head": 3.0}])
def test_that_all_modules_or_none_are_no_choice(noise):
    assert further(per_tensor(study(**noise)), figures(BEFORE), figures(AFTER)) is None
    assert further(per_tensor(), figures(BEFORE), figures(AFTER)) is None


def test_that_cells_have_signs_and_nothing_for_what_is_unknown():
    row = ModuleSaving(name="head", cycles=100, ms=0.1, bytes=4000, sqnr_db=-0.414, points=None)
    assert module_cells(row) == ("head", "-0.100", "-4,000", "-0.41", "")
    none = ModuleSaving(name="stem", cycles=0, ms=0.0001, bytes=0, sqnr_db=0.001, points=-2.0)
    assert module_cells(none) == ("stem", "0", "0", "0", "-2.0")
