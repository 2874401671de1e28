"""What quality figures say, against figures computed by hand."""

import numpy as np
import pytest
import torch

from tests.engine import networks
from tests.engine.in_process import CALIBRATED, project
from workbench.engine.evaluation.measures import Accumulator
from workbench.graph.snapshot import GraphSnapshot
from workbench.project.model import DataSource, Evaluation
from workbench.results import EXAMPLE_ONLY, GRAPH_FILE

pytestmark = [pytest.mark.engine, pytest.mark.shared_results]


def test_that_sqnr_cosine_and_error_follow_their_definitions():
    a, b = torch.tensor([3.0, 4.0, 0.0]), torch.tensor([3.0, 3.0, 0.5])
    sums = Accumulator()
    sums.add(a[:2], b[:2])
    sums.add(a[2:], b[2:])
    assert sums.sqnr_db == pytest.approx(10 * np.log10(25 / 1.25))
    assert sums.cosine == pytest.approx(float(a @ b / (a.norm() * b.norm())))
    assert sums.worst == 1.0


def test_that_equal_tensors_have_no_sqnr_and_zeros_no_cosine():
    sums = Accumulator()
    sums.add(torch.zeros(3), torch.zeros(3))
    assert sums.sqnr_db is None
    assert sums.cosine is None


def test_that_labels_give_top_1_and_too_few_classes_give_no_top_5(engine):
    made = project("small", evaluation=Evaluation(hold_out=False), **CALIBRATED)
    assert engine.run(made, "evaluate") == "done"
    found = engine.result(made, "evaluate")
    model, _ = networks.small()
    pairs = list(networks.samples())
    hits = sum(int(model(x).argmax()) == label for x, label in pairs)
    assert found.samples == len(pairs)
    assert found.top1_float == hits / len(pairs)
    assert found.top5_float is None


def test_that_a_users_metric_is_applied_to_both_sides(engine):
    made = project("small", evaluation=Evaluation(metric="networks.py:accuracy"), **CALIBRATED)
    assert engine.run(made, "evaluate") == "done"
    found = engine.result(made, "evaluate")
    assert found.metric_name == "accuracy"
    assert found.metric_float == found.top1_float
    assert found.metric_quantized == found.top1_quantized


@pytest.mark.parametrize(
    ("network", "metric", "data", "value"),
    [("mapped", "segmentation", "masks", 1.0), ("small", "key_points", "points", 0.5)],
)
def test_that_a_metric_of_the_program_takes_maps_and_points(engine, network, metric, data, value):
    source = DataSource(spec=f"networks.py:{data}")
    evaluation = Evaluation(data=source, metric=metric)
    made = project(network, evaluation=evaluation, **CALIBRATED)
    assert engine.run(made, "evaluate") == "done", engine.failure
    found = engine.result(made, "evaluate")
    assert found.metric_float == pytest.approx(value)
    assert 0.3 < found.metric_quantized <= found.metric_float
    assert len(found.task.samples) == 8


@pytest.mark.parametrize(
    ("evaluation", "code"),
    [
        ({"metric": "detection"}, "decoder-missing"),
        ({"metric": "segmentation", "hold_out": False}, "decoded-invalid"),
        ({"metric": "detection", "decode": "networks.py:unseeded_samples"}, "user-code-failed"),
        ({"metric": "detection", "decode": "networks.py:nothing"}, "callable-missing"),
    ],
)
def test_that_a_metric_without_what_it_needs_is_refused(engine, evaluation, code):
    made = project("small", evaluation=Evaluation(**evaluation), **CALIBRATED)
    assert engine.run(made, "evaluate") == "failed"
    assert engine.failure.code == code


def test_that_a_metric_that_is_no_number_is_refused(engine):
    made = project("small", evaluation=Evaluation(metric="networks.py:text_metric"), **CALIBRATED)
    assert engine.run(made, "evaluate") == "failed"
    assert engine.failure.code == "metric-not-number"


def test_that_without_data_every_result_says_so(engine):
    made = project("small")
    assert engine.run(made, "evaluate") == "done"
    assert engine.result(made, "calibrate").calibrated_on == EXAMPLE_ONLY
    found = engine.result(made, "evaluate")
    assert found.calibrated_on == found.data == EXAMPLE_ONLY
    assert found.samples == 1


def test_that_the_limit_bounds_the_samples(engine):
    data = DataSource(spec="networks.py:samples")
    made = project("small", evaluation=Evaluation(data=data, limit=3))
    assert engine.run(made, "evaluate") == "done"
    assert engine.result(made, "evaluate").samples == 3


def test_that_every_tensor_on_both_sides_is_compared(engine):
    made = project("small", **CALIBRATED)
    assert engine.run(made, "evaluate") == "done"
    found = {t.tensor: t for t in engine.result(made, "evaluate").tensors}
    assert {"x", "conv2d", "relu", "linear"} <= set(found)
    assert all(t.sqnr_db is None or t.sqnr_db > 15 for t in found.values())
    assert found["relu"].module == "relu"


def test_that_an_edit_recomputes_only_what_depends_on_it(engine):
    from workbench.project import edits

    made = project("small", **CALIBRATED)
    assert engine.run(made, "evaluate") == "done"
    edited = edits.assign(made, "module_name", "fc", "a16w8")
    assert engine.run(edited, "evaluate") == "done"
    assert engine.computed == ["prepare", "calibrate", "convert", "evaluate"]
    assert engine.run(made, "evaluate") == "done"
    assert engine.computed == []


@pytest.mark.shared_results(False)
@pytest.mark.parametrize("accelerate", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_that_tensors_are_compared_as_they_were_before_others_wrote_into_them(engine, accelerate):
    """The same network written with and without operators that write into their input."""
    found = []
    for model in ("overwriting", "writing_nowhere"):
        made = project(model, **CALIBRATED)
        assert engine.run(made, "evaluate", accelerate=accelerate) == "done", engine.events
        tensors = engine.result(made, "evaluate").tensors
        found.append([(t.op.replace("relu_", "relu"), t.sqnr_db, t.cosine) for t in tensors])
    assert found[0] == found[1]


def test_that_results_name_the_operation_of_the_exported_program_they_are_about(engine):
    """A layer norm is taken apart, and its inner sum takes the name of the sum behind it."""
    made = project("normed", target="ethos-u85-256", **CALIBRATED)
    assert engine.run(made, "evaluate") == "done", engine.events
    exported = GraphSnapshot.load(engine.path(made, "export") / GRAPH_FILE).nodes_by_id
    rows = [r for r in engine.result(made, "calibrate").ranges if r.kind == "activation"]
    tensors = engine.result(made, "evaluate").tensors
    notes = engine.result(made, "prepare").annotations
    assert any(row.node in exported and row.node != row.origin for row in rows)
    for row in (*rows, *tensors, *notes):
        assert not row.origin or exported[row.origin].module == row.module
    (last,) = [tensor for tensor in tensors if tensor.origin == "add"]
    assert last == tensors[-1]
    weights = [r for r in engine.result(made, "calibrate").ranges if r.kind == "weight"]
    assert {"linear", "linear_1"} <= {weight.origin for weight in weights}


def test_that_samples_of_a_callable_are_named_with_their_file(engine):
    made = project("small", **CALIBRATED)
    assert engine.run(made, "calibrate") == "done"
    assert engine.result(made, "calibrate").calibrated_on == "networks.py:samples"
