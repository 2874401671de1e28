"""Digests of files are remembered as long as size and time stay."""

import hashlib
import json
import os

import pytest

from tests.fakes.projects import make_project
from tests.for_each import for_each
from workbench.errors import WorkbenchError
from workbench.files import file_digest
from workbench.pipeline import keys
from workbench.pipeline.keys import Digests, Reading
from workbench.pipeline.plan import READERS
from workbench.project import edits
from workbench.project.model import DataSource, TargetChoice


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "data.bin"
    path.write_bytes(b"one")
    return path


def digest(data):
    return hashlib.sha256(data).hexdigest()


def test_that_a_digest_is_that_of_the_content(file):
    assert file_digest(file) == Digests().of(file) == digest(b"one")


def test_that_other_content_of_equal_size_and_time_is_read_again(file):
    digests = Digests()
    assert digests.of(file) == digest(b"one")
    stat = file.stat()
    file.write_bytes(b"two")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert digests.of(file) == digest(b"two")
    other = file.with_name("other")
    other.write_bytes(b"six")
    os.utime(other, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    other.replace(file)
    assert digests.of(file) == digest(b"six")


def test_that_an_unchanged_file_is_read_once_it_is_not_recent(file, monkeypatch):
    monkeypatch.setattr(keys, "_RECENT_NS", 0)
    digests = Digests()
    digests.of(file)
    monkeypatch.setattr(keys, "file_digest", None)
    assert digests.of(file) == digest(b"one")


def test_that_a_recent_file_is_read_again(file, monkeypatch):
    monkeypatch.setattr(keys, "_RECENT_NS", 1 << 60)
    digests = Digests()
    digests.of(file)
    monkeypatch.setattr(keys, "file_digest", lambda path: "read again")
    assert digests.of(file) == "read again"


def test_that_digests_outlive_the_process(file, tmp_path, monkeypatch):
    monkeypatch.setattr(keys, "_RECENT_NS", 0)
    memory = tmp_path / "new" / "digests.json"
    first = Digests(memory)
    first.remember()
    assert not memory.exists()
    first.of(file)
    first.remember()
    assert json.loads(memory.read_text())[str(file)][1] == digest(b"one")
    assert memory.stat().st_mode & 0o777 == 0o600
    monkeypatch.setattr(keys, "file_digest", None)
    second = Digests(memory)
    assert second.of(file) == digest(b"one")
    memory.unlink()
    second.remember()
    assert not memory.exists()


def test_that_what_was_written_is_not_written_again(file, tmp_path):
    memory = tmp_path / "digests.json"
    digests = Digests(memory)
    digests.of(file)
    digests.remember()
    memory.unlink()
    digests.remember()
    assert not memory.exists()


def test_that_a_memory_in_a_folder_that_is_there_is_written(file, tmp_path):
    for name in ("a.json", "b.json"):
        digests = Digests(tmp_path / name)
        digests.of(file)
        digests.remember()
        assert (tmp_path / name).exists()


@for_each("text", ["", "[]", '{"a": 3}', '{"a": ["x", 1, "d"]}', "\x00"])
def test_that_a_damaged_memory_is_forgotten(file, tmp_path, text):
    memory = tmp_path / "digests.json"
    memory.write_text(text)
    assert Digests(memory).of(file) == digest(b"one")


def test_that_a_memory_that_others_can_change_is_not_believed(file, tmp_path, monkeypatch):
    monkeypatch.setattr(keys, "_RECENT_NS", 0)
    memory = tmp_path / "cache" / "digests.json"
    state = list(keys.state_of(file))
    memory.parent.mkdir()
    forged = json.dumps({str(file): [state, "f" * 64]})
    memory.write_text(forged)
    assert Digests(memory).of(file) == "f" * 64
    for changed in (memory, memory.parent):
        changed.chmod(0o777)
        digests = Digests(memory)
        assert digests.of(file) == digest(b"one")
        digests.remember()
        assert memory.read_text() == forged
        changed.chmod(0o700)


def test_that_a_memory_that_cannot_be_written_is_no_harm(file, tmp_path):
    digests = Digests(file / "below a file" / "digests.json")
    digests.of(file)
    digests.remember()
    Digests().remember()


def test_that_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(WorkbenchError) as caught:
        Digests().of(tmp_path / "none.bin")
    assert caught.value.infos[0].where.id == "none.bin"


def test_that_samples_mean_their_files_content_and_options(tmp_path):
    (tmp_path / "x.npy").write_bytes(b"x")
    reading = Reading(None, tmp_path, Digests())
    found = reading.data(DataSource(spec="x.npy", limit=5), "calibration")
    assert found["limit"] == 5
    assert "spec" not in found
    assert found["references"][0]["files"] == [["x.npy", digest(b"x")]]
    assert reading.data(None, "calibration") is None
    assert reading.code(None, "training") is None


def test_that_code_means_its_files_and_the_name_in_it(tmp_path):
    (tmp_path / "mine.py").write_text("def f(): pass\n")
    found = Reading(None, tmp_path, Digests()).code("mine.py:f", "training")
    assert found["attribute"] == "f"
    assert ["mine.py", digest(b"def f(): pass\n")] in found["files"]


def test_that_the_content_of_a_file_of_the_target_stands_for_its_name(tmp_path):
    def facet(content):
        (tmp_path / "own.ini").write_text(content)
        target = TargetChoice(id="ethos-u55-128", options={"config_ini": "own.ini"})
        project = edits.set_target(make_project(), target)
        return READERS["target.compile"](Reading(project, tmp_path, Digests()))

    one, other = facet("[System_Config.A]\n"), facet("[System_Config.B]\n")
    assert one != other
    assert "own.ini" not in json.dumps(one)
    assert one == facet("[System_Config.A]\n")


def test_that_a_file_is_recent_up_to_two_seconds_after_its_change(file, monkeypatch):
    digests = Digests()
    digests.of(file)
    changed = file.stat().st_ctime_ns
    monkeypatch.setattr(keys, "file_digest", lambda path: "read again")
    for past, found in ((2 * 10**9 + 2, digest(b"one")), (2 * 10**9, "read again")):
        monkeypatch.setattr(keys.time, "time_ns", lambda past=past: changed + past)
        assert digests.of(file) == found


def test_that_pictures_mean_their_folders_too(tmp_path):
    (tmp_path / "pictures" / "cats").mkdir(parents=True)
    (tmp_path / "pictures" / "cats" / "one.png").write_bytes(b"1")
    reading = Reading(None, tmp_path, Digests())
    found = reading.data(DataSource(spec="pictures"), "calibration")
    assert found["references"][0]["files"] == [["cats/one.png", digest(b"1")]]


def test_that_labels_are_the_folders_or_a_file_of_their_own(tmp_path):
    for name in ("x.npy", "y.npy"):
        (tmp_path / name).write_bytes(name.encode())
    reading = Reading(None, tmp_path, Digests())
    folders = reading.data(DataSource(spec="x.npy", labels="folders"), "calibration")
    assert folders["labels"] == "folders"
    own = reading.data(DataSource(spec="x.npy", labels="y.npy"), "calibration")
    assert "labels" not in own
    assert [one["files"] for one in own["references"]] == [
        [[name, digest(name.encode())]] for name in ("x.npy", "y.npy")
    ]
