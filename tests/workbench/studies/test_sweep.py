"""Which points a sweep has: those that fit, each once, and the reason for the others."""

from tests.for_each import for_each
from tests.problems import refused
from tests.workbench.targets.test_vela_ini import MODES, SYSTEM
from workbench.project.model import TargetChoice
from workbench.results import VelaTotals
from workbench.studies import sweep
from workbench.studies.sweep import SweepPoint, SweepResult, devices, points, remark
from workbench.targets import target_of

TARGET = target_of("ethos-u55-128")
BASE = TARGET.complete(TargetChoice(id="ethos-u55-128"))


def made(asked=(), **axes):
    return points(TARGET, BASE, asked, axes)


def test_that_without_anything_asked_the_only_point_is_the_projects():
    assert [point.target for point in made()] == [BASE]


def test_that_the_beginning_of_a_name_stands_for_a_family():
    assert devices(TARGET, ["ethos-u65"]) == ["ethos-u65-256", "ethos-u65-512"]
    assert len(devices(TARGET, ["all"])) == 11
    assert devices(TARGET, ["ethos-u55-32", "ethos-u55-32"]) == ["ethos-u55-32"]


def test_that_an_unknown_device_is_refused_with_the_known_ones():
    with refused("sweep-device-unknown") as caught:
        made(["u99"])
    assert "ethos-u85-2048" in caught.value.infos[0].hint


def test_that_every_combination_that_fits_is_there_once():
    found = made(["ethos-u55-64", "ethos-u65-256"], memory_mode=["all"], optimise=["all"])
    assert not any(point.problem for point in found)
    modes = [(p.target.id, p.target.options["memory_mode"]) for p in found]
    assert len(modes) == len(found) == 2 * 2 + 6 * 2
    assert ("ethos-u55-64", "Dedicated_Sram") not in modes


def test_that_a_combination_that_does_not_fit_keeps_its_reason():
    fits, not_fits = made(memory_mode=["Sram_Only", "Dedicated_Sram_512KB"])
    assert not fits.problem
    assert "Dedicated_Sram_512KB does not fit" in not_fits.problem


def test_that_each_device_gets_its_own_system_configuration():
    found = made(["all"], memory_mode=["Sram_Only"])
    configs = {p.target.id[:9]: p.target.options["system_config"] for p in found}
    assert all(name.lower().startswith(family.replace("-", "_")) for family, name in configs.items())


def test_that_too_many_points_are_refused(monkeypatch):
    monkeypatch.setattr(sweep, "MOST_POINTS", 33)
    sizes = [1024 * n for n in range(1, 5)]
    assert len(made(["all"], arena_cache_bytes=sizes[:3])) == 33
    with refused("sweep-too-large"):
        made(["all"], arena_cache_bytes=sizes)


def test_that_the_front_leaves_out_what_another_point_beats():
    def point(ms, sram):
        totals = {
            "cycles_total": 1,
            "cycles_vela": 1,
            "cycles_npu": 1,
            "inference_ms": ms,
            "sram_bytes": sram,
            "flash_bytes": 7,
            "macs": 1,
        }
        return SweepPoint(target=BASE, totals=totals)

    listed = (point(2.0, 50), point(1.0, 90), point(3.0, 60), SweepPoint(target=BASE, problem="no"))
    assert SweepResult(tool="", total=4, points=listed).front() == [0, 1]


def test_that_a_limit_below_what_vela_needs_is_remarked():
    options = {**BASE.options, "arena_cache_bytes": 4096}
    limited = TargetChoice(id=BASE.id, options=options)

    def said(sram):
        totals = VelaTotals(
            cycles_total=1,
            cycles_vela=1,
            cycles_npu=1,
            inference_ms=1.0,
            sram_bytes=sram,
            flash_bytes=1,
            macs=1,
        )
        return remark(SweepPoint(target=limited, totals=totals))

    assert said(4096) == ""
    assert "needs 6 KiB of SRAM" in said(6000)
    assert "limit of 4 KiB" in said(6000)


def test_that_other_options_stay_as_in_the_project_where_the_device_has_them():
    base = TARGET.complete(TargetChoice(id=BASE.id, options={"optimise": "Size"}))
    found = points(TARGET, base, ["ethos-u55-64", "ethos-u55-128"], {"memory_mode": ["Sram_Only"]})
    assert [p.target.options["optimise"] for p in found] == ["Size", "Size"]
    (other,) = points(TARGET, base, ["ethos-u85-256"], {})
    assert TARGET.check(other.target) == []
    assert other.target.options["system_config"].startswith("Ethos_U85")


def test_that_all_values_are_those_beside_the_other_values_of_a_point(tmp_path):
    """The memory modes are those of the configuration file that the point has."""
    (tmp_path / "own.ini").write_text(SYSTEM + MODES)
    axes = {"config_ini": ["own.ini"], "memory_mode": ["all"]}
    found = points(TARGET, TargetChoice(id=BASE.id), [], axes, tmp_path)
    assert [p.target.options["memory_mode"] for p in found] == ["Flash", "Inside"]


@for_each("name", ["arena_cache_bytes", "no_such_option"])
def test_that_an_option_without_a_list_of_values_has_no_all(name):
    with refused("sweep-values-missing"):
        made(**{name: ["all"]})


def test_that_a_point_without_a_limit_or_without_figures_has_no_remark():
    totals = VelaTotals(
        cycles_total=1, cycles_vela=1, cycles_npu=1, inference_ms=1.0, sram_bytes=6000, flash_bytes=1, macs=1
    )
    assert remark(SweepPoint(target=BASE, totals=totals)) == ""
    limited = TargetChoice(id=BASE.id, options={**BASE.options, "arena_cache_bytes": 4096})
    assert remark(SweepPoint(target=limited, problem="no")) == ""
