"""Samples are copied into folders of their own."""

import shutil

import pytest

from tests.problems import refused
from workbench.history.store import history_path
from workbench.installation import resources
from workbench.project.store import load
from workbench.samples import SAMPLES, copy_sample

DIGITS = next(sample for sample in SAMPLES if sample.name == "digits")


def test_that_every_copy_gets_a_folder_of_its_own(tmp_path):
    copies = [copy_sample(DIGITS, tmp_path / "new") for _ in range(3)]
    names = ("digits", "digits-2", "digits-3")
    assert copies == [tmp_path / "new" / name / "digits.qwb" for name in names]
    assert all(path.is_file() for path in copies)


def test_that_what_others_left_in_the_installed_sample_is_not_copied(tmp_path, monkeypatch):
    folder = tmp_path / "installed" / "samples" / "digits"
    shutil.copytree(resources() / "samples" / "digits", folder)
    listed = {path.name for path in copy_sample(DIGITS, tmp_path / "before").parent.iterdir()}
    (folder / ".hidden").touch()
    (folder / "__pycache__").mkdir(exist_ok=True)
    history_path(folder / "digits.qwb").touch()
    (folder / "digits.pte").touch()
    monkeypatch.setattr("workbench.samples.resources", lambda: tmp_path / "installed")
    copied = {path.name for path in copy_sample(DIGITS, tmp_path).parent.iterdir()}
    assert copied == listed


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_that_a_copy_has_every_file_that_its_project_names(sample, tmp_path):
    path = copy_sample(sample, tmp_path)
    project = load(path)
    data = (project.calibration, project.evaluation.data if project.evaluation else None)
    assert (path.parent / project.model.spec.partition(":")[0]).is_file()
    for name in (project.model.weights, *(entry.spec for entry in data if entry)):
        assert not name or ":" in str(name) or (path.parent / str(name)).is_file(), name


def test_that_a_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with refused("sample-not-copied") as caught:
        copy_sample(DIGITS, tmp_path / "file")
    assert caught.value.infos[0].where.id == str(tmp_path / "file" / "digits")


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_that_a_sample_has_its_project_and_its_picture(sample):
    assert (resources() / "samples" / sample.folder / sample.project).is_file()
    assert list((resources() / "icons").rglob(f"{sample.picture}.*"))
