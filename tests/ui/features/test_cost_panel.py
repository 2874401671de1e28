"""The cost panel as a person uses it, over recorded values."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt

from tests.fakes.engine import leave_results
from tests.fakes.results import result_of
from tests.ui.shell.test_window import run_to
from workbench.results import CpuNode

MODULES = ("stem.conv", "stem.relu", "head", "")


def lowered(**changes):
    result = result_of("lower")
    base = result.vela[0].operations[0]
    operations = tuple(
        base.model_copy(update={"module": m, "cycles": 100 * (i + 1), "name": f"op{i}"})
        for i, m in enumerate(MODULES)
    )
    report = result.vela[0].model_copy(update={"operations": operations})
    cpu = CpuNode(node="linear", op="aten.linear.default", module="head", reason="too wide")
    return result.model_copy(update={"vela": (report,), "cpu_nodes": (cpu,), **changes})


def shown(opened, qtbot, stage=""):
    run_to(opened, qtbot, stage)
    panel = opened.window.reveal("cost")
    qtbot.waitUntil(lambda: panel.has("lower"))
    return panel


@pytest.fixture
def panel(opened, qtbot, monkeypatch):
    leave_results(monkeypatch, lower=lowered())
    return shown(opened, qtbot)


def click(table, qtbot, row):
    place = table.visualRect(table.model().index(row, 0)).center()
    qtbot.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=place)


def test_that_an_empty_panel_offers_to_compile_and_a_program_without_the_npu_is_said_plainly(
    opened, qtbot, monkeypatch
):
    # An empty panel offers to compile.
    panel = opened.window.reveal("cost")
    note = panel.frames["lower"].note
    qtbot.waitUntil(note.button.isVisible)
    assert note.button.text() == "Compile"
    assert note.button.text() == "Compile"
    # A program without the NPU is said plainly.
    leave_results(monkeypatch, lower=lowered(vela=(), delegates=0, delegated_nodes=0))
    panel = shown(opened, qtbot)
    assert "On the NPU: nothing, counted" in panel.cards.texts()
    assert panel.operations.rowCount() == 0


def test_that_estimates_name_their_source_and_follow_the_selection(panel, opened, qtbot):
    # Every estimate names Vela, its version and the target.
    assert "Vela 5.1.0" in panel.origin.text()
    assert "ethos-u55-128, Ethos_U55_High_End_Embedded, Shared_Sram" in panel.origin.text()
    texts = panel.cards.texts()
    for title in ("Cycles", "Time", "SRAM", "Constants", "MACs"):
        card = next(text for text in texts if text.startswith(f"{title}: "))
        assert card.endswith("estimated (Vela 5.1.0)")
    assert "Edge operators: 3 NPU, 1 CPU, counted" in texts
    # A clicked operation chooses its module.
    click(panel.operation_table, qtbot, 2)
    assert opened.context.selection.value.modules == {"head"}
    # A module chosen elsewhere marks its operations.
    opened.context.selection.choose_modules(["stem"])
    qtbot.waitUntil(lambda: panel.operation_table.chosen_rows() == [0, 1])
    opened.context.selection.choose_nodes(["linear"])
    qtbot.waitUntil(lambda: panel.operation_table.chosen_rows() == [2])
    assert panel.places.table.chosen_rows() == [0]
    # Cycles roll up to the chosen depth.
    assert panel.bars.names == ("stem.conv", "stem.relu", "head", "(outside modules)")
    panel.depth_box.setCurrentIndex(0)
    panel.depth_box.activated.emit(0)
    assert panel.bars.names == ("stem", "head", "(outside modules)")
    assert panel.bars.lengths.tolist() == [300.0, 300.0, 400.0]
    # An operator on the CPU says why and is chosen by a click.
    panel.tabs.setCurrentIndex(1)
    assert "1 runs on the CPU" in panel.places.note.text()
    assert panel.places.cpu.index(0, 1).data() == "too wide"
    click(panel.places.table, qtbot, 0)
    assert opened.context.selection.value.nodes == {"linear"}
    # Former estimates are marked.
    opened.context.assigner.modules(["stem"], "a16w8")
    banner = panel.frames["lower"].banner
    qtbot.waitUntil(banner.isVisible)
    assert "Estimates: outdated" in banner.label.text()


@pytest.mark.slow
def test_that_a_clicked_bar_chooses_its_module(panel, opened):
    panel.bars.box.picked.emit(10.0, 2.1, False)
    assert opened.context.selection.value.modules == {"head"}


@pytest.mark.slow
def test_that_both_themes_are_taken_live(panel, opened, qtbot):
    for name in ("light", "dark"):
        opened.context.appearance.switch(name)
        colour = opened.context.theme.surface
        qtbot.waitUntil(lambda c=colour: panel.bars.view.backgroundBrush().color().name() == c)
        panel.grab()
