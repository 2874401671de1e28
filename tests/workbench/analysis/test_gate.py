"""The verdict on a program."""

import math

from tests.fakes.results import result_of
from tests.for_each import for_each
from tests.problems import refused
from workbench.analysis.gate import GateResult, Limit, figures, limit_text, limit_words, verdict
from workbench.project.gate import FIGURES, Gate, condition_of
from workbench.results import AgainstFloat, CompiledFinding, CompiledProgram, OutputQuality, VerifyResult
from workbench.results.simulation import FunctionalRun


def output(bits=8, max_lsb=1, sqnr_db=45.0, rounding_lsb=None):
    worst = 0.0 if sqnr_db is None else 0.1
    return OutputQuality(
        name="output 0",
        sqnr_db=sqnr_db,
        cosine=1.0,
        max_abs_error=worst,
        bits=bits,
        max_lsb=max_lsb,
        rounding_lsb=rounding_lsb,
    )


def compiled(**changes):
    values = {"samples": 16, "elements": 160, "equal": 160, "max_lsb": 0, **changes}
    return CompiledProgram(**values)


def verified(**changes):
    values = {
        "samples": 16,
        "elements": 160,
        "exact": 150,
        "max_lsb": 1,
        "argmax_equal": 16,
        "histogram": {0: 150, 1: 10},
        "outputs": (output(),),
        "decided": 16,
        "decided_equal": 16,
        "against_float": AgainstFloat(quantized_sqnr_db=36.0, integer_sqnr_db=35.0),
        "compiled": compiled(),
        **changes,
    }
    return VerifyResult(**values)


def broken(found):
    return [limit.name for limit in found.broken]


def test_that_a_program_within_all_limits_is_right():
    found = verdict(Gate(), verified=verified())
    assert found.verdict == "right"
    assert {limit.name for limit in found.limits} == {"lsb", "argmax", "loss", "compiled", "findings"}
    assert all(limit.held for limit in found.limits)


@for_each(
    ("limit", "outputs", "word"),
    [
        (3, [(7, 30)], "right"),
        (3, [(7, 7), (2, None)], "right"),
        (3, [(7, 6)], "differs"),
        (3, [(7, 30), (4, 3)], "differs"),
        # A limit of the user's stays.
        (2, [(7, 30)], "differs"),
        (7, [(7, 3)], "right"),
    ],
)
def test_that_the_default_limit_rises_to_what_roundings_explain(limit, outputs, word):
    rows = tuple(output(max_lsb=most, rounding_lsb=steps) for most, steps in outputs)
    assert verdict(Gate(lsb=limit), verified=verified(outputs=rows)).verdict == word


@for_each(
    ("changes", "name"),
    [
        ({"outputs": (output(max_lsb=4),)}, "lsb"),
        ({"outputs": (output(bits=16, max_lsb=900, sqnr_db=39.9),)}, "sqnr"),
        ({"outputs": (output(bits=16, max_lsb=1023, sqnr_db=60.0),)}, "share"),
        ({"outputs": (output(bits=None, max_lsb=None, sqnr_db=12.0),)}, "sqnr"),
        ({"decided_equal": 15}, "argmax"),
        ({"against_float": AgainstFloat(quantized_sqnr_db=36.0, integer_sqnr_db=32.9)}, "loss"),
        ({"against_float": AgainstFloat(quantized_sqnr_db=81.0, integer_sqnr_db=56.9)}, "loss"),
        ({"compiled": compiled(equal=159, max_lsb=1)}, "compiled"),
    ],
)
def test_that_each_default_limit_makes_a_program_differ(changes, name):
    found = verdict(Gate(), verified=verified(**changes))
    assert found.verdict == "differs"
    assert broken(found) == [name]


@for_each(
    "changes",
    [
        {"outputs": (output(max_lsb=3),)},
        {"outputs": (output(bits=16, max_lsb=900, sqnr_db=40.0),)},
        {"outputs": (output(bits=16, max_lsb=1022, sqnr_db=60.0),)},
        {"outputs": (output(bits=16, max_lsb=0, sqnr_db=None),)},
        {"against_float": AgainstFloat(quantized_sqnr_db=81.0, integer_sqnr_db=57.0)},
        {"decided": 20, "decided_equal": 19},
        {"decided": 0, "decided_equal": 0},
        {"against_float": AgainstFloat(quantized_sqnr_db=36.0, integer_sqnr_db=33.0)},
        {"against_float": AgainstFloat(quantized_sqnr_db=None, integer_sqnr_db=60.0)},
        {"against_float": AgainstFloat(quantized_sqnr_db=36.0, integer_sqnr_db=None)},
    ],
)
def test_that_a_value_at_its_limit_is_right(changes):
    assert verdict(Gate(), verified=verified(**changes)).verdict == "right"


def test_that_one_wide_output_does_not_hide_the_steps_of_a_narrow_one():
    outputs = (output(max_lsb=5), output(bits=16, max_lsb=900, sqnr_db=60.0))
    found = verdict(Gate(), verified=verified(outputs=outputs))
    assert broken(found) == ["lsb"]
    assert found.broken[0].value == 5


def test_that_an_error_found_while_executing_makes_a_program_differ():
    finding = CompiledFinding(
        severity="error", code="missing-wait", message="no wait", delegate=0, command="NPU_OP_CONV", offset=64
    )
    warning = finding.model_copy(update={"severity": "warning"})
    assert verdict(Gate(), verified=verified(compiled=compiled(findings=(warning,)))).verdict == ("right")
    found = verdict(Gate(), verified=verified(compiled=compiled(findings=(finding,))))
    assert broken(found) == ["findings"]


def test_that_a_program_that_the_simulator_refuses_is_not_verified():
    found = verdict(Gate(), verified=verified(compiled=compiled(samples=0, refused="too large")))
    assert found.verdict == "not verified"
    assert "too large" in found.reason
    assert {limit.name: limit.held for limit in found.limits}["compiled"] is None


def test_that_a_program_that_the_simulator_refuses_for_a_fault_differs():
    fault = CompiledFinding(
        severity="error", code="npu-address", message="outside", delegate=0, command="", offset=0
    )
    found = verdict(Gate(), verified=verified(compiled=compiled(refused="outside", findings=(fault,))))
    assert found.verdict == "differs"
    assert broken(found) == ["findings"]


def test_that_a_refused_program_still_differs_by_its_integers():
    worse = verified(compiled=compiled(refused="too large"), outputs=(output(max_lsb=84),))
    assert verdict(Gate(), verified=worse).verdict == "differs"


def test_that_differences_found_before_a_refusal_count():
    part = compiled(samples=3, equal=150, refused="too large")
    found = verdict(Gate(), verified=verified(compiled=part))
    assert found.verdict == "differs"
    assert broken(found) == ["compiled"]


def test_that_the_compiled_program_is_left_out_when_the_gate_says_so():
    found = verdict(Gate(compiled=False), verified=verified(compiled=compiled(equal=0)))
    assert found.verdict == "right"
    assert "compiled" not in {limit.name for limit in found.limits}


@for_each(
    "changes",
    [
        {"samples": 0, "elements": 0, "exact": 0},
        {"elements": 0},
        {"compiled": compiled(samples=3)},
        {"compiled": compiled(whole_refused="A tensor is dequantized to float16.")},
        {"compiled": None},
    ],
)
def test_that_what_was_not_compared_or_executed_is_not_verified(changes):
    assert verdict(Gate(), verified=verified(**changes)).verdict == "not verified"


def simulated(**changes):
    return result_of("run").model_copy(update=changes)


def functional(**changes):
    value = simulated()
    agreement = value.against_reference.model_copy(update={"elements": 160, "max_lsb": 0})
    fields = {"samples": 16, "elapsed_s": 0.1, "against_reference": agreement, **changes}
    return value.model_copy(update={"functional": FunctionalRun(**fields)})


@for_each(
    "run",
    [
        functional(refused="A tensor is dequantized to float16."),
        functional(against_reference=simulated().against_reference.model_copy(update={"elements": 0})),
        simulated(report=simulated().report.model_copy(update={"succeeded": False})),
    ],
)
def test_that_a_run_that_did_not_execute_makes_no_program_right(run):
    found = verdict(Gate(), verified=verified(), simulated=run)
    assert found.verdict == "not verified"
    assert verdict(Gate(), verified=verified(), simulated=functional()).verdict == "right"


def test_that_a_program_that_computes_something_else_as_a_whole_differs():
    far = functional(
        against_reference=functional().functional.against_reference.model_copy(update={"max_lsb": 40})
    )
    for given in (
        {"verified": verified(), "simulated": far},
        {"verified": verified(compiled=compiled(whole_max_lsb=40))},
    ):
        found = verdict(Gate(), **given)
        assert broken(found) == ["executed"]
        assert found.broken[0].value == 40
        assert found.departs


@for_each("changes", [{"not_finite": 2}, {"sqnr_db": None}, {"sqnr_db": math.nan}])
def test_that_an_output_without_a_number_differs(changes):
    wrong = output(bits=None, max_lsb=None).model_copy(update=changes)
    assert broken(verdict(Gate(), verified=verified(outputs=(wrong,)))) == ["sqnr"]


def test_that_nothing_is_verified_without_the_stage():
    found = verdict(Gate(), reason="The stage verify was skipped.")
    assert (found.verdict, found.reason) == ("not verified", "The stage verify was skipped.")


def test_that_a_program_of_another_compiler_is_not_verified():
    found = verdict(Gate(), verified=verified(runtime="ONNX Runtime", max_abs_error=0.5))
    assert found.verdict == "not verified"
    assert found.limits == ()


def test_that_a_switched_off_limit_is_not_listed():
    gate = Gate(lsb=None, argmax=None, loss=None)
    found = verdict(gate, verified=verified(outputs=(output(max_lsb=84),), decided_equal=0))
    assert found.verdict == "right"
    assert {limit.name for limit in found.limits} == {"compiled", "findings"}


def test_that_a_condition_of_the_call_replaces_the_limit_of_the_project():
    several = verified(outputs=(output(max_lsb=5),))
    assert verdict(Gate(), verified=several, fail_if=["lsb>5"]).verdict == "right"
    assert verdict(Gate(fail_if=("lsb>5",)), verified=several).verdict == "right"
    strict = verdict(Gate(fail_if=("lsb>5",)), verified=several, fail_if=["lsb > 4"])
    assert broken(strict) == ["lsb"]
    assert [limit.limit for limit in strict.broken] == ["<= 4"]


def test_that_cost_and_quality_can_be_limited():
    lowered, evaluated = result_of("lower"), result_of("evaluate")
    known = figures(evaluated, lowered, verified())
    assert known["pte_bytes"] == lowered.pte_bytes
    assert known["cpu_ops"] == len(lowered.cpu_nodes)
    for name in ("cycles", "sram", "cpu_ops", "pte_bytes"):
        least = known[name]
        run = {"evaluated": evaluated, "lowered": lowered, "verified": verified()}
        assert verdict(Gate(), **run, fail_if=[f"{name}>{least}"]).verdict == "right"
        assert broken(verdict(Gate(), **run, fail_if=[f"{name}>={least}"])) == [name]


def test_that_a_condition_on_a_figure_that_does_not_exist_is_broken():
    found = verdict(Gate(), verified=verified(), fail_if=["top1<0.98"])
    assert found.verdict == "differs"
    assert broken(found) == ["top1"]


def test_that_a_program_without_delegates_takes_no_sram():
    lowered = result_of("lower").model_copy(update={"vela": ()})
    known = figures(None, lowered, None)
    assert [known[name] for name in ("cycles", "ms", "sram", "flash")] == [0.0] * 4


@for_each(
    ("quantized", "integer", "loss"),
    [(36.0, 35.5, 0.5), (36.0, 37.0, 0.0), (81.0, 59.5, 0.5), (36.0, None, 0.0)],
)
def test_that_a_loss_is_what_integers_are_worse(quantized, integer, loss):
    against = AgainstFloat(quantized_sqnr_db=quantized, integer_sqnr_db=integer)
    assert figures(None, None, verified(against_float=against))["loss"] == loss


@for_each(("bits", "names"), [(8, {"lsb"}), (9, {"sqnr"}), (None, {"sqnr"})])
def test_that_outputs_of_more_than_8_bits_are_limited_by_their_sqnr(bits, names):
    found = verdict(Gate(), verified=verified(outputs=(output(bits=bits),)))
    assert {limit.name for limit in found.limits} & {"lsb", "sqnr"} == names


def test_that_a_program_that_is_only_too_slow_does_not_depart_from_the_model():
    run = {"lowered": result_of("lower"), "verified": verified()}
    assert not verdict(Gate(), **run).departs
    assert not verdict(Gate(), **run, fail_if=["cycles>=0"]).departs
    for condition in ("lsb>=0", "argmax<=1", "loss>=0", "compiled>=0"):
        assert verdict(Gate(), **run, fail_if=["cycles>=0", condition]).departs


def test_that_every_figure_that_a_run_gives_can_be_named():
    assert set(figures(result_of("evaluate"), result_of("lower"), verified())) <= set(FIGURES)


@for_each("text", ["", "lsb", "lsb=2", "speed>2", "lsb>two", "lsb>", "lsb>2>3"])
def test_that_other_texts_are_no_condition(text):
    with refused("gate-condition-invalid"):
        condition_of(text)


@for_each(
    ("text", "figure", "breaks"),
    [
        ("lsb>2", 3, True),
        ("lsb>2", 2, False),
        ("top1 < 0.98", 0.97, True),
        ("lsb>=-1", -1, True),
        ("loss<=1e-3", 0.001, True),
        ("SRAM>1", 1, False),
    ],
)
def test_that_a_condition_says_when_a_program_is_not_accepted(text, figure, breaks):
    assert condition_of(text).applies(figure) is breaks


def test_that_the_verdict_says_what_was_executed_without_a_device():
    equal = verdict(Gate(), verified=verified(compiled=compiled())).execution
    assert equal.equal == equal.elements
    assert equal.sentence.startswith("Executed on the simulator (no timing): 16 samples, all 160 ")
    other = verdict(Gate(), verified=verified(compiled=compiled(equal=150))).execution
    assert "10 of 160 output elements differ" in other.sentence
    refused = verdict(Gate(), verified=verified(compiled=compiled(refused="too large."))).execution
    assert refused.sentence == "Not executed on the simulator: too large."
    assert verdict(Gate(), verified=verified(compiled=None)).execution is None
    for samples, words in ((1, "1 sample, all "), (2, "2 samples, all ")):
        execution = verdict(Gate(), verified=verified(compiled=compiled(samples=samples))).execution
        assert words in execution.sentence
    for told in (equal, other, refused):
        assert not {"measured", "cycles", "ms"} & set(told.sentence.split())


@for_each(
    ("value", "held", "text"),
    [
        (84.0, False, "84"),
        (0.123456789, False, "0.123457"),
        (None, True, "equal"),
        (None, False, "unknown"),
        (None, None, "unknown"),
        (0.0, True, "0"),
    ],
)
def test_that_a_limit_is_written_with_its_value_and_bound(value, held, text):
    limit = Limit(name="lsb", limit="<= 3", value=value, held=held)
    assert limit_text(limit) == f"lsb {text}, limit <= 3"
    shown = "0.1235" if value == 0.123456789 else text
    assert limit_words(limit) == f"Largest difference [LSB]: {shown} (at most 3)"


def test_that_limits_for_people_have_signs_separators_and_names_of_their_own():
    cycles = Limit(name="cycles", limit=">= 1000", value=1234.0, held=True)
    assert limit_words(cycles) == "Cycles: 1,234 (needed 1,000)"
    own = Limit(name="mine", limit="< 2", value=1.0, held=True)
    assert limit_words(own) == "mine: 1 (below 2)"


def test_that_a_verdict_in_a_line_has_its_count_its_broken_limits_or_its_reason():
    right = verdict(Gate(), verified=verified())
    assert right.sentence == "correct: 5 of 5 checks passed"
    limits = (
        Limit(name="lsb", limit="<= 3", value=84.0, held=False),
        Limit(name="top1", limit=">= 0.9", value=0.95, held=True),
        Limit(name="sqnr", limit=">= 40", value=12.5, held=False),
    )
    differs = GateResult(verdict="differs", limits=limits)
    assert differs.sentence == "differs (lsb 84, limit <= 3; sqnr 12.5, limit >= 40)"
    assert GateResult(verdict="not verified", reason="no device").sentence == ("not verified (no device)")


@for_each("name", FIGURES)
def test_that_every_figure_of_a_limit_has_a_title(name):
    assert not limit_words(Limit(name=name, value=1.0, limit="<= 2", held=True)).startswith(name)
