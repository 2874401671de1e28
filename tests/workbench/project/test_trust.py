import pytest

from tests.workbench.project.builders import make_project
from workbench.errors import TrustRequiredError
from workbench.project.model import DataSource, ModelSource
from workbench.project.trust import TrustStore, code_used, demand


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model.py").write_text("import layers\n")
    (tmp_path / "layers.py").write_text("X = 1\n")
    return tmp_path


@pytest.fixture
def store(tmp_path):
    return TrustStore(tmp_path / "config" / "trust.json")


def test_that_a_project_with_code_is_not_run_unasked(folder, store):
    with pytest.raises(TrustRequiredError, match=r"model\.py:net"):
        demand(make_project(), folder, store)


def test_that_every_piece_of_code_is_listed(folder, store):
    project = make_project(calibration=DataSource(spec="model.py:data"))
    with pytest.raises(TrustRequiredError) as error:
        demand(project, folder, store)
    assert {i.where.id for i in error.value.infos} == {"model.spec", "calibration.spec"}


def test_that_granted_trust_lasts_until_any_of_the_files_changes(folder, store):
    store.grant(code_used(make_project(), folder), "net")
    demand(make_project(), folder, store)
    (folder / "layers.py").write_text("X = 2\n")
    with pytest.raises(TrustRequiredError):
        demand(make_project(), folder, store)


def test_that_trust_can_be_revoked(folder, store):
    store.grant(code_used(make_project(), folder), "net")
    (digest,) = store.granted()
    store.revoke(digest)
    with pytest.raises(TrustRequiredError):
        demand(make_project(), folder, store)


def test_that_data_files_and_missing_programs_need_no_trust(folder, store):
    project = make_project(
        model=ModelSource(spec="net.pt2"), calibration=DataSource(spec="data.npz")
    )
    demand(project, folder, store)


def test_that_the_programs_own_samples_need_no_trust_but_copies_do(folder, store):
    import shutil

    from workbench.project import store as files
    from workbench.project.trust import SAMPLES

    sample = SAMPLES / "digits"
    project = files.load(sample / "digits.qwb")
    demand(project, sample, store)
    shutil.copytree(sample, folder / "copy", ignore=shutil.ignore_patterns(".*"))
    with pytest.raises(TrustRequiredError):
        demand(project, folder / "copy", store)


def test_that_a_damaged_trust_file_means_no_trust(folder, store, tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "trust.json").write_text("[1")
    with pytest.raises(TrustRequiredError):
        demand(make_project(), folder, store)
