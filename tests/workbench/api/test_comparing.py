"""A run against a baseline: figures, limits, and what is written of them."""

import json
import math
from contextlib import closing
from xml.etree import ElementTree

import workbench.api as wb
from tests.for_each import for_each
from tests.problems import refused
from workbench.analysis.gate import GateResult, Limit
from workbench.api.comparing import Comparison, FigureChange, _limited
from workbench.history.comparison import Change
from workbench.history.outcomes import Outcome, outcome_of
from workbench.history.store import History, history_path
from workbench.pipeline.cache import Cache, default_root
from workbench.pipeline.plan import plan


def outcome(verdict="right", accuracy="accurate enough", **figures):
    return Outcome(
        project="net",
        target="ethos-u55-128",
        verdict=verdict,
        sentence=f"{verdict}: because",
        accuracy=accuracy,
        accuracy_sentence=f"{accuracy}: because",
        figures=figures,
    )


def limit(name, value, held):
    return Limit(name=name, limit="<= 3", value=value, held=held)


def run_of_history(project, number):
    with closing(History(history_path(project))) as history:
        return history.run(number)


@for_each(
    ("baseline", "value", "change", "percent"),
    [
        (200.0, 150.0, -50.0, -25.0),
        (-4.0, -3.0, 1.0, 25.0),
        (0.0, 5.0, 5.0, None),
        (5.0, 5.0, 0.0, None),
        (math.inf, math.inf, 0.0, None),
        (math.inf, 40.0, None, None),
        (40.0, math.inf, None, None),
        (None, 1.0, None, None),
        (1.0, None, None, None),
    ],
)
def test_that_a_change_is_the_difference_where_there_is_one(baseline, value, change, percent):
    figure = FigureChange("cycles", baseline, value)
    assert (figure.change, figure.percent) == (change, percent)


def test_that_figures_of_either_side_are_listed_in_the_order_of_the_gate():
    found = Comparison(outcome(cycles=4.0, top1=0.5), outcome(lsb=2.0, cycles=3.0), {})
    assert [(f.name, f.baseline, f.value) for f in found.figures] == [
        ("lsb", None, 2.0),
        ("top1", 0.5, None),
        ("cycles", 4.0, 3.0),
    ]
    assert found.equal
    assert not Comparison(outcome(), outcome(), {"rules": (Change("x", "a", "b"),)}).equal


def test_that_only_broken_limits_and_a_program_that_differs_are_not_accepted():
    held, broken, unknown = limit("lsb", 2, True), limit("cycles", 9, False), limit("ms", 1, None)
    before = outcome("differs")
    assert Comparison(before, outcome(), {}, (held,)).passed
    assert len(Comparison(before, outcome(), {}, (held, broken, unknown)).broken) == 2
    found = Comparison(outcome(), outcome("differs"), {}, (broken,))
    assert found.broken == ("cycles 9, limit <= 3", "differs: because")
    assert not found.passed


def test_that_the_document_has_finite_numbers_only():
    parts = {"rules": (Change("head", "", "a8w8"),)}
    before, after = outcome(sqnr=None, cycles=200.0), outcome(sqnr=40.0, cycles=100.0)
    found = Comparison(before, after, parts, (limit("lsb", 2, True),))
    document = found.document()
    assert document["figures"] == [
        {
            "name": "sqnr",
            "baseline": None,
            "value": 40.0,
            "change": None,
            "percent": None,
            "comparable": True,
        },
        {
            "name": "cycles",
            "baseline": 200.0,
            "value": 100.0,
            "change": -100.0,
            "percent": -50.0,
            "comparable": True,
        },
    ]
    assert document["changes"] == {"rules": [{"what": "head", "before": "", "after": "a8w8"}]}
    assert (document["passed"], document["broken"]) == (True, [])
    assert document["limits"][0]["held"] is True
    assert document["baseline"]["figures"]["sqnr"] is None
    json.dumps(document, allow_nan=False)


def test_that_markdown_has_figures_limits_and_changes_without_the_figures_twice():
    parts = {"rules": (Change("a|b", "", "a8w8"),), "figures": (Change("cycles", "4", "3"),), "layers": ()}
    limits = (limit("lsb", 2000.5, True), limit("sqnr", None, True), limit("ms", None, False))
    found = Comparison(
        outcome(cycles=4000.0, lsb=1.0, top1=0.5), outcome(cycles=3000.0, lsb=1.0), parts, limits
    )
    lines = found.markdown().splitlines()
    assert lines[0].startswith("## net: failed: ")
    assert lines[2:8] == [
        "| figure | baseline | now | change |",
        "|---|---|---|---|",
        "| lsb | 1 | 1 | = |",
        "| top1 | 0.5 | - | - |",
        "| cycles | 4,000 | 3,000 | -1,000 (-25.00 %) |",
        "",
    ]
    assert lines[8:14] == [
        "| limit | must be | is |  |",
        "|---|---|---|---|",
        "| lsb | <= 3 | 2,000.5 | held |",
        "| sqnr | <= 3 | equal | held |",
        "| ms | <= 3 | unknown | **broken** |",
        "",
    ]
    assert lines[14:] == ["| rules | baseline | now |", "|---|---|---|", r"| a\|b | - | a8w8 |"]
    assert Comparison(outcome(), outcome(), {}).markdown().startswith("## net: passed\n")


def test_that_a_run_that_is_not_accurate_enough_does_not_pass():
    found = Comparison(outcome(), outcome(accuracy="not accurate enough"), {})
    assert not found.passed
    assert found.broken == ("not accurate enough: because",)
    assert Comparison(outcome(), outcome(accuracy="low accuracy"), {}).passed


@for_each(
    ("verdict", "accuracy", "failures", "skipped"),
    [
        ("right", "accurate enough", 1, 0),
        ("not verified", "not measured", 1, 2),
        ("differs", "low accuracy", 2, 0),
        ("right", "not accurate enough", 2, 0),
    ],
)
def test_that_junit_has_one_test_for_each_answer_and_one_for_each_limit(verdict, accuracy, failures, skipped):
    limits = (limit("lsb", 2, True), limit("cycles", 9, False))
    found = Comparison(outcome(cycles=4.0), outcome(verdict, accuracy, top1=0.5), {}, limits)
    suite = ElementTree.fromstring(found.junit())
    counts = {name: suite.get(name) for name in ("tests", "failures", "skipped", "errors")}
    assert counts == {"tests": "4", "failures": str(failures), "skipped": str(skipped), "errors": "0"}
    assert [case.get("name") for case in suite.iter("testcase")] == [
        "verdict",
        "accuracy",
        "lsb <= 3",
        "cycles <= 3",
    ]
    states = [[child.tag for child in case] for case in suite.iter("testcase")]
    told = {"right": [], "not verified": ["skipped"], "differs": ["failure"]}[verdict]
    measured = {"not measured": ["skipped"], "not accurate enough": ["failure"]}.get(accuracy, [])
    assert states == [told, measured, [], ["failure"]]
    values = {p.get("name"): p.get("value") for p in suite.iter("property")}
    assert values == {"top1.baseline": "", "top1.now": "0.5", "cycles.baseline": "4.0", "cycles.now": ""}


def test_that_every_kind_of_operand_is_read(measured, tmp_path):
    opened = wb.open(measured)
    first, second = (run_of_history(measured, number) for number in (1, 2))
    file = tmp_path / "run.json"
    file.write_text(json.dumps({"outcome": outcome_of(first).document()}))
    befores = (f"{measured}@1", first, file, str(file))
    afters = (measured, opened, second, str(measured))
    for before, after in zip(befores, afters, strict=True):
        found = wb.compare(before, after)
        cycles = next(figure for figure in found.figures if figure.name == "cycles")
        assert (cycles.baseline, cycles.value) == (2000, 1000)
        changed = next(change for change in found.parts["figures"] if "ycles" in change.what)
        assert changed.before != changed.after
        assert [(c.before, c.after) for c in found.parts["rules"]] == [("a16w8", "a8w8")]
    assert "<table" in wb.compare(first, second)._repr_html_()
    # The run of a file is not known, only its figures are.
    to_file = wb.compare(second, file)
    assert to_file.parts["figures"]
    assert set(to_file.parts) == set(wb.compare(file, second).parts)
    assert set(to_file.parts) < set(wb.compare(first, second).parts)
    same = wb.compare(file, file)
    assert same.equal
    assert same.parts["figures"] == ()


def test_that_the_verdict_of_the_last_run_is_that_of_the_present_settings(measured):
    run = run_of_history(measured, 2)
    gate = GateResult(verdict="differs")
    with closing(History(history_path(measured))) as history:
        history.record(run.model_copy(update={"gate": gate}))
    assert wb.compare(f"{measured}@1", measured).after.verdict == "differs"
    opened, cache = wb.open(measured), Cache(default_root())
    planned = plan(opened, cache)
    for stage in ("evaluate", "lower", "verify"):
        cache.remove(planned.key(stage))
    kept = wb.compare(f"{measured}@1", measured)
    assert kept.after.verdict == "differs"
    assert kept.after.numbers["cycles"] == 1000


def test_that_a_file_may_have_the_sign_of_a_numbered_run_in_its_name(measured, tmp_path):
    outcome = outcome_of(run_of_history(measured, 1)).document()
    file = tmp_path / "run@1.json"
    file.write_text(json.dumps({"outcome": outcome}))
    assert wb.compare(file, file).equal


def test_that_results_without_a_history_are_compared(measured):
    verdict = wb.compare(measured, measured).after.verdict
    history_path(measured).unlink()
    assert wb.compare(measured, measured).after.verdict == verdict


def test_that_settings_without_results_have_nothing_to_compare(measured):
    changed = wb.set_global(wb.open(measured), "a8w4")
    for opened in (changed, wb.OpenProject(changed.project, changed.folder)):
        with refused("run-missing"):
            wb.compare(f"{measured}@1", opened)


@for_each("number", ["x", "-1", "", "9"])
def test_that_a_run_that_is_none_is_refused(measured, number):
    with refused("run-unknown"):
        wb.compare(f"{measured}@{number}", measured)


def test_that_a_limit_relative_to_a_figure_that_the_baseline_lacks_is_broken():
    found = _limited("top1<baseline-0.01", outcome(cycles=1.0), outcome(top1=0.5))
    assert (found.name, found.value, found.held) == ("top1", 0.5, False)
    for before, held in ((0.505, True), (0.52, False)):
        assert _limited("top1<baseline-0.01", outcome(top1=before), outcome(top1=0.5)).held is held
    assert _limited("top1<0.4", outcome(), outcome()).held is False


def of_vela(release, **figures):
    return outcome(**figures).model_copy(update={"versions": {"ethos-u-vela": release}})


def test_that_cycles_of_two_releases_of_vela_are_not_ranked():
    figures = {"cycles": 100.0, "ms": 1.0, "sram": 64.0}
    found = Comparison(of_vela("5.1.0", **figures), of_vela("5.2.0", cycles=80.0, ms=0.8, sram=32.0), {})
    assert {f.name: (f.comparable, f.change, f.percent) for f in found.figures} == {
        "cycles": (False, None, None),
        "ms": (False, None, None),
        "sram": (True, -32.0, -50.0),
    }
    same = Comparison(of_vela("5.1.0", **figures), of_vela("5.1.0", **figures), {})
    assert all(f.comparable for f in same.figures)


def test_that_a_limit_relative_to_an_estimate_of_another_vela_is_not_held():
    before, after = of_vela("5.1.0", cycles=100.0), of_vela("5.2.0", cycles=80.0)
    found = _limited("cycles>+5%", before, after)
    assert (found.held, found.value) == (False, 80.0)
    assert "Vela 5.1.0" in found.limit
    assert _limited("cycles>90", before, after).held
    assert _limited("cycles>+5%", before, of_vela("5.1.0", cycles=80.0)).held
