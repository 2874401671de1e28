"""A full disk or a failing write at every call: the old value or the new one, never half."""

import errno
import fcntl
import hashlib
import json
import os

import pytest

from tests.faults import failing_calls, killed_calls
from tests.for_each import for_each
from tests.workbench.project.builders import make_project
from workbench import files
from workbench.analysis.accuracy import AccuracyResult
from workbench.analysis.answers import Answers
from workbench.analysis.gate import GateResult
from workbench.deploy.delivery import deliver
from workbench.errors import SYSTEM_REMEDIES, WorkbenchError
from workbench.pipeline.cache import Cache
from workbench.project import store
from workbench.project.project_code import Code
from workbench.project.trust import TrustStore
from workbench.results import Deliverable, ImportResult, PackageResult, load_result, save_result
from workbench.studies.documents import Blame, load_study, save_study

FAULTS = (errno.ENOSPC, errno.EIO, errno.EACCES)


def content(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}


@for_each("error", FAULTS)
def test_that_a_project_is_saved_or_stays(tmp_path, error):
    path = tmp_path / "net.qwb"
    store.save(make_project(), path)
    old, new = path.read_bytes(), make_project(name="other")
    for fault in failing_calls(lambda: store.save(new, path), error):
        assert fault is None or isinstance(fault, WorkbenchError)
        assert content(tmp_path) == {"net.qwb": store.dump(new).encode() if not fault else old} or (
            store.load(path) == new
        )
        path.write_bytes(old)
    assert store.load(path) == new


@pytest.fixture
def packaged(tmp_path):
    folder = tmp_path / "package"
    folder.mkdir()
    pages = {"net.pte": b"program" * 100, "net.h": b"header" * 100, "net.md": b"# net\n"}
    files = [
        Deliverable(name=n, bytes=len(d), sha256=hashlib.sha256(d).hexdigest(), purpose="")
        for n, d in pages.items()
    ]
    manifest = json.dumps({"files": [f.model_dump() for f in files]}).encode()
    sha = hashlib.sha256(manifest).hexdigest()
    files.append(Deliverable(name="manifest.json", bytes=len(manifest), sha256=sha, purpose=""))
    for name, data in {**pages, "manifest.json": manifest}.items():
        (folder / name).write_bytes(data)
    save_result(
        PackageResult(
            files=tuple(files), kernels=(), method_pool_bytes=0, scratch_pool_bytes=0, planned_bytes=()
        ),
        folder,
    )
    return folder


# The quick tests take one error for each.
@pytest.mark.parametrize(
    ("error", "is_there"),
    [
        pytest.param(error, is_there, marks=[] if is_quick else pytest.mark.slow)
        for is_there, quick in ((False, errno.EACCES), (True, errno.ENOSPC))
        for error in FAULTS
        for is_quick in [error == quick]
    ],
)
def test_that_deliverables_are_whole_or_as_they_were(tmp_path, packaged, error, is_there):
    gate, target = (
        Answers(GateResult(verdict="right"), AccuracyResult(verdict="not measured")),
        tmp_path / "dist",
    )
    deliver(packaged, tmp_path / "whole", gate)
    new = content(tmp_path / "whole")
    old = dict.fromkeys(new, b"old") if is_there else {}
    count = 0

    def reset():
        target.mkdir(exist_ok=True)
        for path in target.iterdir():
            path.unlink()
        for name, data in old.items():
            (target / name).write_bytes(data)

    reset()
    for fault in failing_calls(lambda: deliver(packaged, target, gate), error):
        count += 1
        assert fault is None or isinstance(fault, WorkbenchError)
        assert content(target) in (old, new), fault
        reset()
    assert count > 15
    assert content(target) == new


def test_that_deliverables_are_not_written_through_a_link(tmp_path, packaged):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "net.pte").write_bytes(b"kept")
    gate = Answers(GateResult(verdict="right"), AccuracyResult(verdict="not measured"))
    (tmp_path / "dist").symlink_to(elsewhere)
    with pytest.raises(WorkbenchError) as caught:
        deliver(packaged, tmp_path / "dist", gate)
    assert caught.value.codes == ("deliverables-folder-linked",)
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "net.pte").symlink_to(elsewhere / "net.pte")
    deliver(packaged, tmp_path / "plain", gate)
    assert (elsewhere / "net.pte").read_bytes() == b"kept"
    assert not (tmp_path / "plain" / "net.pte").is_symlink()


def test_that_a_damaged_package_is_not_delivered(tmp_path, packaged):
    (packaged / "net.pte").write_bytes(b"other")
    with pytest.raises(WorkbenchError) as caught:
        deliver(
            packaged,
            tmp_path / "dist",
            Answers(GateResult(verdict="right"), AccuracyResult(verdict="not measured")),
        )
    assert caught.value.codes == ("result-damaged",)


@for_each("error", FAULTS)
def test_that_a_result_is_in_the_cache_as_a_whole_or_absent(tmp_path, error):
    cache, key = Cache(tmp_path / "cache"), "ab" * 32
    result = ImportResult(model_class="Net", parameters=1, parameter_bytes=4, inputs=())

    def write():
        with cache.writing(key) as out:
            save_result(result, out)
            (out / "arrays.npz").write_bytes(bytes(1000))

    for fault in failing_calls(write, error):
        assert fault is None or isinstance(fault, WorkbenchError | OSError)
        if cache.has(key):
            assert cache.verify(key)
            assert load_result(ImportResult, cache.folder(key)) == result
        cache.remove(key)
    assert cache.verify(key)


@for_each("error", FAULTS)
def test_that_the_list_of_trusted_code_is_never_half(tmp_path, error):
    trust = TrustStore(tmp_path / "config" / "trust.json")
    trust.grant(Code(places={"/a": "1"}), "a")
    for fault in failing_calls(lambda: trust.grant(Code(places={"/b": "2"}), "b"), error):
        assert fault is None or isinstance(fault, WorkbenchError)
        assert "/a" in trust.granted()
        trust.revoke("/b")
    assert set(trust.granted()) == {"/a", "/b"}


def test_that_a_lock_that_somebody_holds_for_ever_is_one_message(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_LOCK_S", 0.1)
    path = tmp_path / "net.qwb"
    store.save(make_project(), path)
    trust = TrustStore(tmp_path / "trust.json")
    held = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    try:
        with pytest.raises(WorkbenchError) as caught:
            store.edit(path, lambda project: project)
        assert caught.value.codes == ("project-busy",)
        with pytest.raises(WorkbenchError) as caught:
            trust.grant(Code(places={"/a": "1"}), "a")
        assert caught.value.codes == ("trust-not-saved",)
    finally:
        os.close(held)
    assert store.edit(path, lambda project: project) == make_project()


def test_that_a_study_keeps_its_results_when_a_save_fails(tmp_path):
    old, new = Blame(reason="old"), Blame(reason="new")
    save_study(old, tmp_path)
    for fault in failing_calls(lambda: save_study(new, tmp_path)):
        assert fault is None or fault.codes == ("study-not-written",)
        assert fault is None or fault.infos[0].hint == SYSTEM_REMEDIES[errno.ENOSPC]
        assert load_study(Blame, tmp_path) in (old, new)
        save_study(old, tmp_path)
    assert load_study(Blame, tmp_path) == new


def test_that_studies_in_a_cache_that_others_can_change_are_not_taken(tmp_path):
    cache = Cache(tmp_path / "cache")
    folder = cache.study_folder("ab" * 32)
    save_study(Blame(reason="forged"), folder)
    for changed in (cache.root, folder.parent, folder):
        changed.chmod(0o777)
        assert load_study(Blame, folder) is None
        changed.chmod(0o755)
        assert load_study(Blame, folder) == Blame(reason="forged")


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_that_a_study_killed_at_any_write_keeps_what_it_had(tmp_path, step):
    old, new = Blame(reason="old"), Blame(reason="new")
    save_study(old, tmp_path)
    kills = 0
    for _ in killed_calls(lambda: save_study(new, tmp_path), step=step):
        kills += 1
        assert load_study(Blame, tmp_path) in (old, new)
        save_study(old, tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["study.json"]
    assert kills > 6 // step
    assert load_study(Blame, tmp_path) == new


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[" * 100_000, b'{"reason": 1}', b"\xff\xfe", b'{"reason": "' + b"x" * (33 << 20)],
    ids=range(6),
)
def test_that_a_damaged_study_begins_anew(tmp_path, content):
    (tmp_path / "study.json").write_bytes(content)
    assert load_study(Blame, tmp_path) is None
    save_study(Blame(reason="new"), tmp_path)
    assert load_study(Blame, tmp_path) == Blame(reason="new")


def test_that_a_study_that_is_a_pipe_or_a_link_to_a_device_begins_anew(tmp_path):
    os.mkfifo(tmp_path / "study.json")
    assert load_study(Blame, tmp_path) is None
    (tmp_path / "study.json").unlink()
    (tmp_path / "study.json").symlink_to("/dev/zero")
    assert load_study(Blame, tmp_path) is None
    save_study(Blame(reason="new"), tmp_path)
    assert not (tmp_path / "study.json").is_symlink()


def test_that_a_short_result_is_not_taken_for_a_whole_one(tmp_path):
    cache, key = Cache(tmp_path), "cd" * 32
    with cache.writing(key) as out:
        result = ImportResult(model_class="Net", parameters=1, parameter_bytes=4, inputs=())
        save_result(result, out)
    path = cache.folder(key) / "result.json"
    data = path.read_bytes()
    for length in range(0, len(data), 7):
        path.write_bytes(data[:length])
        assert not cache.has(key)
        with pytest.raises(WorkbenchError):
            load_result(ImportResult, cache.folder(key))
