"""The rule stack as a person edits it."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt

from tests.fakes.projects import make_project, write_project
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


def test_that_rows_say_what_rules_win_lose_and_miss(panel):
    said = [panel.model.index(row).data(Role.COUNT_TEXT) for row in range(3)]
    assert said[0] == "matches nothing \u00b7 set_module_name"
    assert said[1].startswith("applies to 4")
    assert said[1].endswith("set_module_type")
    assert "overridden in 4" in said[2]


def test_that_space_switches_a_rule_and_undo_names_it(panel, qtbot):
    panel.view.setCurrentIndex(panel.model.index(1))
    qtbot.keyClick(panel.view, Qt.Key.Key_Space)
    assert not project_of(panel).rules[1].enabled
    assert panel.context.document.undo_stack.undoText() == "Disable rule net.Block"


def test_that_delete_removes_the_chosen_rule(panel, qtbot):
    panel.view.setCurrentIndex(panel.model.index(0))
    qtbot.keyClick(panel.view, Qt.Key.Key_Delete)
    assert [rule.id for rule in project_of(panel).rules] == ["r1", "r2"]
    assert panel.context.document.undo_stack.undoText() == "Delete rule nowhere"


def test_that_alt_arrows_change_the_strength(panel, qtbot):
    panel.view.setCurrentIndex(panel.model.index(0))
    qtbot.keyClick(panel.view, Qt.Key.Key_Down, Qt.KeyboardModifier.AltModifier)
    assert [rule.id for rule in project_of(panel).rules] == ["r1", "r3", "r2"]
    panel.flush()
    assert kinds(panel) == ["module_type", "module_name", "global"]
    qtbot.keyClick(panel.view, Qt.Key.Key_Up, Qt.KeyboardModifier.AltModifier)
    assert [rule.id for rule in project_of(panel).rules] == ["r1", "r2", "r3"]


def test_that_a_dropped_rule_is_one_step(panel):
    data = panel.model.mimeData([panel.model.index(0)])
    action = Qt.DropAction.MoveAction
    panel.model.dropMimeData(data, action, 2, 0, panel.model.index(-1))
    assert [rule.id for rule in project_of(panel).rules] == ["r1", "r3", "r2"]
    assert panel.context.document.undo_stack.undoText() == "Move rule nowhere"


def test_that_a_rule_of_every_kind_can_be_added(panel, qtbot):
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


def test_that_uint8_is_offered_for_inputs_and_outputs_only(panel):
    panel.form.prefill("module_name", "")
    assert panel.form.config.findData("uint8") == -1
    panel.form.prefill("io", "")
    assert panel.form.config.findData("uint8") >= 0


def test_that_choosing_a_rule_shows_it_in_the_inspector(panel, qtbot):
    inspector = panel.context
    panel.view.setCurrentIndex(panel.model.index(1))
    assert inspector.selection.value.rule == "r2"


def test_that_enter_in_the_match_goes_on_to_the_precision_and_adds_no_rule(panel, qtbot):
    before = project_of(panel).rules
    panel.form.prefill("module_name", "head")
    panel.form.match.setFocus()
    qtbot.keyClick(panel.form.match, Qt.Key.Key_Return)
    assert project_of(panel).rules == before
    assert not panel.form.add.isEnabled()
    assert panel.form.add.toolTip() == "Choose a precision"


def test_that_the_match_has_the_width_of_the_form(panel, qtbot):
    panel.form.resize(300, panel.form.sizeHint().height())
    assert panel.form.match.width() > 260


def test_that_rows_have_the_numbers_that_explanations_use(panel):
    assert [panel.model.index(row).data()[0] for row in range(3)] == ["3", "2", "1"]
