"""What a run came to: its figures, how they are kept in files, and what differs."""

import json
import math

from tests.fakes.results import result_of
from tests.for_each import for_each
from tests.problems import refused
from tests.workbench.history.test_comparison import COST, QUALITY, run
from workbench.analysis.gate import GateResult, Limit
from workbench.history.outcomes import Outcome, outcome_changes, outcome_of, read_outcome
from workbench.history.runs import cost_of, simulated_of
from workbench.project.gate import FIGURES
from workbench.results import TensorQuality, save_result


def test_that_kept_figures_are_those_of_quality_cost_and_limits():
    quality = QUALITY.model_copy(update={"top1": 0.5, "metric": 0.25, "perplexity": 9.0})
    limits = (
        Limit(name="lsb", limit="<= 3", value=2, held=True),
        Limit(name="sqnr", limit=">= 40", value=None, held=True),
        Limit(name="loss", limit="<= 3", value=None, held=None),
        Limit(name="cycles", limit="<= 9", value=5, held=True),
    )
    made = outcome_of(run(quality=quality, gate=GateResult(verdict="right", limits=limits)))
    assert made.figures == {
        "quality": 30.0,
        "cosine": 0.99,
        "top1": 0.5,
        "metric": 0.25,
        "perplexity": 9.0,
        "cycles": 1000.0,
        "ms": 1.0,
        "sram": 2048.0,
        "flash": 4096.0,
        "cpu_ops": 1.0,
        "pte_bytes": 1.0,
        "lsb": 2.0,
        "sqnr": None,
    }
    assert made.numbers["sqnr"] == math.inf
    assert made.numbers["lsb"] == 2.0
    assert set(made.figures) <= set(FIGURES)
    assert (made.verdict, made.sentence) == ("right", "correct: 4 of 4 checks passed")


def test_that_a_run_without_samples_cost_or_verdict_has_no_such_figures():
    bare = outcome_of(run(quality=QUALITY.model_copy(update={"samples": 0}), cost=None))
    assert bare.figures == {}
    assert (bare.verdict, bare.sentence) == ("not verified", "")
    equal = QUALITY.model_copy(update={"sqnr_db": None})
    assert outcome_of(run(quality=equal, cost=None)).figures["quality"] is None
    assert outcome_of(run(cost=COST)).figures["cycles"] == 1000.0


def test_that_layers_without_an_sqnr_are_left_out():
    layers = tuple(
        TensorQuality(
            tensor=name, origin=name, module="m", op="conv2d", sqnr_db=db, cosine=1.0, max_abs_error=0.0
        )
        for name, db in (("a", 12.5), ("b", None))
    )
    made = outcome_of(run(layers=layers, versions={"torch": "2"}))
    assert made.layers == {"a": 12.5}
    assert made.versions == {"torch": "2"}


def test_that_results_give_every_figure_that_their_stages_have(tmp_path):
    folders = {}
    for stage in ("evaluate", "lower", "verify"):
        folders[stage] = tmp_path / stage
        folders[stage].mkdir()
        save_result(result_of(stage), folders[stage])
    made = outcome_of(run(), folders)
    assert made.figures["quality"] == 34.5
    assert made.figures["cycles"] == 1000
    assert made.figures["lsb"] == 1
    assert "cycles" not in outcome_of(run(), {"evaluate": folders["evaluate"]}).figures
    assert outcome_of(run(), {}).figures == {}


def test_that_an_outcome_is_read_from_a_file_and_from_a_folder(tmp_path):
    made = outcome_of(run())
    for path in (tmp_path / "run.json", tmp_path / "manifest.json"):
        path.write_text(json.dumps({"other": 1, "outcome": made.document()}))
        assert read_outcome(path) == made
    assert read_outcome(tmp_path) == made


@for_each(
    ("content", "code"),
    [
        (None, "file-missing"),
        ("{", "outcome-missing"),
        ("[]", "outcome-missing"),
        ("{}", "outcome-missing"),
        ('{"outcome": {"version": 2}}', "outcome-missing"),
        ('{"outcome": 3}', "outcome-missing"),
        ("[" * 99_999, "outcome-missing"),
    ],
)
def test_that_a_file_without_an_outcome_is_refused(tmp_path, content, code):
    path = tmp_path / "run.json"
    if content is not None:
        path.write_text(content)
    with refused(code):
        read_outcome(path)


def test_that_changes_are_told_by_what_they_concern():
    before = Outcome(project="net", target="u55", rules={"": "a8w8", "a": "float"}, versions={"torch": "1"})
    after = Outcome(project="net", target="u85", rules={"": "a8w8", "b": "a16w8"}, versions={"torch": "1"})
    found = outcome_changes(before, after)
    assert [(c.before, c.after) for c in found["target"]] == [("u55", "u85")]
    assert {(c.what, c.before, c.after) for c in found["rules"]} == {("a", "float", ""), ("b", "", "a16w8")}
    assert found["versions"] == ()


def test_that_a_simulation_is_kept_with_its_cycles_and_its_agreement():
    result = result_of("run")
    made = simulated_of(result)
    assert (made.simulator, made.version) == (result.report.simulator, result.report.version)
    assert (made.runner, made.samples) == (result.runner, result.samples)
    assert (made.cycles, made.estimated_cycles) == (result.cycles, result.estimated_cycles)
    against = result.against_reference
    assert made.exact == against.exact / against.elements
    assert made.max_lsb == result.against_quantized.max_lsb
    assert made.argmax_equal == result.against_quantized.argmax_equal
    empty = against.model_copy(update={"elements": 0, "exact": 0})
    assert simulated_of(result.model_copy(update={"against_reference": empty})).exact is None


def test_that_a_program_that_is_compiled_elsewhere_has_no_cost_here():
    lowered = result_of("lower")
    assert cost_of(lowered).cycles == sum(report.cycles_total for report in lowered.vela)
    assert cost_of(lowered).pte_bytes == lowered.pte_bytes
    none = cost_of(lowered.model_copy(update={"vela": ()}))
    assert (none.cycles, none.sram_bytes) == (0, 0)
