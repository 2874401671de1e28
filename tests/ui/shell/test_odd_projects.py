"""Projects that are broken, odd or of another time: one sentence each, and nothing lost."""

from __future__ import annotations

from tests.fakes.engine import Play
from tests.fakes.projects import make_project, write_project
from ui.shell.panels import PANELS
from workbench.project.model import TargetChoice


def test_that_an_unreadable_file_is_named_until_another_opens_and_work_can_be_cancelled(
    opened, notices, tmp_path, qtbot, engines
):
    # A file that cannot be opened is named with the reason.
    cases = [
        (b"", "The project file is empty."),
        (b'{"version": 2, "na', "line 1, column 16"),
        (b"[1, 2]", "not a project"),
        (b'{"version": 99}', "newer program"),
        (b'{"version": 7, "name": "", "model": {"spec": "m.pt2"}, "target": {"id": "x"}}', "name:"),
    ]
    for content, said in cases:
        (tmp_path / "bad.qwb").write_bytes(content)
        before = opened.document.project
        opened.files.open_path(tmp_path / "bad.qwb")
        notice = notices.take("bad.qwb cannot be opened.")
        assert said in notice.hint
        assert opened.document.project is before
    # An error of a file goes away when another project opens.
    (tmp_path / "bad.qwb").write_bytes(b"")
    opened.files.open_path(tmp_path / "bad.qwb")
    notice = notices.take("bad.qwb cannot be opened.")
    assert notice.id in opened.notices.open
    opened.files.open_path(write_project(tmp_path / "other", make_project()))
    assert notice.id not in opened.notices.open
    # Cancelling is offered while there is work.
    action = opened.window.actions_by_id["cancel"]
    assert not action.isEnabled()
    engines.plays = [Play(hold="calibrate")]
    opened.runs.run_to("calibrate")
    qtbot.waitUntil(action.isEnabled)
    action.trigger()
    qtbot.waitUntil(lambda: not action.isEnabled())


def test_that_a_project_for_an_unknown_target_opens_and_says_so(workbench, tmp_path, qtbot, notices):
    made = make_project().model_copy(update={"target": TargetChoice(id="ethos-u99")})
    workbench.files.open_path(write_project(tmp_path / "odd", made))
    for row in PANELS:
        workbench.window.reveal(row.id).flush()
    qtbot.waitUntil(lambda: workbench.context.problems.rowCount() > 0)
    assert "ethos-u99" in workbench.context.problems.index(0, 1).data()
    assert not workbench.window.actions_by_id["blame"].isEnabled()
    workbench.runs.run_to("")
    notices.take("Unknown target 'ethos-u99'.")
