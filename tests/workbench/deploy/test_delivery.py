"""Deliverables in a folder, with the verdict on the program."""

import contextlib
import hashlib
import json
import os
from pathlib import Path

import pytest

from tests.for_each import for_each
from tests.problems import refused
from workbench import files
from workbench.analysis.accuracy import AccuracyData, AccuracyResult
from workbench.analysis.answers import Answers
from workbench.analysis.gate import Execution, GateResult, Limit
from workbench.deploy.delivery import deliver, stated_files
from workbench.errors import WorkbenchError
from workbench.results import Deliverable, PackageResult, load_result, save_result

PAGES = {
    "net.pte": b"program",
    "net.md": b"# net on ethos-u55-128\n\n## Program\n",
    "net.html": b"<!doctype html>\n<html>\n<body>\n<h1>net</h1>\n<p>x</p>\n</body></html>\n",
}
ACCURATE = AccuracyResult(
    verdict="accurate enough", data=AccuracyData(name="data.npz", samples=4, held_out=True)
)
RIGHT = Answers(GateResult(verdict="right"), ACCURATE)
DIFFERS = Answers(
    GateResult(verdict="differs", limits=(Limit(name="lsb", limit="<= 3", value=84.0, held=False),)), ACCURATE
)
INACCURATE = Answers(
    GateResult(verdict="right"),
    AccuracyResult(
        verdict="not accurate enough",
        limits=(Limit(name="float_sqnr", limit=">= 10", value=4.5, held=False),),
    ),
)


def sha(data):
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def packaged(tmp_path):
    folder = tmp_path / "package"
    folder.mkdir()
    files = [
        Deliverable(name=name, bytes=len(data), sha256=sha(data), purpose="") for name, data in PAGES.items()
    ]
    manifest = json.dumps({"board": None, "files": [f.model_dump() for f in files]}).encode()
    listed = Deliverable(name="manifest.json", bytes=len(manifest), sha256=sha(manifest), purpose="")
    for name, data in {**PAGES, "manifest.json": manifest, "result.log": b""}.items():
        (folder / name).write_bytes(data)
    result = PackageResult(
        files=(*files, listed), kernels=(), method_pool_bytes=0, scratch_pool_bytes=0, planned_bytes=()
    )
    save_result(result, folder)
    return folder


@for_each("gate", [RIGHT, DIFFERS])
def test_that_digests_are_those_of_the_files_as_they_are_delivered(packaged, tmp_path, gate):
    out = tmp_path / "out"
    files = deliver(packaged, out, gate)
    assert {f.name for f in files} == {path.name for path in out.iterdir()}
    for file in files:
        assert file.sha256 == sha((out / file.name).read_bytes())
        assert file.bytes == (out / file.name).stat().st_size
    manifest = json.loads((out / "manifest.json").read_text())
    known = {f.name: f.sha256 for f in files}
    assert all(entry["sha256"] == known[entry["name"]] for entry in manifest["files"])
    assert (out / "net.pte").read_bytes() == PAGES["net.pte"]


def test_that_what_is_shown_before_is_what_is_delivered(packaged, tmp_path):
    shown, contents = stated_files(packaged, RIGHT)
    assert shown == deliver(packaged, tmp_path / "out", RIGHT)
    assert "net.pte" not in contents
    for name, data in contents.items():
        assert (tmp_path / "out" / name).read_bytes() == data


def test_that_a_program_that_differs_says_so_first(packaged, tmp_path):
    deliver(packaged, tmp_path / "out", DIFFERS)
    assert "differs (lsb 84" in (tmp_path / "out" / "net.md").read_text().splitlines()[0]
    page = (tmp_path / "out" / "net.html").read_text()
    assert page.index("differs (lsb 84") < page.index("<h1>")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert next(iter(manifest)) == "gate"
    assert manifest["gate"]["verdict"] == "differs"


def test_that_a_program_that_is_not_accurate_enough_says_so_first(packaged, tmp_path):
    deliver(packaged, tmp_path / "out", INACCURATE)
    first = (tmp_path / "out" / "net.md").read_text().splitlines()[0]
    assert "not accurate enough (SQNR against float [dB] 4.5, limit >= 10" in first
    page = (tmp_path / "out" / "net.html").read_text()
    assert page.index("not accurate enough") < page.index("program correct") < page.index("<h1>")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["accuracy"] == INACCURATE.accuracy.model_dump(mode="json")


def test_that_a_note_states_both_answers_below_its_title(packaged, tmp_path):
    deliver(packaged, tmp_path / "out", RIGHT)
    lines = (tmp_path / "out" / "net.md").read_text().splitlines()
    assert lines[0] == "# net on ethos-u55-128"
    assert "program correct" in lines[2]
    assert "accurate enough" in lines[4]
    assert "4 samples of data.npz that calibration did not see" in lines[4]
    assert "program correct" in (tmp_path / "out" / "net.html").read_text()


def test_that_a_folder_that_cannot_be_made_is_refused(packaged, tmp_path):
    (tmp_path / "out").write_text("a file")
    with refused("deliverables-not-copied"):
        deliver(packaged, tmp_path / "out", RIGHT)


def test_that_note_and_manifest_say_what_was_executed_without_a_device(packaged, tmp_path):
    executed = Execution(samples=16, elements=160, equal=160)
    gate = Answers(GateResult(verdict="right", execution=executed), ACCURATE)
    deliver(packaged, tmp_path / "dist", gate)
    manifest = json.loads((tmp_path / "dist" / "manifest.json").read_text())
    assert manifest["gate"]["execution"] == executed.model_dump()
    notes = [p.read_text() for p in (tmp_path / "dist").iterdir() if p.suffix in {".md", ".html"}]
    assert notes
    assert all("Executed on the simulator (no timing): 16 samples" in note for note in notes)


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_that_a_delivery_replaces_the_one_before_and_leaves_no_other_file(packaged, tmp_path):
    out = tmp_path / "out"
    deliver(packaged, out, DIFFERS)
    (out / "mine.txt").write_text("kept")
    deliver(packaged, out, RIGHT)
    fresh = tmp_path / "fresh"
    deliver(packaged, fresh, RIGHT)
    assert files_of(out) == {**files_of(fresh), "mine.txt": b"kept"}


def test_that_a_delivery_that_fails_on_the_way_leaves_the_one_before(packaged, tmp_path, monkeypatch):
    out = tmp_path / "out"
    deliver(packaged, out, DIFFERS)
    before, rename = files_of(out), Path.rename
    for name in (*PAGES, "manifest.json"):

        def fails(path, target, name=name):
            if target.name == name and not path.name.endswith("-old.part"):
                raise OSError(28, "No space left on device")
            return rename(path, target)

        monkeypatch.setattr(Path, "rename", fails)
        with refused("deliverables-not-copied"):
            deliver(packaged, out, RIGHT)
        monkeypatch.setattr(Path, "rename", rename)
        assert files_of(out) == before
        with contextlib.suppress(WorkbenchError):
            monkeypatch.setattr(Path, "rename", fails)
            deliver(packaged, tmp_path / f"new-{name}", RIGHT)
        monkeypatch.setattr(Path, "rename", rename)
        assert files_of(tmp_path / f"new-{name}") == {}


def test_that_a_delivery_that_fails_restores_even_where_a_new_file_was_removed(
    packaged, tmp_path, monkeypatch
):
    out = tmp_path / "out"
    deliver(packaged, out, DIFFERS)
    before, rename = files_of(out), Path.rename

    def fails(path, target):
        if target.name == "manifest.json" and not path.name.endswith("-old.part"):
            (out / "net.pte").unlink()
            raise OSError(28, "No space left on device")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fails)
    with refused("deliverables-not-copied"):
        deliver(packaged, out, RIGHT)
    assert files_of(out) == before


def test_that_the_manifest_appears_when_all_other_files_are_on_the_disk(packaged, tmp_path, monkeypatch):
    out, synced = tmp_path / "out", []

    def sync(folder):
        synced.append({path.name for path in folder.iterdir() if path.suffix != ".part"})

    monkeypatch.setattr(files, "sync_folder", sync)
    deliver(packaged, out, RIGHT)
    assert synced == [set(), set(PAGES), {*PAGES, "manifest.json"}]


def test_that_a_delivery_makes_the_folders_above_it_and_files_that_anyone_reads(packaged, tmp_path):
    out = tmp_path / "a" / "b"
    mask = os.umask(0)
    try:
        deliver(packaged, out, RIGHT)
    finally:
        os.umask(mask)
    assert {path.stat().st_mode & 0o777 for path in out.iterdir()} == {0o644}


def test_that_a_linked_folder_is_not_written_to(packaged, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "real")
    with refused("deliverables-folder-linked"):
        deliver(packaged, tmp_path / "out", RIGHT)
    assert files_of(tmp_path / "real") == {}


@pytest.mark.parametrize("name", [*PAGES, "manifest.json"])
def test_that_a_damaged_result_is_not_delivered(packaged, tmp_path, name):
    (packaged / name).write_bytes(b"other")
    with refused("result-damaged"):
        deliver(packaged, tmp_path / "out", RIGHT)
    (packaged / name).unlink()
    with refused("result-damaged"):
        deliver(packaged, tmp_path / "out", RIGHT)
    assert not (tmp_path / "out").exists()


def test_that_a_file_that_leaves_the_folder_is_not_delivered(packaged, tmp_path):
    result = load_result(PackageResult, packaged)
    outside = result.files[0].model_copy(update={"name": "../net.pte"})
    (tmp_path / "net.pte").write_bytes(PAGES["net.pte"])
    save_result(result.model_copy(update={"files": (outside,)}), packaged)
    with refused("result-damaged"):
        deliver(packaged, tmp_path / "out", RIGHT)


def test_that_the_manifest_holds_the_outcome_where_there_is_one(packaged, tmp_path):
    deliver(packaged, tmp_path / "out", RIGHT, {"figures": [1]})
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["outcome"] == {"figures": [1]}
    deliver(packaged, tmp_path / "out", RIGHT, {})
    assert "outcome" not in json.loads((tmp_path / "out" / "manifest.json").read_text())
