"""The Memory panel: tensors where and when they lie, the peak, one selection with the rest."""

import pytest


@pytest.fixture
def memory(opened, qtbot):
    opened.runs.run_to("lower")
    qtbot.waitUntil(lambda: not opened.runner.running)
    panel = opened.window.reveal("memory")
    qtbot.waitUntil(lambda: panel.has("lower") and panel.model.rowCount() == 3)
    return panel


def texts(panel, column):
    return [panel.model.index(row, column).data() for row in range(panel.model.rowCount())]


def test_that_the_peak_is_told_with_who_makes_it(memory):
    assert "Peak 4.0 KiB" in memory.note.text()
    assert "step 1, by stem.conv (3.0 KiB), x (1.0 KiB)" in memory.note.text()
    assert texts(memory, 0) == ["\u25cf", "\u25cf", ""]


def test_that_every_tensor_of_the_memory_is_drawn_and_listed(memory):
    assert memory.memory.currentText() == "Sram"
    assert [t.name for t in memory.plot.tensors] == ["x", "conv2d", "weights"]
    assert texts(memory, 4) == ["activation", "activation", "weights, copied ahead"]


def test_that_a_tensor_chosen_here_is_chosen_everywhere(memory, opened):
    memory.plot.tensor_chosen.emit(1, False)
    assert opened.context.selection.value.modules == {"stem.conv"}
    assert memory.table.chosen_rows() == [1]


def test_that_a_module_chosen_elsewhere_is_marked_here(memory, opened, qtbot):
    opened.context.selection.choose_modules(["head"], "modules")
    qtbot.waitUntil(lambda: memory.table.chosen_rows() == [2])
