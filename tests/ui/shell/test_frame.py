"""The frame of the window: one bar, scoreboard, workspaces, drawer and toasts."""

from __future__ import annotations

from itertools import pairwise

import pytest
from PySide6.QtCore import QRect, Qt
from PySide6.QtWidgets import QAbstractButton, QTabBar

from tests.fakes.engine import leave_results
from tests.fakes.results import result_of
from tests.for_each import for_each
from tests.ui.shell.test_window import run_to
from ui.shared.tab_order import reading_order
from ui.shell.panels import WORKSPACES
from ui.shell.toasts import SHOWN, Toast
from ui.state.notices import SHOWN_S, Notice
from workbench.project import edits
from workbench.project.model import TargetChoice

SIZES = [(1024, 640), (1280, 720), (1600, 1000)]


@pytest.fixture
def done(opened, qtbot):
    """The window after a whole run."""
    run_to(opened, qtbot, "")
    qtbot.waitUntil(lambda: any(score.id == "cycles" for score in opened.scores.values))
    qtbot.waitUntil(lambda: opened.window.scoreboard.tiles["cycles"].score.value != "\u2013")
    qtbot.waitUntil(lambda: opened.window.workspaces.current == "outcome")
    opened.window.show_workspace("model")
    return opened


def tile(workbench, name):
    return workbench.window.scoreboard.tiles[name]


def click(qtbot, widget):
    qtbot.mouseClick(widget, Qt.MouseButton.LeftButton)


def workspaces_and_figures_lead_to_panels_and_a_layout_keeps_them(done, qtbot, *_):
    # Every workspace shows its panels and no others.
    for row in WORKSPACES:
        click(qtbot, done.window.rail.buttons[row.id])
        assert done.window.workspaces.current == row.id
        shown = [n for n, d in done.window.docks.items() if d.parent() is not done.window]
        visible = [n for n in shown if done.window.docks[n].isVisible()]
        home = done.window.workspaces.homes[row.id]
        assert visible
        assert all(done.window.docks[n].parent() is home for n in visible)
    # Ctrl and a number switch the workspace.
    for row in WORKSPACES:
        done.window.actions_by_id[f"workspace_{row.id}"].trigger()
        assert done.window.workspaces.current == row.id
        assert done.window.rail.buttons[row.id].isChecked()
    # A layout keeps the workspace and its panels.
    done.window.reveal("memory")
    done.window.docks["timeline"].hide()
    done.settings.save_layout("mine", done.window.layout_parts())
    done.window.reset_layout()
    assert done.window.workspaces.current == "model"
    assert not done.window.docks["timeline"].isHidden()
    done.window.apply_layout(done.settings.layout("mine"))
    assert done.window.workspaces.current == "performance"
    assert done.window.docks["timeline"].isHidden()
    # A figure leads to its details.
    cases = [("sqnr", "accuracy"), ("cycles", "cost"), ("sram", "memory"), ("cpu", "cost"),
     ("equal", "accuracy")]  # fmt: skip
    for name, panel in cases:
        click(qtbot, tile(done, name))
        assert done.window.docks[panel].isVisible()
    # One click finds the worst layer.
    click(qtbot, tile(done, "sqnr"))
    accuracy = done.window.docks["accuracy"].panel
    assert accuracy.worst_first.isChecked()
    worst = min((t for t in result_of("evaluate").tensors if t.sqnr_db is not None),
                key=lambda t: t.sqnr_db)  # fmt: skip
    assert done.context.selection.value.nodes == {worst.origin}


@pytest.mark.slow
def test_that_a_layout_of_a_version_without_workspaces_keeps_the_sides(done):
    done.window.docks["rules"].hide()
    parts = {"outer": done.window.saveState(), "inner": done.window.saveState()}
    done.window.reset_layout()
    done.window.apply_layout(parts)
    assert done.window.docks["rules"].isHidden()
    assert not done.window.docks["cost"].isHidden()
    assert done.window.pipeline.isVisible()


def let_cycles(monkeypatch, cycles):
    lowered = result_of("lower")
    before = lowered.vela[0]
    time = before.inference_ms * cycles / before.cycles_total
    report = before.model_copy(update={"cycles_total": cycles, "inference_ms": time})
    leave_results(monkeypatch, lower=lowered.model_copy(update={"vela": (report,)}))


def let_top1(monkeypatch, quantized, float_):
    value = result_of("evaluate")
    classes = {"decided": 400, "decided_equal": 380}
    figures = {
        "top1_quantized": quantized,
        "top1_float": float_,
        "samples": 400,
        "outputs": tuple(o.model_copy(update=classes) for o in value.outputs),
    }
    leave_results(monkeypatch, evaluate=value.model_copy(update=figures))


def assert_that_the_first_run_is_not_compared_with_itself(done, qtbot):
    qtbot.waitUntil(lambda: len(done.history.runs) == 1)
    assert done.context.pin.run is None
    assert tile(done, "cycles").score.delta == ""


def assert_that_a_first_run_that_is_present_again_is_not_compared(done, qtbot):
    done.document.undo_stack.undo()
    qtbot.waitUntil(lambda: done.context.pin.run is None)
    qtbot.waitUntil(lambda: done.window.scoreboard.pin.text() == "vs. float")


def assert_that_a_run_of_another_model_is_not_compared(done, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(done.session, "planned_key", lambda stage: f"other {stage}")
        assert done.context.pin.run is None


def assert_that_a_run_of_another_clock_is_compared_by_time(done, qtbot, monkeypatch):
    first, *others = done.history.runs
    fast = first.cost.model_copy(update={"cycles": 2000, "inference_ms": 1.0})
    slow = first.cost.model_copy(update={"cycles": 1000, "inference_ms": 3.0})
    with monkeypatch.context() as patch:
        patch.setattr(done.history, "runs", (first.model_copy(update={"cost": fast}), *others))
        patch.setattr("workbench.history.runs.cost_of", lambda _lowered: slow)
        done.context.pin.changed.emit()
        qtbot.waitUntil(lambda: tile(done, "cycles").score.delta == "+200.0 % time")
        assert tile(done, "cycles").score.is_better is False
    done.context.pin.changed.emit()
    qtbot.waitUntil(lambda: "time" not in tile(done, "cycles").score.delta)


def the_scoreboard_shows_values_origins_and_differences(done, qtbot, _, monkeypatch):
    assert_that_the_first_run_is_not_compared_with_itself(done, qtbot)
    let_top1(monkeypatch, quantized=0.92, float_=1.0)
    done.context.assigner.modules(["head"], "a8w4")
    qtbot.waitUntil(lambda: tile(done, "quality").score.is_stale)
    run_to(done, qtbot, "")
    qtbot.waitUntil(lambda: "92.0 %" in tile(done, "quality").score.value)
    qtbot.waitUntil(lambda: tile(done, "quality").score.is_bad)
    # Without a choice the accuracy is compared with the float model, the cost with the first run.
    qtbot.waitUntil(lambda: getattr(done.context.pin.run, "number", 0) == 1)
    assert_that_a_run_of_another_model_is_not_compared(done, monkeypatch)
    quality = tile(done, "quality").score
    assert "float 100.0" in quality.value
    assert (quality.delta, quality.is_better) == ("\u22128.0", False)
    assert_that_a_first_run_that_is_present_again_is_not_compared(done, qtbot)
    # Any run or none can be pinned.
    done.context.pin.choose(0)
    qtbot.waitUntil(lambda: tile(done, "cycles").score.delta == "")
    assert done.window.scoreboard.pin.text() == "No comparison"
    done.context.pin.choose(1)
    qtbot.waitUntil(lambda: tile(done, "cycles").score.delta != "")
    assert done.window.scoreboard.pin.text() == "vs. run 1"
    assert_that_a_run_of_another_clock_is_compared_by_time(done, qtbot, monkeypatch)
    # Figures of a former configuration are marked.
    assert not tile(done, "sqnr").score.is_stale
    done.context.assigner.modules(["head"], "a16w8")
    qtbot.waitUntil(lambda: tile(done, "sqnr").score.is_stale)
    assert "Outdated" in tile(done, "sqnr").toolTip()
    done.document.undo_stack.undo()
    qtbot.waitUntil(lambda: not tile(done, "sqnr").score.is_stale)
    # A figure has a value, an origin and a difference to the pinned run.
    assert tile(done, "cycles").score.value.startswith("1,000 \u00b7 ")
    assert "Estimated by Vela 5.1.0" in tile(done, "cycles").toolTip()
    # Earlier runs are read in a thread.
    qtbot.waitUntil(lambda: tile(done, "cycles").score.delta == "\u00b10")
    let_cycles(monkeypatch, 900)
    done.context.assigner.modules(["head"], "a16w8")
    qtbot.waitUntil(lambda: tile(done, "cycles").score.is_stale)
    run_to(done, qtbot, "")
    qtbot.waitUntil(lambda: tile(done, "cycles").score.delta == "\u221210.0 %")
    assert tile(done, "cycles").score.is_better is True
    assert "against run 1" in tile(done, "cycles").toolTip()
    # The scoreboard shows what the target has.
    choice = TargetChoice(id="formats")
    done.document.apply("Set target", lambda p: edits.set_target(p, choice))
    qtbot.waitUntil(lambda: "cycles" not in done.window.scoreboard.tiles)
    assert not done.window.rail.buttons["performance"].isVisible()


def the_drawer_opens_on_demand_and_the_workspace_has_most_of_a_narrow_window(done, qtbot, *_):
    # The drawer opens and closes with its button.
    window = done.window
    assert not window.docks["log"].isVisible()
    click(qtbot, window.notes["log"])
    assert window.docks["log"].isVisible()
    click(qtbot, window.notes["log"])
    assert not window.docks["log"].isVisible()
    # A new error opens the drawer.
    from ui.shared.problem_list import Problem

    problem = Problem("error", "The board is too small.")
    done.context.problems.set_problems([problem])
    assert done.window.docks["problems"].isVisible()
    assert done.window.notes["problems"].text() == "1 problem"
    # The stages are listed with their states.
    menu = done.window.pipeline.status.menu()
    menu.aboutToShow.emit()
    texts = [action.text() for action in menu.actions()]
    assert texts[0].startswith("Load\t")
    assert done.window.pipeline.status.text() == "Up to date"
    # The workspace has most of the window.
    for width, height in SIZES:
        window = done.window
        window.resize(width, height)
        assert (window.width(), window.height()) == (width, height)
        window.reset_layout()
        assert window.workspaces.height() >= 0.7 * height
        assert window.pipeline.height() <= 44
        assert window.minimumSizeHint().width() <= 1024
    # The window stays narrow with a long name of the target.
    window, choice = done.window, TargetChoice(id="ethos-u85-2048")
    with qtbot.waitSignal(done.session.planned_anew):
        done.document.apply("Device", lambda p: p.model_copy(update={
            "target": choice, "board": "boards/a-board-with-a-long-name.toml",
        }))  # fmt: skip
    assert "a-board-with-a-long-name" in window.pipeline.goal.toolTip()
    assert window.minimumSizeHint().width() <= 1024
    window.resize(window.minimumSizeHint())
    assert window.pipeline.goal.width() < window.pipeline.goal.sizeHint().width()


def toasts(workbench):
    return [toast for toast in workbench.window.findChildren(Toast) if toast.isVisible()]


def close_all(workbench):
    for notice in list(workbench.notices.open.values()):
        workbench.notices.close(notice.id)


@pytest.mark.slow
def test_that_a_toast_is_gone_when_its_time_is_over(done, qtbot):
    # A toast below the cursor stays.
    qtbot.mouseMove(done.window.menuBar())
    notice = Notice(990, "info", "Gone soon.", lasts_s=0.02)
    done.notices.open[notice.id] = notice
    done.notices.posted.emit(notice)
    qtbot.waitUntil(lambda: len(toasts(done)) == 1)
    qtbot.waitUntil(lambda: toasts(done) == [])


@pytest.mark.slow
def test_that_what_a_toast_says_is_in_the_log(done, notices):
    done.notices.info("Wrote the report.")
    done.notices.warning("It is too large.", "Choose a smaller one.")
    done.context.log.flush()
    lines = [done.context.log.index(r, 0).data() for r in range(done.context.log.rowCount())]
    assert any("Wrote the report." in line for line in lines)
    # What helps is in the log too.
    assert any("Choose a smaller one." in line for line in lines)
    notices.take("too large")


def toasts_are_few_leave_and_cover_neither_buttons_nor_problems(done, qtbot, notices, _):
    # A notice that is taken back at once is not shown.
    done.notices.info("Gone before it was seen.")
    close_all(done)
    done.notices.info("Stays.")
    qtbot.waitUntil(lambda: toasts(done) != [])
    assert [toast.notice.text for toast in toasts(done)] == ["Stays."]
    close_all(done)
    qtbot.waitUntil(lambda: toasts(done) == [])
    # Toasts cover no button.
    done.window.resize(1280, 720)
    done.notices.success("Evaluate finished.", "Duration: 43 s.")
    qtbot.waitUntil(lambda: len(toasts(done)) == 1)
    (toast,) = toasts(done)
    for row in WORKSPACES:
        done.window.show_workspace(row.id)
        qtbot.wait(50)
        box = toast.geometry()
        covered = [
            button.accessibleName() or button.text()
            for button in done.window.findChildren(QAbstractButton)
            if not toast.isAncestorOf(button) and box.intersects(place_of(button, done.window))
        ]
        assert covered == []
    # Toasts do not cover the problems.
    panel = done.window.reveal("problems")
    qtbot.waitUntil(panel.table.isVisible)
    place = place_of(panel.table, done.window)
    qtbot.waitUntil(lambda: not toast.geometry().intersects(place))
    # Toasts leave by themselves, and questions stay.
    done.notices.info("Gone soon.")
    done.notices.warning("Gone soon too.")
    done.notices.question("Stay?", "", [])
    notices.take("Gone soon too.")
    notices.take("Stay?")
    times = {notice.text: notice.lasts_s for notice in done.notices.open.values()}
    assert times["Gone soon."] == times["Gone soon too."] == SHOWN_S == 6.0
    assert times["Stay?"] is None
    # At most three toasts are shown.
    for number in range(5):
        done.notices.info(f"Notice {number}.")
    qtbot.waitUntil(lambda: toasts(done)[-1].notice.text == "Notice 4.")
    assert len(toasts(done)) == SHOWN == 3


@for_each(
    "promise",
    [
        workspaces_and_figures_lead_to_panels_and_a_layout_keeps_them,
        toasts_are_few_leave_and_cover_neither_buttons_nor_problems,
        the_drawer_opens_on_demand_and_the_workspace_has_most_of_a_narrow_window,
        the_scoreboard_shows_values_origins_and_differences,
    ],
)
def test_that_the_frame_leads_tells_and_leaves_room(promise, done, qtbot, notices, monkeypatch):
    close_all(done)
    done.document.undo_stack.setIndex(0)
    done.window.resize(1040, 800)
    done.window.reset_layout()
    qtbot.waitUntil(lambda: done.session.stage("package").state == "cached")
    promise(done, qtbot, notices, monkeypatch)


def place_of(widget, window):
    region = widget.visibleRegion().boundingRect() if widget.isVisible() else QRect()
    return QRect(widget.mapTo(window, region.topLeft()), region.size())


def tab_chain(window):
    """Return the widgets that the Tab key visits from the button Run on."""
    return [stop for stop in window.tab_stops() if stop.isVisible() and stop.isEnabled()]


def test_that_tab_goes_through_the_window_as_it_is_read(opened, qtbot):
    # The Tab key moves the focus along the chain.
    window = opened.window
    run_to(opened, qtbot, "")
    qtbot.waitUntil(lambda: window.workspaces.current == "outcome")
    window.activateWindow()
    chain = tab_chain(window)
    chain[0].setFocus(Qt.FocusReason.TabFocusReason)
    for wanted in chain[1:20]:
        qtbot.keyClick(window.focusWidget(), Qt.Key.Key_Tab)
        assert window.focusWidget() in {wanted, wanted.focusProxy()}
    # Tab goes through the window as it is read.
    for workspace in ["model", "accuracy", "performance", "explore", "deliver"]:
        window.show_workspace(workspace)
        window.reveal("problems")
        window.show_sides(on=True)
        qtbot.waitUntil(lambda: not any(dock.wanting for dock in window.docks.values()))
        regions = [
            window.pipeline,
            window.scoreboard,
            window.rail,
            window.docks["modules"],
            window.docks["rules"],
            window.workspaces,
            window.docks["inspector"],
            window.docks["problems"],
            window.statusBar(),
        ]

        def passed():
            return [k for w in tab_chain(window) for k, r in enumerate(regions) if r.isAncestorOf(w)]

        # Panels make their contents one after the other.
        qtbot.waitUntil(lambda: passed() == sorted(passed()) and set(passed()) == set(range(len(regions))))


def test_that_tab_visits_what_is_shown_from_the_top_and_tabs_before_their_panels(opened, qtbot):
    # The Tab key stops at the workspace that is shown.
    rail = opened.window.rail
    for name in ("performance", "model"):
        opened.window.show_workspace(name)
        assert [b for b in tab_chain(opened.window) if b in rail.buttons.values()] == [rail.buttons[name]]
    # Tab goes through a panel from top to bottom.
    # Where parts are not side by side.
    opened.window.resize(860, 700)
    for name in ["rules", "modules", "search", "training", "simulator", "log"]:
        panel = opened.window.reveal(name)
        qtbot.waitUntil(panel.isVisible)

        def descends():
            tops = [place.y() for place in rows(panel)]
            # Controls of one line may differ in height.
            return all(after >= before - 12 for before, after in pairwise(tops))

        # A panel may arrange its parts anew when it knows its size.
        qtbot.waitUntil(descends)
    # Tabs of panels come before the panels.
    window = opened.window
    run_to(opened, qtbot, "")
    names = ["ranges", "cost", "inspector"]
    # Qt makes other tab bars.
    for name in names:
        window.docks[name].setFloating(True)
    window.reset_layout()
    for name in names:
        window.reveal(name)

        def follows_its_tabs():
            chain = tab_chain(window)
            bars = [k for k, w in enumerate(chain) if isinstance(w, QTabBar) and is_shown_by(w)]
            inside = [k for k, w in enumerate(chain) if window.docks[name].isAncestorOf(w)]
            return len(bars) == 1 and inside[:1] == [bars[0] + 1]

        def is_shown_by(bar):
            return bar.tabText(bar.currentIndex()) == window.docks[name].windowTitle()

        qtbot.waitUntil(follows_its_tabs)


def rows(panel):
    """Return the controls of a panel in the order of the Tab key, by row and column."""
    chain = [w for w in reading_order(panel) if w.isVisible() and w.isEnabled()]
    return [w.mapTo(panel, w.rect().topLeft()) for w in chain]
