"""Plug-ins as a person adds them, and finds what they add in the forms."""

from contextlib import nullcontext

import pytest
from PySide6.QtWidgets import QMenu

from tests.fakes.projects import make_project, write_project
from tests.for_each import for_each
from ui.features.graph.graph_view import context_menu
from ui.features.rules.rule_form import KINDS
from ui.features.rules.rule_stack import Role
from ui.features.rules.rules_panel import RulesPanel
from ui.shared.config_form import ConfigDialog
from ui.shell.target_controller import PluginsDialog
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


def said_of(rules, kind):
    rows = range(rules.model.rowCount())
    rows = [row for row in rows if rules.model.rule_at(row).kind == kind]
    return [rules.model.index(row).data(Role.COUNT_TEXT) for row in rows]


@pytest.fixture
def exported(rules, workbench, qtbot):
    """The form for rules, with the plug-in taken in and the graph there."""
    workbench.document.apply("add", lambda p: edits.offer_plugin(p, "own.py"))
    workbench.runs.run_to("export")
    qtbot.waitUntil(lambda: bool(workbench.context.model_index.modules))
    qtbot.waitUntil(lambda: not workbench.runner.running)
    return rules


def entry(menu, words):
    return next(action for action in menu.actions() if action.text().startswith(words))


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


def the_form_for_rules_offers_what_a_plugin_adds(rules, workbench, qtbot):
    choose_kind(rules.form, "quantizer")
    assert offered(rules.form) == []
    assert not rules.form.add.isEnabled()
    assert "Plug-ins" in rules.form.call_text.text()
    workbench.document.apply("add", lambda p: edits.offer_plugin(p, "own.py"))
    qtbot.waitUntil(lambda: offered(rules.form) == ["Rows"])
    rules.form.add.click()
    choose_kind(rules.form, "finder")
    assert "narrow: Fewer codes" in offered(rules.form)
    assert rules.form.match_names.stringList() == ["own.py:First"]
    rules.form.match.setText("own.py:First")
    rules.form.config.setCurrentIndex(offered(rules.form).index("narrow: Fewer codes"))
    rules.form.match.textEdited.emit("own.py:First")
    rules.form.add.click()
    made = [(r.kind, r.match, r.config) for r in workbench.document.project.rules[1:]]
    assert made == [("finder", "own.py:First", "own.py:narrow"), ("quantizer", "", "own.py:Rows")]
    qtbot.waitUntil(lambda: rules.model.rowCount() == 3)
    said = [rules.model.index(row).data() for row in range(rules.model.rowCount())]
    assert said == ["3  Quantizer", "2  Node matcher First", "1  Whole model"]


def a_custom_config_can_have_a_plugins_observer(rules, workbench, qtbot):
    workbench.document.apply("add", lambda p: edits.offer_plugin(p, "own.py"))
    choose_kind(rules.form, "global")
    rules.form.config.setCurrentIndex(rules.form.config.count() - 1)
    rules.form.add.click()
    dialog = rules.findChild(ConfigDialog)
    combo = dialog.form.combos[2]
    assert combo.itemText(combo.count() - 1) == "Wide: A quarter more"
    combo.activated.emit(combo.count() - 1)
    dialog.buttons.accepted.emit()
    (rule,) = workbench.document.project.rules
    assert rule.config.activation.observer.plugin == "own.py:Wide"
    assert workbench.document.project.label_of(rule) == "a8w8 (Wide)"


@for_each(
    "promise", [the_form_for_rules_offers_what_a_plugin_adds, a_custom_config_can_have_a_plugins_observer]
)
def test_that_forms_offer_what_a_plugin_adds(promise, rules, workbench, qtbot):
    workbench.document.undo_stack.setIndex(0)
    promise(rules, workbench, qtbot)


def tree_and_graph_offer_a_plugins_config_in_their_menus_and_under_its_key(exported, workbench, qtbot, _):
    document = workbench.document
    tree, graph = workbench.window.reveal("modules"), workbench.window.reveal("graph")
    workbench.context.selection.choose_modules(["head"])
    menu = QMenu(tree)
    tree._fill_menu(menu)
    words, _, key = entry(menu, "narrow: Fewer codes").text().partition("\t")
    assert words in offered(exported.form)
    qtbot.keyClick(tree.tree, key)
    entry(menu, "narrow").trigger()
    every = entry(menu, "Set all Linear").menu()
    assert entry(every, "narrow").text() == words
    assert [(r.kind, r.match, r.config) for r in document.project.rules[1:]] == [
        ("module_name", "head", "own.py:narrow")
    ]
    document.undo_stack.undo()

    workbench.context.selection.choose_nodes(["linear"])
    qtbot.keyClick(graph.view, key)
    (rule,) = document.project.rules[1:]
    assert (rule.kind, rule.match, rule.config) == ("node_name", "linear", "own.py:narrow")
    document.undo_stack.undo()
    with qtbot.waitSignal(graph.view.groups.laid_out) if graph.view.surface.scene is None else nullcontext():
        graph.flush()
    menu = context_menu(graph.view, "linear")
    graph.view.menu_asked.emit(menu)
    below = entry(menu, "Set precision").menu()
    assert [a.text() for a in below.actions()][-1] == "Custom\u2026"
    entry(below, "narrow").trigger()
    assert document.undo_stack.undoText() == "Set linear to narrow"


def rules_of_plugins_say_what_they_win_once_it_is_known(exported, workbench, qtbot, notices):
    workbench.context.assigner.rule("finder", "own.py:First", "own.py:narrow")
    workbench.context.assigner.rule("quantizer", "", "own.py:Rows")
    qtbot.waitUntil(lambda: exported.model.rowCount() == 3)
    (said,) = said_of(exported, "finder")
    assert said.startswith("counted by Prepare")
    workbench.runs.run_to("prepare")
    qtbot.waitUntil(lambda: notices.says("runs Python"))
    question = notices.take("runs Python")
    workbench.notices.choose(question.id, "Allow and run")
    qtbot.waitUntil(lambda: said_of(exported, "finder") == ["applies to 1 operation"])
    assert said_of(exported, "quantizer")[0].startswith("matches nothing")
    problems = workbench.context.problems
    qtbot.waitUntil(
        lambda: "rule-unmatched" in {problems.row_at(row).code for row in range(problems.rowCount())}
    )


@for_each(
    "promise",
    [
        tree_and_graph_offer_a_plugins_config_in_their_menus_and_under_its_key,
        rules_of_plugins_say_what_they_win_once_it_is_known,
    ],
)
def test_that_configs_and_rules_of_plugins_are_used(promise, exported, workbench, qtbot, notices):
    # What the fixture did stays.
    workbench.document.undo_stack.setIndex(1)
    promise(exported, workbench, qtbot, notices)
