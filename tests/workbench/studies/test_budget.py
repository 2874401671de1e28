"""What less SRAM costs: limits between both ends, each once, and a slider that skips bad ones."""

from tests.for_each import for_each
from workbench.project.model import TargetChoice
from workbench.results import VelaTotals
from workbench.studies.sweep import asked, between, ends, positions
from workbench.targets import target_of

TARGET = target_of("ethos-u55-128")
BASE = TARGET.complete(TargetChoice(id="ethos-u55-128"))
SIZE = ends(BASE)[1].target
KIB = 1024


def limits(points):
    return [point.target.options["arena_cache_bytes"] for point in points]


def costing(point, sram, cycles):
    totals = VelaTotals(
        cycles_total=cycles,
        cycles_vela=cycles,
        cycles_npu=1,
        inference_ms=cycles / 1e6,
        sram_bytes=sram,
        flash_bytes=1,
        macs=1,
    )
    return point.model_copy(update={"totals": totals})


def test_that_limits_lie_between_both_ends_in_whole_kib():
    found = limits(between(BASE, 350 * KIB, 1500 * KIB))
    assert len(found) == 12
    assert found == sorted(set(found))
    assert all(350 * KIB < limit < 1500 * KIB and limit % KIB == 0 for limit in found)


@for_each(("least", "most"), [(KIB, KIB), (0, KIB), (5 * KIB, 4 * KIB)])
def test_that_nothing_lies_between_equal_or_odd_ends(least, most):
    assert between(BASE, least, most) == []


def test_that_a_narrow_gap_gives_each_limit_once():
    assert limits(between(BASE, 2900, 5000)) == [3 * KIB, 4 * KIB]
    assert limits(between(BASE, 1, 2 * KIB)) == [KIB]


def test_that_every_point_is_a_valid_target():
    for point in (*ends(BASE), *between(BASE, 4096, 1 << 20)):
        assert TARGET.check(point.target) == []
        assert TARGET.complete(point.target) == point.target


def test_that_findings_hold_for_every_position_of_the_same_device():
    assert {str(asked(point.target)) for point in ends(BASE)} == {str(asked(BASE))}
    other = TARGET.complete(TargetChoice(id="ethos-u55-64"))
    assert asked(other) != asked(BASE)


def test_that_the_slider_leaves_out_what_costs_more_for_nothing():
    fast, small = ends(BASE)
    between_them = between(BASE, 100 * KIB, 900 * KIB, steps=3)
    made = [
        costing(fast, 900 * KIB, 1000),
        costing(small, 100 * KIB, 1100),
        costing(between_them[0], 200 * KIB, 1200),
        costing(between_them[1], 400 * KIB, 1000),
        between_them[2],
    ]
    assert positions(made, SIZE) == [made[1], made[3]]
    assert positions(made, BASE) == [made[1], made[3], made[0]]
