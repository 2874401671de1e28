"""The document: named undo, refusals that leave no trace, saving, locks, recovery."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys

import pytest
from PySide6.QtCore import QTimer

from tests.fakes.projects import make_project, write_project
from tests.problems import refused
from ui.state import project_files
from ui.state.document import ChangedOnDiskError, Document
from ui.state.project_files import AUTOSAVE_SUFFIX, ProjectInUseError, left_behind
from workbench.errors import SYSTEM_REMEDIES, failure
from workbench.project import edits, store
from workbench.project.model import TargetChoice
from workbench.project.opened import OpenProject


@pytest.fixture
def document(tmp_path, qtbot):
    made = Document(tmp_path / "recovery")
    yield made
    made.close()


def set_stem(project):
    return edits.assign(project, "module_name", "stem", "a16w8")


def test_that_an_edit_is_one_named_step_to_undo_and_redo(document, project_file):
    document.open(project_file)
    before = document.project
    assert document.apply("Set stem to a16w8", set_stem)
    after = document.project
    assert document.undo_stack.undoText() == "Set stem to a16w8"
    document.undo_stack.undo()
    assert document.project == before
    assert document.undo_stack.redoText() == "Set stem to a16w8"
    document.undo_stack.redo()
    assert document.project == after


def test_that_a_refused_edit_leaves_project_and_undo_stack_alone(document, project_file, qtbot):
    document.open(project_file)
    before = document.project

    def refuse(_):
        raise failure("Not like this.")

    with qtbot.waitSignal(document.edit_refused) as signal:
        assert not document.apply("Break it", refuse)
    assert str(signal.args[0]) == "Not like this."
    assert document.project is before
    assert document.undo_stack.count() == 0


def test_that_an_edit_to_an_invalid_value_is_told_with_its_place(document, project_file, qtbot):
    document.open(project_file)
    with qtbot.waitSignal(document.edit_refused) as signal:
        document.apply("Rename", lambda p: edits.rename(p, ""))
    assert signal.args[0].infos[0].where.id == "name"


def test_that_an_edit_without_effect_pushes_nothing(document, project_file):
    document.open(project_file)
    assert not document.apply("Same", lambda p: edits.rename(p, p.name))
    assert document.undo_stack.count() == 0
    assert not document.modified


def test_that_saving_writes_what_is_shown_and_undo_makes_it_modified_again(document, project_file):
    document.open(project_file)
    document.apply("Set stem", set_stem)
    document.save()
    assert store.load(project_file) == document.project
    assert not document.modified
    document.undo_stack.undo()
    assert document.modified


def test_that_a_second_window_is_refused_and_may_read(document, project_file, tmp_path):
    document.open(project_file)
    other = Document(tmp_path / "recovery")
    with pytest.raises(ProjectInUseError) as caught:
        other.open(project_file)
    assert caught.value.codes == ("project-locked",)
    assert other.project is None
    other.open(project_file, read_only=True)
    assert other.read_only
    other.close()
    document.apply("Set stem", set_stem)
    document.save()


def test_that_the_lock_of_an_ended_window_is_taken_whoever_has_its_number_now(
    document, project_file, tmp_path
):
    document.open(project_file)
    (lock,) = project_file.parent.glob(".*.lock")
    # The content of a lock whose window was killed; a process like that one has its number.
    left = lock.read_bytes()
    document.close()
    lock.write_bytes(left)
    other = Document(tmp_path / "recovery")
    other.open(project_file)
    assert other.project is not None
    with pytest.raises(ProjectInUseError):
        document.open(project_file)
    other.close()


def test_that_a_closed_project_can_be_opened_elsewhere(document, project_file, tmp_path):
    document.open(project_file)
    document.close()
    other = Document(tmp_path / "recovery")
    other.open(project_file)
    assert not other.read_only
    other.close()


def test_that_unsaved_work_of_a_lost_window_is_offered(document, project_file, tmp_path, qtbot):
    lost = Document(tmp_path / "recovery")
    lost.open(project_file)
    lost.apply("Set stem", set_stem)
    lost.autosave()
    wanted = lost.project
    copy = (project_file.parent / f".net.qwb{AUTOSAVE_SUFFIX}").read_bytes()
    lost.close()
    (project_file.parent / f".net.qwb{AUTOSAVE_SUFFIX}").write_bytes(copy)

    with qtbot.waitSignal(document.recovery_found) as found:
        document.open(project_file)
    document.recover(found.args[0])
    assert document.project == wanted
    assert document.undo_stack.undoText() == "Recover unsaved changes"
    document.undo_stack.undo()
    assert document.project == store.load(project_file)


def test_that_a_recovery_survives_edits_made_before_it_is_answered(document, project_file, tmp_path, qtbot):
    copy = f"{project_file.parent}\n{store.dump(set_stem(make_project()))}"
    (project_file.parent / f".net.qwb{AUTOSAVE_SUFFIX}").write_text(copy)
    with qtbot.waitSignal(document.recovery_found) as found:
        document.open(project_file)
    document.apply("Rename", lambda p: edits.rename(p, "other"))
    document.autosave()
    kept = json.loads(found.args[0].file.read_text().partition("\n")[2])
    assert kept["rules"][1]["match"] == "stem"


def test_that_a_broken_autosave_is_ignored(document, project_file):
    (project_file.parent / f".net.qwb{AUTOSAVE_SUFFIX}").write_text("{")
    document.open(project_file)
    assert document.project == store.load(project_file)


def test_that_projects_never_saved_are_kept_for_the_next_window(document, tmp_path):
    recovery = tmp_path / "recovery"
    document.new(OpenProject(make_project(), tmp_path))
    document.autosave()
    assert left_behind(recovery) == []
    (mine,) = recovery.glob(f"*{AUTOSAVE_SUFFIX}")
    mine.rename(recovery / f"unsaved-999999999{AUTOSAVE_SUFFIX}")
    (found,) = left_behind(recovery)
    assert found.project == make_project()
    assert found.folder == tmp_path


def test_that_a_change_on_disk_is_noticed_and_never_overwritten_unasked(document, project_file, qtbot):
    document.open(project_file)
    with qtbot.waitSignal(document.changed_on_disk, timeout=5000):
        store.save(make_project(notes="theirs"), project_file)
    document.apply("Set stem", set_stem)
    with pytest.raises(ChangedOnDiskError):
        document.save()
    assert store.load(project_file).notes == "theirs"
    document.save(overwrite=True)
    assert store.load(project_file) == document.project


def test_that_reloading_is_a_step_that_can_be_undone(document, project_file):
    document.open(project_file)
    store.save(make_project(notes="theirs"), project_file)
    document.reload()
    assert document.project.notes == "theirs"
    document.undo_stack.undo()
    assert document.project.notes == ""


def test_that_a_read_only_file_is_open_to_read(document, project_file):
    project_file.chmod(0o444)
    document.open(project_file)
    assert document.read_only


def test_that_a_failed_save_loses_nothing(document, project_file, monkeypatch):
    document.open(project_file)
    document.apply("Set stem", set_stem)

    def full(path, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store, "write_file", full)
    with refused("project-not-saved"):
        document.save()
    assert document.modified
    assert document.project.rules[-1].match == "stem"


def test_that_changes_that_are_not_kept_are_told_once_and_kept_when_there_is_space(
    document, project_file, monkeypatch
):
    document.open(project_file)
    told = []
    document.autosave_refused.connect(told.append)

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(project_files, "write_file", full)
        document.apply("Set stem", set_stem)
        document.autosave()
        document.autosave()
    assert [error.codes for error in told] == [("autosave-not-written",)]
    assert told[0].infos[0].hint == SYSTEM_REMEDIES[errno.ENOSPC]
    document.autosave()
    assert len(told) == 1
    assert any(AUTOSAVE_SUFFIX in path.name for path in project_file.parent.rglob("*"))
    with monkeypatch.context() as patch:
        patch.setattr(project_files, "write_file", full)
        document.autosave()
    assert len(told) == 2


def test_that_saving_elsewhere_keeps_pointing_at_the_same_files(document, project_file, tmp_path):
    document.open(project_file)
    (tmp_path / "other").mkdir()
    document.save_as(tmp_path / "other" / "copy.qwb")
    assert document.project.model.spec == "../mine/net.pt2"
    assert document.folder == tmp_path / "other"
    assert store.load(project_file).model.spec == "net.pt2"


def test_that_an_own_board_and_its_ini_are_found_from_elsewhere_too(document, project_file, tmp_path):
    document.open(project_file)
    (tmp_path / "other").mkdir()

    def put(board, ini):
        options = {**document.project.target.options, "config_ini": ini}
        target = TargetChoice(id="ethos-u55-128", options=options)
        document.apply("Put", lambda project: edits.set_board(project, board, target))
        document.save_as(tmp_path / "other" / "copy.qwb")
        moved = document.project
        document.save_as(project_file)
        return moved.board, moved.target.options["config_ini"]

    own = ("../mine/b.toml", "board:../mine/b.toml/x.ini")
    assert put("b.toml", "board:b.toml/x.ini") == own
    assert put("b.toml", "x.ini") == ("../mine/b.toml", "../mine/x.ini")
    known = ("himax-we2", "board:himax-we2/himax-we2.ini")
    assert put(*known) == known


def test_that_a_file_that_cannot_be_read_leaves_the_open_project(document, project_file, tmp_path):
    document.open(project_file)
    broken = tmp_path / "broken.qwb"
    broken.write_text('{"version": 1,')
    with refused("project-json-broken"):
        document.open(broken)
    assert document.path == project_file
    second = write_project(tmp_path / "second")
    document.open(second)
    assert document.path == second


def test_that_steady_edits_do_not_starve_the_autosave(document, project_file, qtbot):
    document.open(project_file)
    document._latest_autosave.setInterval(50)
    edits_made = iter(range(100_000))
    timer = QTimer(interval=5)
    timer.timeout.connect(lambda: document.apply("Set", lambda p: noted(p, str(next(edits_made)))))
    timer.start()
    qtbot.waitUntil(lambda: any(project_file.parent.glob(f".*{AUTOSAVE_SUFFIX}")))
    timer.stop()


def noted(project, text):
    return project.model_copy(update={"notes": text})


def test_that_a_second_crash_keeps_the_recovery_of_the_first(document, project_file, tmp_path):
    autosave = project_file.parent / f".net.qwb{AUTOSAVE_SUFFIX}"
    crashed = Document(tmp_path / "recovery")
    for note in ("first", "second"):
        crashed.open(project_file)
        crashed.apply("Set", lambda p, note=note: noted(p, note))
        crashed.autosave()
        left = autosave.read_bytes()
        crashed.close()
        autosave.write_bytes(left)
    found = []
    document.recovery_found.connect(found.append)
    document.open(project_file)
    assert [recovery.project.notes for recovery in found] == ["first", "second"]
    found[1].discard()
    assert found[0].file.exists()


def test_that_an_autosave_does_not_write_through_a_link(document, project_file, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("kept")
    document.open(project_file)
    (project_file.parent / f".net.qwb{AUTOSAVE_SUFFIX}").symlink_to(victim)
    document.apply("Set stem", set_stem)
    document.autosave()
    assert victim.read_text() == "kept"


def test_that_a_link_is_no_recovery(document, project_file, tmp_path):
    private = tmp_path / "private.qwb"
    private.write_text(f"{tmp_path}\n" + project_file.read_text().replace("net", "other"))
    (project_file.parent / f".{project_file.name}.autosave").symlink_to(private)
    found = []
    document.recovery_found.connect(found.append)
    document.open(project_file)
    assert found == []
    assert private.exists()


HOLDER = """
import sys, time
from pathlib import Path
from workbench.process_identity import lock_file
lock_file(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


def test_that_unsaved_changes_of_a_window_in_another_container_are_offered_when_it_ends(document, tmp_path):
    recovery = tmp_path / "recovery"
    document.new(OpenProject(make_project(), tmp_path))
    document.autosave()
    (mine,) = recovery.glob(f"*{AUTOSAVE_SUFFIX}")
    # A number that no process has here.
    other = mine.rename(recovery / f"unsaved-999999999-01234567{AUTOSAVE_SUFFIX}")
    command = [sys.executable, "-c", HOLDER, str(other.with_suffix(".held"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as window:
        window.stdout.readline()
        assert left_behind(recovery) == []
        window.kill()
    (found,) = left_behind(recovery)
    assert found.project == make_project()
    found.discard()
    assert not list(recovery.glob("unsaved-999999999*"))
