import pytest

from tests.workbench.project.builders import make_project, rule
from workbench.errors import WorkbenchError
from workbench.project import edits, store


def kinds(project):
    return [r.kind for r in project.rules]


def test_that_new_rules_stand_from_general_to_specific_with_io_strongest():
    project = make_project()
    for kind, match in [
        ("io", ""), ("module_name", "a.b"), ("node_name", "n"), ("global", ""),
        ("module_name", "a"), ("module_type", "T"), ("node_target", "aten.relu.default"),
    ]:  # fmt: skip
        project = edits.assign(project, kind, match, "a8w8")
    assert kinds(project) == [
        "global", "module_type", "module_name", "module_name", "node_target", "node_name", "io",
    ]  # fmt: skip
    assert [r.match for r in project.rules if r.kind == "module_name"] == ["a", "a.b"]


def test_that_assigning_again_replaces_the_rule_and_keeps_its_id_and_place():
    project = edits.assign(make_project(), "module_name", "a", "a8w8")
    again = edits.assign(project, "module_name", "a", "a16w8")
    assert [(r.id, r.config) for r in again.rules] == [(project.rules[0].id, "a16w8")]


def test_that_edits_leave_the_project_they_were_given_alone():
    project = make_project(rule("r1", "global"))
    edits.remove_rule(project, "r1")
    assert len(project.rules) == 1


def test_that_a_moved_rule_stops_at_the_ends():
    project = make_project(rule("a", "global"), rule("b", "io"))
    assert [r.id for r in edits.move_rule(project, "a", 99).rules] == ["b", "a"]
    assert [r.id for r in edits.move_rule(project, "b", -5).rules] == ["b", "a"]


@pytest.mark.parametrize("verb", [edits.remove_rule, lambda p, r: edits.move_rule(p, r, 0)])
def test_that_a_rule_nobody_has_is_named_with_those_there_are(verb):
    with pytest.raises(WorkbenchError, match="no rule r9") as error:
        verb(make_project(rule("r1", "global")), "r9")
    assert "r1" in error.value.infos[0].hint


@pytest.mark.parametrize(
    "edit",
    [
        lambda p: edits.assign(p, "io", "", "uint8"),
        lambda p: edits.enable_rule(p, "r1", enabled=False),
        lambda p: edits.rename(p, "other"),
        lambda p: edits.set_notes(p, "a\nb"),
        lambda p: edits.assign_many(p, "module_name", ["a", "b"], "float"),
    ],
)
def test_that_every_edit_survives_saving_and_loading(edit):
    changed = edit(make_project(rule("r1", "global")))
    assert store.parse(store.dump(changed).encode(), "x") == changed
