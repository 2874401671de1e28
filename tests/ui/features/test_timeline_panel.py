"""The Timeline panel as a person uses it: keys, box, clicks, one selection, measured cycles."""

import json
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtWidgets import QApplication, QLineEdit

from tests.fakes import fvp, runner_elf
from tests.fakes.engine import leave_results
from tests.fakes.results import result_of
from tests.for_each import for_each
from tests.ui.features.test_cost_panel import lowered
from tests.ui.shell.test_window import run_to
from ui.features.timeline.timeline_plot import CPU, LAYERS, MODULES, NPU
from ui.shared.theme import THEMES
from workbench.graph.snapshot import GraphSnapshot, Node
from workbench.npu.program import load
from workbench.results import GRAPH_FILE, PROGRAM_FILE, CpuNode, NpuCommand, save_result

PROGRAMS = Path(__file__).parents[2] / "data" / "programs"


def shown(opened, qtbot, stage="lower"):
    run_to(opened, qtbot, stage)
    panel = opened.window.reveal("timeline")
    qtbot.waitUntil(lambda: panel.has("lower") and bool(panel.origin.text()))
    panel.plot.grab()
    return panel


@pytest.fixture
def panel(opened, qtbot, monkeypatch):
    """Four operations of 100, 200, 300 and 400 cycles; the CPU works after them."""

    def leave(stage, folder):
        write(stage, folder)
        if stage == "lower":
            nodes = (Node("delegate", "call_delegate", "delegate"), Node("linear", "x", "call"))
            GraphSnapshot("edge", nodes, (), ()).save(folder / GRAPH_FILE)

    leave_results(monkeypatch, lower=lowered())
    from tests.fakes import engine

    write = engine.write_result
    monkeypatch.setattr(engine, "write_result", leave)
    return shown(opened, qtbot)


def at(panel, cycle, lane=NPU):
    """Return where a cycle of a lane is painted."""
    place = panel.plot.box.mapViewToScene(QPointF(cycle, sum(lane) / 2))
    return panel.plot.view.mapFromScene(place)


def click(panel, qtbot, cycle, lane=NPU, **given):
    qtbot.mouseClick(
        panel.plot.view.viewport(), Qt.MouseButton.LeftButton, pos=at(panel, cycle, lane), **given
    )


def drag(panel, qtbot, low, high):
    view, begun, end = panel.plot.view.viewport(), at(panel, low), at(panel, high)
    qtbot.mousePress(view, Qt.MouseButton.LeftButton, pos=begun)
    for step in range(1, 6):
        qtbot.mouseMove(view, begun + (end - begun) * step / 5)
        qtbot.wait(15)
    qtbot.mouseRelease(view, Qt.MouseButton.LeftButton, pos=end)


def the_origin_of_figures_is_said_and_clicks_choose_modules(panel, opened, qtbot):
    # The panel says where the figures come from and what nobody knows.
    assert "Estimated (Vela 5.1.0) for ethos-u55-128" in panel.origin.text()
    assert "not in the NPU's cycles" in panel.origin.text()
    assert panel.plot.labels["bottom"] == "cycles, estimated (Vela 5.1.0)"
    assert [(s.start, s.end) for s in panel.plot.timeline.spans] == [
        (0, 100),
        (100, 300),
        (300, 600),
        (600, 1000),
    ]
    assert panel.cycles.isHidden()
    # The pointer reads operator, module and cycles.
    told = panel.plot.tell(QPointF(450, sum(NPU) / 2))
    assert told.splitlines()[1:3] == ["head", "300 cycles, 30.00 % of all"]
    assert panel.plot.tell(QPointF(1010, sum(NPU) / 2)) == ""
    # A click chooses the operation's module everywhere.
    click(panel, qtbot, 200)
    assert opened.context.selection.value.modules == {"stem.relu"}
    assert "1 operation on the NPU: 200 cycles estimated, 20.00 % of all" in panel.sums.text()
    click(panel, qtbot, 450, stateKey=Qt.KeyboardModifier.ControlModifier)
    assert opened.context.selection.value.modules == {"stem.relu", "head"}
    assert "2 operations on the NPU: 500 cycles" in panel.sums.text()
    # A click on the CPU chooses its operators.
    click(panel, qtbot, 1000, CPU)
    assert opened.context.selection.value.nodes == {"linear"}
    assert panel.sums.text() == "1 operator on the CPU, duration unknown: linear."
    told = panel.plot.tell(QPointF(1000, sum(CPU) / 2))
    assert told.splitlines()[1:] == ["linear  head", "    too wide"]
    # A module chosen elsewhere is marked with its sums.
    opened.context.selection.choose_modules(["stem"], "modules")
    qtbot.waitUntil(lambda: "2 operations on the NPU: 300 cycles" in panel.sums.text())
    opened.context.selection.clear()
    qtbot.waitUntil(lambda: panel.sums.text().startswith("Drag to sum"))


def test_that_one_operation_can_be_stepped_through(opened, qtbot, monkeypatch):
    """The viewer executes the compiled program and shows what the operation reads and writes."""
    content = (PROGRAMS / "u55.pte").read_bytes()
    (machine,) = load(content).machines
    offsets = [c.offset for c in machine.commands if c.name == "NPU_OP_CONV"]
    result = lowered()
    commands = tuple(NpuCommand(offset=offsets[-1], operation=place) for place in range(4))
    report = result.vela[0].model_copy(update={"commands": commands})
    leave_results(monkeypatch, lower=result.model_copy(update={"vela": (report,)}))
    panel = shown(opened, qtbot)
    assert not panel.step.isEnabled()
    (opened.context.result("lower") / PROGRAM_FILE).write_bytes(content)
    click(panel, qtbot, 200)
    assert panel.step.isEnabled()
    qtbot.mouseClick(panel.step, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: bool(opened.programs.windows))
    (window,) = opened.programs.windows.values()
    view = window.execution
    qtbot.waitUntil(lambda: view.tensors.rowCount() > 0)
    assert window.tabs.currentWidget() is view
    chosen = view.operations.row_at(view.operation_table.currentIndex().row())
    assert chosen.offset == offsets[-1]
    window.close()


def test_that_layers_modules_and_the_cpu_are_drawn_with_their_time_and_exported(
    opened, qtbot, monkeypatch, tmp_path
):
    def leave(stage, folder):
        write(stage, folder)
        if stage == "lower":
            nodes = (Node("linear", "x", "call"), Node("delegate", "call_delegate", "delegate"))
            GraphSnapshot("edge", nodes, (), ()).save(folder / GRAPH_FILE)

    result = lowered()
    cpu = tuple(node.model_copy(update={"cycles": 500}) for node in result.cpu_nodes)
    leave_results(monkeypatch, lower=result.model_copy(update={"cpu_nodes": cpu}))
    from tests.fakes import engine

    write = engine.write_result
    monkeypatch.setattr(engine, "write_result", leave)
    panel = shown(opened, qtbot)
    # The CPU's part comes first, and takes a third of the time.
    assert panel.plot.timeline.spans[0].start == 500
    assert "roughly estimated, 500 cycles" in panel.origin.text()
    told = panel.plot.tell(QPointF(250, sum(CPU) / 2))
    assert told.startswith("1 operator on the CPU, roughly 500 cycles of a Cortex-M55")
    qtbot.mouseClick(panel.cpu_time, Qt.MouseButton.LeftButton)
    assert panel.plot.timeline.spans[0].start == 0
    qtbot.mouseClick(panel.cpu_time, Qt.MouseButton.LeftButton)
    # A layer is chosen with all its operations.
    told = panel.plot.tell(QPointF(550, sum(LAYERS) / 2))
    assert told.splitlines()[:2] == ["stem", "300 cycles, 30.00 % of the NPU's"]
    click(panel, qtbot, 550, LAYERS)
    assert opened.context.selection.value.modules == {"stem.conv", "stem.relu"}
    click(panel, qtbot, 550, MODULES)
    assert opened.context.selection.value.modules == {"stem.conv"}
    panel.export_trace(tmp_path / "net.trace.json")
    events = json.loads((tmp_path / "net.trace.json").read_text())["traceEvents"]
    assert {e["name"] for e in events if e["ph"] == "X"} >= {"stem", "aten.linear.default"}


@pytest.mark.slow
def test_that_a_box_tells_the_sums_of_what_runs_in_it(panel, opened, qtbot):
    drag(panel, qtbot, 50, 250)
    assert "2 operations on the NPU: 300 cycles estimated, 30.00 % of all" in panel.sums.text()
    assert "18,432 MACs" in panel.sums.text()
    assert opened.context.selection.value.modules == {"stem.conv", "stem.relu"}
    drag(panel, qtbot, 700, 1015)
    assert "1 operator on the CPU, duration unknown: linear" in panel.sums.text()


def the_keys_zoom_at_the_pointer_move_and_fit(panel, opened, qtbot):
    # The keys zoom at the pointer, move and fit.
    view = panel.plot.view
    qtbot.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(20, 20))
    whole = panel.plot.reach()[:2]
    spot = at(panel, 700)
    qtbot.mouseMove(view.viewport(), spot)
    qtbot.keyClick(view, Qt.Key.Key_W)
    near = panel.plot.reach()[:2]
    assert near[1] - near[0] == pytest.approx((whole[1] - whole[0]) / 1.3, rel=1e-3)
    assert at(panel, 700).x() == pytest.approx(spot.x(), abs=1)
    qtbot.keyClick(view, Qt.Key.Key_A)
    assert panel.plot.reach()[0] < near[0]
    qtbot.keyClick(view, Qt.Key.Key_D)
    assert panel.plot.reach()[:2] == pytest.approx(near)
    for _ in range(9):
        qtbot.keyClick(view, Qt.Key.Key_D)
    moved = panel.plot.reach()[:2]
    assert moved[1] == pytest.approx(whole[1])
    assert moved[1] - moved[0] == pytest.approx(near[1] - near[0])
    qtbot.keyClick(view, Qt.Key.Key_S)
    qtbot.keyClick(view, Qt.Key.Key_F)
    assert panel.plot.reach()[:2] == pytest.approx(whole)
    # Keys are heard with the pointer over the chart but not from a text field.
    field = opened.window.reveal("modules").findChild(QLineEdit)
    opened.window.reveal("timeline")
    QApplication.sendEvent(panel.plot.view, QEvent(QEvent.Type.Enter))
    whole = panel.plot.reach()[:2]
    field.setFocus()
    qtbot.waitUntil(field.hasFocus)
    qtbot.keyClicks(field, "was")
    assert field.text() == "was"
    assert panel.plot.reach()[:2] == whole
    field.clearFocus()
    qtbot.keyClick(opened.window, Qt.Key.Key_W)
    near = panel.plot.reach()[:2]
    assert near[1] - near[0] < whole[1] - whole[0]
    QApplication.sendEvent(panel.plot.view, QEvent(QEvent.Type.Leave))
    qtbot.keyClick(opened.window, Qt.Key.Key_W)
    assert panel.plot.reach()[:2] == near


@for_each(
    "promise",
    [the_origin_of_figures_is_said_and_clicks_choose_modules, the_keys_zoom_at_the_pointer_move_and_fit],
)
def test_that_the_timeline_is_read_chosen_from_and_zoomed(promise, panel, opened, qtbot):
    promise(panel, opened, qtbot)


def test_that_measured_cycles_are_offered_and_lay_the_operations_out(opened, qtbot, tmp_path):
    machine = opened.window.reveal("simulator").machine
    runner = tmp_path / "runner.elf"
    runner.write_bytes(runner_elf.runner("u55"))
    machine.runner_chosen.emit(str(runner))
    simulator = fvp.install(tmp_path / "fvp", "FVP_Corstone_SSE-300_Ethos-U55")
    machine.simulator_chosen.emit(str(simulator))
    qtbot.waitUntil(lambda: opened.session.stage("run").state == "stale")
    opened.runs.run_to("run")
    panel = opened.window.reveal("timeline")
    qtbot.waitUntil(lambda: panel.has("lower") and panel.cycles.count() == 2)
    panel.cycles.setFocus()
    qtbot.keyClick(panel.cycles, Qt.Key.Key_Down)
    assert panel.plot.labels["bottom"] == "cycles, measured (FVP 11.27.42)"
    assert panel.plot.timeline.end == 1098
    panel.plot.grab()
    click(panel, qtbot, 500)
    assert "1,098 cycles measured, 100.00 % of all; 900 estimated" in panel.sums.text()
    assert "1,098 cycles measured (FVP 11.27.42)" in panel.plot.tell(QPointF(500, sum(NPU) / 2))


def test_that_operations_and_modules_far_from_the_limit_are_red_and_say_what_they_lose_to(
    opened, qtbot, monkeypatch
):
    result = lowered()
    (report,) = result.vela
    # Of four operations of 100, 200, 300 and 400 cycles the third is at a tenth of its limit.
    near = {"efficiency": 0.9, "cause": ""}
    far = {"ideal_cycles": 30, "efficiency": 0.1, "cause": "stride", "module": "slow"}
    operations = tuple(
        o.model_copy(update=far if n == 2 else {**near, "ideal_cycles": o.cycles * 9 // 10})
        for n, o in enumerate(report.operations)
    )
    report = report.model_copy(update={"operations": operations})
    leave_results(monkeypatch, lower=result.model_copy(update={"vela": (report,)}))
    panel = shown(opened, qtbot)
    picture = panel.plot.view.grab().toImage()

    def red(cycle, lane):
        colour = picture.pixelColor(at(panel, cycle, lane))
        return colour.red() - colour.blue()

    for lane in (NPU, MODULES):
        assert red(590, lane) > red(290, lane) + 20
        assert red(590, lane) > red(990, lane) + 20
    # The legend has the colours of the theme.
    assert f'{opened.context.theme.bad}">\u25a0</span> efficiency below 50 %' in panel.legend.text()
    opened.context.appearance.switch(next(t.name for t in THEMES if t is not opened.context.theme))
    qtbot.waitUntil(lambda: opened.context.theme.good in panel.legend.text())
    said = panel.plot.tell(QPointF(450, sum(MODULES) / 2))
    assert "efficiency 10 %: the device needs at least 30 cycles; lost to stride above 3" in said
    # A layer of several operations has their limits together.
    click(panel, qtbot, 450)
    assert "efficiency 10 %: the device needs at least 30 cycles; lost to stride above 3" in panel.sums.text()
    drag(panel, qtbot, 50, 950)
    assert "efficiency 66 %: the device needs at least 660 cycles" in panel.sums.text()


def test_that_a_program_on_the_cpu_alone_is_said_to_be(opened, qtbot, monkeypatch):
    cpu = CpuNode(node="gone", op="aten.linear.default", module="head", reason="")
    result = result_of("lower").model_copy(update={"vela": (), "cpu_nodes": (cpu,)})
    leave_results(monkeypatch, lower=result)
    panel = shown(opened, qtbot)
    assert "Nothing runs on the NPU." in panel.origin.text()
    assert "1 CPU operators have no known position." in panel.origin.text()
    for theme in THEMES:
        panel.set_theme(theme)
        panel.plot.grab()


@pytest.mark.slow
def test_that_a_damaged_graph_leaves_the_npu_lane(opened, qtbot, monkeypatch):
    def leave(stage, folder):
        if stage == "lower":
            save_result(lowered(), folder)
            (folder / GRAPH_FILE).write_text("{")
        else:
            write(stage, folder)

    from tests.fakes import engine

    write = engine.write_result
    monkeypatch.setattr(engine, "write_result", leave)
    panel = shown(opened, qtbot)
    assert panel.plot.timeline.end == 1000
    assert "have no known position" in panel.origin.text()
