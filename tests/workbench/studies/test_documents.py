"""Results of studies on disk, and what their values say."""

import math

import numpy as np
import pytest

from tests.fakes import studies as fakes
from tests.fakes.projects import make_project, write_project
from tests.for_each import for_each
from workbench.pipeline.cache import Cache
from workbench.project.model import Rule, TargetChoice
from workbench.project.opened import OpenProject
from workbench.studies import sample, search, sensitivity, sweep
from workbench.studies.documents import Blame, load_study, save_study, study_folder, study_key
from workbench.studies.search import Candidate, Limits, SearchResult
from workbench.studies.sensitivity import Noise


def test_that_a_study_is_read_as_it_was_written(tmp_path):
    folder = tmp_path / "a" / "b"
    assert load_study(Blame, folder) is None
    found = Blame(reason="no", compilations=3)
    save_study(found, folder)
    assert load_study(Blame, folder) == found
    assert (Blame(reason="no").compilations, Blame(reason="no").is_done) == (0, False)
    save_study(Blame(reason="yes"), folder)
    assert load_study(Blame, folder).reason == "yes"
    assert [f.name for f in folder.iterdir()] == ["study.json"]
    (folder / "study.json").write_text("{")
    assert load_study(Blame, folder) is None
    assert study_folder(Cache(tmp_path), "key") == Cache(tmp_path).study_folder("key")


def test_that_options_that_say_how_far_to_go_are_no_part_of_the_key(tmp_path):
    path = write_project(tmp_path / "mine")
    cache = Cache(tmp_path / "cache")

    def key(study="sensitivity", project=None, **options):
        return study_key(study, OpenProject(project or make_project(), path.parent), cache, options)

    assert key() == key(samples=3) == key(workers=2, epochs=5, trials=1)
    assert key(tensor="a") != key()
    assert key(tensor="a") != key(tensor="b")
    assert key(base={"a": 1, "b": 2}) == key(base={"b": 2, "a": 1})
    assert key("sample") != key("sensitivity")
    other = make_project(Rule(id="r1", kind="global", config="a16w8"))
    assert key("sensitivity", other) != key("sensitivity")


def test_that_values_of_a_sample_are_read_as_they_were_written(tmp_path):
    folder = tmp_path / "a" / "b"
    assert sample.load_values(folder) == {}
    values = {"float": np.arange(6, dtype=np.float32).reshape(2, 3)}
    sample.save_values(values, folder)
    sample.save_values(values, folder)
    found = sample.load_values(folder)
    assert list(found) == ["float"]
    assert np.array_equal(found["float"], values["float"])
    np.savez(folder / sample.VALUES_FILE, float=np.array([{}], dtype=object))
    assert sample.load_values(folder) == {}


def test_that_noise_is_a_ratio_in_decibels():
    assert Noise(signal=100.0, noise=1.0).sqnr_db == pytest.approx(20.0)
    assert Noise(signal=1.0, noise=0.5).sqnr_db == pytest.approx(10 * math.log10(2))
    assert Noise(signal=1.0).sqnr_db is None
    assert Noise(noise=1.0).sqnr_db is None
    assert Noise().plus(Noise(signal=1, noise=2, hits=3)) == Noise(signal=1, noise=2, hits=3)
    both = Noise(signal=1, noise=2, hits=3).plus(Noise(signal=10, noise=20, hits=30))
    assert both == Noise(signal=11, noise=22, hits=33)
    assert Noise().model_dump() == {"signal": 0.0, "noise": 0.0, "hits": 0}


def test_that_units_are_ordered_by_what_they_gain():
    result = fakes.sensitivity(1, 1)
    assert [u.unit.name for u in result.worst_first()] == ["head", "stem.conv"]
    equal = fakes.unit("same", 0.1, 0.0)
    assert result.gain_db(equal) is None
    more = result.model_copy(update={"units": (equal, *result.units)})
    assert [u.unit.name for u in more.worst_first()] == ["head", "stem.conv", "same"]
    made = sensitivity.give(make_project(), result.units[1].unit, "a16w8")
    assert ("head", "a16w8") in {(r.match, r.config) for r in made.rules}


FIGURES = (0.9, 1000.0, 2048.0, 2.0)


@for_each(
    ("limits", "excess"),
    [
        ({}, (0.0, 0.0, 0.0, 0.0)),
        ({"accuracy": 1.0}, (pytest.approx(0.1), 0.0, 0.0, 0.0)),
        ({"cycles": 800.0}, (0.0, 0.25, 0.0, 0.0)),
        ({"sram": 1024.0}, (0.0, 0.0, 1.0, 0.0)),
        ({"cpu": 1}, (0.0, 0.0, 0.0, 1.0)),
        ({"cycles": 0.0}, (0.0, 1000.0, 0.0, 0.0)),
        ({"sram": 0.5}, (0.0, 0.0, 2047.5, 0.0)),
        ({"cpu": 3}, (0.0, 0.0, 0.0, -1.0)),
    ],
)
def test_that_a_limit_is_exceeded_by_its_share(limits, excess):
    given = Limits(**limits)
    assert given.excesses(FIGURES) == excess
    assert given.are_met(FIGURES) == all(e <= 0 for e in given.excesses(FIGURES))


def test_that_figures_on_their_limits_hold():
    assert Limits(accuracy=0.9, cycles=1000, sram=2048, cpu=2).are_met(FIGURES)
    assert Limits().model_dump() == {"accuracy": None, "cycles": None, "sram": None, "cpu": None}


def candidate(number, accuracy=0.9, cycles=1000, cpu=1, *, within=True, choices=None, sram=4096):
    return Candidate(
        number=number,
        origin="search",
        choices=choices or {"head": "a16w8"},
        accuracy=accuracy,
        cycles=cycles,
        sram_bytes=sram,
        cpu_nodes=cpu,
        is_within=within,
    )


def found(*candidates, **limits):
    return SearchResult(limits=Limits(**limits), total=9, units=(), candidates=candidates)


def test_that_the_best_is_the_fastest_within_the_limits_then_the_most_accurate():
    slow, fast = candidate(1), candidate(2, cycles=900)
    better = candidate(3, accuracy=0.95, cycles=900)
    outside = candidate(4, cycles=1, within=False)
    unknown = candidate(5, cycles=1).model_copy(update={"accuracy": None})
    assert found(slow, fast, better, outside, unknown).best() == better
    assert found(outside, unknown).best() is None
    none_right = candidate(6, accuracy=0.0, cycles=900)
    assert found(none_right, fast).best() == found(fast, none_right).best() == fast
    assert unknown.figures is None
    assert candidate(1, accuracy=0.0, cycles=0, cpu=0, sram=0).figures == (0.0, 0.0, 0.0, 0.0)
    assert not Candidate(number=1, origin="search", choices={}).is_within


def test_that_the_front_leaves_out_what_the_cpu_computes():
    plain = candidate(1, choices={"head": "a8w8"}, cpu=2)
    lean, cheap = candidate(2, cycles=900), candidate(3, cycles=1, cpu=5)
    result = found(plain, lean, cheap)
    assert result.enforced.cpu == 2
    assert [c.number for c in result.front()] == [2]
    assert [c.number for c in found(plain, lean, cheap, cpu=5).front()] == [3]
    assert found(lean, cheap).enforced.cpu == 1
    assert found().enforced == Limits()
    assert [c.number for c in found(candidate(2), candidate(1)).front()] == [1, 2]


def test_that_the_config_of_most_units_becomes_the_global_rule():
    units = tuple(fakes.unit(name, 0, 0).unit for name in ("a", "b", "c"))
    kept = (
        Rule(id="r1", kind="io", config="uint8"),
        Rule(id="r2", kind="node_name", match="n", config="cpu"),
        Rule(id="r3", kind="module_name", match="a", config="a8w4"),
    )
    project = make_project(*kept)
    assert search.with_choices(project, units, {}) is project
    made = search.with_choices(project, units, {"a": "a16w8", "b": "a8w8", "c": "a16w8"})
    assert [(r.kind, r.match, r.config) for r in made.rules] == [
        ("global", "", "a16w8"),
        ("module_name", "b", "a8w8"),
        ("io", "", "uint8"),
        ("node_name", "n", "cpu"),
    ]
    assert len({r.id for r in made.rules}) == 4


def test_that_budgets_lie_between_the_ends_evenly_in_ratio():
    base = TargetChoice(id="ethos-u55-128", options={"arena_cache_bytes": 5, "optimise": "Size"})
    limits = [p.target.options["arena_cache_bytes"] for p in sweep.between(base, 1024, 16384, 3)]
    assert limits == [2048, 4096, 8192]
    assert len(sweep.between(base, 1 << 10, 1 << 20)) == 12
    assert sweep.between(base, 4096, 4096) == sweep.between(base, 0, 4096) == []
    assert sweep.between(base, 1024, 2048) == []
    fast, small = sweep.ends(base)
    assert (fast.target.options["optimise"], small.target.options["optimise"]) == ("Performance", "Size")
    assert fast.target.options["arena_cache_bytes"] is None
    assert sweep.asked(base)["base"]["options"]["arena_cache_bytes"] is None


def test_that_slider_positions_are_those_worth_their_sram():
    base = TargetChoice(id="ethos-u55-128", options={"optimise": "Performance"})

    def point(sram, cycles, optimise="Performance", **more):
        totals = {
            "cycles_total": cycles,
            "cycles_vela": cycles,
            "cycles_npu": 1,
            "inference_ms": 1.0,
            "sram_bytes": sram,
            "flash_bytes": 1,
            "macs": 1,
        }
        target = base.model_copy(update={"options": {"optimise": optimise, **more}})
        return sweep.SweepPoint(target=target, totals=totals)

    small, slow = point(1, 100, "Size"), point(2, 100, a=1)
    fast, waste = point(2, 50, a=2), point(4, 60, a=3)
    unknown = sweep.SweepPoint(target=base, problem="no")
    points = [waste, fast, slow, small, unknown]
    assert sweep.positions(points, base) == [small, fast]
    assert sweep.positions(points, waste.target) == [small, fast, waste]


def test_that_a_sweep_of_nothing_names_its_reasons():
    points = [sweep.SweepPoint(target=TargetChoice(id="a"), problem=p) for p in "xxyzw"]
    error = sweep.refused(points)
    assert error.codes == ("sweep-nothing-compilable",)
    assert error.infos[0].hint == "x y z"
