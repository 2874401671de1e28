"""The window as a person uses it, over fake engines."""

from __future__ import annotations

import subprocess
import sys

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QApplication, QPushButton, QTabBar

from tests.conftest import SESSIONS
from tests.fakes.engine import Play
from tests.fakes.projects import make_project, write_project
from ui.features.project.new_project import NewProjectDialog
from ui.features.project.recipe import RecipeDialog
from ui.shell.actions import OTHER_WORDS
from ui.shell.panels import PANELS
from workbench.errors import ErrorInfo, Place
from workbench.graph.snapshot import GraphSnapshot, Node
from workbench.project import edits, store
from workbench.project.model import TargetChoice
from workbench.project.opened import OpenProject
from workbench.protocol import decode_event

SLOW = pytest.mark.slow


def run_to(workbench, qtbot, stage):
    action = {"": "run_all", "evaluate": "run_evaluate", "lower": "run_lower"}[stage]
    workbench.window.actions_by_id[action].trigger()
    qtbot.waitUntil(lambda: not workbench.runner.running)
    qtbot.waitUntil(lambda: workbench.session.stage(stage or "package").state != "queued")


def drop(window, path):
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path))])
    kind = Qt.DropAction.CopyAction
    none = Qt.KeyboardModifier.NoModifier
    window.dropEvent(QDropEvent(QPointF(5, 5), kind, data, Qt.MouseButton.LeftButton, none))


def state_of(workbench, stage):
    return workbench.window.pipeline.button(stage).view.state


def test_that_the_first_page_is_there_and_every_panel_opens_empty(workbench, qtbot):
    # The first page is there without a project.
    assert workbench.window.welcome.isVisible()
    assert not workbench.window.actions_by_id["save"].isEnabled()
    assert "Quantization Workbench" in workbench.window.windowTitle()
    # The first page begins a project from a recipe.
    buttons = workbench.window.welcome.findChildren(QPushButton)
    next(b for b in buttons if b.text().startswith("New from recipe")).click()
    (dialog,) = workbench.window.findChildren(RecipeDialog)
    assert dialog.isVisible()
    dialog.reject()
    # A panel opens empty and has names for everything.
    for row in PANELS:
        panel = row.load()(workbench.context)
        qtbot.addWidget(panel)
        panel.resize(400, 300)
        panel.show()
        panel.flush()
        shown = [b for b in panel.findChildren(QPushButton) if b.isVisible()]
        nameless = [b for b in shown if not (b.text() or b.accessibleName())]
        assert not nameless
        panel.stop()


def test_that_an_open_project_has_panels_a_theme_a_palette_and_layouts(opened, qtbot):
    # An open project shows its panels and stages.
    assert not opened.window.welcome.isVisible()
    assert opened.window.docks["modules"].isVisible()
    assert state_of(opened, "export") == "stale"
    assert state_of(opened, "run") == "stale"
    assert opened.window.windowTitle().startswith("net.qwb")
    # A layout comes back.
    opened.window.docks["inspector"].hide()
    opened.settings.save_layout("mine", opened.window.layout_parts())
    opened.window.reset_layout()
    assert opened.window.docks["inspector"].isVisible()
    opened.window.apply_layout(opened.settings.layout("mine"))
    assert not opened.window.docks["inspector"].isVisible()
    # The theme changes at once and is remembered.
    assert opened.context.theme.dark
    opened.window.actions_by_id["theme"].trigger()
    assert not opened.context.theme.dark
    assert opened.settings.theme == "light"
    opened.window.actions_by_id["theme"].trigger()
    # The palette does what it finds.
    opened.window.actions_by_id["palette"].trigger()
    box = opened.window.palette_box
    qtbot.keyClicks(box.line, "dark theme")
    assert box.list.item(0).text().startswith("Toggle dark theme")
    qtbot.keyClick(box.line, Qt.Key.Key_Return)
    assert not opened.context.theme.dark
    assert not box.isVisible()


def test_that_a_whole_run_fills_the_window_and_a_second_opening_needs_no_engine(
    opened, qtbot, notices, tmp_path, engines, project_file
):
    # A whole run fills the window.
    run_to(opened, qtbot, "")
    states = {v.id: v.state for v in opened.session.stages() if v.id != "run"}
    assert set(states.values()) == {"cached"}
    tree = opened.window.reveal("modules").tree
    qtbot.waitUntil(lambda: tree.model().rowCount() == 1)
    problems = opened.context.problems
    qtbot.waitUntil(
        lambda: any("runs on the CPU" in problems.index(row, 1).data() for row in range(problems.rowCount()))
    )
    # An edit makes later stages stale, and undo brings results back.
    opened.context.assigner.modules(["stem"], "a16w8")
    qtbot.waitUntil(lambda: state_of(opened, "prepare") == "stale")
    assert state_of(opened, "export") == "cached"
    opened.document.undo_stack.undo()
    qtbot.waitUntil(lambda: state_of(opened, "package") == "cached")
    # The palette goes to modules.
    qtbot.waitUntil(lambda: bool(opened.context.model_index.modules))
    opened.window.actions_by_id["palette"].trigger()
    qtbot.keyClicks(opened.window.palette_box.line, "stem.conv")
    qtbot.keyClick(opened.window.palette_box.line, Qt.Key.Key_Return)
    assert opened.context.selection.value.modules == {"stem.conv"}
    # Number keys give what it went to a precision.
    tree = opened.window.docks["modules"].panel.tree
    qtbot.waitUntil(tree.hasFocus)
    rules = opened.document.project.rules
    qtbot.keyClick(tree, Qt.Key.Key_2)
    qtbot.waitUntil(lambda: opened.document.project.rules != rules)
    opened.document.undo_stack.undo()
    # Deliverables are copied where the user says.
    opened.deliveries.deliver(tmp_path / "out")
    assert (tmp_path / "out" / "net.pte").read_bytes() == b"PTE!"
    # The graph and its figures are written for other programs.
    opened.deliveries.overlays(tmp_path / "overlays")
    assert {"net.graph.json", "net.error.json", "net.trace.json"} <= {
        file.name for file in (tmp_path / "overlays").iterdir()
    }
    # A second opening shows results with no engine.
    started = len(engines.made)
    opened.files.close_project()
    assert opened.window.welcome.isVisible()
    opened.files.open_path(project_file)
    qtbot.waitUntil(lambda: state_of(opened, "package") == "cached")
    qtbot.waitUntil(lambda: bool(opened.context.model_index.modules))
    assert len(engines.made) == started


def test_that_a_crash_and_a_failed_stage_are_told_once_and_the_project_is_kept(
    opened, qtbot, engines, notices
):
    # A crash is one sentence, and the project is kept.
    info = ErrorInfo(
        message="softmax is too wide.", hint="Use a8w8 there.", where=Place(kind="module", id="head")
    )
    engines.plays = [Play(crash="calibrate"), Play(fail="lower", infos=[info])]
    before = opened.document.project
    run_to(opened, qtbot, "evaluate")
    notice = notices.take("signal 11")
    assert "calibrate" in notice.text
    assert "Run again" in notice.hint
    assert opened.document.project is before
    assert state_of(opened, "prepare") == "cached"
    run_to(opened, qtbot, "evaluate")
    assert state_of(opened, "evaluate") == "cached"
    # A failed stage is told once and listed.
    run_to(opened, qtbot, "lower")
    assert opened.window.pipeline.status.text() == "Compile failed"
    notice = notices.take("softmax is too wide.")
    assert notice.where == info.where
    assert state_of(opened, "lower") == "failed"
    problems = opened.context.problems
    qtbot.waitUntil(lambda: "softmax is too wide." in str(problems.index(0, 1).data()))
    opened.notices.place_asked.emit(notice.where)
    assert opened.context.selection.value.modules == {"head"}


def test_that_the_notice_of_a_failure_goes_when_its_cause_is_changed_or_it_runs_again(
    opened, qtbot, engines, notices
):
    infos = [ErrorInfo(message="softmax is too wide.", hint="Use a8w8 there.")]
    engines.plays = [Play(fail="lower", infos=infos), Play(fail="lower", infos=infos)]
    run_to(opened, qtbot, "lower")
    notice = notices.take("softmax is too wide.")
    assert notice.id in opened.notices.open
    # A button of a panel runs it again.
    opened.context.run_to("lower")
    qtbot.waitUntil(lambda: notice.id not in opened.notices.open)
    qtbot.waitUntil(lambda: state_of(opened, "lower") == "failed")
    notice = notices.take("softmax is too wide.")
    assert notice.id in opened.notices.open
    assert opened.context.assigner.modules(["head"], "a16w8")
    qtbot.waitUntil(lambda: state_of(opened, "lower") != "failed")
    assert notice.id not in opened.notices.open


def test_that_running_work_allows_edits_is_cancelled_and_asked_about_on_closing(
    opened, qtbot, engines, notices
):
    # Closing with work running asks once.
    engines.plays = [Play(hold="calibrate")]
    opened.window.actions_by_id["run_evaluate"].trigger()
    qtbot.waitUntil(lambda: state_of(opened, "calibrate") == "running")
    opened.window.close()
    assert opened.window.isVisible()
    notice = notices.take("Jobs are still running.")
    opened.notices.choose(notice.id, "Cancel")
    assert opened.window.isVisible()
    assert opened.runner.running
    # Editing goes on while work runs.
    assert opened.context.assigner.modules(["head"], "a16w8")
    qtbot.waitUntil(lambda: opened.session.stage("calibrate").reason == "for the former rules")
    opened.document.undo_stack.undo()
    # Cancel leaves finished stages.
    qtbot.waitUntil(lambda: state_of(opened, "calibrate") == "running")
    assert opened.window.pipeline.button("calibrate").second_line().startswith("50 %")
    qtbot.mouseClick(opened.window.pipeline.cancel, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: state_of(opened, "calibrate") == "stale")
    assert state_of(opened, "prepare") == "cached"
    assert not opened.window.pipeline.cancel.isEnabled()


def test_that_edits_have_names_or_are_refused_with_a_reason_and_are_saved_on_demand(
    opened, notices, qtbot, tmp_path, project_file
):
    # A refused precision says why.
    opened.context.assigner.rule("global", "", "uint8")
    assert "signed integers" in notices.take("uint8 cannot be used.").hint
    assert opened.document.undo_stack.count() == 0
    # The same edit has its name in the menu.
    opened.context.assigner.modules(["head"], "a16w8")
    assert opened.document.undo_stack.undoText() == "Set head to a16w8"
    assert opened.window.isWindowModified()
    # A chosen target is one step with a valid memory mode.
    device = opened.window.pipeline.target.device
    options = {"memory_mode": "Dedicated_Sram", "system_config": "Ethos_U85_SYS_DRAM_Low"}
    opened.document.apply(
        "U85", lambda p: edits.set_target(p, TargetChoice(id="ethos-u85-256", options=options))
    )
    row = device.findData("ethos-u55-64")
    device.setCurrentIndex(row)
    device.activated.emit(row)
    target = opened.document.project.target
    assert target.id == "ethos-u55-64"
    assert target.options["system_config"] == "Ethos_U55_High_End_Embedded"
    assert target.options["memory_mode"] == "Shared_Sram"
    assert opened.document.undo_stack.undoText() == "Set target to ethos-u55-64"
    # Unsaved changes are asked about before another project.
    other = write_project(tmp_path / "other")
    opened.files.open_path(other)
    notice = notices.take("Save changes to net.qwb?")
    assert opened.document.path == project_file
    opened.notices.choose(notice.id, "Save")
    assert opened.document.path == other
    assert store.load(project_file).rules[-1].match == "head"


def test_that_a_dropped_file_is_asked_about_or_refused_in_one_sentence(opened, notices, tmp_path):
    # A dropped file that is no use is one sentence.
    cases = [
        ("broken.qwb", "{", "broken.qwb cannot be opened"),
        ("empty.qwb", "", "The project file is empty."),
        ("newer.qwb", '{"version": 99}', "newer program"),
        ("poem.pdf", "roses", "poem.pdf cannot be opened."),
    ]
    for name, content, said in cases:
        project_file = opened.document.path
        path = project_file.parent / name
        path.write_text(content)
        drop(opened.window, path)
        assert notices.take(said).level == "error"
        assert opened.document.path == project_file
    # A model that is opened, e.g. named at the start, is asked about as a dropped one.
    path = project_file.parent / "own.py"
    path.write_text("def net(): ...")
    opened.files.open_path(path)
    (dialog,) = opened.window.findChildren(NewProjectDialog)
    assert dialog.model.text() == str(path)
    dialog.reject()
    # The window asks what dropped data is for.
    path = tmp_path / "mine" / "samples.npz"
    path.write_bytes(b"")
    drop(opened.window, path)
    notice = notices.take("Use samples.npz as which data?")
    opened.notices.choose(notice.id, "Calibration")
    assert opened.document.project.calibration.spec == "samples.npz"
    assert opened.document.undo_stack.undoText() == "Set calibration data to samples.npz"


QUICK = ("failed", "finished")


@pytest.mark.slow
@pytest.mark.parametrize(
    "names",
    [QUICK, *(pytest.param((p.stem,), id=p.stem, marks=SLOW) for p in SESSIONS if p.stem not in QUICK)],
)
def test_that_every_panel_survives_every_recorded_session(opened, qtbot, names, notices):
    for row in PANELS:
        assert opened.window.reveal(row.id) is not None
    for path in (path for path in SESSIONS if path.stem in names):
        for line in path.read_bytes().splitlines():
            opened.runner.received.emit(decode_event(line))
        opened.context.log.flush()
        for row in PANELS:
            opened.window.reveal(row.id).flush()
    if "failed" in names:
        notices.posted.clear()


def test_that_the_view_menu_closes_and_opens_every_panel(opened):
    view = opened.window.menus["&View"]
    assert len(view.actions()) < 20
    (menu,) = (action.menu() for action in view.actions() if action.text() == "&Panels")
    for row in PANELS:
        opened.window.reveal(row.id)
        for is_shown in (False, True):
            menu.aboutToShow.emit()
            (action,) = (a for a in menu.actions() if a.text() == row.title)
            assert action.isChecked() is not is_shown
            action.trigger()
            assert opened.window.docks[row.id].isHidden() is not is_shown, row.title


@pytest.mark.slow
def test_that_tabs_of_an_arrangement_before_do_not_lie_over_the_new_ones(opened):
    for _ in range(3):
        opened.window.reset_layout()
    opened.window.show_workspace("explore")
    home = opened.window.workspaces.homes["explore"]
    bars = [bar for bar in home.findChildren(QTabBar) if bar.parent() is home]
    shown = [bar for bar in bars if not bar.isHidden()]
    assert len(shown) == 1
    titles = {row.title for row in PANELS if row.area == "explore"}
    assert {shown[0].tabText(place) for place in range(shown[0].count())} == titles


def test_that_a_project_not_saved_or_open_elsewhere_is_asked_about(
    workbench, tmp_path, notices, project_file
):
    # A new unsaved project is marked and asked about.
    workbench.document.new(OpenProject(make_project(), tmp_path))
    assert workbench.window.isWindowModified()
    workbench.files.close_project()
    notice = notices.take("Save this new project?")
    workbench.notices.choose(notice.id, "Don't save")
    assert workbench.document.project is None
    # A project open elsewhere can be read.
    from ui.state.document import Document

    other = Document(tmp_path / "recovery")
    other.open(project_file)
    workbench.files.open_path(project_file)
    notice = notices.take("is open in another window")
    workbench.notices.choose(notice.id, "Open read-only")
    assert workbench.document.read_only
    assert "(read only)" in workbench.window.windowTitle()
    other.close()


def test_that_the_palette_has_the_keys_and_is_on_top_of_a_floated_panel_that_had_them(opened, qtbot):
    dock = opened.window.docks["modules"]
    opened.window.show_workspace("model")
    dock.setFloating(True)
    dock.activateWindow()
    opened.window.actions_by_id["palette"].trigger()
    box = opened.window.palette_box
    assert QApplication.activePopupWidget() is box
    qtbot.keyClicks(box.focusWidget(), "dark theme")
    assert box.list.item(0).text().startswith("Toggle dark theme")
    qtbot.keyClick(box.focusWidget(), Qt.Key.Key_Escape)
    assert not box.isVisible()
    dock.setFloating(False)


def test_that_the_palette_lists_no_action_twice(opened, qtbot):
    opened.window.actions_by_id["palette"].trigger()
    box = opened.window.palette_box
    qtbot.keyClicks(box.line, "run to evaluate")
    texts = [box.list.item(row).text() for row in range(box.list.count())]
    assert texts.count("Run to Evaluate") == 1
    qtbot.keyClick(box.line, Qt.Key.Key_Escape)


def test_that_a_project_saved_for_the_first_time_is_among_the_recent_ones(workbench, tmp_path):
    assert not workbench.window.recents.isEnabled()
    workbench.document.new(OpenProject(make_project(), tmp_path))
    workbench.files.save_as(tmp_path / "first.qwb")
    menu = workbench.window.menus["&File"]
    menu.popup(workbench.window.mapToGlobal(QPoint()))
    assert workbench.window.recents.isEnabled()
    assert [a.text().split()[0] for a in workbench.window.recents.actions()] == ["first"]
    menu.close()


def test_that_saving_in_another_folder_tells_where_the_files_stay(opened, notices, tmp_path):
    folder = opened.document.folder
    opened.files.save_as(folder / "copy.qwb")
    assert not notices.says("stay in")
    (tmp_path / "other").mkdir()
    opened.files.save_as(tmp_path / "other" / "copy.qwb")
    assert str(folder) in notices.take("stay in").text


def test_that_the_window_never_imports_torch_and_panels_are_there_before_pyqtgraph_is_read():
    code = (
        "import ui.shell.app, sys;"
        "heavy = {'torch', 'torchao', 'executorch', 'numpy', 'pyqtgraph'};"
        "print(sorted(heavy & set(sys.modules)));"
        "import ui.features.ranges.ranges_panel, ui.features.cost.cost_panel;"
        "import ui.features.accuracy.accuracy_panel;"
        "print(sorted({'torch', 'pyqtgraph'} & set(sys.modules)))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert said.stdout.splitlines() == ["[]", "[]"]


def test_that_a_machine_without_a_screen_gets_a_sentence(monkeypatch, capsys):
    from ui.__main__ import main

    for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        monkeypatch.delenv(name, raising=False)
    assert main(["digits.qwb"]) == 2
    assert "`workbench run digits.qwb --out dist`" in capsys.readouterr().err


def test_that_a_place_is_shown_at_its_level_and_a_refused_module_kept_off(opened, qtbot, notices):
    # A place in a later graph is shown at its level.
    run_to(opened, qtbot, "lower")
    graph = opened.window.reveal("graph")
    qtbot.waitUntil(lambda: graph.tabs.isTabEnabled(3))
    edge = GraphSnapshot.load(opened.session.result("lower") / "graph.json")
    extra = Node("edge_only", "quantize", "quantize")
    nodes = (*edge.nodes, extra)
    changed = GraphSnapshot("edge", nodes, edge.edges, edge.modules)
    changed.save(opened.session.result("lower") / "graph.json")
    opened.notices.place_asked.emit(Place(kind="node", id="edge_only"))
    qtbot.waitUntil(lambda: graph.tabs.tabText(graph.tabs.currentIndex()) == "Edge")
    assert opened.context.selection.value.nodes == {"edge_only"}
    # What the compiler refuses is kept off in one step.
    opened.window.actions_by_id["blame"].trigger()
    qtbot.waitUntil(lambda: notices.says("The compiler rejects head."))
    notice = notices.take("The compiler rejects head.")
    assert notice.hint == "Vela said no."
    opened.notices.choose(notice.id, "Keep on CPU")
    rule = opened.document.project.rules[-1]
    assert (rule.kind, rule.match, rule.config) == ("module_name", "head", "cpu")
    assert opened.document.undo_stack.undoText() == "Keep head on the CPU"


def test_that_the_palette_finds_panels_by_the_words_of_the_field(opened, qtbot):
    assert set(OTHER_WORDS) <= set(opened.window.actions_by_id)
    opened.window.actions_by_id["palette"].trigger()
    box = opened.window.palette_box
    qtbot.keyClicks(box.line, "QAT")
    assert box.list.item(0).text() == opened.window.actions_by_id["go_training"].text().replace("&", "")
    box.hide()
