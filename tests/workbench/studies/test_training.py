"""Options of training, how its rate falls and when it ends, and what may run."""

import pytest

from tests.for_each import for_each
from tests.problems import refused
from tests.workbench.project.builders import make_project
from workbench.errors import TrustRequiredError, WorkbenchError
from workbench.project import edits, store
from workbench.project.opened import OpenProject
from workbench.project.trust import TrustStore, demand
from workbench.studies.training import (
    Epoch,
    TrainingOptions,
    TrainingResult,
    is_over,
    keep_weights,
    next_step,
    options_of,
)


def result(*sqnrs, start=10.0, best=0):
    epochs = tuple(Epoch(number=n + 1, loss=0.1, sqnr_db=db, learning_rate=0.1) for n, db in enumerate(sqnrs))
    return TrainingResult(
        data="x",
        device="cpu",
        samples=8,
        held_out=2,
        one_by_one=False,
        total=9,
        start_db=start,
        epochs=epochs,
        best=best,
        weights="best.safetensors",
        digest="ab" * 32,
    )


@for_each(
    ("asked", "place"),
    [
        ({"learning_rate": 0}, "learning_rate"),
        ({"learning_rate": -1.0}, "learning_rate"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"epochs": 0}, "epochs"),
        ({"batch": "many"}, "batch"),
        ({"optimizer": "newton"}, "optimizer"),
        ({"observers": 3}, "observers"),
        ({"learning_rate": 100.1}, "learning_rate"),
        ({"learning_rate": float("inf")}, "learning_rate"),
        ({"epochs": 100_001}, "epochs"),
        ({"batch": 0}, "batch"),
        ({"batch": 65_537}, "batch"),
        ({"observe": -1}, "observe"),
        ({"batch_norm": -1}, "batch_norm"),
        ({"patience": 0}, "patience"),
        ({"halve_after": 0}, "halve_after"),
        ({"seed": -1}, "seed"),
    ],
)
def test_that_options_that_mean_nothing_are_refused_by_name(asked, place):
    with pytest.raises(WorkbenchError) as refused:
        options_of(asked)
    (info,) = refused.value.infos
    assert info.where.id == place
    assert info.code == "training-option-invalid"
    # An example is given for the learning rate alone.
    assert bool(info.hint) == (place == "learning_rate")


def test_that_options_at_the_ends_of_their_ranges_are_taken():
    least = {
        "epochs": 1,
        "batch": 1,
        "observe": 0,
        "batch_norm": 0,
        "patience": 1,
        "halve_after": 1,
        "seed": 0,
    }
    most = {"learning_rate": 100.0, "epochs": 100_000, "batch": 65_536}
    for given in (least, most):
        assert given.items() <= options_of(given).model_dump().items()


def test_that_training_begins_gently_and_alike_and_observes_no_batch_norm():
    usual = options_of({})
    assert 0 < usual.learning_rate < 0.001
    assert (usual.seed, usual.batch_norm) == (0, 0)


def test_that_the_rate_is_halved_and_the_best_weights_taken_up_where_nothing_gets_better():
    options = TrainingOptions(learning_rate=0.8, halve_after=2, patience=5, epochs=9)
    assert next_step(result(11, 12, 12), options) == (0.8, False)
    assert next_step(result(11, 12, 12, 11), options) == (0.4, True)
    assert next_step(result(11, 12, 12, 11, 11, 10), options) == (0.2, True)
    assert next_step(result(), options) == (0.8, False)
    assert next_step(result(9), options) == (0.8, False)
    assert next_step(result(9, 9), options) == (0.4, True)
    # An epoch that loses most of the quality is taken back at once.
    assert next_step(result(11, 12, 5), options) == (0.2, True)
    assert next_step(result(11, 12, 6), options) == (0.8, False)
    at_once = options.model_copy(update={"halve_after": 1})
    assert next_step(result(9), at_once) == (0.4, True)
    assert next_step(result(11), at_once) == (0.8, False)
    assert not is_over(result(11, 12, 12, 11, 11, 10, best=2), options)
    assert is_over(result(11, 12, 12, 11, 11, 10, 9, best=2), options)
    assert is_over(result(*range(11, 20), best=9), options)


def test_that_weights_lie_beside_the_project_under_their_digest(tmp_path):
    study, folder = tmp_path / "study", tmp_path / "project"
    study.mkdir()
    folder.mkdir()
    (study / "best.safetensors").write_bytes(b"weights")
    assert keep_weights(result(11, best=1), study, folder) == "trained-abababababababab.safetensors"
    # A run that uses the file goes on: the same weights are not written again.
    written = (folder / "trained-abababababababab.safetensors").stat().st_mtime_ns
    keep_weights(result(11, best=1), study, folder)
    assert (folder / "trained-abababababababab.safetensors").stat().st_mtime_ns == written
    assert (folder / "trained-abababababababab.safetensors").read_bytes() == b"weights"
    with refused("training-no-improvement"):
        keep_weights(result(9), study, folder)


def test_that_a_training_function_is_asked_for_like_any_code(tmp_path):
    made = edits.train_by(make_project(), "teach.py:teach")
    (tmp_path / "teach.py").write_text("def teach(student, batches, optimizer): ...\n")
    with pytest.raises(TrustRequiredError) as asked:
        demand(OpenProject(made, tmp_path), TrustStore(tmp_path / "trust.json"))
    assert any("teach.py, function teach" in info.message for info in asked.value.infos)
    assert edits.train_by(made, "").training_function is None


def test_that_training_is_saved_and_older_files_know_none_of_it(tmp_path):
    made = edits.use_trained(make_project(), "trained.safetensors")
    store.save(made, tmp_path / "a.qwb")
    assert store.load(tmp_path / "a.qwb") == made
    text = (tmp_path / "a.qwb").read_text().replace('"version": 5', '"version": 4')
    (tmp_path / "b.qwb").write_text(text.replace('"trained_weights": "trained.safetensors"', '"notes": ""'))
    assert store.load(tmp_path / "b.qwb") == make_project()


def test_that_the_best_sqnr_is_that_of_the_saved_weights():
    assert result(11.0, 13.0, 12.0, best=2).best_db == 13.0
    assert result(9.0, 8.0).best_db == 10.0
    fields = result(11.0).model_dump(exclude={"best", "weights", "digest"})
    assert TrainingResult(**fields).best_db == 10.0
