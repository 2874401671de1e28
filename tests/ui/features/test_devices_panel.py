"""The Devices panel over fake engines: points come in, one is taken over."""

import pytest
from PySide6.QtCore import Qt

from workbench.protocol import RunStudy


@pytest.fixture
def panel(opened, qtbot):
    return opened.window.reveal("devices")


@pytest.fixture
def estimated(panel, opened, qtbot):
    panel.start.click()
    qtbot.waitUntil(lambda: not opened.runner.running and panel.model.rowCount() == 50)
    return panel


def texts(panel, title):
    """Return the cells of a column."""
    model, across = panel.model, Qt.Orientation.Horizontal
    titles = [model.headerData(n, across) for n in range(model.columnCount())]
    column = titles.index(title)
    return [model.index(row, column).data() for row in range(model.rowCount())]


def test_that_limits_of_sram_are_points_and_only_a_device_that_fits_the_board_is_selected(
    panel, opened, engines, notices, qtbot
):
    # Limits that are no numbers are refused before anything runs.
    panel.limits.setText("many")
    panel.start.click()
    notices.take("Invalid SRAM limits")
    assert not [c for c in engines.commands if isinstance(c, RunStudy)]
    # Limits of SRAM give a point each.
    panel.devices.setCurrentText("This device")
    panel.limits.setText("250, 512")
    panel.start.click()
    qtbot.waitUntil(lambda: panel.model.rowCount() == 4)
    assert set(texts(panel, "SRAM limit")) == {"250.0 KiB", "512.0 KiB"}
    # Only a device that fits the board is selected.
    qtbot.waitUntil(lambda: not opened.runner.running)
    panel.devices.setCurrentIndex(0)
    panel.limits.setText("")
    opened.window.pipeline.board.chosen.emit("renesas-ra8p1")
    panel.start.click()
    qtbot.waitUntil(lambda: not opened.runner.running and panel.model.rowCount() > 1)
    qtbot.waitUntil(lambda: len(panel.table.chosen_rows()) == 1)
    (row,) = panel.table.chosen_rows()
    assert panel.model.index(row, 0).data().startswith("ethos-u55-256")
    assert {"fits", "other NPU"} <= set(texts(panel, "Board"))


@pytest.mark.slow
def test_that_the_present_device_cannot_be_taken_again(estimated):
    present = next(n for n, name in enumerate(texts(estimated, "Device")) if "(current)" in name)
    estimated.table.selectRow(present)
    assert not estimated.take.isEnabled()


@pytest.mark.slow
def test_that_a_dot_chooses_its_row(estimated):
    estimated.plot.dot_chosen.emit(3)
    assert estimated.table.chosen_rows() == [3]


@pytest.mark.slow
def test_that_a_cell_of_the_heat_map_is_a_point_to_be_used(estimated, opened, qtbot):
    heat = estimated.heat
    rows = [heat.headerData(r, Qt.Orientation.Vertical) for r in range(heat.rowCount())]
    modes = [heat.headerData(c, Qt.Orientation.Horizontal) for c in range(heat.columnCount())]
    cell = heat.index(rows.index("ethos-u65-512"), modes.index("Sram_Only"))
    estimated.map.view.clicked.emit(cell)
    estimated.take.click()
    target = opened.document.project.target
    assert (target.id, target.options["memory_mode"]) == ("ethos-u65-512", "Sram_Only")
    estimated.map.figure.activated.emit(1)
    assert cell.data() == "64.0 KiB"


@pytest.mark.slow
def test_that_all_system_configurations_make_rows_of_their_own(panel, opened, engines, qtbot):
    panel.devices.setCurrentText("This device")
    panel.configs.setCurrentIndex(1)
    panel.start.click()
    qtbot.waitUntil(lambda: not opened.runner.running and panel.heat.rowCount() == 2)
    assert panel.heat.headerData(0, Qt.Orientation.Vertical).startswith("ethos-u55-128, Ethos_U55")


def test_that_all_devices_are_asked_for_and_the_best_is_marked_selected_and_taken(
    estimated, opened, qtbot, engines
):
    # The fastest device is selected and taken with one more click.
    (row,) = estimated.table.chosen_rows()
    assert estimated.model.index(row, 0).data() == "ethos-u85-2048"
    qtbot.mouseClick(estimated.take, Qt.MouseButton.LeftButton)
    assert opened.document.project.target.id == "ethos-u85-2048"
    opened.document.undo_stack.undo()
    # All devices are asked for and the best are marked mapped and taken.
    # All devices and memory modes are asked for at first.
    (told,) = [c.options for c in engines.commands if isinstance(c, RunStudy)]
    assert told == {"targets": ["all"], "axes": {"memory_mode": ["all"]}}
    assert "50 of 50 points, estimated by Vela 5.1.0" in estimated.note.text()
    assert len(estimated.plot.points) == 50
    # Points that no other beats are marked.
    marks = zip(texts(estimated, "Device"), texts(estimated, "Best"), strict=True)
    ((name, mark),) = [row for row in marks if row[1]]
    assert name == "ethos-u85-2048"
    assert "fastest" in mark
    assert sum(point.is_best for point in estimated.plot.points) == 1
    # The heat map has a warm cell for every point that fits.
    heat = estimated.heat
    assert heat.rowCount() == 11
    cells = [heat.index(r, c) for r in range(heat.rowCount()) for c in range(heat.columnCount())]
    filled = [cell for cell in cells if heat.point_at(cell) is not None]
    assert len(filled) == 50
    warmth = {cell.data(): cell.data(Qt.ItemDataRole.BackgroundRole).alphaF() for cell in filled}
    assert max(warmth, key=warmth.get) == "31.250 ms"
    assert min(warmth, key=warmth.get) == "0.488 ms"
    empty = next(cell for cell in cells if heat.point_at(cell) is None)
    assert empty.data() == "\u2013"
    # Taking a device over is one undo step.
    before = opened.document.project
    estimated.table.selectRow(texts(estimated, "Device").index("ethos-u85-512"))
    assert estimated.take.isEnabled()
    estimated.take.click()
    assert opened.document.project.target.id == "ethos-u85-512"
    opened.document.undo_stack.undo()
    assert opened.document.project == before


@pytest.mark.slow
def test_that_the_plot_is_below_the_table_in_a_narrow_panel(estimated, qtbot):
    def tops():
        parts = (estimated.table, estimated.plot)
        return [part.mapTo(estimated, part.rect().topLeft()).y() for part in parts]

    estimated.resize(500, 500)
    qtbot.waitUntil(lambda: tops()[1] > tops()[0] + 50)
    estimated.resize(1000, 500)
    qtbot.waitUntil(lambda: tops()[1] == tops()[0])
