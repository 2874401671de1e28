"""What a loss of power leaves: only synced files are renamed, and every prefix is consistent."""

import hashlib
import json
import os
import shutil

import pytest

from tests.faults import killed_calls, recorded_calls
from tests.for_each import for_each
from tests.workbench.project.builders import make_project
from tests.workbench.test_write_faults import content, packaged
from workbench.analysis.accuracy import AccuracyResult
from workbench.analysis.answers import Answers
from workbench.analysis.gate import GateResult
from workbench.deploy.delivery import deliver
from workbench.errors import WorkbenchError
from workbench.project import store
from workbench.project.project_code import Code
from workbench.project.trust import TrustStore
from workbench.studies.documents import Blame, save_study

__all__ = ["packaged"]
GATE = Answers(GateResult(verdict="right"), AccuracyResult(verdict="not measured"))
# Processes are killed at every third call, and by the slow tests at every one.
EVERY = [7, pytest.param(1, marks=pytest.mark.slow)]


def project_file(folder):
    store.save(make_project(), folder / "net.qwb")


def trust(folder):
    TrustStore(folder / "trust.json").grant(Code(places={"/a": "1"}), "a")


def study(folder):
    save_study(Blame(reason="new"), folder)


def check_synced(calls, folder):
    """Every file is synced before it gets its name, and its folder after that."""
    synced, renamed = set(), 0
    last_rename = last_sync = -1
    for number, (call, *paths) in enumerate(calls):
        if call == "fsync":
            synced.add(paths[0])
            last_sync = number if paths[0] == str(folder) else last_sync
        elif call == "rename" and not paths[1].endswith("-old.part"):
            assert paths[0] in synced, f"{paths[1]} gets the name of a file that is not synced"
            renamed, last_rename = renamed + 1, number
    assert renamed
    assert last_sync > last_rename


@for_each("save", [project_file, trust, study])
@for_each("is_there", [False, True])
def test_that_a_saved_file_is_synced_before_it_gets_its_name(tmp_path, save, is_there):
    if is_there:
        save(tmp_path)
    check_synced(recorded_calls(lambda: save(tmp_path)), tmp_path)


def test_that_deliverables_are_synced_between_the_old_manifest_the_files_and_the_new(tmp_path, packaged):
    target = tmp_path / "dist"
    deliver(packaged, target, GATE)
    calls = recorded_calls(lambda: deliver(packaged, target, GATE))
    check_synced(calls, target)
    steps = []
    for call, *paths in calls:
        if call == "fsync" and paths[0] == str(target):
            steps.append("sync")
        elif call == "rename":
            is_manifest = os.path.basename(paths[0]) == "manifest.json"
            is_new = os.path.basename(paths[1]) == "manifest.json"
            steps.append("old" if is_manifest else "new" if is_new else "file")
    assert steps[0] == "old"
    assert steps[-2:] == ["new", "sync"]
    assert steps[-3] == "sync"
    first_placed = len(steps) - steps[::-1].index("file") - 1
    assert "sync" in steps[: first_placed - 1]


@pytest.mark.parametrize(
    ("is_there", "step"),
    [(True, 19), *(pytest.param(there, 1, marks=pytest.mark.slow) for there in (False, True))],
)
def test_that_after_any_prefix_of_a_delivery_a_manifest_describes_its_files(
    tmp_path, packaged, is_there, step
):
    target, kept = tmp_path / "dist", tmp_path / "kept"
    deliver(packaged, kept, GATE)
    kills = 0

    def reset():
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(kept, target) if is_there else target.mkdir()

    reset()
    for _ in killed_calls(lambda: deliver(packaged, target, GATE), step=step):
        kills += 1
        manifest = target / "manifest.json"
        if manifest.exists():
            for entry in json.loads(manifest.read_bytes())["files"]:
                if entry["name"] != "manifest.json":
                    data = (target / entry["name"]).read_bytes()
                    assert hashlib.sha256(data).hexdigest() == entry["sha256"]
        # The next delivery is whole, and what the killed one left is gone.
        deliver(packaged, target, GATE)
        assert content(target) == content(kept)
        reset()
    assert kills >= 20 // step


@pytest.mark.parametrize("step", EVERY)
def test_that_a_project_killed_at_any_call_is_the_old_one_or_the_new(tmp_path, step):
    path, new = tmp_path / "net.qwb", make_project(name="other")
    old = make_project()
    store.save(old, path)
    for _ in killed_calls(lambda: store.save(new, path), step=step):
        assert store.load(path) in (old, new)
        store.save(old, path)
    assert store.load(path) == new


@pytest.mark.parametrize("step", EVERY)
def test_that_trust_killed_at_any_call_is_never_more_than_was_given(tmp_path, step):
    store_of = TrustStore(tmp_path / "trust.json")
    store_of.grant(Code(places={"/a": "1"}), "a")
    for _ in killed_calls(lambda: store_of.grant(Code(places={"/b": "2"}), "b"), step=step):
        assert store_of.granted().keys() in ({"/a"}, {"/a", "/b"})
        store_of.revoke("/b")
    assert store_of.granted().keys() == {"/a", "/b"}


def test_that_a_delivery_that_fails_in_between_is_reported_once(tmp_path, packaged):
    (tmp_path / "dist").write_bytes(b"a file")
    with pytest.raises(WorkbenchError) as caught:
        deliver(packaged, tmp_path / "dist", GATE)
    assert len(caught.value.infos) == 1
