"""The explorer: a format against a tensor's histogram while its parameters change."""

import pytest
from PySide6.QtWidgets import QScrollArea

from tests.fakes.ranges import let_calibrate, write_ranges
from tests.for_each import for_each
from tests.ui.shell.test_number_formats import CHOICE, choose, type_into
from workbench.project import edits
from workbench.project.configs import FormatConfig


@pytest.fixture
def panel(opened, qtbot, monkeypatch):
    let_calibrate(monkeypatch, write_ranges)
    shown = opened.window.reveal("formats")
    # Before calibration the panel says what it waits for.
    qtbot.waitUntil(lambda: shown.none.button.text() == "Calibrate")
    shown.none.button.click()
    qtbot.waitUntil(lambda: shown.tensor.count() == 4 and shown.chart.isVisible())
    qtbot.waitUntil(lambda: not opened.runner.running)
    return shown


def levels(panel):
    return panel.chart.levels.tolist()


def grid_and_sqnr_follow_parameters_tensors_and_what_is_chosen(panel, opened, qtbot):
    # Grid and SQNR follow while a parameter is typed.
    assert "SQNR" in panel.summary.text()
    assert "(predicted) as data" in panel.summary.text()
    type_into(panel.form, "width", "data", "4")
    type_into(panel.form, "frac_width", "data", "1")
    assert levels(panel) == [n / 2 for n in range(-2, 7)]
    coarse = panel.summary.text()
    type_into(panel.form, "frac_width", "data", "2")
    assert panel.summary.text() != coarse
    assert "4.00 bits" in panel.summary.text()
    # An impossible format is said and draws no grid.
    type_into(panel.form, "width", "data", "99")
    assert "must be from 1 to 32" in panel.summary.text()
    assert panel.chart.levels is None
    assert not panel.apply.isEnabled()
    type_into(panel.form, "width", "data", "8")
    # A tensor chosen elsewhere is shown and its own operand counts.
    opened.context.selection.choose_nodes(["linear"])
    qtbot.waitUntil(lambda: panel.tensor.currentText() == "linear")
    panel.tensor.setCurrentIndex(1)
    panel.tensor.activated.emit(1)
    assert "as weight" in panel.summary.text()
    # Every row of the form is in sight in a small window.
    for size in [(1280, 720), (1067, 667)]:
        opened.window.resize(*size)
        opened.window.reset_layout()
        opened.window.reveal("formats")
        fields = panel.form.fields.values()
        qtbot.waitUntil(lambda: all(f.visibleRegion().boundingRect() == f.rect() for f in fields))
    # So are its columns where a larger font makes them wider.
    opened.window.resize(1280, 720)
    for field in panel.form.fields.values():
        field.setMinimumWidth(160)
    type_into(panel.form, "width", "data", "7")
    area = panel.findChild(QScrollArea)
    qtbot.waitUntil(lambda: area.horizontalScrollBar().maximum() == 0)


def test_that_presets_are_predicted_on_the_tensor_and_shown_in_the_form(panel, opened, qtbot):
    names = lambda: [row.name for row in map(panel.presets.row_at, range(panel.presets.rowCount()))]  # noqa: E731
    qtbot.waitUntil(lambda: "mxfp-4" in names())
    row = names().index("mxfp-4")
    assert panel.presets.row_at(row).bits == 4.25
    panel.preset_table.rows_chosen.emit([row])
    assert panel.form.config == panel.presets.row_at(row).config
    assert "4.25 bits" in panel.summary.text()
    # Presets of the project are predicted too.
    config = FormatConfig(scheme="integer", parameters={"width": 4, "frac_width": 1})
    opened.document.apply("Save preset", lambda p: edits.save_preset(p, "mine", config))
    qtbot.waitUntil(lambda: "mine" in names())


@pytest.mark.slow
def test_that_blocks_are_said_to_be_filled_with_independent_values(panel):
    choose(panel.form, "nvfp4")
    assert "Block size 16" in panel.summary.text()
    assert "assumes independent neighbours" in panel.summary.text()
    assert "4.50 bits" in panel.summary.text()


@pytest.mark.slow
def test_that_a_tensor_without_spread_says_so(panel):
    panel.tensor.setCurrentIndex(3)
    panel.tensor.activated.emit(3)
    assert "All observed values are equal" in panel.summary.text()


def a_format_is_given_to_what_is_chosen_as_one_step(panel, opened, qtbot):
    assert not panel.apply.isEnabled()
    assert "only emulated" in panel.apply.toolTip()
    opened.document.apply("t", lambda p: edits.set_target(p, CHOICE))
    opened.context.selection.choose_modules(["head"])
    qtbot.waitUntil(lambda: panel.apply.isEnabled() and panel.apply.text() == "Set head")
    choose(panel.form, "nvfp4")
    panel.apply.click()
    rule = opened.document.project.rules[-1]
    assert (rule.kind, rule.match) == ("module_name", "head")
    assert isinstance(rule.config, FormatConfig)
    assert rule.config.scheme == "nvfp4"
    assert panel.back.isEnabled()
    panel.back.click()
    assert panel.form.config.scheme == "integer"


@for_each(
    "promise",
    [
        grid_and_sqnr_follow_parameters_tensors_and_what_is_chosen,
        a_format_is_given_to_what_is_chosen_as_one_step,
    ],
)
def test_that_a_format_is_tried_and_given(promise, panel, opened, qtbot):
    opened.document.undo_stack.setIndex(0)
    opened.context.selection.clear()
    qtbot.waitUntil(lambda: not panel.apply.isEnabled())
    promise(panel, opened, qtbot)
