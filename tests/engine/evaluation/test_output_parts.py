"""Outputs that join quantities: measured part by part, refused where a part is lost, and mended."""

import dataclasses
import json
from collections import OrderedDict, namedtuple

import numpy as np
import pytest
import torch

from tests.engine import joining_networks as networks
from tests.engine.in_process import project
from tests.for_each import for_each
from workbench.analysis.answers import answers_of
from workbench.engine.evaluation.model_outputs import output_names
from workbench.engine.fx.program_outputs import exported_program
from workbench.project import edits
from workbench.project.model import DataSource, Evaluation
from workbench.results import load_result
from workbench.suggestions import outputs

pytestmark = [pytest.mark.engine, pytest.mark.shared_results]
DATA = DataSource(spec="joining_networks.py:samples")
SIDES = ("float", "quantized")
LABELLED = DataSource(spec="joining_networks.py:labelled")


def joining(name="boxes_and_scores", **fields):
    return project(f"joining_networks.py:{name}", **{"calibration": DATA, **fields})


def evaluated(engine, made, until="evaluate"):
    assert engine.run(made, until) == "done", engine.failure
    return engine.result(made, "evaluate")


def accuracy(engine, made):
    def load(kind, stage):
        folder = engine.path(made, stage)
        return load_result(kind, folder) if (folder / "result.json").exists() else None

    return answers_of(made, load).accuracy


@dataclasses.dataclass
class Heads:
    boxes: torch.Tensor
    scores: torch.Tensor | None


Pair = namedtuple("Pair", "mean spread")


@for_each(
    ("returned", "names"),
    [
        (lambda x: x, ["output 0"]),
        (lambda x: (x, -x), ["output 0", "output 1"]),
        (lambda x: {"boxes": x, "scores": -x}, ["boxes", "scores"]),
        (lambda x: {"scores": None, "boxes": x}, ["boxes"]),
        (lambda x: {"head": {"boxes": [x, -x]}}, ["head.boxes.0", "head.boxes.1"]),
        (lambda x: {0: x, 1: -x}, ["output 0", "output 1"]),
        (lambda x: OrderedDict(low=x, high=-x), ["low", "high"]),
        (lambda x: Pair(x, -x), ["mean", "spread"]),
        (lambda x: Heads(x, None), ["boxes"]),
        (lambda x: {"\x1b[2J": x, "l" * 99: -x}, ["output 0", "output 1"]),
    ],
)
def test_that_outputs_have_the_names_that_the_model_gives_them(returned, names):
    class Net(torch.nn.Module):
        def forward(self, x):
            return returned(x * 2.0)

    program = exported_program(Net(), (torch.ones(2),), strict=False)
    assert output_names(program) == names


def test_that_a_part_that_its_range_loses_makes_the_program_not_accurate(engine):
    made = joining()
    found = evaluated(engine, made)
    whole, (box, score) = found.outputs[0], found.parts
    assert (box.name, score.name) == ("box", "score")
    assert whole.sqnr_db > 30
    assert score.decibels < 15 < box.decibels
    answer = accuracy(engine, made)
    assert answer.refused
    assert [part.name for part in answer.parts_to_split] == ["score"]
    assert "score of output 0" in answer.sentence
    assert [(p.name, p.limit) for p in answer.parts] == [("box", ">= 15"), ("score", ">= 15")]


def test_that_the_worst_samples_of_a_part_are_those_where_it_loses_most(engine):
    made = joining(evaluation=Evaluation(data=DATA))
    _, score = evaluated(engine, made).parts
    arrays = np.load(engine.path(made, "evaluate") / "outputs.npz")
    sides = [np.stack([arrays[name] for name in arrays.files if side in name]) for side in SIDES]
    floats, quantized = (side[..., 4:].astype(np.float64) for side in sides)
    axes = tuple(range(1, floats.ndim))
    ratio = (floats**2).sum(axes) / ((floats - quantized) ** 2).sum(axes)
    assert len(ratio) == 40
    assert score.worst_samples == tuple(np.argsort(ratio)[:3])


def test_that_the_split_program_has_a_range_for_each_part_and_the_models_outputs(engine):
    before = joining()
    evaluated(engine, before)
    (suggestion,) = outputs.split_output(engine.result(before, "evaluate"), engine.result(before, "export"))
    assert suggestion.id == "split_output"
    made = suggestion.edit(before)
    found = evaluated(engine, made)
    assert [part.name for part in found.parts] == ["box", "score"]
    assert min(part.decibels for part in found.parts) > 30
    assert len(found.outputs) == 1
    assert accuracy(engine, made).verdict == "accurate enough"
    grids = {row.scale for row in engine.result(made, "calibrate").ranges if row.kind != "weight"}
    assert min(grids) < 1 / 200 < max(grids)
    # With them in both states there is nothing more to split.
    assert list(outputs.split_output(found, engine.result(made, "export"))) == []


def test_that_the_divided_program_holds_all_parts_in_one_range(engine):
    before = joining()
    evaluated(engine, before)
    (suggestion,) = outputs.normalise_output(
        engine.result(before, "evaluate"), engine.result(before, "export")
    )
    assert suggestion.id == "normalise_output"
    made = suggestion.edit(before)
    assert [len(row) for row in made.output_factors] == [2]
    found = evaluated(engine, made)
    assert [part.name for part in found.parts] == ["box", "score"]
    assert min(part.decibels for part in found.parts) > 25
    assert accuracy(engine, made).verdict == "accurate enough"
    (output,) = engine.result(made, "export").outputs
    assert list(output.shape) == [1, 16, 7]
    assert list(outputs.normalise_output(found, engine.result(made, "export"))) == []


@for_each("rows", [((1.0,),), ((1.0, 1.0, 1.0),), ((), (2.0, 1.0))])
def test_that_factors_that_do_not_fit_the_parts_are_refused(engine, rows):
    assert engine.run(joining(output_factors=rows), "export") == "failed"
    assert engine.failure.code == "output-not-divided"


@pytest.mark.slow
def test_that_the_note_and_header_of_a_divided_program_say_its_factors(engine):
    made = edits.divide_output(joining(), 0, (256.0, 1.0))
    evaluated(engine, made, "package")
    folder = engine.path(made, "package")
    (output,) = json.loads((folder / "manifest.json").read_text())["model_outputs"]
    assert [(port["position"], port["factor"]) for port in output["ports"]] == [(0, 256.0), (0, 1.0)]
    assert "box by 256, score by 1" in next(folder.glob("*.md")).read_text()
    header = next(folder.glob("*_outputs.h")).read_text()
    assert "_join_output_0(const float *part0, float *output)" in header
    verified = engine.result(made, "verify")
    assert verified.compiled.equal == verified.compiled.elements > 0


@pytest.mark.slow
def test_that_the_deliverables_say_how_the_parts_are_joined(engine):
    made = edits.split_outputs(joining(), (0,))
    evaluated(engine, made, "package")
    folder = engine.path(made, "package")
    manifest = json.loads((folder / "manifest.json").read_text())
    (output,) = manifest["model_outputs"]
    assert [part["name"] for part in output["parts"]] == ["box", "score"]
    assert [port["position"] for port in output["ports"]] == [0, 1]
    assert len(manifest["outputs"]) == 2
    note = next(folder.glob("*.md")).read_text()
    assert "is split into the outputs 0, 1" in note
    header = next(folder.glob("*_outputs.h")).read_text()
    assert "_join_output_0(const float *part0, const float *part1, float *output)" in header
    verified = engine.result(made, "verify")
    assert [part.name for part in verified.against_float.parts] == ["box", "score"]
    assert verified.compiled.equal == verified.compiled.elements > 0


def test_that_an_output_that_joins_nothing_keeps_its_own_limit(engine):
    made = joining("with_metric")
    found = evaluated(engine, made)
    assert found.parts == ()
    assert [p.limit for p in accuracy(engine, made).parts] == [">= 10", ">= 10"]


def test_that_an_output_that_joins_nothing_cannot_be_split(engine):
    made = edits.split_outputs(joining("with_metric"), (1,))
    assert engine.run(made, "export") == "failed"
    assert engine.failure.code == "output-not-split"


def test_that_a_metric_gets_all_outputs_and_labels_of_any_kind(engine):
    made = joining(
        "with_metric", evaluation=Evaluation(data=LABELLED, metric="joining_networks.py:second_output")
    )
    found = evaluated(engine, made)
    assert found.metric_float == 1.0
    assert found.metric_quantized > 0.5
    assert found.top1_float is None


@pytest.mark.slow
@pytest.mark.parametrize("split", [(), (0,)])
def test_that_a_metric_gets_the_dictionary_that_the_model_returns(engine, split):
    metric = Evaluation(metric="joining_networks.py:unlabelled_dictionary")
    made = edits.split_outputs(joining("in_dictionary", evaluation=metric), split)
    found = evaluated(engine, made)
    assert found.metric_float == found.metric_quantized == found.samples


@pytest.mark.parametrize(
    ("asked", "output", "code"), [(None, 1, ""), (1, 1, ""), (2, None, "class-output-unknown")]
)
def test_that_top_1_is_counted_on_the_output_that_gives_the_class(engine, asked, output, code):
    data = DataSource(spec="joining_networks.py:faces")
    made = joining("two_heads", evaluation=Evaluation(data=data, class_output=asked))
    if code:
        assert engine.run(made, "evaluate") == "failed"
        assert engine.failure.code == code
        return
    found = evaluated(engine, made)
    assert found.class_output == output
    assert found.top1_float == 1.0
    assert any("output 1" in text for text in found.warnings) is (asked is None)
    assert all(row.float_class == row.label for row in found.worst)


def test_that_a_label_that_is_no_class_of_the_output_is_refused(engine):
    data = DataSource(spec="joining_networks.py:faces_of_nine")
    made = joining("two_heads", evaluation=Evaluation(data=data, class_output=1))
    assert engine.run(made, "evaluate") == "failed"
    assert engine.failure.code == "label-outside"
    assert "9" in engine.failure.message


def test_that_the_joined_output_is_compared_with_eager(engine):
    made = edits.split_outputs(joining(), (0,))
    found = evaluated(engine, made)
    model, _ = networks.boxes_and_scores()
    with torch.no_grad():
        x = list(networks.samples())[3]
        rows = model(x)
    low, high = float(rows[..., 4:].min()), float(rows[..., 4:].max())
    score = found.parts[1]
    assert score.minimum <= low + 1e-6
    assert score.maximum >= high - 1e-6
    assert all(form.sqnr_db is None or form.sqnr_db > 80 for form in found.compared)
