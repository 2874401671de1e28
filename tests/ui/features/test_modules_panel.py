"""The module tree: chips, reasons, keys, groups, and one selection for all."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, QItemSelectionModel, QObject, Qt
from PySide6.QtWidgets import QMenu

from tests.for_each import for_each
from ui.shared.chip import WISH_ROLE
from ui.shared.config_form import ConfigDialog
from ui.shared.module_tree import Column
from ui.shared.precision_menu import PrecisionMenu


@pytest.fixture
def panel(opened, qtbot):
    opened.runs.run_to("convert")
    qtbot.waitUntil(lambda: not opened.runner.running)
    shown = opened.window.reveal("modules")
    qtbot.waitUntil(lambda: shown.model.rowCount() == 1)
    return shown


def choose(panel, *paths):
    chooser = panel.tree.selectionModel()
    chooser.clearSelection()
    flags = QItemSelectionModel.SelectionFlag.Select | QItemSelectionModel.SelectionFlag.Rows
    for path in paths:
        chooser.select(panel.proxy.mapFromSource(panel.model.index_of(path)), flags)


def chip(panel, path):
    panel.flush()
    return panel.model.index_of(path).siblingAtColumn(Column.CONFIG).data()


class Paints(QObject):
    """Counts the paints of a widget."""

    def __init__(self, widget):
        super().__init__(widget)
        self.count = 0
        widget.installEventFilter(self)

    def eventFilter(self, watched, event):
        self.count += event.type() == QEvent.Type.Paint
        return False


def down_leads_from_the_filter_to_the_tree(panel, qtbot, opened, _):
    opened.window.activateWindow()
    panel.filter.setFocus()
    qtbot.waitUntil(panel.filter.hasFocus)
    qtbot.keyClicks(panel.filter, "head")
    qtbot.keyClick(panel.filter, Qt.Key.Key_Down)
    assert panel.tree.hasFocus()
    assert panel.tree.selectionModel().hasSelection()
    qtbot.keyClick(panel.tree, Qt.Key.Key_Down)
    qtbot.keyClick(panel.tree, Qt.Key.Key_2)
    assert opened.document.project.rules[-1].match == "head"
    panel.filter.selectAll()
    qtbot.keyClick(panel.filter, Qt.Key.Key_Delete)


def other_results_paint_nothing_and_digits_set_what_is_chosen_or_its_group(panel, qtbot, _, notices):
    # Results of other stages do not paint the modules again.
    qtbot.wait(200)
    paints = Paints(panel.tree.viewport())
    with qtbot.waitSignal(panel.context.session.results_changed):
        panel.context.run_to("evaluate")
    qtbot.waitUntil(lambda: not panel.context.runner.running)
    qtbot.wait(200)
    assert paints.count == 0
    # A leaf of a fused group offers the group.
    choose(panel, "stem.conv")
    qtbot.keyClick(panel.tree, Qt.Key.Key_2)
    notice = notices.take("stem.conv is fused with stem.bn, stem.relu.")
    panel.context.notices.choose(notice.id, "Set whole group")
    rules = panel.context.document.project.rules
    assert [(rule.kind, rule.match) for rule in rules] == [("global", ""), ("module_name", "stem")]
    while panel.context.document.undo_stack.canUndo():
        panel.context.document.undo_stack.undo()
    panel.flush()
    # The tooltip says which rule won over which.
    choose(panel, "stem")
    qtbot.keyClick(panel.tree, Qt.Key.Key_2)
    panel.flush()
    said = panel.model.index_of("stem.conv").data(Qt.ItemDataRole.ToolTipRole)
    assert "a16w8 from rule 2 stem.*, overrides rule 1" in said
    # Rules for modules inside one win over a rule for all of it, and can go.
    choose(panel, "stem.bn")
    qtbot.keyClick(panel.tree, Qt.Key.Key_1)
    choose(panel, "stem")
    qtbot.keyClick(panel.tree, Qt.Key.Key_3)
    panel.context.notices.choose(notices.take("1 rule for modules inside stem").id, "Remove 1 rule")
    assert [r.match for r in panel.context.document.project.rules] == ["", "stem"]
    # What keeps a module off the NPU leaves the precisions inside alone.
    assert panel.context.assigner.modules(["head"], "cpu")
    panel.context.document.undo_stack.undo()
    # An own precision begins with the present one.
    menu = QMenu()
    PrecisionMenu(panel.context, panel).fill(menu, panel.context.selection.value)
    menu.actions()[-1].trigger()
    (dialog,) = panel.window().findChildren(ConfigDialog)
    assert dialog.form.config.weight.bits == 4
    dialog.reject()
    # A digit gives a preset to everything chosen.
    choose(panel, "head", "stem")
    qtbot.keyClick(panel.tree, Qt.Key.Key_2)
    assert panel.context.document.undo_stack.undoText() == "Set 2 modules to a16w8"
    assert chip(panel, "stem.conv").startswith("a16w8")
    assert chip(panel, "head").startswith("a16w8")


def the_tree_finds_marks_and_shows_what_is_chosen(panel, qtbot, opened, _):
    # What the quantizer left alone is marked with the reason.
    def reason() -> str:
        return panel.model.index_of("head").data(Qt.ItemDataRole.ToolTipRole) or ""

    # The reason comes with the graph, which may be read after the report.
    qtbot.waitUntil(lambda: chip(panel, "head") == "float" and "no pattern takes it" in reason())
    cell = panel.model.index_of("head").siblingAtColumn(Column.CONFIG)
    assert cell.data(WISH_ROLE) == "a8w8"
    # Nodes chosen elsewhere are found in the tree.
    panel.context.selection.choose_nodes(["relu"])
    panel.flush()
    (row,) = panel.tree.selectionModel().selectedRows()
    assert panel.model.path_of(panel.proxy.mapToSource(row)) == "stem.relu"
    # A choice in the tree shows in graph and inspector.
    choose(panel, "stem.conv")
    graph, inspector = opened.window.reveal("graph"), opened.window.reveal("inspector")
    graph.flush()
    inspector.flush()
    assert graph.view.surface.selected == {"conv2d"}
    assert "stem.conv" in inspector.page.toPlainText()
    assert "a8w8 from rule 1" in inspector.page.toPlainText()
    # The whole model gets a global rule.
    choose(panel, "")
    qtbot.keyClick(panel.tree, Qt.Key.Key_2)
    assert panel.context.document.project.rules[0].config == "a16w8"
    assert len(panel.context.document.project.rules) == 1
    # Filtering keeps the way to what is found.
    qtbot.keyClicks(panel.filter, "relu")
    root = panel.proxy.index(0, 0)
    assert panel.proxy.rowCount(root) == 1
    assert panel.proxy.index(0, 0, root).data() == "stem"


@for_each(
    "promise",
    [
        down_leads_from_the_filter_to_the_tree,
        other_results_paint_nothing_and_digits_set_what_is_chosen_or_its_group,
        the_tree_finds_marks_and_shows_what_is_chosen,
    ],
)
def test_that_the_tree_shows_and_sets_what_is_chosen(promise, panel, qtbot, opened, notices):
    opened.document.undo_stack.setIndex(0)
    panel.filter.clear()
    opened.context.selection.clear()
    panel.flush()
    promise(panel, qtbot, opened, notices)
