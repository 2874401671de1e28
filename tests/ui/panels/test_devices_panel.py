"""The Devices panel over fake engines: points come in, one is taken over."""

import pytest

from workbench.protocol import RunStudy


@pytest.fixture
def panel(opened, qtbot):
    return opened.window.reveal("sweep")


@pytest.fixture
def estimated(panel, opened, qtbot):
    panel.start.click()
    qtbot.waitUntil(lambda: not opened.runner.running and panel.model.rowCount() == 50)
    return panel


def texts(panel, column):
    return [panel.model.index(row, column).data() for row in range(panel.model.rowCount())]


def test_that_all_devices_and_memory_modes_are_asked_for_at_first(estimated, engines):
    (told,) = [c.options for c in engines.commands if isinstance(c, RunStudy)]
    assert told == {"targets": ["all"], "axes": {"memory_mode": ["all"]}}
    assert "50 of 50 points, estimated by Vela 5.1.0" in estimated.note.text()
    assert len(estimated.plot.points) == 50


def test_that_points_no_other_beats_are_marked(estimated):
    best = [
        name for name, mark in zip(texts(estimated, 1), texts(estimated, 0), strict=True) if mark
    ]
    assert best == ["ethos-u85-2048"]
    assert sum(point.is_best for point in estimated.plot.points) == 1


def test_that_limits_of_sram_give_a_point_each(panel, opened, qtbot):
    panel.devices.setCurrentText("This device")
    panel.limits.setText("250, 512")
    panel.start.click()
    qtbot.waitUntil(lambda: panel.model.rowCount() == 4)
    assert set(texts(panel, 7)) == {"250.0 KiB", "512.0 KiB"}


def test_that_limits_that_are_no_numbers_are_refused_before_anything_runs(
    panel, opened, engines, notices
):
    panel.limits.setText("many")
    panel.start.click()
    notices.take("The SRAM limits are not numbers")
    assert not [c for c in engines.commands if isinstance(c, RunStudy)]


def test_that_taking_a_device_over_is_one_undo_step(estimated, opened):
    before = opened.document.project
    estimated.table.selectRow(texts(estimated, 1).index("ethos-u85-512"))
    assert estimated.take.isEnabled()
    estimated.take.click()
    assert opened.document.project.target.id == "ethos-u85-512"
    opened.document.undo_stack.undo()
    assert opened.document.project == before


def test_that_the_present_device_cannot_be_taken_again(estimated):
    present = next(n for n, name in enumerate(texts(estimated, 1)) if "(present)" in name)
    estimated.table.selectRow(present)
    assert not estimated.take.isEnabled()


def test_that_a_dot_chooses_its_row(estimated):
    estimated.plot.dot_chosen.emit(3)
    assert estimated.table.chosen_rows() == [3]
