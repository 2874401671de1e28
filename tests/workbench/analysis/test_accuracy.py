"""The second answer: whether a program is accurate enough."""

import math

from tests.fakes.results import result_of
from tests.for_each import for_each
from workbench.analysis.accuracy import accuracy_figures, accuracy_of
from workbench.analysis.answers import answers_of
from workbench.project.accuracy import Accuracy
from workbench.project.gate import ACCURACY_FIGURES, FIGURES
from workbench.project.model import ModelSource, Project, TargetChoice
from workbench.results import AgainstFloat, Dependence, EvaluateResult, OutputQuality, VerifyResult


def output(sqnr_db=35.0, **changes):
    values = {"name": "output 0", "sqnr_db": sqnr_db, "cosine": 1.0, "max_abs_error": 0.1}
    return OutputQuality(**{**values, **changes})


CLASSES = output(35.0, decided=100, decided_equal=100)


def evaluated(*outputs, **changes):
    values = {
        "samples": 100,
        "data": "data.npz",
        "held_out": True,
        "calibrated_on": "data.npz",
        "sqnr_db": 35.0,
        "cosine": 1.0,
        "max_abs_error": 0.1,
        "outputs": outputs or (output(),),
        "dependence": Dependence(),
        **changes,
    }
    return EvaluateResult(**values)


def verified(*outputs, **changes):
    against = AgainstFloat(
        quantized_sqnr_db=35.0,
        integer_sqnr_db=34.0,
        samples=16,
        data="data.npz",
        held_out=True,
        outputs=outputs or (output(),),
        **{"dependence": Dependence(), **changes},
    )
    return VerifyResult(
        samples=16,
        elements=160,
        exact=160,
        max_lsb=0,
        argmax_equal=16,
        histogram={0: 160},
        against_float=against,
    )


def answer(*outputs, limits=None, conditions=(), **changes):
    value = evaluated(*outputs, **changes)
    return accuracy_of(limits or Accuracy(), evaluated=value, conditions=conditions)


@for_each(
    ("sqnr_db", "verdict"),
    [
        (35.0, "accurate enough"),
        (20.0, "accurate enough"),
        (19.9, "low accuracy"),
        (10.0, "low accuracy"),
        (9.9, "not accurate enough"),
        (-3.0, "not accurate enough"),
    ],
)
def test_that_without_labels_the_sqnr_against_float_decides(sqnr_db, verdict):
    found = answer(output(sqnr_db))
    assert found.verdict == verdict
    assert found.refused == (verdict == "not accurate enough")
    assert found.data.held_out
    assert found.data.samples == 100


def test_that_the_worst_output_decides_and_each_is_listed():
    found = answer(output(40.0), output(4.0, name="boxes"), output(25.0, name="output 2"))
    assert found.verdict == "not accurate enough"
    assert [(p.name, p.sqnr_db, p.held) for p in found.parts] == [
        ("output 0", 40.0, True),
        ("boxes", 4.0, False),
        ("output 2", 25.0, True),
    ]
    assert {part.limit for part in found.parts} == {">= 10"}
    assert {limit.name: limit.value for limit in found.limits}["float_sqnr"] == 4.0


@for_each(
    ("top1", "verdict"),
    [
        (0.95, "accurate enough"),
        (0.94, "accurate enough"),
        (0.93, "not accurate enough"),
        (0.99, "accurate enough"),
    ],
)
def test_that_with_labels_the_loss_of_top1_decides(top1, verdict):
    found = answer(CLASSES, top1_float=0.95, top1_quantized=top1)
    assert found.verdict == verdict
    assert [limit.name for limit in found.limits] == ["top1_loss", "inputs"]
    assert found.parts[0].limit == ""


def test_that_labels_judge_the_first_output_only():
    found = answer(CLASSES, output(3.0), top1_float=0.9, top1_quantized=0.9)
    assert found.verdict == "not accurate enough"
    assert [limit.name for limit in found.broken] == ["float_sqnr"]


def test_that_a_labelled_program_far_from_the_float_model_is_marked():
    far = CLASSES.model_copy(update={"sqnr_db": 6.0})
    found = answer(far, top1_float=0.1, top1_quantized=0.1)
    assert found.verdict == "low accuracy"
    assert [mark.name for mark in found.marks] == ["float_sqnr"]


@for_each(
    ("lost", "samples", "verdict"),
    [
        (1, 4, "low accuracy"),
        (2, 4, "not accurate enough"),
        (1, 100, "accurate enough"),
        (2, 100, "not accurate enough"),
    ],
)
def test_that_one_sample_of_few_marks_and_does_not_refuse(lost, samples, verdict):
    given = {"samples": samples, "top1_float": 1.0, "top1_quantized": 1 - lost / samples}
    assert answer(CLASSES, **given).verdict == verdict


@for_each(("first", "top1"), [(output(4.0), 0.9), (CLASSES.model_copy(update={"sqnr_db": 4.0}), 0.0)])
def test_that_labels_that_tell_nothing_leave_the_sqnr_to_decide(first, top1):
    """An output that is no vector has no class; a float model that is never right loses nothing."""
    found = answer(first, top1_float=top1, top1_quantized=top1)
    assert found.verdict == "not accurate enough"
    assert found.parts[0].held is False
    assert "top1_loss" not in {limit.name for limit in found.limits}


@for_each(
    ("before", "after", "verdict"),
    [
        (0.8, 0.795, "accurate enough"),
        (0.8, 0.78, "not accurate enough"),
        (93.0, 92.5, "accurate enough"),
        (93.0, 90.0, "not accurate enough"),
        (0.3, 0.4, "low accuracy"),
        (0.8, math.nan, "not accurate enough"),
    ],
)
def test_that_the_metric_of_the_project_replaces_top1(before, after, verdict):
    given = {"top1_float": 1.0, "top1_quantized": 0.0}
    found = answer(metric_name="score", metric_float=before, metric_quantized=after, **given)
    assert found.verdict == verdict
    assert found.limits[0].name == "metric_loss"


@for_each(
    ("changes", "verdict"),
    [
        ({"decided": 20, "decided_equal": 18}, "accurate enough"),
        ({"decided": 20, "decided_equal": 17}, "not accurate enough"),
        ({"decided": 4, "decided_equal": 3}, "low accuracy"),
        ({"decided": 0, "decided_equal": 0}, "accurate enough"),
    ],
)
def test_that_the_class_of_a_vector_is_that_of_the_float_model(changes, verdict):
    assert answer(output(30.0, **changes)).verdict == verdict


@for_each(
    ("sqnr_db", "equal", "verdict"),
    [(5.0, 95, "accurate enough"), (5.0, 50, "not accurate enough"), (30.0, 50, "accurate enough")],
)
def test_that_whole_numbers_are_classes_unless_they_are_close(sqnr_db, equal, verdict):
    found = answer(output(sqnr_db, whole=True, decided=100, decided_equal=equal))
    assert found.verdict == verdict
    assert found.parts[0].agreement == equal / 100
    assert found.parts[0].limit == ""


@for_each("changes", [{"not_finite": 1}, {"sqnr_db": None}, {"sqnr_db": math.nan}, {"sqnr_db": -math.inf}])
def test_that_what_is_no_number_never_counts_as_held(changes):
    found = answer(output(**{"sqnr_db": 60.0, **changes}))
    assert found.verdict == "not accurate enough"
    assert found.parts[0].held is False
    assert found.parts[0].sqnr_db is None


def test_that_equal_outputs_are_accurate():
    same = output(None).model_copy(update={"max_abs_error": 0.0})
    found = answer(same)
    assert found.verdict == "accurate enough"
    assert found.parts[0].sqnr_db is None
    assert found.parts[0].held


def test_that_a_program_that_ignores_an_input_is_refused_by_its_name():
    found = answer(dependence=Dependence(ignored=("mask",), constant=("output 0",)))
    assert found.verdict == "not accurate enough"
    assert found.ignored_inputs == ("mask",)
    assert found.constant_outputs == ("output 0",)
    assert "ignores the input mask" in found.sentence
    assert "output 0 of the program is constant" in found.sentence
    off = answer(limits=Accuracy(inputs=False), dependence=Dependence(ignored=("mask",)))
    assert off.verdict == "accurate enough"


def test_that_an_input_that_the_network_itself_ignores_is_only_noted():
    value = evaluated(dependence=Dependence(unused=("mask",)))
    against = verified(dependence=Dependence(ignored=("mask",)))
    for check in (None, against):
        found = accuracy_of(Accuracy(), evaluated=value, verified=check)
        assert found.verdict == "accurate enough"
        assert "does not use the input mask" in found.notes[0]


def test_that_the_integer_program_is_measured_where_verify_computed_it():
    found = accuracy_of(Accuracy(), evaluated=evaluated(), verified=verified(output(34.0)))
    assert (found.parts[0].program, found.parts[0].samples) == ("integer program", 16)
    assert found.parts[0].sqnr_db == 34.0
    alone = accuracy_of(Accuracy(), verified=verified(output(8.0)))
    assert alone.verdict == "not accurate enough"
    assert alone.data.samples == 16


def test_that_samples_that_verify_does_not_reach_count_too():
    found = accuracy_of(Accuracy(), evaluated=evaluated(output(7.0)), verified=verified())
    assert found.verdict == "not accurate enough"
    assert (found.parts[0].program, found.parts[0].samples) == ("quantized model", 100)


def test_that_nothing_is_measured_without_a_comparison():
    found = accuracy_of(Accuracy(), reason="The stage evaluate was skipped.")
    assert (found.verdict, found.reason) == ("not measured", "The stage evaluate was skipped.")
    assert found.data is None
    off = Accuracy(loss=None, sqnr=None, low_sqnr=None, argmax=None, inputs=False)
    assert answer(limits=off).verdict == "not measured"


def test_that_a_condition_replaces_the_limit_of_its_figure():
    assert answer(output(9.0), conditions=["float_sqnr<5"]).verdict == "accurate enough"
    strict = answer(output(35.0), conditions=["float_sqnr<20", "float_sqnr<40"])
    assert [(row.name, row.limit) for row in strict.broken] == [("float_sqnr", ">= 40")]
    assert answer(conditions=["lsb>0", "cycles>1"]).verdict == "accurate enough"


def test_that_a_condition_on_what_was_not_measured_is_broken():
    found = answer(conditions=["top1_loss>0.05"])
    assert found.verdict == "not accurate enough"
    assert accuracy_of(Accuracy(), conditions=["float_sqnr<5"]).refused


def test_that_data_that_calibration_saw_is_named_so():
    assert "that calibration saw too" in answer(held_out=False).measured_on
    assert "that calibration did not see" in answer().measured_on


def test_that_both_answers_refuse_each_for_itself():
    project = Project(
        name="net", model=ModelSource(spec="net.py:net"), target=TargetChoice(id="ethos-u55-128")
    )
    worse = {"evaluate": evaluated(output(3.0)), "verify": result_of("verify")}
    found = answers_of(project, lambda _kind, stage: worse.get(stage))
    assert found.gate.verdict == "right"
    assert found.refused
    assert found.refusal.startswith("not accurate enough")
    conditions = ["lsb>-1", "float_sqnr<2"]
    other = answers_of(project, lambda _kind, stage: worse.get(stage), fail_if=conditions)
    assert other.gate.verdict == "differs"
    assert not other.accuracy.refused
    assert {limit.name for limit in other.gate.limits}.isdisjoint(ACCURACY_FIGURES)


def test_that_every_figure_of_the_accuracy_can_be_named():
    whole = output(5.0, whole=True, decided=10, decided_equal=5)
    labelled = accuracy_figures(evaluated(CLASSES, top1_float=1.0, top1_quantized=0.9), None)
    known = accuracy_figures(evaluated(output(), whole), None)
    assert set(known) | set(labelled) <= ACCURACY_FIGURES <= set(FIGURES)
    assert known["float_sqnr"] == 35.0
    assert known["float_argmax"] == 0.5
