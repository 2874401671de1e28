"""The figures of the efficiency: of known rows, on their page, and growing cycles are told."""

from tests import efficiency_figures as figures

KEPT = figures.kept()
GOOD = {"rewrites": [], "before": None, "after": {"cycles": 1000, "ideal": 400, "cause": "copy", "cpu": 0}}


def after(**changes):
    return GOOD | {"after": GOOD["after"] | changes}


def test_that_every_sample_has_figures_and_every_figure_a_row():
    assert {row.key for row in figures.ROWS if row.source == "sample"} <= set(KEPT)
    assert set(KEPT) <= {row.key for row in figures.ROWS}


def test_that_the_page_has_the_figures_that_were_kept():
    assert figures.PAGE.read_text("utf-8") == figures.page(KEPT)


def test_that_no_rewrite_makes_a_kept_program_slower_but_those_that_are_known():
    assert not figures.slower(KEPT)


def test_that_a_slower_program_is_told_where_it_is_no_more_on_the_npu():
    before = {"cycles": 900, "ideal": 200, "cause": "", "cpu": 0}
    assert figures.slower({"net": GOOD | {"before": before}}) == {"net"}
    assert figures.slower({"net": GOOD | {"before": before | {"cycles": 1100}}}) == set()
    assert figures.slower({"net": GOOD | {"before": before | {"cpu": 2}}}) == set()
    assert figures.slower({"net": GOOD | {"before": {"code": "refused"}}, "other": GOOD}) == set()


def test_that_more_cycles_operators_on_the_cpu_and_refusals_are_told():
    assert figures.complaint(GOOD, after(cycles=1019)) == ""
    assert figures.complaint(GOOD, after(cycles=1021)).startswith("1,021 cycles")
    assert figures.complaint(GOOD, after(cycles=500, cpu=1)).startswith("1 operators")
    assert figures.complaint(GOOD, {"code": "no"}) == "refused: no"
    assert figures.complaint({"code": "no"}, {"code": "other"}) == ""
    assert figures.complaint({"code": "no"}, GOOD) == ""


def test_that_a_row_shows_both_programs_where_they_differ():
    (row, *_) = (row for row in figures.ROWS if row.source == "vision_models")
    both = after() | {
        "device": row.device,
        "rewrites": ["strides_to_channels"],
        "before": {"cycles": 4000, "ideal": 200, "cause": "stride", "cpu": 0},
    }
    line = next(line for line in figures.page({row.key: both}).splitlines() if row.name in line)
    told = "4,000 | 1,000 | 400 | 5% → 40% | copies | `strides_to_channels`"
    assert line == f"| `{row.name}` | u55-128 | {told} |"
    one = next(
        line
        for line in figures.page({row.key: after() | {"device": row.device}}).splitlines()
        if row.name in line
    )
    assert one == f"| `{row.name}` | u55-128 | 1,000 |  | 400 | 40% | copies |  |"
