"""The rule stack as a person edits it."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt

from tests.fakes.projects import make_project, write_project
from tests.for_each import for_each
from ui.features.rules.rule_stack import Role
from workbench.project.model import RULE_CALLS, Rule

STACK = (
    Rule(id="r1", kind="global", config="a8w8"),
    Rule(id="r2", kind="module_type", match="net.Block", config="a8w4"),
    Rule(id="r3", kind="module_name", match="nowhere", config="a16w8"),
)


@pytest.fixture
def panel(workbench, tmp_path, qtbot):
    workbench.files.open_path(write_project(tmp_path / "stack", make_project(*STACK)))
    qtbot.waitUntil(lambda: workbench.session.planned)
    workbench.runs.run_to("export")
    qtbot.waitUntil(lambda: bool(workbench.context.model_index.modules))
    shown = workbench.window.reveal("rules")
    qtbot.waitUntil(lambda: shown.model.rowCount() == 3)
    qtbot.waitUntil(lambda: "nothing" in shown.model.index(0).data(Role.COUNT_TEXT))
    return shown


def kinds(panel):
    return [panel.model.rule_at(row).kind for row in range(panel.model.rowCount())]


def project_of(panel):
    return panel.context.document.project


def rows_say_what_rules_do_and_keys_switch_move_and_delete_them(panel, qtbot):
    # Rows say what rules win, lose and miss.
    said = [panel.model.index(row).data(Role.COUNT_TEXT) for row in range(3)]
    assert said[0] == "matches nothing"
    assert said[1] == "applies to 4 modules"
    assert "set_module_type" in panel.model.index(1).data(Qt.ItemDataRole.ToolTipRole)
    assert "overridden in 4" in said[2]
    # Rows have the numbers that explanations use.
    assert [panel.model.index(row).data()[0] for row in range(3)] == ["3", "2", "1"]
    # Choosing a rule shows it in the inspector.
    inspector = panel.context
    panel.view.setCurrentIndex(panel.model.index(1))
    assert inspector.selection.value.rule == "r2"
    # The space key switches a rule, and undo names it.
    panel.view.setCurrentIndex(panel.model.index(1))
    qtbot.keyClick(panel.view, Qt.Key.Key_Space)
    assert not project_of(panel).rules[1].enabled
    assert panel.context.document.undo_stack.undoText() == "Disable rule net.Block"
    panel.context.document.undo_stack.undo()
    panel.flush()
    # Alt and the arrow keys change the strength.
    panel.view.setCurrentIndex(panel.model.index(0))
    qtbot.keyClick(panel.view, Qt.Key.Key_Down, Qt.KeyboardModifier.AltModifier)
    assert [rule.id for rule in project_of(panel).rules] == ["r1", "r3", "r2"]
    panel.flush()
    assert kinds(panel) == ["module_type", "module_name", "global"]
    qtbot.keyClick(panel.view, Qt.Key.Key_Up, Qt.KeyboardModifier.AltModifier)
    assert [rule.id for rule in project_of(panel).rules] == ["r1", "r2", "r3"]
    panel.flush()
    # A dropped rule is one step.
    data = panel.model.mimeData([panel.model.index(0)])
    action = Qt.DropAction.MoveAction
    panel.model.dropMimeData(data, action, 2, 0, panel.model.index(-1))
    assert [rule.id for rule in project_of(panel).rules] == ["r1", "r3", "r2"]
    assert panel.context.document.undo_stack.undoText() == "Move rule nowhere"
    panel.context.document.undo_stack.undo()
    panel.flush()
    # The Delete key removes the chosen rule.
    panel.view.setCurrentIndex(panel.model.index(0))
    qtbot.keyClick(panel.view, Qt.Key.Key_Delete)
    assert [rule.id for rule in project_of(panel).rules] == ["r1", "r2"]
    assert panel.context.document.undo_stack.undoText() == "Delete rule nowhere"


def the_form_adds_rules_of_every_kind_and_offers_what_fits(panel, qtbot):
    # The precision uint8 is offered for inputs and outputs only.
    panel.form.prefill("module_name", "")
    assert panel.form.config.findData("uint8") == -1
    panel.form.prefill("io", "")
    assert panel.form.config.findData("uint8") >= 0
    # The Enter key in the match goes on to the precision and adds no rule.
    before = project_of(panel).rules
    panel.form.prefill("module_name", "head")
    panel.form.match.setFocus()
    qtbot.keyClick(panel.form.match, Qt.Key.Key_Return)
    assert project_of(panel).rules == before
    assert not panel.form.add.isEnabled()
    assert panel.form.add.toolTip() == "Choose a precision"
    # The match has the width of the form.
    panel.form.resize(300, panel.form.sizeHint().height())
    assert panel.form.match.width() > 260
    # A rule of every kind can be added.
    cases = [
        ("global", "", "Set whole model to a16w8"),
        ("io", "", "Set inputs and outputs to a16w8"),
        ("module_type", "torch.nn.modules.linear.Linear", "Set Linear to a16w8"),
        ("module_name", "head", "Set head to a16w8"),
        ("node_target", "aten.relu.default", "Set aten.relu.default to a16w8"),
        ("node_name", "linear", "Set linear to a16w8"),
    ]
    for kind, match, text in cases:
        panel.form.prefill(kind, "")
        if match:
            assert not panel.form.add.isEnabled()
            assert panel.form.call_text.text() == ""
            qtbot.keyClicks(panel.form.match, match)
        assert RULE_CALLS[kind] in panel.form.call_text.text()
        panel.form.config.setCurrentIndex(panel.form.config.findData("a16w8"))
        qtbot.mouseClick(panel.form.add, Qt.MouseButton.LeftButton)
        assert panel.context.document.undo_stack.undoText() == text
        assert any((r.kind, r.match) == (kind, match) for r in project_of(panel).rules)


@for_each(
    "promise",
    [
        rows_say_what_rules_do_and_keys_switch_move_and_delete_them,
        the_form_adds_rules_of_every_kind_and_offers_what_fits,
    ],
)
def test_that_rules_are_told_edited_and_added(promise, panel, qtbot):
    panel.context.document.undo_stack.setIndex(0)
    panel.flush()
    promise(panel, qtbot)


def test_that_proposed_names_have_the_rows_and_the_frame_of_other_lists(panel, qtbot):
    field = panel.form.match
    field.setFocus()
    qtbot.keyClicks(field, "s")
    popup = field.completer().popup()
    qtbot.waitUntil(popup.isVisible)
    assert popup.sizeHintForRow(0) >= 24
    assert popup.viewport().geometry().left() > 1
    popup.hide()
