"""The ranges panel as a person uses it, over recorded values."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import Qt

from tests.fakes.engine import Play, leave_results
from tests.fakes.ranges import calibrated, click, let_calibrate, shown, tensor, write_ranges
from tests.fakes.results import result_of
from tests.ui.shell.test_window import run_to
from workbench.results import EXAMPLE_ONLY, TensorQuality, save_result


@pytest.fixture
def panel(opened, qtbot, monkeypatch):
    let_calibrate(monkeypatch, write_ranges)
    # Wide enough for the tensors beside the selected one.
    opened.window.resize(1900, 1000)
    return shown(opened, qtbot)


def test_that_an_empty_panel_offers_to_calibrate_and_tells_how_far_it_is(opened, qtbot, engines):
    # An empty panel offers to calibrate.
    panel = opened.window.reveal("ranges")
    note = panel.frames["calibrate"].note
    qtbot.waitUntil(note.button.isVisible)
    assert note.button.text() == "Calibrate"
    # A running calibration is told in place of ranges.
    engines.plays = [Play(hold="calibrate")]
    panel.context.run_to("calibrate")
    qtbot.waitUntil(lambda: "50 %" in note.label.text())
    assert "Calibrating" in note.label.text()
    assert not note.button.isVisible()
    opened.runner.cancel()
    qtbot.waitUntil(lambda: not opened.runner.running)
    # The button calibrates.
    engines.play(Play())
    qtbot.waitUntil(note.button.isVisible)
    qtbot.mouseClick(note.button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: panel.has("calibrate"))
    qtbot.waitUntil(lambda: not opened.runner.running)
    assert panel.model.rowCount() == 2


def test_that_without_a_choice_the_activation_with_the_lowest_sqnr_is_shown(opened, qtbot, monkeypatch):
    let_calibrate(monkeypatch, write_ranges)
    quality = [
        TensorQuality(tensor=name, origin=name, module="", op="", sqnr_db=sqnr, cosine=1.0, max_abs_error=0.1)
        for name, sqnr in (("conv2d", 20.0), ("linear", 40.0))
    ]
    leave_results(monkeypatch, evaluate=result_of("evaluate").model_copy(update={"tensors": tuple(quality)}))
    opened.window.resize(1900, 1000)
    panel = shown(opened, qtbot)
    run_to(opened, qtbot, "evaluate")
    opened.window.reveal("ranges")
    qtbot.waitUntil(lambda: panel.side.title.text().startswith("conv2d"))
    assert panel.side.editor.isVisible()
    # Its row is marked, though nothing is selected in the other panels.
    (row,) = panel.table.chosen_rows()
    assert panel.model.row_at(row).name == "conv2d"
    assert not opened.context.selection.value.tensors
    # It stays while the quality is unknown, e.g. after its range was changed.
    panel.side.editor.fix_asked.emit(panel.model.row_at(row).node, -0.5, 0.5)
    qtbot.waitUntil(lambda: all(row.sqnr_db is None for row in panel.rows))
    assert panel.side.title.text().startswith("conv2d")
    opened.document.undo_stack.undo()
    qtbot.waitUntil(lambda: any(row.sqnr_db is not None for row in panel.rows))
    click(panel, qtbot, row)
    assert opened.context.selection.value.tensors == {"obs_0"}


def test_that_the_row_of_the_tensor_that_is_described_is_in_sight(opened, qtbot, monkeypatch):
    rows = [(f"obs_{i}", f"conv2d_{i}", "stem.conv", "activation", -1.0, 3.0) for i in range(60)]
    result = calibrated().model_copy(update={"ranges": tuple(map(tensor, range(60), rows))})

    def write(folder):
        save_result(result, folder)
        np.savez(folder / "arrays.npz", histogram=np.ones((60, 256)), edges=np.tile([-1.0, 3.0], (60, 1)))

    let_calibrate(monkeypatch, write)
    worst = TensorQuality(
        tensor="conv2d_50", origin="conv2d_50", module="", op="", sqnr_db=1.0, cosine=1.0, max_abs_error=0.1
    )
    leave_results(monkeypatch, evaluate=result_of("evaluate").model_copy(update={"tensors": (worst,)}))
    opened.window.resize(1900, 1000)
    panel = shown(opened, qtbot)
    qtbot.waitUntil(lambda: panel.side.title.text().startswith("conv2d_50"))
    (row,) = panel.table.chosen_rows()
    sight = panel.table.viewport().rect()
    qtbot.waitUntil(lambda: sight.contains(panel.table.visualRect(panel.model.index(row, 1)).center()))


def test_that_the_methods_do_not_ask_for_a_choice_beside_a_described_activation(panel, opened, qtbot):
    click(panel, qtbot, 0)
    methods = panel.side.methods
    texts = (methods.table.empty, methods.why.text())
    assert not any("Select" in text for text in texts)
    qtbot.waitUntil(lambda: methods.model.rowCount() > 0)
    panel.side.render_nothing()
    assert "Select" in methods.why.text()
    assert methods.why.isVisible()


@pytest.mark.slow
def test_that_a_weight_chooses_the_node_that_uses_it(panel, opened, qtbot):
    click(panel, qtbot, 1)
    assert opened.context.selection.value.nodes == {"conv2d"}
    qtbot.waitUntil(panel.side.editor.tensor.channels.isVisible)


@pytest.mark.slow
def test_that_a_tensor_named_anew_by_the_quantizer_chooses_its_own_operation(opened, qtbot, monkeypatch):
    def write(folder):
        write_ranges(folder)
        found = calibrated()
        renamed = found.ranges[0].model_copy(update={"node": "linear", "origin": "conv2d"})
        save_result(found.model_copy(update={"ranges": (renamed, *found.ranges[1:])}), folder)

    let_calibrate(monkeypatch, write)
    panel = shown(opened, qtbot)
    click(panel, qtbot, 0)
    assert opened.context.selection.value.nodes == {"conv2d"}
    opened.context.selection.choose_nodes(["conv2d"])
    qtbot.waitUntil(lambda: panel.table.chosen_rows() == [0, 1])


@pytest.mark.slow
def test_that_brushing_the_plot_chooses_what_it_covers(panel, opened, qtbot):
    panel.plot.activations.box.brushed.emit(0.6, 2.2, True)
    assert opened.context.selection.value.tensors == {"obs_1", "obs_2"}
    qtbot.waitUntil(lambda: panel.table.chosen_rows() == [1, 2])


@pytest.mark.slow
def test_that_a_click_in_the_plot_chooses_after_sorting_too(panel, opened, qtbot):
    panel.table.sortByColumn(6, Qt.SortOrder.DescendingOrder)
    panel.plot.activations.box.picked.emit(2.1, 0.0, False)
    assert opened.context.selection.value.tensors == {"obs_2"}
    qtbot.waitUntil(lambda: panel.table.chosen_rows() == [0])


def test_that_damaged_arrays_and_ranges_of_the_example_alone_are_told(opened, qtbot, monkeypatch, notices):
    def damage(folder):
        save_result(calibrated(EXAMPLE_ONLY), folder)
        (folder / "arrays.npz").write_bytes(b"PK broken")

    let_calibrate(monkeypatch, damage)
    panel = shown(opened, qtbot)
    notices.take("stored ranges are damaged")
    assert panel.model.rowCount() == 4
    assert panel.warning.isVisible()
    assert EXAMPLE_ONLY in panel.origin.text()


@pytest.mark.slow
def test_that_both_themes_and_the_log_axis_take_every_tensor(panel, opened, qtbot):
    qtbot.mouseClick(panel.log, Qt.MouseButton.LeftButton)
    for name in ("light", "dark"):
        opened.context.appearance.switch(name)
        qtbot.waitUntil(lambda: panel.plot.activations.theme is opened.context.theme)
    for row in range(4):
        click(panel, qtbot, row)
    panel.grab()


@pytest.mark.slow
def test_that_histograms_lie_in_their_columns_where_there_is_room(panel):
    lane = panel.plot.activations
    lines = lane.multiples.getData()[1]
    assert lines.size == 2 * 2 * 63 * 2
    assert lines.max() < 8.0


@pytest.mark.slow
def test_that_a_narrow_panel_fits_and_shows_the_selected_tensor_in_a_tab(panel, opened, qtbot):
    opened.window.resize(800, 720)
    qtbot.waitUntil(lambda: not panel.parts.is_split)
    assert panel.minimumSizeHint().width() <= panel.width()
    click(panel, qtbot, 0)
    assert not panel.side.isVisible()
    place = panel.table.visualRect(panel.model.index(0, 0)).center()
    qtbot.mouseClick(panel.table.viewport(), Qt.MouseButton.LeftButton, pos=place)
    qtbot.mouseDClick(panel.table.viewport(), Qt.MouseButton.LeftButton, pos=place)
    qtbot.waitUntil(panel.side.isVisible)
