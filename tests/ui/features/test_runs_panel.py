"""The Runs panel over fake engines: runs appear, are compared and restored."""

import pytest
from PySide6.QtCore import Qt

from tests.fakes import fvp, runner_elf
from tests.fakes.projects import make_project, write_project
from ui.features.runs.run_table import RunRow
from ui.features.runs.runs_panel import NO_PAIR
from workbench.deploy.simulators.discovery import MachineSettings, save_settings
from workbench.history.store import History, history_path
from workbench.project import edits
from workbench.project.model import TargetChoice


@pytest.fixture
def panel(opened):
    return opened.window.reveal("runs")


def evaluated(workbench, qtbot, count):
    workbench.runs.run_to("lower")
    workbench.runs.run_to("evaluate")
    qtbot.waitUntil(lambda: len(workbench.history.runs) == count)
    qtbot.waitUntil(lambda: not workbench.runner.running)
    qtbot.waitUntil(lambda: workbench.history.runs[-1].cost is not None)


@pytest.fixture
def two_runs(opened, panel, qtbot):
    # Without runs the panel says how they come.
    assert "No runs yet" in panel.none.label.text()
    assert not panel.restore.isEnabled()
    evaluated(opened, qtbot, 1)
    with qtbot.waitSignal(opened.session.planned_anew):
        opened.document.apply("Set head", lambda p: edits.assign(p, "module_name", "head", "float"))
    evaluated(opened, qtbot, 2)
    qtbot.waitUntil(lambda: panel.table.model().rowCount() == 2)
    return opened


def texts(table, column):
    model = table.model()
    return [model.index(row, column).data() for row in range(model.rowCount())]


def titles(table):
    model = table.model()
    horizontal = Qt.Orientation.Horizontal
    return [model.headerData(column, horizontal) for column in range(model.columnCount())]


def test_that_long_rules_leave_the_cycles_visible_beside_the_plot(two_runs, panel, qtbot):
    panel.resize(1500, 700)
    qtbot.waitUntil(lambda: panel._split.width() > 1400)
    (row, *_) = panel.model.rows
    (rule, *_) = row.run.rules
    modules = [f"backbone.stage{number}.conv" for number in range(9)]
    rules = [rule.model_copy(update={"kind": "module_name", "match": name}) for name in modules]
    panel.model.set_rows([RunRow(row.run.model_copy(update={"rules": (rule, *rules)}))])
    header, at = panel.table.horizontalHeader(), titles(panel.table).index("Cycles")
    qtbot.waitUntil(lambda: panel.table.width() > 600)
    end = header.sectionViewportPosition(at) + header.sectionSize(at)
    assert 0 < end <= panel.table.viewport().width()


def test_that_a_comparison_says_what_to_do_and_aligns_changes_as_numbers(two_runs, panel, qtbot):
    panel.pages.setCurrentIndex(1)
    assert panel.change_table.isVisible()
    assert panel.change_table.empty == NO_PAIR
    assert texts(panel.change_table, 1) == []
    panel.table.selectAll()
    assert "head" in texts(panel.change_table, 1)
    # Figures that are equal are told as such.
    shown = dict(zip(texts(panel.change_table, 1), texts(panel.change_table, 2), strict=True))
    assert shown["Cycles"] == "equal"
    right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
    change = panel.change_table.model().index(0, 2)
    assert change.data(Qt.ItemDataRole.TextAlignmentRole) == right


def test_that_evaluated_configurations_are_listed_compared_restored_and_kept(two_runs, panel, qtbot):
    # Every evaluated configuration is listed with its figures.
    assert texts(panel.table, 0) == ["1", "2"]
    columns = titles(panel.table)
    assert texts(panel.table, columns.index("Cycles")) == ["1,000", "1,000"]
    assert texts(panel.table, columns.index("Rules")) == ["a8w8", "a8w8, head: float"]
    shown = {
        title for column, title in enumerate(titles(panel.table)) if not panel.table.isColumnHidden(column)
    }
    assert {"Run", "Accuracy", "Cycles", "SRAM [KiB]"} <= shown
    # What runs are chosen by needs no scrolling where the window is small.
    panel.resize(1000, 480)
    qtbot.waitUntil(lambda: panel.table.width() > 0.9 * panel.width())
    header = panel.table.horizontalHeader()
    for title in ("Rules", "Accuracy", "Cycles", "SRAM [KiB]", "CPU ops"):
        at = columns.index(title)
        end = header.sectionViewportPosition(at) + header.sectionSize(at)
        assert 0 < end <= panel.table.viewport().width()
    # No run was simulated or verified.
    assert not {"Measured", "Equal to TOSA", "Correct", "Accurate"} & shown
    assert len(panel.plot.dots) == 2
    # Two runs are compared.
    assert not panel.compare.isEnabled()
    panel.table.selectAll()
    qtbot.mouseClick(panel.compare, Qt.MouseButton.LeftButton)
    assert panel.change_table.isVisible()
    assert "head" in texts(panel.change_table, 1)
    # Runs are named by what changed, the change comes before the values, and all of it is visible.
    assert titles(panel.change_table)[2:] == ["Change", "Run 1", "Run 2 (+float head)"]
    assert "float" in texts(panel.change_table, 4)
    header = panel.change_table.horizontalHeader()
    assert header.sectionViewportPosition(4) < panel.change_table.viewport().width()
    assert panel.change_table.width() > 0.9 * panel.width()
    panel.pages.setCurrentIndex(0)
    # Restoring a run is one undo step.
    document = two_runs.document
    after = document.project
    panel.table.selectRow(0)
    panel.restore.click()
    assert [rule.match for rule in document.project.rules] == [""]
    assert document.undo_stack.undoText() == "Restore rules of run 1"
    document.undo_stack.undo()
    assert document.project == after
    # Runs survive closing the project.
    path = two_runs.document.path
    two_runs.document.save()
    two_runs.files.close_project()
    qtbot.waitUntil(lambda: not two_runs.history.runs)
    two_runs.files.open_path(path)
    qtbot.waitUntil(lambda: len(two_runs.history.runs) == 2)


@pytest.mark.slow
def test_that_a_run_on_a_simulator_is_kept_and_told(opened, panel, qtbot, tmp_path):
    assert panel.table.isColumnHidden(titles(panel.table).index("Measured"))
    runner = tmp_path / "runner.elf"
    runner.write_bytes(runner_elf.runner("u55"))
    simulator = fvp.install(tmp_path / "fvp", "FVP_Corstone_SSE-300_Ethos-U55")
    save_settings(MachineSettings(simulators={"u55": str(simulator)}, runners=(str(runner),)))
    opened.session.machine_changed.emit()
    qtbot.waitUntil(lambda: opened.session.stage("run").state == "stale")
    opened.runs.run_to("run")
    qtbot.waitUntil(lambda: texts(panel.table, titles(panel.table).index("Measured")) == ["1,180"])
    assert not panel.table.isColumnHidden(titles(panel.table).index("Measured"))
    sqnr = titles(panel.table).index("SQNR")
    assert texts(panel.table, sqnr) == ["\u2013"]
    assert "measured (FVP_Corstone_SSE-300_Ethos-U55 11.27.42)" in panel.table.model().index(0, 0).data(
        Qt.ItemDataRole.ToolTipRole
    )
    evaluated(opened, qtbot, 1)
    qtbot.waitUntil(lambda: texts(panel.table, sqnr) != ["\u2013"])
    assert texts(panel.table, titles(panel.table).index("Measured")) == ["1,180"]


def test_that_the_table_has_all_the_room_where_the_target_has_no_estimates(two_runs, panel, qtbot):
    assert panel.plot.isVisible()
    choice = TargetChoice(id="formats")
    two_runs.document.apply("Formats", lambda p: edits.set_target(p, choice))
    evaluated_again = len(two_runs.history.runs) + 1
    two_runs.runs.run_to("evaluate")
    qtbot.waitUntil(lambda: len(two_runs.history.runs) == evaluated_again)
    qtbot.waitUntil(lambda: not panel.plot.isVisible() and not panel.plot_note.isVisible())
    qtbot.waitUntil(lambda: panel.table.height() > 0.7 * panel.height())


def test_that_another_project_does_not_get_the_runs_of_a_changed_one(opened, qtbot, tmp_path):
    evaluated(opened, qtbot, 1)
    with qtbot.waitSignal(opened.session.planned_anew):
        opened.document.apply("Set head", lambda p: edits.assign(p, "module_name", "head", "float"))
    # Of another configuration, so that no result of it is known.
    other = write_project(tmp_path / "other", edits.assign(make_project(), "global", "", "a16w8"))
    opened.document.open(other)
    qtbot.waitUntil(lambda: opened.document.path == other)
    qtbot.waitUntil(lambda: not opened.history.runs)
    opened.history.stop()
    assert not list(History(history_path(other)).runs())


def test_that_a_damaged_history_is_said_once(workbench, project_file, notices, qtbot):
    project_file.with_name("net.qwb.runs.sqlite").write_bytes(b"nothing" * 999)
    workbench.files.open_path(project_file)
    qtbot.waitUntil(lambda: notices.says("is damaged"))
    notices.take("is damaged")


def test_that_runs_of_a_foreign_history_are_drawn_whatever_their_figures(two_runs, panel, qtbot):
    run, path = two_runs.history.runs[0], two_runs.document.path
    two_runs.document.save()
    two_runs.files.close_project()
    foreign = History(history_path(path))
    odd = ((2**63 - 1, 0, 1e308), (-(2**63), -1, -1e308), (0, 2**62, 5e-324))
    for number, (cycles, sram, figure) in enumerate(odd):
        cost = run.cost.model_copy(update={"cycles": cycles, "sram_bytes": sram, "inference_ms": figure})
        quality = run.quality.model_copy(update=dict.fromkeys(("sqnr_db", "top1", "top1_float"), figure))
        change = {"cost": cost, "quality": quality, "digests": {"lower": str(number)}}
        foreign.record(run.model_copy(update=change))
    foreign.close()
    two_runs.files.open_path(path)
    qtbot.waitUntil(lambda: len(two_runs.history.runs) == 5)
    assert not panel.grab().isNull()
    panel.table.selectAll()
    assert not panel.grab().isNull()
    assert panel.table.model().rowCount() == 5
