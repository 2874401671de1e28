import hashlib
import json
import pickle
from types import SimpleNamespace

import pytest

from tests.problems import refused
from tests.workbench.project.builders import make_project
from workbench.errors import TrustRequiredError
from workbench.project import project_code
from workbench.project.model import DataSource, ModelSource
from workbench.project.opened import OpenProject
from workbench.project.project_code import SAMPLES, Code, read_code
from workbench.project.trust import Changes, TrustStore, demand, named_code


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model.py").write_text("import layers\n")
    (tmp_path / "layers.py").write_text("X = 1\n")
    return tmp_path


@pytest.fixture
def store(tmp_path):
    return TrustStore(tmp_path / "config" / "trust.json")


def test_that_a_project_with_code_is_not_run_unasked(folder, store):
    with pytest.raises(TrustRequiredError, match=r"model\.py, function net"):
        demand(OpenProject(make_project(), folder), store)


def test_that_every_piece_of_code_is_listed(folder, store):
    project = make_project(calibration=DataSource(spec="model.py:data"))
    with pytest.raises(TrustRequiredError) as error:
        demand(OpenProject(project, folder), store)
    assert {i.where.id for i in error.value.infos} == {"model.spec", "calibration.spec"}


def test_that_granted_trust_lasts_until_any_of_the_files_changes(folder, store):
    store.grant(read_code(OpenProject(make_project(), folder)), "net")
    demand(OpenProject(make_project(), folder), store)
    (folder / "layers.py").write_text("X = 2\n")
    with pytest.raises(TrustRequiredError):
        demand(OpenProject(make_project(), folder), store)


def test_that_the_files_that_changed_since_are_named(folder, store):
    project = OpenProject(make_project(), folder)
    assert store.changes(read_code(project)) == Changes()
    store.grant(read_code(project), "net")
    assert store.changes(read_code(project)) == Changes()
    (folder / "model.py").write_text("import other\n")
    (folder / "other.py").write_text("")
    (folder / "layers.py").unlink()
    assert store.changes(read_code(project)) == Changes(
        changed=(folder / "model.py",), added=(folder / "other.py",), removed=(folder / "layers.py",)
    )


def test_that_trust_can_be_revoked(folder, store):
    store.grant(read_code(OpenProject(make_project(), folder)), "net")
    (place,) = store.granted()
    assert place == str(folder)
    store.revoke(place)
    with pytest.raises(TrustRequiredError):
        demand(OpenProject(make_project(), folder), store)


def test_that_data_files_and_missing_programs_need_no_trust(folder, store):
    project = make_project(model=ModelSource(spec="net.pt2"), calibration=DataSource(spec="data.npz"))
    demand(OpenProject(project, folder), store)


def test_that_the_programs_own_samples_need_no_trust_but_copies_do(folder, store):
    import shutil

    from workbench.project import store as files

    sample = SAMPLES / "digits"
    project = files.load(sample / "digits.qwb")
    demand(OpenProject(project, sample), store)
    shutil.copytree(sample, folder / "copy", ignore=shutil.ignore_patterns(".*"))
    with pytest.raises(TrustRequiredError):
        demand(OpenProject(project, folder / "copy"), store)


def test_that_a_damaged_trust_file_means_no_trust(folder, store, tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "trust.json").write_text("[1")
    with pytest.raises(TrustRequiredError):
        demand(OpenProject(make_project(), folder), store)


def test_that_a_trust_file_of_another_version_means_no_trust(folder, store, tmp_path):
    store.grant(read_code(OpenProject(make_project(), folder)), "net.qwb")
    assert len(store.granted()) > 0
    path = tmp_path / "config" / "trust.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": 0}))
    assert store.granted() == {}


def test_that_any_importable_file_below_the_folder_is_part_of_what_is_trusted(folder, store):
    store.grant(read_code(OpenProject(make_project(), folder)), "net")
    for name in ("tqdm.py", "package/part.py", "layers.cpython-311-x86_64-linux-gnu.so"):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
        with pytest.raises(TrustRequiredError):
            demand(OpenProject(make_project(), folder), store)
        path.unlink()
        demand(OpenProject(make_project(), folder), store)


def test_that_files_that_cannot_be_imported_are_no_part_of_it(folder, store):
    store.grant(read_code(OpenProject(make_project(), folder)), "net")
    (folder / "notes.md").write_text("x")
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "a.py").write_text("")
    (folder / "venv").mkdir()
    (folder / "venv" / "pyvenv.cfg").write_text("")
    (folder / "venv" / "a.py").write_text("")
    demand(OpenProject(make_project(), folder), store)


def test_that_moved_code_and_a_renamed_file_are_asked_for_again(folder, store, tmp_path):
    store.grant(read_code(OpenProject(make_project(), folder)), "net")
    (folder / "layers.py").rename(folder / "other.py")
    with pytest.raises(TrustRequiredError):
        demand(OpenProject(make_project(), folder), store)
    (folder / "other.py").rename(folder / "layers.py")
    other = tmp_path / "other"
    other.mkdir()
    for name in ("model.py", "layers.py"):
        (other / name).write_bytes((folder / name).read_bytes())
    with pytest.raises(TrustRequiredError):
        demand(OpenProject(make_project(), other), store)


def test_that_what_was_shown_is_granted_and_not_what_lies_there_later(folder, store):
    with pytest.raises(TrustRequiredError) as asked:
        demand(OpenProject(make_project(), folder), store)
    (folder / "layers.py").write_text("X = 'changed while the question was shown'\n")
    store.grant(asked.value.code, "net")
    with pytest.raises(TrustRequiredError):
        demand(OpenProject(make_project(), folder), store)


def test_that_a_link_to_a_sample_is_not_the_sample(folder, store):
    from workbench.project import store as files

    (folder / "linked").symlink_to(SAMPLES / "digits")
    project = files.load(SAMPLES / "digits" / "digits.qwb")
    with pytest.raises(TrustRequiredError):
        demand(OpenProject(project, folder / "linked"), store)
    (folder / "model.py").unlink()
    (folder / "model.py").symlink_to(SAMPLES / "digits" / "model.py")
    with pytest.raises(TrustRequiredError):
        demand(OpenProject(make_project(), folder), store)


def test_that_a_project_beside_foreign_files_that_names_only_a_sample_reads_no_foreign_file(folder, store):
    project = make_project(model=ModelSource(spec=f"{SAMPLES / 'digits' / 'model.py'}:digits_net"))
    code = demand(OpenProject(project, folder), store)
    assert code.digest == ""
    assert all(SAMPLES in place.path.parents for place in code.folders)
    assert folder not in code.search


def test_that_a_path_that_leaves_the_samples_is_no_sample(folder, store):
    back = "/".join([".."] * len((SAMPLES / "digits").parts))
    project = make_project(model=ModelSource(spec=f"{SAMPLES}/digits/{back}{folder}/model.py:net"[:4000]))
    with pytest.raises(TrustRequiredError):
        demand(OpenProject(project, folder), store)


def test_that_a_callable_of_an_installed_package_is_asked_for_by_name(folder, store):
    project = make_project(model=ModelSource(spec="shutil:disk_usage"))
    with pytest.raises(TrustRequiredError) as asked:
        demand(OpenProject(project, folder), store)
    assert list(asked.value.code.places) == ["shutil:disk_usage"]
    store.grant(asked.value.code, "x")
    demand(OpenProject(project, folder), store)
    with pytest.raises(TrustRequiredError):
        demand(OpenProject(make_project(model=ModelSource(spec="shutil:rmtree")), folder), store)


def test_that_the_list_is_readable_by_the_user_alone(folder, store, tmp_path):
    store.grant(read_code(OpenProject(make_project(), folder)), "net")
    path = tmp_path / "config" / "trust.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_that_a_list_that_others_can_write_or_that_is_a_link_means_no_trust(folder, store, tmp_path):
    store.grant(read_code(OpenProject(make_project(), folder)), "net")
    path = tmp_path / "config" / "trust.json"
    path.chmod(0o666)
    with pytest.raises(TrustRequiredError):
        demand(OpenProject(make_project(), folder), store)
    path.chmod(0o600)
    demand(OpenProject(make_project(), folder), store)
    path.rename(tmp_path / "elsewhere.json")
    path.symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(TrustRequiredError):
        demand(OpenProject(make_project(), folder), store)


def test_that_a_folder_with_too_many_files_contributes_what_its_code_imports(folder, store, monkeypatch):
    monkeypatch.setattr(project_code, "MAX_FILES", 3)
    for number in range(10):
        (folder / f"m{number}.py").write_text("")
    code = read_code(OpenProject(make_project(), folder))
    assert sorted(code.folders[0].files) == ["layers.py", "model.py"]


def test_that_a_list_that_cannot_be_read_means_no_trust_and_one_that_cannot_be_written_is_told(
    folder, store, tmp_path
):
    (tmp_path / "config").write_text("a file where the folder should be")
    assert store.granted() == {}
    with refused("trust-not-saved"):
        store.grant(read_code(OpenProject(make_project(), folder)), "net")


def test_that_a_list_that_others_may_only_run_is_the_users_own(folder, store, tmp_path):
    store.grant(read_code(OpenProject(make_project(), folder)), "net")
    (tmp_path / "config" / "trust.json").chmod(0o611)
    demand(OpenProject(make_project(), folder), store)


def test_that_a_hint_says_what_to_do_about_code_and_about_a_pickled_module(folder, store):
    pickled = pickle.dumps(SimpleNamespace(_parameters=1, _buffers=2, _modules=3))
    (folder / "w.pt").write_bytes(pickled)
    project = make_project(model=ModelSource(spec="model.py:net", weights="w.pt"))
    code = read_code(OpenProject(project, folder))
    with pytest.raises(TrustRequiredError) as error:
        demand(OpenProject(project, folder), store)
    hints = {info.where.id: info.hint for info in error.value.infos}
    assert set(hints) == {"model.spec", "model.weights"}
    assert "--trust" in hints["model.spec"]
    assert hints["model.weights"] == next(use.instead for use in code.uses if use.instead)
    assert code.places[str(folder / "w.pt")] == hashlib.sha256(pickled).hexdigest()


def test_that_a_project_with_an_invalid_reference_has_no_code(folder):
    assert named_code(OpenProject(make_project(model=ModelSource(spec="net")), folder)) == Code()


def test_that_permissions_of_the_present_version_stay_valid(folder, store, tmp_path):
    (place,) = read_code(OpenProject(make_project(), folder)).places
    digest = read_code(OpenProject(make_project(), folder)).places[place]
    path = tmp_path / "config" / "trust.json"
    path.parent.mkdir(mode=0o700)
    given = {place: {"digest": digest, "description": "net"}}
    path.write_text(json.dumps({"version": 2, "trusted": given}))
    path.chmod(0o600)
    demand(OpenProject(make_project(), folder), store)
