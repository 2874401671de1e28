"""The Training panel over fake engines: epochs stream, pause and go on; weights are used."""

import numpy as np
import pytest
from PySide6.QtGui import QFontMetricsF
from PySide6.QtWidgets import QApplication

from ui.shared.job_table import JOB_COLUMNS, Column
from workbench.project import edits
from workbench.project.model import DataSource
from workbench.protocol import RunStudy


@pytest.fixture
def panel(opened, qtbot):
    (opened.document.folder / "data.npz").write_bytes(b"data")
    data = DataSource(spec="data.npz")
    opened.document.apply("Data", lambda p: edits.revise(p, calibration=data))
    made = opened.window.reveal("training")
    made.form.epochs.setValue(3)
    return made


@pytest.fixture
def trained(opened, panel, qtbot):
    panel.train.click()
    qtbot.waitUntil(lambda: not opened.runner.running and panel.sqnr.values.size == 3)
    return panel


def test_that_epochs_are_shown_and_trained_weights_used_and_given_back(trained, engines, opened):
    # Every epoch shows and the best is told.
    assert trained.sqnr.values.tolist() == [11.0, 12.0, 13.0]
    assert trained.sqnr.best == 3
    assert trained.loss.values.tolist() == [1.0, 1 / 2, 1 / 3]
    assert "Before training 10.00 dB, best 13.00 dB (+3.00 dB) after epoch 3" in trained.note.text()
    assert "SQNR predicted on 2 samples held out" in trained.note.text()
    assert not trained.train.isEnabled()
    # The engine is told what the form says.
    (told,) = [c.options for c in engines.commands if isinstance(c, RunStudy)]
    assert told == {
        "optimizer": "adam",
        "learning_rate": 0.0003,
        "loss": "mse",
        "epochs": 3,
        "batch": 16,
        "observe": 30,
        "batch_norm": 0,
        "patience": 20,
    }
    # More epochs can be asked for.
    trained.form.epochs.setValue(5)
    assert trained.train.text() == "Continue"
    assert trained.train.isEnabled()
    # Weights are used and given back in one step.
    before = opened.document.project
    trained.use.click()
    name = opened.document.project.trained_weights
    assert (opened.document.folder / name).read_bytes() == b"weights"
    assert opened.document.undo_stack.undoText() == "Use trained weights"
    trained.refresh()
    assert trained.use.text() == "Weights in use"
    trained.back.click()
    assert opened.document.project == before
    opened.document.undo_stack.undo()
    assert opened.document.project.trained_weights == name


def test_that_training_needs_a_rate_and_data_takes_a_function_and_goes_on_after_a_pause(
    panel, qtbot, opened, engines
):
    # A rate that means nothing cannot be trained with.
    for text in ("", "0", "-1", "fast"):
        panel.form.rate.setText(text)
        panel.refresh()
        assert not panel.train.isEnabled()
    panel.form.rate.setText("0.01")
    panel.refresh()
    assert panel.train.isEnabled()
    # An own function is an undoable choice.
    panel.function.setText("teach.py:teach")
    panel.function.editingFinished.emit()
    assert opened.document.project.training_function == "teach.py:teach"
    assert opened.document.undo_stack.undoText() == "Set training function to teach.py:teach"
    opened.document.undo_stack.undo()
    panel.refresh()
    assert panel.function.text() == ""
    # A project without data is told what it lacks.
    opened.document.apply("No data", lambda p: edits.revise(p, calibration=None))
    panel.refresh()
    assert "needs calibration data" in panel.note.text()
    assert not panel.train.isEnabled()
    opened.document.undo_stack.undo()
    qtbot.waitUntil(panel.train.isEnabled)
    # Paused training goes on where it was.
    opened.runner.warm_up("background")
    qtbot.waitUntil(lambda: opened.runner.engine_state("background") == "ready")
    engines.made[-1].hold_study_at = 2
    panel.train.click()
    qtbot.waitUntil(lambda: panel.sqnr.values.size == 2 and panel.train.text() == "Pause")
    assert not panel.use.isEnabled()
    (job,) = opened.runner.running
    panel.train.click()
    qtbot.waitUntil(lambda: panel.train.text() == "Continue")
    job = opened.runner.job(job.id)
    assert [JOB_COLUMNS[column].text(job) for column in (Column.STATE, Column.PROGRESS)] == ["paused", ""]
    panel.train.click()
    qtbot.waitUntil(lambda: panel.sqnr.values.size == 3 and not opened.runner.running)


def test_that_weights_that_lose_on_the_evaluation_data_are_told(trained, opened, qtbot, monkeypatch):
    trained.attempt.click()
    qtbot.waitUntil(lambda: "SQNR" in trained.outcome.text() and not opened.runner.running)
    assert "Worse" not in trained.outcome.text()
    before, after = trained.preview.runs()
    lower = after.quality.model_copy(update={"sqnr_db": before.quality.sqnr_db - 2.0})
    monkeypatch.setattr(
        trained.preview, "runs", lambda: (before, after.model_copy(update={"quality": lower}))
    )
    trained.refresh()
    assert "Worse" in trained.outcome.text()


def test_that_no_axis_title_is_drawn_over_the_numbers(trained, qtbot):
    trained.loss.render_epochs(np.geomspace(0.002, 0.0001, 3), 3, 3)
    QApplication.processEvents()
    trained.loss.grab()
    axis = trained.loss.plot.getAxis("left")
    title = axis.label.mapRectToParent(axis.label.boundingRect()).width()
    widest = max(
        QFontMetricsF(axis.style["tickFont"]).horizontalAdvance(text) for text in ("0.0005", "0.0002")
    )
    assert axis.width() >= 0.8 * title + widest + axis.style["tickTextOffset"][0]
