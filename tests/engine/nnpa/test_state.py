"""Programs that keep something between calls, as ONNX files that take and give it."""

import shutil
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from tests.engine import decoders
from workbench.engine.fx.functional_writes import with_functional_writes
from workbench.engine.nnpa.onnx_export import check, exported, first_state, tidy
from workbench.project import edits
from workbench.project.model import (
    DataSource,
    Evaluation,
    ModelSource,
    Project,
    TargetChoice,
    Tokenization,
    Verification,
)

pytestmark = pytest.mark.engine
CACHES = ["key_cache", "value_cache"]


@pytest.fixture
def lane(engine):
    shutil.copy(Path(decoders.__file__), engine.folder / "decoders.py")
    (engine.folder / "text.txt").write_text("the cat sat on the mat and sang")
    return engine


def project(model):
    tokens = Tokenization(length=decoders.CONTEXT)
    made = Project(
        name=model,
        model=ModelSource(spec=f"decoders.py:{model}"),
        calibration=DataSource(spec="text.txt", tokens=tokens),
        evaluation=Evaluation(),
        target=TargetChoice(id="nnpa"),
        verification=Verification(samples=12),
    )
    return edits.assign(made, "global", "", "int8-dyn")


@pytest.mark.slow
@pytest.mark.parametrize("model", ["kept", pytest.param("carried", marks=pytest.mark.slow)])
def test_that_a_decoder_with_caches_is_exported_and_computes_the_model_step_by_step(lane, model):
    made = project(model)
    assert lane.run(made, "package") == "done", lane.failure
    verified = lane.result(made, "verify")
    assert verified.samples == 12
    assert verified.max_abs_error < 1e-5
    assert verified.argmax_equal == 12
    readings = {reading.id: reading.sqnr_db for reading in verified.readings}
    assert readings["onnxruntime"] > 100
    assert all(readings[name] > 25 for name in ("nnpa", "document", "onnxruntime-dynamic"))
    evaluated = lane.result(made, "evaluate")
    assert [reading.id for reading in evaluated.readings] == ["nnpa", "document"]
    assert evaluated.text is not None
    told = lane.result(made, "lower").exported
    assert any("last 2 inputs" in note for note in told.notes) == (model == "kept")
    vectors_are_the_files_own(lane.path(made, "package"), model)


def vectors_are_the_files_own(folder, model):
    """Hold the file's inputs and outputs, step by step, to the vectors beside it."""
    session = onnxruntime.InferenceSession(folder / f"{model}.onnx")
    inputs = [each.name for each in session.get_inputs()]
    outputs = [each.name for each in session.get_outputs()]
    if model == "kept":
        assert inputs[2:] == CACHES
        assert outputs[1:] == [f"{name}_next" for name in CACHES]
    with np.load(folder / f"{model}.vectors.npz") as vectors:
        assert np.abs(vectors["2/input2"]).max() > 0
        for step in range(4):
            given = {name: vectors[f"{step}/input{i}"] for i, name in enumerate(inputs)}
            for i, found in enumerate(session.run(None, given)):
                np.testing.assert_allclose(found, vectors[f"{step}/float{i}"], atol=1e-5)
            assert f"{step}/emulated{len(outputs) - 1}" in vectors


class Odd(torch.nn.Module):
    """Keeps an input as it is, a sum, and a count of whole numbers that is no weight."""

    def __init__(self):
        super().__init__()
        self.register_buffer("last", torch.zeros(2))
        self.register_buffer("one", torch.zeros(2))
        self.register_buffer("count", torch.tensor(5), persistent=False)

    def forward(self, x):
        y = x + self.last + self.one + self.count
        self.last.copy_(x)
        self.one.copy_(y)
        self.count.add_(1)
        return 2 * y


def test_that_any_state_goes_in_and_out():
    inputs = (torch.zeros(2),)
    program = with_functional_writes(torch.export.export(Odd(), inputs))
    model = exported(program, inputs)
    tidy(model)
    check(model)
    session, odd = onnxruntime.InferenceSession(model.SerializeToString()), Odd()
    state = [value.numpy() for value in first_state(program).values()]
    names = [each.name for each in session.get_inputs()]
    for step in range(4):
        x = torch.tensor([float(step), -1.0])
        found, *state = session.run(None, dict(zip(names, [x.numpy(), *state], strict=True)))
        assert found.tolist() == odd(x).tolist()


class Looked(torch.nn.Module):
    """Reads and writes places that an int32 names."""

    def forward(self, table, place):
        return torch.ops.aten.index_put(table, [None, place], torch.ones(3, 2, 2)), table[:, place]


def test_that_places_named_by_int32_are_valid_onnx():
    inputs = torch.randn(3, 4, 2), torch.tensor([1, 3], dtype=torch.int32)
    model = exported(torch.export.export(Looked(), inputs), inputs)
    tidy(model)
    check(model)
    assert any(node.op_type == "Cast" for node in model.graph.node)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    given = {i.name: t.numpy() for i, t in zip(session.get_inputs(), inputs, strict=True)}
    for found, expected in zip(session.run(None, given), Looked()(*inputs), strict=True):
        assert np.array_equal(found, expected.numpy())
