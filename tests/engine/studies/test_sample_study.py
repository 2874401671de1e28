"""One sample's tensors, asked of a real engine."""

import numpy as np
import pytest

from tests.engine import networks
from tests.engine.in_process import ALL_SAMPLES, project, without
from workbench.project.opened import OpenProject
from workbench.protocol import RunStudy
from workbench.studies.documents import load_study, study_folder, study_key
from workbench.studies.sample import SampleTensor, load_values

pytestmark = [pytest.mark.engine, pytest.mark.shared_results]


def asked(engine, made, **options):
    command = RunStudy(
        job="one",
        study="sample",
        project=made,
        folder=str(engine.folder),
        options=options,
        cache_root=str(engine.cache.root),
    )
    engine.events = []
    engine.send(command)
    outcome = engine.follow()
    folder = study_folder(
        engine.cache, study_key("sample", OpenProject(made, engine.folder), engine.cache, options)
    )
    return outcome, load_study(SampleTensor, folder), load_values(folder)


def test_that_a_tensor_of_a_sample_comes_in_float_quantized_integer_and_compiled(engine):
    import torch

    made = project("small", **ALL_SAMPLES)
    assert engine.run(made, "lower", "evaluate") == "done"
    outcome, found, values = asked(engine, made, sample=3, tensor="relu", integer=True)
    assert outcome == "done"
    assert found.sides == ("float", "quantized", "integer", "compiled")
    assert found.compiled_apart == 0
    assert np.array_equal(values["compiled"], values["integer"])
    assert found.shape == (1, 8, 8, 8)
    model, _ = networks.small()
    x = list(networks.samples())[3][0]
    with torch.no_grad():
        wanted = model.relu(model.bn(model.conv(x))).numpy()
    assert np.allclose(values["float"], wanted, atol=1e-5)
    step = np.abs(values["quantized"][values["quantized"] != 0]).min()
    assert np.abs(values["quantized"] - wanted).max() < 5 * step
    assert np.abs(values["integer"] - values["quantized"]).max() < 1.5 * step
    # Beside are the input, the label, and the class that each program gives.
    assert np.array_equal(values["input"], x.numpy())
    assert found.label == 3
    with torch.no_grad():
        assert found.classes["float"] == int(model(x).argmax())
    assert set(found.classes) == {"float", "quantized", "integer", "compiled"}


def test_that_what_is_not_there_is_refused_with_a_sentence(engine):
    made = project("small", **ALL_SAMPLES)
    for sample, tensor, code in ((99, "relu", "sample-unknown"), (0, "gone", "tensor-not-in-program")):
        outcome, _, _ = asked(engine, made, sample=sample, tensor=tensor)
        assert outcome == "failed", code
        assert engine.failure.code == code


def test_that_a_target_without_an_integer_program_shows_two_sides_and_says_why(engine):
    made = project("small", "int8-dyn", "nnpa", **ALL_SAMPLES)
    assert engine.run(made, "convert") == "done", engine.failure
    outcome, found, _ = asked(engine, made, sample=0, tensor="linear", integer=True)
    assert outcome == "done", engine.failure
    assert found.sides == ("float", "quantized")
    assert found.note.startswith("There is no integer program: the numbers are emulated")


@pytest.mark.slow
def test_that_both_tensors_of_a_wrong_instruction_are_shown(engine):
    """Vela 5.1.0 reads an operand of ``amin`` with a wrong shape on the U55."""
    made = without(project("least"), "minima_from_maxima")
    assert engine.run(made, "verify", "evaluate") == "done", engine.failure
    first = engine.result(made, "verify").compiled.first_difference
    outcome, found, values = asked(engine, made, sample=first.sample, tensor=first.origin, integer=True)
    assert outcome == "done", engine.failure
    apart = values["compiled"] != values["integer"]
    assert found.compiled_apart == np.count_nonzero(apart) > 0
    assert np.array_equal(values["integer"], values["quantized"])
    _, before, values = asked(engine, made, sample=0, tensor="conv2d", integer=True)
    assert before.compiled_apart == 0, before
