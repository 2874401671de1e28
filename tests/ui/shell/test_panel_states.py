"""Every panel says whether it is empty, at work, failed or outdated, each in another way."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QUrl
from PySide6.QtWidgets import QAbstractButton, QAbstractItemView, QLabel, QTextBrowser

from tests.fakes.engine import Play
from tests.ui.shell.test_window import run_to
from ui.shared.job_table import Column
from ui.shell.panels import PANELS
from workbench.errors import ErrorInfo, Place
from workbench.pipeline.stages import STAGES_BY_ID
from workbench.project import edits
from workbench.project.model import DataSource

PROGRAMS = Path(__file__).parents[2] / "data" / "programs"
INFO = ErrorInfo(message="No room for it.", where=Place(kind="option", id="model.spec"), code="no-room")
# The stage whose result a panel shows, or the button that starts its study.
STAGES = {
    "modules": "export",
    "rules": "export",
    "graph": "export",
    "inspector": "export",
    "ranges": "calibrate",
    "formats": "calibrate",
    "accuracy": "evaluate",
    "runs": "evaluate",
    "outcome": "evaluate",
    "pictures": "evaluate",
    "cost": "lower",
    "timeline": "lower",
    "memory": "lower",
    "suggestions": "lower",
    "simulator": "run",
    "deliverables": "package",
}


def tflite_start(panel):
    """Return the button of the TFLite panel, which has been given a file."""
    panel._file = PROGRAMS / "resize_u85_vela.tflite"
    panel.refresh()
    return panel.start


STUDIES = {
    "sample": lambda panel: panel.show_button,
    "devices": lambda panel: panel.start,
    "tflite": tflite_start,
    "sensitivity": lambda panel: panel.measure,
    "search": lambda panel: panel.start,
    "training": lambda panel: panel.train,
    "weight_transforms": lambda panel: panel.previews["bias"],
}
FEW_QUICK = [
    pytest.param(stage, marks=() if stage == "lower" else pytest.mark.slow)
    for stage in sorted(set(STAGES.values()))
]
# One panel of each stage.
FIRST = sorted({stage: name for name, stage in reversed(STAGES.items())}.values())
# They list what happens, which is never outdated.
LISTS = {"jobs", "log", "problems"}


def seen(panel):
    """Return every text that a panel shows."""
    texts = [widget.text() for widget in panel.findChildren(QLabel) if widget.isVisible()]
    texts += [b.text() for b in panel.findChildren(QAbstractButton) if b.isVisible()]
    texts += [p.toPlainText() for p in panel.findChildren(QTextBrowser) if p.isVisible()]
    for view in panel.findChildren(QAbstractItemView):
        model = view.model()
        if view.isVisible() and model is not None:
            cells = (model.index(r, c) for r in range(model.rowCount()) for c in range(3))
            texts += [str(cell.data() or "") for cell in cells]
    return "\n".join(texts).replace("\u200b", "")


def offers(panel, start):
    """Return whether a panel has a button with the title of a stage, or loads the model."""
    text = seen(panel)
    return start in text.split("\n") or "Load the model" in text


def outdate(workbench):
    """Edit the project so that no result is current."""
    workbench.document.apply(
        "Set strict export",
        lambda p: edits.set_model(p, p.model.model_copy(update={"strict_export": not p.model.strict_export})),
    )


def shown(workbench, name):
    panel = workbench.window.reveal(name)
    panel.flush()
    return panel


def test_that_every_panel_has_states_that_differ():
    assert {row.id for row in PANELS} == {*STAGES, *STUDIES, *LISTS}


def test_that_panels_and_lists_without_results_say_so_and_what_failed(opened, qtbot, engines, notices):
    # Panels without results say what to run.
    for name in STAGES.keys() - {"rules"}:
        panel = shown(opened, name)
        start = STAGES_BY_ID[STAGES[name]].title
        qtbot.waitUntil(lambda panel=panel, start=start: offers(panel, start))
        text = seen(panel).lower()
        assert "outdated" not in text, name
        assert "failed" not in text, name
    # Lists tell that they are empty and what failed.
    problems = shown(opened, "problems")
    qtbot.waitUntil(lambda: "No calibration data" in seen(problems))
    (opened.document.folder / "data.npz").touch()
    data = DataSource(spec="data.npz")
    opened.document.apply("Data", lambda p: edits.set_calibration(p, data))
    qtbot.waitUntil(lambda: "No problems." in seen(problems))
    assert "No jobs yet." in seen(shown(opened, "jobs"))
    log = shown(opened, "log")
    log.clear.click()
    qtbot.waitUntil(lambda: "The log is empty." in seen(log))
    engines.plays = [Play(fail="export", infos=[INFO])]
    opened.runs.run_to("")
    qtbot.waitUntil(lambda: opened.session.stage("export").state == "failed")
    notices.take(INFO.message)
    for name in LISTS:
        panel = shown(opened, name)
        qtbot.waitUntil(lambda panel=panel: INFO.message in seen(panel))


@pytest.mark.parametrize("stage", FEW_QUICK)
def test_that_panels_tell_the_stage_at_work_and_that_it_failed_and_lead_to_the_setting(
    opened, qtbot, engines, notices, stage
):
    # Panels tell the stage at work.
    engines.plays = [Play(hold=stage)]
    opened.runs.run_to("")
    qtbot.waitUntil(lambda: opened.session.stage(stage).fraction == 0.5)
    verb = STAGES_BY_ID[stage].verb
    for name in (name for name, needs in STAGES.items() if needs == stage):
        panel = shown(opened, name)
        qtbot.waitUntil(lambda panel=panel: f"{verb}\u2026" in seen(panel))
    opened.runner.cancel()
    qtbot.waitUntil(lambda: not opened.runner.running)
    # Panels tell that a stage failed, and lead to the setting.
    engines.play(Play(fail=stage, infos=[INFO]))
    opened.runs.run_to("")
    qtbot.waitUntil(lambda: opened.session.stage(stage).state == "failed")
    qtbot.waitUntil(lambda: not opened.runner.running)
    while notices.says(INFO.message):
        notices.take(INFO.message)
    for name in (name for name, needs in STAGES.items() if needs == stage):
        panel = shown(opened, name)
        if name == "rules":
            continue
        qtbot.waitUntil(lambda panel=panel: "failed" in seen(panel))
        text = seen(panel)
        assert "Show" in text, name
        # The notice and the list of problems tell why.
        assert INFO.message not in text, name
    assert opened.window.docks["problems"].isHidden()


def test_that_panels_lead_to_a_problem_without_a_place(opened, qtbot, engines, notices):
    engines.plays = [Play(fail="export", infos=[ErrorInfo(message="No room.", code="no-room")])]
    opened.runs.run_to("")
    qtbot.waitUntil(lambda: opened.session.stage("export").state == "failed")
    qtbot.waitUntil(lambda: not opened.runner.running)
    notices.take("No room.")
    window = opened.window
    for name in ("modules", "inspector", "graph"):
        panel = shown(opened, name)
        qtbot.waitUntil(lambda panel=panel: "Export failed." in seen(panel))
        window.docks["problems"].hide()
        if name == "inspector":
            panel.page.anchorClicked.emit(QUrl("place:"))
        else:
            links = panel.findChildren(QAbstractButton)
            next(b for b in links if b.text() == "Show problem").click()
        assert not window.docks["problems"].isHidden()


@pytest.mark.parametrize("names", [FIRST, pytest.param(sorted(STAGES), marks=pytest.mark.slow)])
def test_that_panels_tell_that_their_results_are_outdated(opened, qtbot, names):
    run_to(opened, qtbot, "")
    for name in names:
        panel, start = shown(opened, name), STAGES_BY_ID[STAGES[name]].title
        qtbot.waitUntil(lambda panel=panel, start=start: not offers(panel, start))
    outdate(opened)
    qtbot.waitUntil(lambda: opened.session.stage("export").state == "stale")
    for name in set(names) - {"runs"}:
        panel = shown(opened, name)
        qtbot.waitUntil(lambda panel=panel: "outdated" in seen(panel).lower())
    runs = shown(opened, "runs")
    qtbot.waitUntil(lambda: "No run of the present configuration." in seen(runs))


@pytest.fixture
def studied(opened, qtbot, engines):
    """The window after a run, with data to study on and a tensor chosen."""
    (opened.document.folder / "data.npz").write_bytes(b"data")
    data = DataSource(spec="data.npz")
    opened.document.apply("Data", lambda p: edits.revise(p, calibration=data))
    run_to(opened, qtbot, "")
    qtbot.waitUntil(lambda: bool(opened.context.model_index.modules))
    return opened


@pytest.mark.parametrize("names", [["sensitivity"], pytest.param(sorted(STUDIES), marks=pytest.mark.slow)])
def test_that_studies_tell_their_state(studied, qtbot, engines, notices, names):
    for name in names:
        panel = shown(studied, name)
        studied.context.selection.choose_nodes(["relu"])
        button = STUDIES[name](panel)
        qtbot.waitUntil(button.isEnabled)
        empty = seen(panel)
        assert "failed" not in empty
        assert "utdated" not in empty
        engines.refuse([INFO])
        button.click()
        qtbot.waitUntil(lambda: f"failed: {INFO.message}" in seen(panel))
        while notices.says(INFO.message):
            notices.take(INFO.message)
        qtbot.waitUntil(lambda: not studied.runner.running)
        engines.hold()
        button.click()
        qtbot.waitUntil(lambda: "\u2026" in seen(panel) and INFO.message not in seen(panel))
        studied.runner.cancel()
        qtbot.waitUntil(lambda: not studied.runner.running)
        engines.go_on()
        qtbot.waitUntil(button.isEnabled)
        button.click()
        qtbot.waitUntil(lambda: not studied.runner.running)
        outdate(studied)
        qtbot.waitUntil(lambda: "Outdated" in seen(panel))
        studied.document.undo_stack.undo()


def test_that_jobs_of_one_project_are_told_apart(opened, qtbot):
    opened.document.apply("Rename", lambda p: p.model_copy(update={"name": "keyword_spotting"}))
    panel = opened.window.reveal("jobs")
    opened.runner.run_until(opened.document.opened_project, ["lower"], set(), "trial of a suggestion")
    qtbot.waitUntil(lambda: not opened.runner.running and opened.context.jobs.rowCount() > 0)
    title = opened.context.jobs.index(0, Column.JOB).data()
    assert "trial of a suggestion" in title
    assert panel.table.fontMetrics().horizontalAdvance(title) < panel.table.columnWidth(Column.JOB)
