"""Plug-ins as a person adds them, and finds what they add in the forms."""

import pytest

from tests.fakes.projects import make_project, write_project
from ui.dialogs.plugins import PluginsDialog
from ui.panels.rules_panel import RulesPanel
from ui.widgets.config_dialog import ConfigDialog
from ui.widgets.rule_form import KINDS
from workbench.project import edits

OWN = '''
def narrow(*, is_qat):
    """Fewer codes."""
class Wide:
    """A quarter more."""
class First:
    """The first layer."""
class Rows: ...
CONFIGS = [narrow]
OBSERVERS = [Wide]
FINDERS = [First]
QUANTIZERS = [Rows]
'''


@pytest.fixture
def rules(workbench, tmp_path, qtbot) -> RulesPanel:
    path = write_project(tmp_path / "net", make_project())
    (path.parent / "own.py").write_text(OWN)
    workbench.files.open_path(path)
    qtbot.waitUntil(lambda: workbench.session.planned)
    return workbench.window.reveal("rules")


def choose_kind(form, kind):
    form.kind.setCurrentIndex([k for k, _, _ in KINDS].index(kind))
    form.kind.activated.emit(form.kind.currentIndex())


def offered(form):
    return [form.config.itemText(row) for row in range(form.config.count())]


def test_that_a_plugin_is_added_listed_and_taken_away(rules, workbench, qtbot, tmp_path):
    dialog = PluginsDialog(workbench.document, workbench.window)
    (tmp_path / "net" / "empty.py").write_text("")
    dialog.take(tmp_path / "net" / "empty.py")
    assert "CONFIGS" in dialog.problem.text()
    dialog.take(tmp_path / "net" / "own.py")
    assert workbench.document.project.plugins == ("own.py",)
    assert dialog.problem.text() == ""
    top = dialog.tree.topLevelItem(0)
    rows = [[top.child(i).text(c) for c in range(3)] for i in range(top.childCount())]
    assert rows[0] == ["narrow", "config", "Fewer codes"]
    assert [row[1] for row in rows] == ["config", "observer", "finder", "quantizer"]
    assert not dialog.remove.isEnabled()
    dialog.tree.setCurrentItem(top)
    dialog.remove.click()
    assert workbench.document.project.plugins == ()
    assert dialog.tree.topLevelItemCount() == 0
    workbench.document.undo_stack.undo()
    assert workbench.document.project.plugins == ("own.py",)
    dialog.reject()


def test_that_the_form_for_rules_offers_what_a_plugin_adds(rules, workbench, qtbot):
    choose_kind(rules.form, "quantizer")
    assert offered(rules.form) == []
    assert not rules.form.add.isEnabled()
    assert "Plug-ins" in rules.form._call.text()
    workbench.document.apply("add", lambda p: edits.offer_plugin(p, "own.py"))
    qtbot.waitUntil(lambda: offered(rules.form) == ["Rows"])
    rules.form.add.click()
    choose_kind(rules.form, "finder")
    assert "narrow: Fewer codes" in offered(rules.form)
    assert rules.form._words.stringList() == ["own.py:First"]
    rules.form.match.setText("own.py:First")
    rules.form.config.setCurrentIndex(offered(rules.form).index("narrow: Fewer codes"))
    rules.form.match.textEdited.emit("own.py:First")
    rules.form.add.click()
    made = [(r.kind, r.match, r.config) for r in workbench.document.project.rules[1:]]
    assert made == [("finder", "own.py:First", "own.py:narrow"), ("quantizer", "", "own.py:Rows")]
    qtbot.waitUntil(lambda: rules.model.rowCount() == 3)
    said = [rules.model.index(row).data() for row in range(rules.model.rowCount())]
    assert said == ["Quantizer", "Finder First", "Whole model"]


def test_that_a_custom_config_can_have_a_plugins_observer(rules, workbench, qtbot):
    workbench.document.apply("add", lambda p: edits.offer_plugin(p, "own.py"))
    choose_kind(rules.form, "global")
    rules.form.config.setCurrentIndex(rules.form.config.count() - 1)
    rules.form.add.click()
    dialog = rules.findChild(ConfigDialog)
    combo = dialog.form._combos[2]
    assert combo.itemText(combo.count() - 1) == "Wide: A quarter more"
    combo.activated.emit(combo.count() - 1)
    dialog.buttons.accepted.emit()
    (rule,) = workbench.document.project.rules
    assert rule.config.activation.observer.plugin == "own.py:Wide"
    assert workbench.document.project.label_of(rule) == "a8w8 (Wide)"
