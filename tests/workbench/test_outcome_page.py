"""The four answers to a program: figures, goals, states and pictures."""

import math

import pytest

from tests.fakes.projects import make_project
from tests.fakes.results import result_of
from workbench.deploy.fitting import Demand, Filling, Fit
from workbench.outcome_page import outcome_page
from workbench.project import edits
from workbench.project.model import TargetChoice


def answers(project=None, fit=None, **results):
    """Return the answers by id; ``None`` for a stage is no result."""
    known = {stage: result_of(stage) for stage in ("evaluate", "lower", "verify", "export")}
    known |= results

    def load(kind, stage):
        value = known.get(stage)
        return value if isinstance(value, kind) else None

    page = outcome_page(project or make_project(), load, fit)
    return {answer.id: answer for answer in page}


def labelled(top1, float_=1.0):
    value = result_of("evaluate")
    classes = {"decided": 400, "decided_equal": 380}
    return value.model_copy(
        update={
            "top1_quantized": top1,
            "top1_float": float_,
            "samples": 400,
            "outputs": tuple(o.model_copy(update=classes) for o in value.outputs),
        }
    )


def test_that_accuracy_is_shown_beside_the_float_model_and_judged_by_the_goal():
    lost = answers(evaluate=labelled(0.92))["accurate"]
    assert lost.state == "missed"
    assert ("92.0 %" in lost.figure, "100.0 %" in lost.figure) == (True, True)
    assert [round(bar.share, 3) for bar in lost.bars] == [1.0, 0.92]
    assert [bar.is_bad for bar in lost.bars] == [False, True]
    assert answers(evaluate=labelled(0.995))["accurate"].state == "met"


def test_that_a_low_accuracy_says_what_is_low_before_all_else():
    project = make_project()
    limits = project.accuracy.model_copy(update={"low_sqnr": 90.0})
    low = answers(project.model_copy(update={"accuracy": limits}))["accurate"]
    assert low.state == "doubtful"
    assert "90" in low.lines[0]
    assert "SQNR" in low.lines[0]


def test_that_the_operation_that_adds_most_of_the_error_is_named():
    value = result_of("evaluate")
    first, *others = value.tensors
    shares = [0.2, *(0.0 for _ in others)]
    tensors = [t.model_copy(update={"added_share": s}) for t, s in zip(value.tensors, shares, strict=True)]
    named = answers(evaluate=value.model_copy(update={"tensors": tuple(tensors)}))["accurate"].lines
    place = f"{first.tensor} in {first.module}" if first.module else first.tensor
    (line,) = [line for line in named if place in line]
    assert "20 %" in line
    # It is no share of the error of the output: what is added early may have no effect there.
    assert "Later operations may reduce it" in line
    unknown = [t.model_copy(update={"added_share": None}) for t in value.tensors]
    lines = answers(evaluate=value.model_copy(update={"tensors": tuple(unknown)}))["accurate"].lines
    assert not any("error" in line for line in lines)


def test_that_a_limit_that_roundings_raise_says_so_and_no_bar_looks_like_a_failure():
    value = result_of("verify")
    outputs = tuple(o.model_copy(update={"max_lsb": 5, "rounding_lsb": 13}) for o in value.outputs)
    histogram = {0: 100, 1: 30, 2: 20, 3: 6, 4: 3, 5: 1}
    raised = value.model_copy(update={"outputs": outputs, "max_lsb": 5, "histogram": histogram})
    shown = answers(verify=raised)["correct"]
    assert shown.goal == "at most 13 LSB"
    assert any("13 instead of 3 LSB" in line for line in shown.lines)
    assert not any(bar.is_bad for bar in shown.bars)
    assert not any("instead" in line for line in answers()["correct"].lines)


def test_that_a_program_can_be_correct_and_inaccurate():
    page = answers(evaluate=labelled(0.5))
    assert page["accurate"].state == "missed"
    assert page["correct"].state != "missed"


def test_that_differences_are_counted_by_size_and_none_is_lost():
    verified = result_of("verify").model_copy(
        update={"histogram": {-1: 3, 0: 80, 1: 7, 2: 4, 9: 2, 40: 4}, "elements": 100}
    )
    bars = answers(verify=verified)["correct"].bars
    assert bars[0].share == pytest.approx(0.8)
    assert bars[1].share == pytest.approx(0.1)
    assert sum(bar.share for bar in bars) == pytest.approx(1.0)


def test_that_what_did_not_run_names_its_stage():
    page = answers(evaluate=None, verify=None, lower=None)
    assert {a.id: (a.state, a.stage, a.bars) for a in page.values()} == {
        "accurate": ("open", "evaluate", ()),
        "correct": ("open", "verify", ()),
        "fits": ("open", "lower", ()),
        "fast": ("open", "lower", ()),
    }


@pytest.mark.parametrize(("limit", "state"), [("sram<1", "met"), ("sram>0", "missed")])
def test_that_limits_of_memory_are_goals(limit, state):
    project = make_project()
    gate = project.gate.model_copy(update={"fail_if": (limit,)})
    assert answers(edits.revise(project, gate=gate))["fits"].state == state


def test_that_the_memories_of_a_board_are_drawn_with_what_they_hold():
    demand = Demand(what="program", bytes=512, kinds=("flash",), origin="measured")
    full = Filling(name="MRAM", kind="flash", bytes=1024, confirmed=True, demands=(demand,))
    unknown = Filling(name="SRAM", kind="sram", bytes=None, confirmed=False)
    page = answers(fit=Fit(board="E8", fillings=(full, unknown)))
    assert page["fits"].state == "met"
    assert [bar.share for bar in page["fits"].bars] == [0.5, 0.0]
    lost = Fit(board="E8", fillings=(full,), homeless=(demand,))
    assert answers(fit=lost)["fits"].state == "missed"


def test_that_the_bar_of_a_module_with_parts_says_that_it_is_not_their_sum():
    lowered = result_of("lower")
    (report,) = lowered.vela
    rows = [("block", 30), ("block.conv", 60), ("head", 10)]
    operations = tuple(
        report.operations[0].model_copy(update={"module": name, "cycles": cycles}) for name, cycles in rows
    )
    report = report.model_copy(update={"operations": operations})
    page = answers(lower=lowered.model_copy(update={"vela": (report,)}))
    names = [bar.name for bar in page["fast"].bars]
    assert names == ["block.conv", "block, without its parts", "head"]


def test_that_a_program_with_nothing_on_the_npu_has_no_time():
    lowered = result_of("lower").model_copy(update={"delegates": 0, "vela": ()})
    compiled = result_of("verify").compiled.model_copy(update={"elements": 0, "equal": 0})
    verified = result_of("verify").model_copy(update={"compiled": compiled})
    shown = answers(lower=lowered, verify=verified)
    assert (shown["fast"].figure, shown["fast"].bars) == ("nothing on the NPU", ())
    assert lowered.inference_ms is None
    assert any("nothing to execute" in line for line in shown["correct"].lines)


def test_that_figures_that_are_not_finite_have_no_bar():
    value = result_of("evaluate").model_copy(
        update={"metric_name": "loss", "metric_quantized": math.inf, "metric_float": 1.0}
    )
    shares = [bar.share for bar in answers(evaluate=value)["accurate"].bars]
    assert all(0.0 <= share <= 1.0 for share in shares)


def test_that_a_target_without_a_compiler_has_the_answers_it_can_have():
    project = edits.set_target(make_project(), TargetChoice(id="formats"))
    assert list(answers(project)) == ["accurate"]


def spent(modules):
    """Return the bars of a program whose modules take these cycles."""
    lowered = result_of("lower")
    like = lowered.vela[0].operations[0]
    rows = tuple(like.model_copy(update={"module": name, "cycles": count}) for name, count in modules.items())
    report = lowered.vela[0].model_copy(update={"operations": rows})
    bars = answers(lower=lowered.model_copy(update={"vela": (report,)}))["fast"].bars
    return {bar.name: bar.text for bar in bars}


def test_that_cycles_are_those_of_modules_and_of_alike_blocks_where_no_few_modules_take_most():
    few = spent({"features.0": 500, "features.1": 300, "head": 200})
    assert few == {"features.0": "50 %", "features.1": "30 %", "head": "20 %"}
    many = spent(
        {f"layers.{n}.{part}": cycles for n in range(24) for part, cycles in (("mlp", 30), ("norm_1", 10))}
        | {"embed": 40}
    )
    assert many == {"layers.*.mlp (\u00d724)": "72 %", "layers.*.norm_1 (\u00d724)": "24 %", "embed": "4 %"}


def test_that_labels_that_do_not_judge_are_not_shown_as_the_goal():
    # The float model has no clear class: the verdict follows from the SQNR.
    value = labelled(0.16, 0.18)
    undecided = tuple(o.model_copy(update={"decided": 0, "decided_equal": 0}) for o in value.outputs)
    shown = answers(evaluate=value.model_copy(update={"outputs": undecided}))["accurate"]
    assert shown.state == "met"
    assert "SQNR" in shown.figure
    assert "SQNR" in shown.goal
    assert any("16.0 %, float 18.0 %" in line for line in shown.lines)
    judged = answers(evaluate=labelled(0.92))["accurate"]
    assert "lost" in judged.goal


def test_that_random_weights_are_named_beside_the_accuracy():
    value = result_of("import_model")
    for random in (False, True):
        loaded = value.model_copy(update={"random_weights": random})
        lines = answers(import_model=loaded)["accurate"].lines
        assert any("random" in line for line in lines) == random


def test_that_nnpa_figures_say_that_they_leave_dlfloat16_out():
    nnpa = make_project().model_copy(update={"target": TargetChoice(id="nnpa")})
    assert any("dlfloat16" in line for line in answers(nnpa)["accurate"].lines)
    assert not any("dlfloat16" in line for line in answers()["accurate"].lines)
