"""Sensitivity by switches, against real conversions of the same configurations."""

import math
import shutil
from pathlib import Path

import pytest

from tests.engine import decoders
from tests.engine.in_process import ALL_SAMPLES, project
from workbench.project import edits
from workbench.project.model import DataSource, Evaluation, Tokenization
from workbench.protocol import RunStudy, StudyProgress
from workbench.studies.documents import load_study, study_folder
from workbench.studies.sensitivity import SensitivityResult, give

pytestmark = [pytest.mark.engine, pytest.mark.shared_results]


def run(engine, made, **options):
    command = RunStudy(
        job="test",
        study="sensitivity",
        project=made,
        folder=str(engine.folder),
        options=options,
        cache_root=str(engine.cache.root),
    )
    engine.events = []
    engine.send(command)
    assert engine.follow() == "done"
    return [event for event in engine.events if isinstance(event, StudyProgress)]


def found(engine, told):
    return load_study(SensitivityResult, study_folder(engine.cache, told[-1].key))


def measured(engine, made):
    assert engine.run(made, "evaluate") == "done"
    return engine.result(made, "evaluate").sqnr_db


def test_that_units_are_measured_as_their_real_conversions_are(engine):
    made = project("small", **ALL_SAMPLES)
    result = found(engine, run(engine, made))
    # Modules that are fused are one unit.
    assert [unit.unit.matches[0] for unit in result.units][:1] == ["conv"]
    assert any(unit.unit.matches == ("fc",) for unit in result.units)
    # All switches closed are the quantized model.
    assert result.samples == result.total == 8
    # Sixteen were asked for: there are no more.
    assert result.has_all
    assert math.isclose(result.quantized.sqnr_db, measured(engine, made), abs_tol=1e-9)
    for unit in result.units:
        real = measured(engine, give(made, unit.unit, "float"))
        assert abs(unit.without.sqnr_db - real) < 0.01, unit.unit.name
    modules = [unit for unit in result.units if unit.unit.kind == "module_name"]
    assert modules
    for unit in modules:
        alone = give(edits.assign(made, "global", "", "float"), unit.unit, "a8w8")
        assert abs(unit.only.sqnr_db - measured(engine, alone)) < 1.0, unit.unit.name


def test_that_one_scale_for_each_weight_of_a_unit_costs_what_its_real_conversion_does(engine):
    made = project("uneven", **ALL_SAMPLES)
    result = found(engine, run(engine, made))
    layered = [unit for unit in result.units if unit.per_tensor is not None]
    assert len(layered) >= 3
    for unit in layered:
        real = measured(engine, give(made, unit.unit, "a8w8-per-tensor"))
        assert unit.per_tensor.sqnr_db == pytest.approx(real, abs=0.02), unit.unit.name
    assert min(result.per_tensor_db(unit) for unit in layered) < -1
    coarse = project("uneven", "a8w8-per-tensor", **ALL_SAMPLES)
    assert {unit.per_tensor for unit in found(engine, run(engine, coarse)).units} == {None}


def test_that_fixed_ranges_hold_under_the_switches_too(engine):
    made = edits.fix_range(project("small", **ALL_SAMPLES), "relu", 0.0, 0.5)
    result = found(engine, run(engine, made))
    assert math.isclose(result.quantized.sqnr_db, measured(engine, made), abs_tol=1e-9)
    plain = measured(engine, edits.free_ranges(made, ["relu"]))
    assert result.quantized.sqnr_db < plain - 3


def test_that_a_study_goes_on_where_it_was_left(engine):
    made = project("small", **ALL_SAMPLES)
    first = run(engine, made, samples=3)
    assert [event.done for event in first][:3] == [1, 2, 3]
    assert not found(engine, first).has_all
    second = run(engine, made, samples=8)
    assert [event.done for event in second][:2] == [4, 5]
    assert second[-1].key == first[-1].key
    whole = found(engine, second)
    (engine.cache.root / "studies" / second[-1].key / "study.json").unlink()
    assert found(engine, run(engine, made, samples=8)) == whole


@pytest.fixture
def decoder(engine):
    """Return what makes a project in which a decoder reads a text of the engine's folder."""
    shutil.copy(Path(__file__).parents[1] / "decoders.py", engine.folder)
    (engine.folder / "text.txt").write_text("the cat sat on the mat")
    text = DataSource(spec="text.txt", tokens=Tokenization(length=decoders.CONTEXT))
    fields = {"calibration": text, "evaluation": Evaluation(limit=12)}
    return lambda model: project(f"decoders.py:{model}", target="ethos-u85-256", **fields)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["kept", "carried"])
def test_that_modules_of_a_decoder_are_measured_along_a_text(engine, decoder, model):
    made = decoder(model)
    result = found(engine, run(engine, made, samples=12))
    assert (result.samples, result.labelled) == (12, True)
    assert math.isclose(result.quantized.sqnr_db, measured(engine, made), abs_tol=1e-9)
    units = {unit.unit.name: unit for unit in result.units}
    for name in ("keys", "head"):
        real = measured(engine, give(made, units[name].unit, "float"))
        assert abs(units[name].without.sqnr_db - real) < 0.01, name


@pytest.mark.slow
def test_that_a_decoders_study_goes_on_within_a_sequence(engine, decoder):
    made = decoder("kept")
    first = run(engine, made, samples=11)
    second = run(engine, made, samples=12)
    assert second[0].done == 12
    parts = found(engine, second)
    (engine.cache.root / "studies" / first[-1].key / "study.json").unlink()
    assert found(engine, run(engine, made, samples=12)) == parts


def test_that_a_model_with_branches_is_refused_in_a_sentence(engine):
    command = RunStudy(
        job="test",
        study="sensitivity",
        project=project("branching", target="ethos-u85-256"),
        folder=str(engine.folder),
        cache_root=str(engine.cache.root),
    )
    engine.events = []
    engine.send(command)
    assert engine.follow() == "failed"
    assert engine.failure.code == "sensitivity-branches-not-supported"
