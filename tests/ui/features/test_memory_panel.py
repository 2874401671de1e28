"""The Memory panel: tensors where and when they lie, the peak, one selection with the rest."""

import pytest
from PySide6.QtCore import Qt

from tests.for_each import for_each
from workbench.results import LowerResult, load_result


@pytest.fixture
def memory(opened, qtbot):
    opened.runs.run_to("lower")
    qtbot.waitUntil(lambda: not opened.runner.running)
    panel = opened.window.reveal("memory")
    qtbot.waitUntil(lambda: panel.has("lower") and panel.model.rowCount() == 3)
    return panel


def texts(panel, column):
    return [panel.model.index(row, column).data() for row in range(panel.model.rowCount())]


def the_peak_and_every_tensor_are_told_and_chosen(memory, opened, qtbot, _):
    # The peak is told with who makes it.
    assert "Peak 4.0 KiB" in memory.note.text()
    assert "step 1; largest: stem.conv (3.0 KiB), x (1.0 KiB)" in memory.note.text()
    assert texts(memory, 0) == ["\u25cf", "\u25cf", ""]
    # Every tensor of the memory is drawn and listed.
    assert memory.memory.currentText() == "SRAM"
    assert [t.name for t in memory.plot.tensors] == ["x", "conv2d", "weights"]
    assert texts(memory, 4) == ["activation", "activation", "prefetched weights"]
    # A tensor chosen here is chosen everywhere.
    memory.plot.tensor_chosen.emit(1, False)
    assert opened.context.selection.value.modules == {"stem.conv"}
    assert memory.table.chosen_rows() == [1]
    # A module chosen elsewhere is marked here.
    opened.context.selection.choose_modules(["head"], "modules")
    qtbot.waitUntil(lambda: memory.table.chosen_rows() == [2])
    # Less SRAM is tried with a slider and used in one step.
    budget = memory.budget
    assert budget.slider.isHidden()
    qtbot.mouseClick(budget.estimate, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: not budget.slider.isHidden())
    assert "SRAM 8.0 KiB, 1.000 ms (fastest), no limit, current" in budget.figures.text()
    assert not budget.take.isEnabled()
    budget.slider.setValue(0)
    assert "SRAM 2.0 KiB, 1.200 ms (+20.0 % cycles), optimised for size" in budget.figures.text()
    assert "estimated (Vela 5.1.0)" in budget.figures.text()
    qtbot.mouseClick(budget.take, Qt.MouseButton.LeftButton)
    assert opened.document.undo_stack.undoText() == "Optimise for size"
    assert opened.document.project.target.options["optimise"] == "Size"
    qtbot.waitUntil(lambda: "current" in budget.figures.text())
    opened.document.undo_stack.undo()
    qtbot.waitUntil(lambda: "current" not in budget.figures.text())
    assert budget.slider.value() == 0


@pytest.mark.slow
def test_that_a_limit_is_used_under_its_own_name(memory, opened, qtbot):
    qtbot.mouseClick(memory.budget.estimate, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: not memory.budget.slider.isHidden())
    memory.budget.slider.setValue(1)
    qtbot.mouseClick(memory.budget.take, Qt.MouseButton.LeftButton)
    assert opened.document.undo_stack.undoText() == "Limit SRAM to 3.0 KiB"
    assert opened.document.project.target.options["arena_cache_bytes"] == 3072


@pytest.mark.slow
def test_that_a_smaller_program_replaces_the_picture_of_a_larger_one(memory):
    tensors = memory.plot.tensors
    memory.plot.choose([0, 2])
    memory.plot.render_tensors(tensors[:1], 0)
    assert memory.plot.tensors == tensors[:1]
    memory.plot.choose([0])


def figures_picture_and_table_are_of_one_program_after_an_edit_and_a_new_theme(
    memory, opened, qtbot, monkeypatch
):
    memory.context.selection.choose_modules(["head"], "modules")
    qtbot.waitUntil(lambda: memory.table.chosen_rows() == [2])
    qtbot.waitUntil(lambda: opened.session.result("lower") is not None)
    result = load_result(LowerResult, opened.session.result("lower"))
    first = result.vela[0]
    named = first.operations[0].model_copy(update={"root": "stem"})
    smaller = first.model_copy(update={"tensors": first.tensors[1:2], "operations": (named,)})
    changed = result.model_copy(update={"vela": (smaller,)})
    monkeypatch.setattr(
        opened.session.parsed,
        "load",
        lambda kind, path: changed if kind is LowerResult else load_result(kind, path),
    )
    opened.window.actions_by_id["theme"].trigger()
    qtbot.waitUntil(lambda: len(memory.plot.tensors) == 1)
    assert texts(memory, 2) == ["stem"]
    assert "stem" in memory.note.text()


@for_each(
    "promise",
    [
        the_peak_and_every_tensor_are_told_and_chosen,
        figures_picture_and_table_are_of_one_program_after_an_edit_and_a_new_theme,
    ],
)
def test_that_tensors_are_told_chosen_and_replaced(promise, memory, opened, qtbot, monkeypatch):
    promise(memory, opened, qtbot, monkeypatch)
