"""Item models keep Qt's contract while everything under them changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QAbstractItemModelTester

from tests.fakes.projects import MODULES, make_project
from ui.features.rules.rule_stack import RuleRow, RuleStackModel, call_position, shown_order
from ui.shared.empty_states import failure_text
from ui.shared.explanations import of_operations
from ui.shared.job_table import JobTableModel
from ui.shared.log_lines import MAX_LINES, LogModel
from ui.shared.module_tree import Column, ModuleTreeModel
from ui.shared.problem_list import PROBLEM_COLUMNS, Problem, ProblemListModel, of_info
from ui.shared.setting_names import in_window
from ui.state.jobs import Job
from workbench.errors import ErrorInfo, Place
from workbench.graph.snapshot import Module
from workbench.project.edits import move_rule
from workbench.project.model import Rule
from workbench.project.opened import OpenProject
from workbench.project.rules import Effective, RuleCount


@pytest.fixture
def watch(qtbot):
    testers = []

    def start(model):
        mode = QAbstractItemModelTester.FailureReportingMode.Fatal
        testers.append(QAbstractItemModelTester(model, mode))
        return model

    return start


def test_that_the_module_tree_shows_modules_types_and_configs(watch):
    model = watch(ModuleTreeModel())
    model.set_modules(MODULES)
    configs = {m.path: Effective("a8w8", "r1") for m in MODULES}
    model.set_configs(configs, {"stem": "a8w8 from rule 1"}, {"head": "no pattern"})
    root = model.index(0, 0)
    assert root.data() == "whole model"
    assert model.rowCount(root) == 2
    stem = model.index_of("stem")
    assert stem.siblingAtColumn(Column.TYPE).data() == "Block"
    assert stem.siblingAtColumn(Column.CONFIG).data() == "a8w8"
    assert "a8w8 from rule 1" in stem.data(Qt.ItemDataRole.ToolTipRole)
    assert "\u2260" in model.index_of("head").siblingAtColumn(Column.CONFIG).data()
    model.set_modules(())
    assert model.rowCount() == 0


def test_that_views_hear_only_of_modules_with_another_chip(watch):
    model = watch(ModuleTreeModel())
    changed = []
    model.dataChanged.connect(lambda first, last: changed.append((model.path_of(first), model.path_of(last))))
    configs = {m.path: Effective("a8w8", "r1") for m in MODULES}
    model.set_modules(MODULES, (configs, {}, {}, {}))
    assert model.index_of("head").siblingAtColumn(Column.CONFIG).data() == "a8w8"
    model.set_configs(configs, {"stem": "a8w8 from rule 1"}, {})
    assert changed == []
    model.set_configs({**configs, "head": Effective("a16w8", "r2")}, {}, {})
    # The whole model is mixed now.
    assert sorted(changed) == [("", ""), ("head", "head")]


def test_that_modules_have_the_configs_of_their_operations(watch):
    configs = {m.path: Effective("a8w8", "r1") for m in MODULES}
    wide, narrow = Effective("a16w8", "r2"), Effective("a8w4", "r3")
    own, several = of_operations(
        [("stem.conv", wide), ("head", wide), ("head", narrow), ("stem.bn", configs["stem.bn"])], configs
    )
    model = watch(ModuleTreeModel())
    model.set_modules(MODULES, (own, {}, {}, several))
    shown = {m.path: model.index_of(m.path).siblingAtColumn(Column.CONFIG).data() for m in MODULES}
    assert shown == {
        "": "mixed", "stem": "mixed", "stem.conv": "a16w8", "stem.bn": "a8w8", "stem.relu": "a8w8",
        "head": "mixed",
    }  # fmt: skip
    assert "a16w8, a8w4" in model.index_of("head").data(Qt.ItemDataRole.ToolTipRole)


RULES = (
    Rule(id="g", kind="global", config="a8w8"),
    Rule(id="t", kind="module_type", match="T", config="a8w8"),
    Rule(id="m", kind="module_name", match="m", config="a16w8"),
)


def rows(rules):
    shown = shown_order(rules)
    return [RuleRow(r, n, str(r.config), RuleCount(1, 0)) for n, r in enumerate(shown)]


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (("0", "1", "10", "11", "2"), ["0", "1", "2", "10", "11"]),
        (("stem", "body", "head10", "head9"), ["stem", "body", "head10", "head9"]),
    ],
)
def test_that_modules_listed_as_text_stand_as_people_count(watch, names, shown):
    model = watch(ModuleTreeModel())
    model.set_modules([Module("", "net.Net", "", 0), *(Module(n, "net.Block", "", 0) for n in names)])
    root = model.index(0, 0)
    assert [model.index(row, 0, root).data() for row in range(model.rowCount(root))] == shown


def test_that_the_rule_stack_stands_strongest_first_with_globals_last(watch):
    model = watch(RuleStackModel())
    model.set_rows(rows(RULES))
    assert [model.rule_at(row).id for row in range(3)] == ["m", "t", "g"]
    assert "applies to 1" in model.index(0).data(Qt.ItemDataRole.AccessibleTextRole)
    model.set_rows(rows(RULES[:1]))


@pytest.mark.parametrize("row", range(4))
@pytest.mark.parametrize("moved", ["m", "t"])
def test_that_a_dropped_rule_lands_where_it_was_dropped(moved, row):
    project = make_project(*RULES)
    after = move_rule(project, moved, call_position(project.rules, moved, row))
    shown = [rule.id for rule in shown_order(after.rules)]
    before = [rule.id for rule in shown_order(project.rules)]
    expected = [r for r in before[:row] if r != moved] + [moved]
    expected += [r for r in before[row:] if r != moved]
    expected.sort(key=lambda rule: rule == "g")
    assert shown == expected


def test_that_a_switched_box_asks_and_changes_nothing_itself(watch, qtbot):
    model = watch(RuleStackModel())
    model.set_rows(rows(RULES))
    with qtbot.waitSignal(model.switched) as asked:
        model.setData(model.index(0), Qt.CheckState.Unchecked, Qt.ItemDataRole.CheckStateRole)
    assert asked.args == ["m", False]
    state = model.index(0).data(Qt.ItemDataRole.CheckStateRole)
    assert state == Qt.CheckState.Checked


def test_that_the_log_stays_bounded_under_a_flood(watch):
    model = watch(LogModel())
    for number in range(MAX_LINES + 500):
        model.add("info", f"line {number}")
    model.flush()
    model.add("error", "the last")
    model.flush()
    assert model.rowCount() == MAX_LINES
    assert model.index(MAX_LINES - 1, 0).data().endswith("the last")
    assert model.last_lines(1).endswith("the last")
    model.clear()
    assert model.rowCount() == 0


def test_that_jobs_stand_newest_first_and_change_in_place(watch):
    model = watch(JobTableModel())
    opened = OpenProject(make_project(), Path())
    first = Job("j1", "net: run to Export", "interactive", "export", opened)
    model.update_job(first)
    second = Job(
        "j2",
        "net: run to Lower",
        "background",
        "lower",
        opened,
        state="running",
        stage="lower",
        progress=0.5,
        began=0.0,
    )
    model.update_job(second)
    model.update_job(Job(**{**first.__dict__, "state": "done"}))
    assert [model.index(row, 0).data() for row in range(2)] == [second.title, first.title]
    assert model.index(0, 1).data() == "Compiling for the NPU"
    assert model.index(0, 2).data() == "50 %"
    assert model.index(1, 1).data() == "done"
    model.tick()


def test_that_the_place_of_a_problem_has_the_words_of_the_window(watch):
    model = watch(ProblemListModel())
    places = (("option", "model.input_shapes"), ("option", "model.spec"), ("stage", "lower"), ("module", ""))
    model.set_problems([Problem("error", "m", where=Place(kind=k, id=i)) for k, i in places])
    column = [c.title for c in PROBLEM_COLUMNS].index("Where")
    shown = [model.index(row, column).data() for row in range(len(places))]
    assert shown == ["Model, input shapes", "Model file", "Compile", "whole model"]


def test_that_errors_stand_before_warnings(watch):
    model = watch(ProblemListModel())
    model.set_problems([Problem("warning", "late"), Problem("error", "first", "do this")])
    assert [model.index(row, 1).data() for row in range(2)] == ["first do this", "late"]
    model.set_problems([])
    assert model.rowCount() == 0


def test_that_remedies_have_the_words_of_the_window_instead_of_commands():
    command = "workbench settings PROJECT"
    hints = {
        f"Or: {command} model.input_shapes=1x2": "Model, input shapes = 1x2 in Project settings",
        f"Remove it: {command} notes=": "Notes = empty in Project settings",
        "Compile for size: workbench target PROJECT optimise=Size.": "optimise = Size in Target options.",
    }
    for hint, words in hints.items():
        info = ErrorInfo(message="m", hint=hint, code="c")
        assert of_info(info, "Load", "error").hint.endswith(words)
        assert "PROJECT" not in failure_text("Load", info)
    # Commands that set more than one thing stay.
    rules = "workbench rules PROJECT add --kind module-name --match head --config cpu"
    assert in_window(rules) == rules
