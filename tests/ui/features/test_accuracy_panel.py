"""The numerics panel as a person uses it, over recorded values."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt

from tests.fakes.engine import leave_results
from tests.fakes.results import result_of
from tests.for_each import for_each
from tests.ui.shell.test_window import run_to
from ui.shared.empty_states import LOADING
from workbench.project import edits
from workbench.project.model import TargetChoice
from workbench.results import EXAMPLE_ONLY, CompiledProgram, IntegerQuality, SampleQuality, TensorQuality

NODES = (("conv2d", "stem.conv", 40.0), ("relu", "stem.relu", None), ("linear", "head", 20.0))


def evaluated(**changes):
    tensors = tuple(
        TensorQuality(
            tensor=n, origin=n, module=m, op=f"aten.{n}.default", sqnr_db=s, cosine=0.99, max_abs_error=0.1
        )
        for n, m, s in NODES
    )
    figures = {"tensors": tensors, "top1_float": 0.98, "top1_quantized": 0.97, **changes}
    return result_of("evaluate").model_copy(update=figures)


def shown(opened, qtbot, stage=""):
    run_to(opened, qtbot, stage)
    panel = opened.window.reveal("accuracy")
    qtbot.waitUntil(lambda: panel.has("evaluate"))
    return panel


@pytest.fixture
def panel(opened, qtbot, monkeypatch):
    leave_results(monkeypatch, evaluate=evaluated())
    return shown(opened, qtbot)


def test_that_each_part_tells_its_own_state_and_what_the_target_lacks(opened, qtbot):
    # Each part has its own empty sentence and button.
    opened.window.resize(1900, 1000)
    panel = opened.window.reveal("accuracy")
    quality, verify = (panel.frames[s].note for s in ("evaluate", "verify"))
    qtbot.waitUntil(lambda: quality.button.isVisible() and verify.button.isVisible())
    assert quality.button.text() == "Evaluate"
    assert verify.button.text() == "Verify"
    assert quality.label.text()
    # The quality is shown while the comparison is still missing.
    panel = shown(opened, qtbot, "evaluate")
    assert panel.frames["evaluate"].content.isVisible()
    assert panel.frames["verify"].note.isVisible()
    qtbot.mouseClick(panel.frames["verify"].note.button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: panel.has("verify"))
    qtbot.waitUntil(lambda: not opened.runner.running)
    # A target without a program has no comparison.
    qtbot.waitUntil(lambda: not panel.frames["verify"].isHidden())
    choice = TargetChoice(id="formats")
    opened.document.apply("Set target", lambda p: edits.set_target(p, choice))
    qtbot.waitUntil(panel.frames["verify"].isHidden)


def test_that_tables_without_rows_take_no_room_from_the_first_paint_on(opened, qtbot):
    run_to(opened, qtbot, "evaluate")
    panel = opened.window.reveal("accuracy")
    panel.flush()
    panel.annotate()
    split = panel.output_table.parentWidget()
    # Only the handle between the two parts that are shown.
    assert [split.handle(number).isHidden() for number in (1, 2)] == [True, True]
    assert split.sizes()[:2] == [0, 0]


def test_that_cards_bars_and_tensors_are_told_sorted_chosen_and_marked(panel, qtbot, opened):
    # Every card says how its figure came about.
    assert "SQNR: 34.50 dB, measured in PyTorch" in panel.cards.texts()
    assert "Top-1: 98.00 \u2192 97.00 %, measured in PyTorch" in panel.cards.texts()
    assert "Bit-exact: 98.75 %, computed (TOSA model)" in panel.comparison.cards.texts()
    assert "Max difference: 1 LSB, computed (TOSA model)" in panel.comparison.cards.texts()
    assert "Same class: 16 of 16, computed (TOSA model)" in panel.comparison.cards.texts()
    # Without a text there are no tokens.
    assert not panel.pages.isTabVisible(2)
    assert not any("Perplexity" in text for text in panel.cards.texts())
    # The worst stand first in bars and table, and equal ones come last.
    assert panel.bars.names == ("conv2d", "relu", "linear")
    qtbot.mouseClick(panel.worst_first, Qt.MouseButton.LeftButton)
    assert panel.bars.names == ("linear", "conv2d", "relu")
    rows = [panel.model.index(row, 0).data() for row in range(3)]
    assert rows == ["linear", "conv2d", "relu"]
    qtbot.mouseClick(panel.worst_first, Qt.MouseButton.LeftButton)
    assert panel.model.index(0, 0).data() == "conv2d"
    # A module chosen elsewhere marks its tensors.
    opened.context.selection.choose_modules(["stem"])
    qtbot.waitUntil(lambda: panel.table.chosen_rows() == [0, 1])
    # A clicked row is chosen everywhere.
    place = panel.table.visualRect(panel.model.index(2, 0)).center()
    qtbot.mouseClick(panel.table.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert opened.context.selection.value.nodes == {"linear"}
    # Former figures are marked after an edit.
    opened.context.assigner.modules(["stem"], "a16w8")
    opened.window.resize(1900, 1000)
    banners = [panel.frames[stage].banner for stage in ("evaluate", "verify")]
    qtbot.waitUntil(lambda: all(banner.isVisible() for banner in banners))
    assert "Quality: outdated" in banners[0].label.text()
    assert banners[1].button.text() == "Verify"


def test_that_the_operation_which_adds_the_error_is_named_and_not_the_last_one(opened, qtbot, monkeypatch):
    added = {"conv2d": 0.9, "relu": 0.02, "linear": 0.08}
    tensors = tuple(
        tensor.model_copy(update={"added_share": added[tensor.tensor]}) for tensor in evaluated().tensors
    )
    leave_results(monkeypatch, evaluate=evaluated(tensors=tensors))
    panel = shown(opened, qtbot)
    panel.show_worst()
    assert panel.bars.names == ("conv2d", "linear", "relu")
    assert list(panel.bars.heights) == pytest.approx([90, 8, 2])
    assert panel.bars_note.text().startswith("conv2d in stem.conv adds 90.00 % of the error")
    assert opened.context.selection.value.nodes == {"conv2d"}
    assert panel.model.index(0, 2).data() == "90.00 %"
    # The path has the SQNR from the input to the output.
    panel.bars_shown.setCurrentIndex(2)
    panel.bars_shown.activated.emit(2)
    path = [name for name in ("conv2d", "relu", "linear") if name in panel.bars.names]
    assert path
    assert list(panel.bars.names) == path


@pytest.mark.slow
def test_that_figures_without_labels_have_no_card(opened, qtbot):
    panel = shown(opened, qtbot)
    assert not [text for text in panel.cards.texts() if text.startswith("Top")]


def a_users_metric_and_the_worst_samples_are_listed(panel, opened, qtbot):
    assert "F1: 0.9 \u2192 0.8, measured in PyTorch" in panel.cards.texts()
    texts = [panel.samples.index(0, c).data() for c in range(panel.samples.columnCount())]
    assert texts == ["7", "9.00 dB", "1", "3", "3", "5"]
    # A row of the samples that suffer most opens that sample.
    panel.sample_table.activated.emit(panel.samples.index(0, 0))
    looked_at = opened.window.reveal("sample")
    qtbot.waitUntil(lambda: "of sample 7" in looked_at.note.text())
    assert looked_at.tensors.currentData()


@pytest.mark.slow
def test_that_quality_on_the_example_alone_is_said(opened, qtbot, monkeypatch):
    leave_results(monkeypatch, evaluate=evaluated(calibrated_on=EXAMPLE_ONLY))
    panel = shown(opened, qtbot)
    assert EXAMPLE_ONLY in panel.data_note.text()
    assert "on the example input only" in panel.data_note.text()


@pytest.mark.slow
def test_that_a_clicked_bar_is_chosen_everywhere(panel, opened, qtbot):
    qtbot.mouseClick(panel.worst_first, Qt.MouseButton.LeftButton)
    panel.bars.box.picked.emit(0.2, 5.0, False)
    assert opened.context.selection.value.nodes == {"linear"}
    qtbot.waitUntil(lambda: panel.table.chosen_rows() == [0])


@pytest.mark.slow
def test_that_rare_differences_can_be_told(panel, qtbot):
    qtbot.mouseClick(panel.comparison.log, Qt.MouseButton.LeftButton)
    assert "log scale" in panel.comparison.differences.labels["left"]


@pytest.mark.slow
def test_that_both_themes_are_taken_live(panel, opened, qtbot):
    for name in ("light", "dark"):
        opened.context.appearance.switch(name)
        colour = opened.context.theme.surface
        qtbot.waitUntil(lambda c=colour: panel.bars.view.backgroundBrush().color().name() == c)
        panel.grab()


def the_verdict_and_tensors_inside_the_program_are_told(panel, opened, qtbot):
    # Tensors inside the program are listed with the first divergence.
    qtbot.waitUntil(lambda: panel.has("verify"))
    said = "First difference inside: linear in head, 10.00 % of its elements by at most 3 LSB"
    assert panel.comparison.divergence.text() == f"{said}, over 4 samples."
    panel.comparison.integer_table.selectRow(1)
    assert opened.context.selection.value.nodes == {"linear"}
    # The verdict is shown with its limits.
    assert panel.comparison.verdict.text().startswith("Compiled program correct")
    assert "\n" not in panel.comparison.verdict.text()
    model = panel.comparison.checks
    rows = [[model.index(row, column).data() for column in range(4)] for row in range(model.rowCount())]
    assert ["\u2713", "Largest difference [LSB]", "1", "at most 3"] in rows
    assert panel.comparison.pages.isTabVisible(3)
    assert opened.window.pipeline.button("verify").view.differs == ""


@pytest.fixture
def told(opened, qtbot, monkeypatch):
    """The panel with a metric of the user, the worst samples, and tensors inside the program."""
    metric = {"metric_name": "F1", "metric_float": 0.9, "metric_quantized": 0.8}
    worst = (
        SampleQuality(sample=7, sqnr_db=9.0, max_abs_error=1.0, label=3, float_class=3, quantized_class=5),
        SampleQuality(sample=2, sqnr_db=12.0, max_abs_error=0.5),
    )
    figures = {"op": "x", "sqnr_db": None, "cosine": 1.0, "max_abs_error": 0.0}
    tensors = (
        IntegerQuality(tensor="conv2d", origin="conv2d", module="stem.conv", max_lsb=0, exact=1.0, **figures),
        IntegerQuality(tensor="linear", origin="linear", module="head", max_lsb=3, exact=0.9, **figures),
    )
    verified = result_of("verify").model_copy(
        update={"tensors": tensors, "tensor_samples": 4, "first_divergence": "linear"}
    )
    evaluation = evaluated(worst=worst, **metric)
    leave_results(monkeypatch, evaluate=evaluation, verify=verified)
    return shown(opened, qtbot)


@for_each(
    "promise",
    [the_verdict_and_tensors_inside_the_program_are_told, a_users_metric_and_the_worst_samples_are_listed],
)
def test_that_samples_tensors_and_the_verdict_are_told(promise, told, opened, qtbot):
    opened.window.reveal("accuracy")
    promise(told, opened, qtbot)


def test_that_a_program_that_differs_is_shown_and_exported_only_on_demand(
    opened, qtbot, monkeypatch, notices, tmp_path
):
    wrong = CompiledProgram(samples=16, elements=160, equal=120, max_lsb=82)
    verified = result_of("verify").model_copy(update={"compiled": wrong})
    leave_results(monkeypatch, verify=verified)
    panel = shown(opened, qtbot)
    qtbot.waitUntil(lambda: panel.has("verify"))
    missed = panel.comparison.verdict.text().splitlines()[1]
    assert missed == "\u2717\u00a0Outputs that differ: 40 (at most 0)"
    button = opened.window.pipeline.button("verify")
    qtbot.waitUntil(lambda: button.second_line() == "differs")
    opened.window.actions_by_id["run_all"].trigger()
    qtbot.waitUntil(lambda: opened.context.result("package") is not None)
    opened.deliveries.deliver(tmp_path / "out")
    assert not (tmp_path / "out").exists()
    notice = notices.take("Not exported")
    opened.notices.choose(notice.id, "Export with a remark")
    assert (tmp_path / "out" / "net.pte").read_bytes() == b"PTE!"


def test_that_a_program_that_is_not_verified_is_exported_only_on_demand(opened, qtbot, notices, tmp_path):
    opened.runs.run_to("package")
    qtbot.waitUntil(lambda: opened.context.result("package") is not None)
    opened.deliveries.deliver(tmp_path / "out")
    assert not (tmp_path / "out").exists()
    notice = notices.take("Not exported: the program is not verified.")
    opened.notices.choose(notice.id, "Verify")
    qtbot.waitUntil(lambda: opened.context.gate() is not None)
    opened.deliveries.deliver(tmp_path / "out")
    assert (tmp_path / "out" / "net.pte").read_bytes() == b"PTE!"


@pytest.mark.slow
def test_that_a_finished_result_that_is_not_shown_yet_is_loading(opened, qtbot):
    panel = opened.window.reveal("accuracy")
    opened.runs.run_to("evaluate")
    note = panel.frames["evaluate"].note
    qtbot.waitUntil(lambda: panel.has("evaluate"))
    note.render_stage(opened.session.stage("evaluate"))
    assert note.label.text() == LOADING
    assert note.button.isHidden()


@pytest.mark.slow
def test_that_a_narrow_panel_has_tabs_and_a_wide_one_both_parts(panel, opened, qtbot):
    opened.window.resize(1900, 1000)
    qtbot.waitUntil(lambda: panel.parts.is_split)
    both = [panel.frames[stage] for stage in ("evaluate", "verify")]
    qtbot.waitUntil(lambda: all(frame.isVisible() for frame in both))
    opened.window.resize(1024, 700)
    qtbot.waitUntil(lambda: not panel.parts.is_split)
    assert [frame.isVisible() for frame in both] == [True, False]
    panel.parts.tabs.setCurrentIndex(1)
    assert [frame.isVisible() for frame in both] == [False, True]
    panel.show_worst()
    assert both[0].isVisible()
