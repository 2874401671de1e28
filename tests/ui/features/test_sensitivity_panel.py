"""The Sensitivity panel over fake engines: bars stream, pause, go on, and become a rule."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

from tests.fakes import studies
from tests.fakes.engine import leave_results
from tests.fakes.results import result_of
from tests.ui.shell.test_window import run_to
from ui.features.sensitivity_panel import unit_title
from workbench.protocol import RunStudy
from workbench.studies.sensitivity import SensitivityResult


@pytest.fixture
def panel(opened, qtbot):
    made = opened.window.reveal("sensitivity")
    made.samples.setValue(3)
    return made


@pytest.fixture
def measured(opened, panel, qtbot):
    return measure_all(opened, panel, qtbot)


def measure_all(opened, panel, qtbot):
    panel.measure.click()
    qtbot.waitUntil(lambda: not opened.runner.running and panel.bars.names != ())
    return panel


def test_that_modules_are_ordered_with_more_samples_tried_and_marked_after_an_edit(
    measured, engines, opened, qtbot
):
    # The worst module stands on top.
    assert measured.bars.names == ("head", "stem.conv")
    assert "3 samples" in measured.note.text()
    assert not measured.measure.isEnabled()
    # A study runs on the background lane.
    assert [c.study for c in engines.commands if isinstance(c, RunStudy)] == ["sensitivity"]
    # The other view orders by what a module costs alone.
    measured.view.setCurrentIndex(1)
    measured.view.activated.emit(1)
    assert measured.bars.names == ("head", "stem.conv")
    assert "noise" in measured.bars.labels["bottom"]
    # More samples can be asked for and only those are run.
    measured.samples.setValue(int(measured.study.result.samples))
    measured.refresh()
    assert (measured.measure.text(), measured.measure.isEnabled()) == ("Measure", False)
    assert measured.measure.toolTip()
    measured.samples.setValue(5)
    measured.refresh()
    assert measured.measure.text() == "Continue"
    measured.measure.click()
    qtbot.waitUntil(lambda: "5 samples" in measured.note.text())
    # A try shows real figures and changes nothing until it is made a rule.
    qtbot.waitUntil(lambda: not opened.runner.running)
    before = opened.document.project
    measured._on_bar_chosen(0)
    measured.config.setCurrentText("a16w8")
    measured.attempt.click()
    qtbot.waitUntil(lambda: "cycles: 1,000" in measured.outcome.text())
    assert "34.50 dB" in measured.outcome.text()
    assert opened.document.project == before
    qtbot.waitUntil(measured.make_rule.isEnabled)
    # Another module has not these figures.
    measured._on_bar_chosen(1)
    assert (measured.outcome.text(), measured.make_rule.isEnabled()) == ("", False)
    measured._on_bar_chosen(0)
    assert "34.50 dB" in measured.outcome.text()
    measured.make_rule.click()
    assert opened.document.project.rules[-1].match == "head"
    assert opened.document.undo_stack.undoText() == "Set head to a16w8"
    assert not measured.make_rule.isEnabled()
    opened.document.undo_stack.undo()
    qtbot.waitUntil(lambda: "Outdated" not in measured.note.text())
    # After an edit the bars are those of a former configuration.
    with qtbot.waitSignal(opened.session.planned_anew):
        opened.document.apply("Remove", lambda p: type(p)(**{**dict(p), "rules": ()}))
    qtbot.waitUntil(lambda: "Outdated" in measured.note.text())


def test_that_a_module_chosen_elsewhere_is_what_the_panel_tells_of(measured, opened, qtbot):
    opened.context.selection.choose_modules(["stem.conv"])
    qtbot.waitUntil(lambda: measured.title.text() == "stem.conv")
    assert measured.attempt.isEnabled()


def test_that_the_module_that_adds_the_largest_error_is_told_from_the_one_that_costs_most(
    opened, panel, qtbot, monkeypatch
):
    """The error that stem.conv adds is the largest; the output gains most by the head."""
    value = result_of("evaluate")
    tensors = tuple(tensor.model_copy(update={"added_share": 0.9}) for tensor in value.tensors)
    leave_results(monkeypatch, evaluate=value.model_copy(update={"tensors": tensors}))
    run_to(opened, qtbot, "evaluate")
    measure_all(opened, panel, qtbot)
    qtbot.waitUntil(lambda: "stem.conv" in panel.note.text())


def test_that_nothing_below_moves_when_a_study_ends(opened, panel, qtbot):
    tops = set()

    def look(*_):
        if panel.bars.names and panel.note.isVisible():
            QApplication.processEvents()
            tops.add(panel.bars.mapTo(panel, panel.bars.rect().topLeft()).y())

    panel.study.changed.connect(look)
    panel.measure.click()
    qtbot.waitUntil(lambda: not opened.runner.running and panel.bars.names != ())
    qtbot.wait(50)
    look()
    assert len(tops) == 1


def test_that_a_paused_study_keeps_what_it_found(opened, engines, panel, qtbot):
    opened.runner.warm_up("background")
    qtbot.waitUntil(lambda: opened.runner.engine_state("background") == "ready")
    engines.made[-1].hold_study_at = 2
    panel.measure.click()
    qtbot.waitUntil(lambda: "2 samples" in panel.note.text())
    assert panel.measure.text() == "Pause"
    panel.measure.click()
    qtbot.waitUntil(lambda: panel.measure.text() == "Continue")
    assert panel.bars.names == ("head", "stem.conv")


def test_that_a_study_that_waited_for_trust_is_shown_as_running_at_once(opened, engines, panel, qtbot):
    opened.runner.warm_up("background")
    qtbot.waitUntil(lambda: opened.runner.engine_state("background") == "ready")
    engines.made[-1].is_held = True
    # What is done when the question is answered; the panel did not start it.
    opened.runner.run_study("sensitivity", opened.document.opened_project, {})
    qtbot.waitUntil(lambda: panel.measure.text() == "Pause")
    assert panel.study.result is None


def test_that_an_empty_panel_offers_to_measure_below_its_text(opened, engines, panel, qtbot):
    qtbot.waitUntil(panel.note.button.isVisible)
    assert panel.note.button.text() == panel.measure.text() == "Measure"
    # It is offered once.
    assert not panel.measure.isVisible()
    # The text and its button are in the middle of the free room.
    head = panel.measure.mapTo(panel, panel.measure.rect().bottomLeft()).y()
    middle = panel.note.label.mapTo(panel, panel.note.label.rect().bottomLeft()).y()
    assert abs(middle - (head + panel.height()) / 2) < 30
    qtbot.mouseClick(panel.note.button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: panel.study.result is not None and not opened.runner.running)
    assert (panel.note.button.isVisible(), panel.measure.isVisible()) == (False, True)
    assert [c.study for c in engines.commands if isinstance(c, RunStudy)] == ["sensitivity"]


def test_that_a_study_of_all_samples_there_are_is_finished(opened, panel, qtbot):
    panel.samples.setValue(studies.DATA_SAMPLES + 10)
    panel.measure.click()
    qtbot.waitUntil(lambda: panel.study.result is not None and not opened.runner.running)
    panel.refresh()
    assert (panel.measure.text(), panel.measure.isEnabled()) == ("Measure", False)
    assert f"all {studies.DATA_SAMPLES} samples" in panel.note.text()
    # That holds whatever is asked for, and after a restart: no job of this window is needed to know it.
    for asked in (studies.DATA_SAMPLES + 11, 1):
        panel.samples.setValue(asked)
        panel.refresh()
        assert (panel.measure.text(), panel.measure.isEnabled()) == ("Measure", False)
    assert "All samples" in panel.measure.toolTip()


def test_that_a_fused_group_is_named_by_its_modules():
    of = studies.unit("stem.conv + 2", 0.1, 0.1).unit
    fused = of.model_copy(update={"matches": ("stem.conv", "stem.bn", "stem.act")})
    assert unit_title(fused) == "stem.conv + bn + act"
    many = of.model_copy(update={"matches": ("a", "b", "c", "d"), "name": "a + 3"})
    assert unit_title(many) == "a + 3"
    operation = of.model_copy(update={"kind": "node_name", "matches": ("add", "mul"), "name": "x: add, mul"})
    assert unit_title(operation) == "x: add, mul"


def test_that_gains_that_do_not_matter_look_small_and_are_said_to_be_none(opened, panel, qtbot, monkeypatch):
    monkeypatch.setattr(SensitivityResult, "gain_db", lambda _self, _unit: 0.0009)
    panel.measure.click()
    qtbot.waitUntil(lambda: not opened.runner.running and panel.bars.names != ())
    (_, end), _ = panel.bars.box.viewRange()
    assert end >= 1.0
    assert "No module alone gains 0.1 dB" in panel.note.text()
    assert "scrolls" not in panel.note.text()


def test_that_a_preview_is_shown_with_its_module_alone(measured, opened, qtbot):
    measured._on_bar_chosen(0)
    measured.attempt.click()
    qtbot.waitUntil(lambda: "cycles" in measured.outcome.text() and not opened.runner.running)
    label = measured.make_rule.text()
    measured._on_bar_chosen(1)
    assert measured.outcome.text() == ""
    assert (measured.make_rule.text(), measured.make_rule.isEnabled()) == ("Add rule", False)
    measured._on_bar_chosen(0)
    assert "cycles" in measured.outcome.text()
    assert measured.make_rule.text() == label


def test_that_a_module_selected_elsewhere_is_shown_with_its_figures(measured, opened):
    opened.window.context.selection.choose_modules(("stem.conv",), "modules")
    measured.render_selection(opened.window.context.selection.value)
    assert measured.title.text() == "stem.conv"
    assert "only this in float" in measured.about.text()
    assert measured.attempt.isEnabled()
