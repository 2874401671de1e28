"""Ranges that a person chooses: lines dragged, numbers typed, methods taken, samples left out."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import Qt

from tests.fakes.ranges import click, let_calibrate, shown, write_ranges
from tests.for_each import for_each
from workbench.analysis.ranges import choices, histogram_of
from workbench.errors import Place
from workbench.project import edits
from workbench.project.model import DataSource


@pytest.fixture
def panel(opened, qtbot, monkeypatch):
    let_calibrate(monkeypatch, write_ranges)
    # Wide enough for the tensors beside the selected one.
    opened.window.resize(1900, 1000)
    return shown(opened, qtbot)


def ranges_say_where_they_come_from_and_follow_the_selection(panel, opened, qtbot):
    # Ranges say where they come from.
    assert "8 samples of data.npz" in panel.origin.text()
    assert "measured in PyTorch" in panel.origin.text()
    assert not panel.warning.isVisible()
    # A clicked row is chosen everywhere.
    click(panel, qtbot, 0)
    selected = opened.context.selection.value
    assert selected.tensors == {"obs_0"}
    assert selected.nodes == {"conv2d"}
    qtbot.waitUntil(lambda: "conv2d" in panel.side.title.text())
    assert "Quantized" in panel.side.facts.text()
    # A module chosen elsewhere chooses its tensors.
    opened.context.selection.choose_modules(["stem"])
    qtbot.waitUntil(lambda: panel.table.chosen_rows() == [0, 1, 3])
    opened.context.selection.choose_nodes(["linear"])
    qtbot.waitUntil(lambda: panel.table.chosen_rows() == [2])
    # Former ranges are marked after an edit.
    opened.context.assigner.modules(["stem"], "a16w8")
    banner = panel.frames["calibrate"].banner
    qtbot.waitUntil(banner.isVisible)
    assert "outdated" in banner.label.text()
    assert banner.button.text() == "Calibrate"
    opened.document.undo_stack.undo()
    qtbot.waitUntil(lambda: not banner.isVisible())


def drag(panel, low, high):
    """Move both lines, as the pointer does."""
    for line, value in zip(panel.side.editor.tensor.histogram.limits, (low, high), strict=True):
        line.setPos(value)
        line.sigDragged.emit(line)


@pytest.fixture
def conv(panel, opened, qtbot):
    """The panel with the first activation chosen."""
    click(panel, qtbot, 0)
    qtbot.waitUntil(lambda: "conv2d" in panel.side.title.text())
    qtbot.waitUntil(lambda: panel.side.methods.model.rowCount() == 5)
    return panel


def dragged_lines_tell_what_they_do_and_go_back(conv, opened, qtbot):
    # Dragged lines tell clipping, step and SQNR before they are applied.
    drag(conv, -0.5, 0.5)
    told = conv.side.editor.summary.text()
    assert "-0.5 to 0.5" in told
    assert "clipped 74" in told
    assert "step 0.003922" in told
    assert "(predicted), current" in told
    assert opened.document.project.ranges == ()
    # An impossible range cannot be applied and says why.
    for low, high, reason in [(1.0, -1.0, "not below"), (0.5, 1.0, "excludes zero")]:
        drag(conv, low, high)
        assert reason in conv.side.editor.summary.text()
        assert not conv.side.editor.apply.isEnabled()
    # Lines go back and fixed ranges are freed.
    drag(conv, -0.5, 1.0)
    qtbot.mouseClick(conv.side.editor.back, Qt.MouseButton.LeftButton)
    assert "-2.008 to 1.992" in conv.side.editor.summary.text()
    drag(conv, -0.5, 1.0)
    qtbot.mouseClick(conv.side.editor.apply, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(conv.side.editor.free.isEnabled)
    qtbot.mouseClick(conv.side.editor.free, Qt.MouseButton.LeftButton)
    assert opened.document.project.ranges == ()


def an_applied_range_is_one_undoable_step_and_can_be_typed(conv, opened, qtbot):
    # An applied range is one undoable step and is listed.
    drag(conv, -0.5, 1.0)
    qtbot.mouseClick(conv.side.editor.apply, Qt.MouseButton.LeftButton)
    (fixed,) = opened.document.project.ranges
    assert (fixed.tensor, fixed.minimum, fixed.maximum) == ("conv2d", -0.5, 1.0)
    qtbot.waitUntil(lambda: conv.side.pages.tabText(2) == "Overrides (1)")
    said = opened.window.reveal("rules").ranges
    qtbot.waitUntil(lambda: said.text() == "1 range pinned: see Ranges")
    opened.window.reveal("ranges")
    qtbot.waitUntil(lambda: "pinned by hand" in conv.side.editor.summary.text())
    assert conv.model.row_at(0).grid == pytest.approx((-0.5, 1.0), abs=0.01)
    assert opened.context.result("calibrate") is not None
    assert opened.context.result("convert") is None
    opened.document.undo_stack.undo()
    assert opened.document.project.ranges == ()
    qtbot.waitUntil(lambda: conv.side.pages.tabText(2) == "Overrides")
    # A range is typed, told and applied with the keyboard alone.
    fields, editor = conv.side.editor.fields, conv.side.editor
    assert (fields.low.text(), fields.high.text()) == ("-2.00784", "1.99216")
    rewrite(fields.low, qtbot, "-0.5")
    rewrite(fields.high, qtbot, "oops")
    assert "oops\u201d is not a number" in editor.summary.text()
    assert not editor.apply.isEnabled()
    rewrite(fields.high, qtbot, "1")
    assert "-0.5 to 1 " in editor.summary.text()
    assert "(predicted), current" in editor.summary.text()
    assert conv.side.editor.tensor.histogram.limits[0].value() == -0.5
    qtbot.keyClick(fields.high, Qt.Key.Key_Return)
    assert opened.document.project.fixed_ranges() == {"conv2d": (-0.5, 1.0)}


def rewrite(field, qtbot, text):
    field.setFocus()
    field.selectAll()
    qtbot.keyClicks(field, text)


@pytest.mark.slow
def test_that_a_tensor_which_no_sample_reached_can_be_given_a_range(panel, opened, qtbot):
    click(panel, qtbot, 3)
    editor = panel.side.editor
    qtbot.waitUntil(lambda: "no calibration sample reached" in panel.side.remarks.text())
    assert "All observed values are equal" in panel.side.methods.why.text()
    rewrite(editor.fields.low, qtbot, "0")
    assert "Enter both ends" in editor.summary.text()
    rewrite(editor.fields.high, qtbot, "6")
    assert "no prediction possible" in editor.summary.text()
    qtbot.mouseClick(editor.apply, Qt.MouseButton.LeftButton)
    assert opened.document.project.fixed_ranges() == {"relu": (0.0, 6.0)}
    qtbot.waitUntil(lambda: "pinned by hand" in editor.summary.text())
    assert panel.model.row_at(3).grid == pytest.approx((0.0, 6.0))


@pytest.mark.slow
def test_that_the_lines_of_a_weight_stay_where_they_are(panel, qtbot):
    click(panel, qtbot, 1)
    qtbot.waitUntil(lambda: "weight" in panel.side.title.text())
    assert not panel.side.editor.apply.isVisible()
    assert "range of a weight cannot be set" in panel.side.editor.summary.text()
    assert "cannot be overridden" in panel.side.methods.why.text()
    assert not panel.side.methods.use.isVisible()


def a_method_is_taken_once_it_is_known(conv, opened, qtbot):
    # A method waits until it is known and is never shown wrong.
    before = conv.model.row_at(0).effective
    opened.document.apply("Choose", lambda p: edits.choose_method(p, "tensor", "conv2d", "mse"))
    seen = []
    qtbot.waitUntil(
        lambda: seen.append(conv.model.row_at(0)) or bool(seen[-1].decided and seen[-1].decided.is_known)
    )
    assert all(row.effective is None for row in seen if row.decided and not row.decided.is_known)
    assert seen[-1].effective not in {None, before}
    opened.document.undo_stack.undo()
    qtbot.waitUntil(lambda: conv.model.row_at(0).decided is None)
    qtbot.waitUntil(lambda: conv.side.methods.model.rowCount() == 5)
    # Methods stand side by side and one is taken for all.
    methods = conv.side.methods
    titles = [methods.model.row_at(row).method for row in range(methods.model.rowCount())]
    assert titles == ["histogram", "minmax", "percentile", "mse", "kl"]
    methods.table.selectRow(2)
    assert "(predicted), current" in conv.side.editor.summary.text()
    methods.scope.setCurrentIndex(methods.scope.findData("all"))
    qtbot.mouseClick(methods.use, Qt.MouseButton.LeftButton)
    (chosen,) = opened.document.project.range_methods
    assert (chosen.scope, chosen.method) == ("all", "percentile")
    assert "all activations to Percentile" in opened.document.undo_stack.undoText()
    wanted = choices(conv.rows[0].tensor, histogram_of(conv.rows[0].tensor, conv.arrays))[2]
    qtbot.waitUntil(lambda: conv.model.row_at(0).effective == wanted.grid)
    assert conv.model.row_at(0).decided.who == "Percentile 99.99 (all)"
    assert conv.model.row_at(1).decided is None
    qtbot.waitUntil(lambda: "by Percentile 99.99 (all)" in conv.side.editor.summary.text())
    assert not conv.side.editor.free.isEnabled()
    assert opened.window.reveal("rules").ranges.text() == "1 range method: see Ranges"


@pytest.mark.slow
@for_each(
    "promise",
    [
        dragged_lines_tell_what_they_do_and_go_back,
        an_applied_range_is_one_undoable_step_and_can_be_typed,
        a_method_is_taken_once_it_is_known,
        ranges_say_where_they_come_from_and_follow_the_selection,
    ],
)
def test_that_ranges_and_methods_are_told_chosen_and_taken_back(promise, conv, opened, qtbot):
    opened.window.reveal("ranges")
    promise(conv, opened, qtbot)
    opened.document.undo_stack.setIndex(0)
    qtbot.waitUntil(lambda: conv.model.row_at(0).decided is None)
    qtbot.waitUntil(lambda: conv.side.methods.model.rowCount() == 5)
    qtbot.waitUntil(lambda: "by hand" not in conv.side.editor.summary.text())


@pytest.mark.slow
def test_that_choices_of_both_kinds_are_listed_and_freed_in_one_step(conv, opened, qtbot):
    opened.document.apply("Fix", lambda p: edits.fix_range(p, "linear", -1.0, 1.0))
    opened.document.apply("All", lambda p: edits.choose_method(p, "all", "", "minmax"))
    qtbot.waitUntil(lambda: conv.side.pages.tabText(2) == "Overrides (2)")
    conv.side.pages.setCurrentIndex(2)
    qtbot.mouseClick(conv.side.chosen.free_all, Qt.MouseButton.LeftButton)
    project = opened.document.project
    assert (project.ranges, project.range_methods) == ((), ())
    assert "2 overrides" in opened.document.undo_stack.undoText()
    opened.document.undo_stack.undo()
    assert opened.document.project.fixed_ranges() == {"linear": (-1.0, 1.0)}


@pytest.mark.slow
def test_that_samples_say_who_set_the_ends_and_can_be_left_out(conv, opened, qtbot):
    np.savez(opened.document.folder / "data.npz", x=np.zeros((6, 8)))
    data = DataSource(spec="data.npz")
    opened.document.apply("Data", lambda p: edits.set_calibration(p, data))
    conv.side.pages.setCurrentIndex(1)
    samples = conv.side.samples
    assert "Sample 5 has the minimum -1, sample 2 has the maximum 3." in samples.summary.text()
    qtbot.waitUntil(samples.drops[0].isVisible)
    assert samples.drops[0].text() == "Exclude sample 2"
    qtbot.mouseClick(samples.drops[0], Qt.MouseButton.LeftButton)
    assert opened.document.project.calibration.dropped == (2,)
    qtbot.waitUntil(lambda: samples.dropped.text() == "Excluded: 2")
    qtbot.mouseClick(samples.restore, Qt.MouseButton.LeftButton)
    assert opened.document.project.calibration.dropped == ()


@pytest.mark.slow
def test_that_a_range_whose_tensor_is_gone_is_a_problem_and_no_crash(conv, opened, qtbot):
    opened.document.apply("Fix", lambda p: edits.fix_range(p, "gone", -1.0, 1.0))
    problems = opened.context.problems

    def codes():
        rows = [problems.row_at(row) for row in range(problems.rowCount())]
        return [p.code for p in rows if p.where and p.where.id == "gone"]

    qtbot.waitUntil(lambda: codes() == ["fixed-range-lost"])
    opened.context.notices.place_asked.emit(Place(kind="tensor", id="gone"))
    opened.window.reveal("ranges")
    conv.side.pages.setCurrentIndex(2)
    qtbot.waitUntil(lambda: conv.side.chosen.model.rowCount() == 1)
    conv.side.chosen.table.selectRow(0)
    qtbot.waitUntil(conv.side.chosen.free.isEnabled)
    qtbot.mouseClick(conv.side.chosen.free, Qt.MouseButton.LeftButton)
    assert opened.document.project.ranges == ()
