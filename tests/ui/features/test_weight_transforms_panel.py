"""The Improvers panel over fake engines: tried first, then switched on as one step."""

import pytest
from PySide6.QtWidgets import QLabel

from tests.fakes.results import write_result
from workbench.project import edits
from workbench.project.model import ModelSource
from workbench.results import Improvement, PrepareResult, load_result, save_result


@pytest.fixture
def panel(opened):
    return opened.window.reveal("weight_transforms")


def test_that_an_improver_is_tried_tells_what_it_leaves_alone_and_is_switched_in_one_step(
    opened, panel, qtbot, monkeypatch
):
    # A try shows figures and changes nothing.
    panel.previews["smooth"].click()
    qtbot.waitUntil(lambda: "cycles: 1,000" in panel.outcomes["smooth"].text())
    assert opened.document.project.improvers == ()
    assert panel.outcomes["bias"].text() == ""
    # Switching an improver is one undo step.
    panel.switches["bias"].click()
    panel.switches["equalize"].click()
    assert opened.document.project.improvers == ("equalize", "bias")
    assert opened.document.undo_stack.undoText() == "Enable equalise layers"
    opened.document.undo_stack.undo()
    opened.document.undo_stack.undo()
    assert opened.document.project.improvers == ()
    # What an improver leaves alone stands under it.
    left = "17 pairs stay as they are: ReLU6 stands between."
    done = Improvement(improver="equalize", places=0, left=left)

    def leave(stage, folder):
        write_result(stage, folder)
        if stage == "prepare":
            found = load_result(PrepareResult, folder)
            save_result(found.model_copy(update={"improvements": (done,)}), folder)

    monkeypatch.setattr("tests.fakes.engine.write_result", leave)
    panel.previews["equalize"].click()
    said = panel.outcomes["equalize"].text
    qtbot.waitUntil(lambda: "Finds no pairs of layers to change. 17 pairs stay" in said())
    qtbot.waitUntil(lambda: "cycles: 1,000" in said())
    panel.preview.apply()
    qtbot.waitUntil(panel.switches["equalize"].isChecked)
    panel.refresh()
    assert left in said()


def test_that_what_a_preview_says_comes_into_view(opened, panel, qtbot):
    opened.window.resize(1100, 620)
    last = list(panel.previews)[-1]
    outcome = panel.outcomes[last]
    panel.previews[last].click()
    qtbot.waitUntil(lambda: "cycles: 1,000" in outcome.text())
    qtbot.waitUntil(lambda: outcome.visibleRegion().boundingRect() == outcome.rect())


def test_that_a_preset_and_settings_are_one_undo_step_each(opened, panel, qtbot):
    panel.switches["gptq"].click()
    # What the button ticks is said beside it.
    assert panel.presets["rounding+clips"].toolTip() in [label.text() for label in panel.findChildren(QLabel)]
    panel.presets["rounding+clips"].click()
    assert opened.document.project.improvers == ("clips", "rounding")
    panel.switches["gptq"].click()
    assert not panel.switches["rounding"].isChecked()
    panel.settings["time_limit_s"].setValue(0)
    panel.settings["samples"].setValue(64)
    assert opened.document.project.improving.time_limit_s is None
    assert opened.document.project.improving.samples == 64
    for _ in range(2):
        opened.document.undo_stack.undo()
    assert opened.document.project.improving.time_limit_s == 1800
    qtbot.waitUntil(lambda: panel.settings["samples"].value() == 128)


def test_that_a_try_of_code_nobody_trusts_yet_is_asked_for_once_and_then_measured(
    opened, panel, qtbot, notices
):
    (opened.document.folder / "net.py").write_text("net = None")
    with qtbot.waitSignal(opened.session.planned_anew):
        opened.document.apply("Code", lambda p: edits.set_model(p, ModelSource(spec="net.py:net")))
    panel.previews["smooth"].click()
    (question,) = opened.notices.open.values()
    while notices.says("Python code"):
        notices.take("Python code")
    opened.notices.choose(question.id, question.actions[0].title)
    assert "Measuring" in panel.outcomes["smooth"].text()
    qtbot.waitUntil(lambda: "cycles: 1,000" in panel.outcomes["smooth"].text())
    assert len(opened.history.runs) == 2
