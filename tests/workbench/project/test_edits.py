import math

import pytest
from pydantic import ValidationError

from tests.for_each import for_each
from tests.problems import refused
from tests.workbench.project.builders import make_project, rule
from workbench.project import edits, store
from workbench.project.configs import QuantConfig
from workbench.project.model import DataSource, ModelSource, TargetChoice


def kinds(project):
    return [r.kind for r in project.rules]


def test_that_new_rules_stand_from_general_to_specific_with_io_strongest():
    project = make_project()
    for kind, match in [
        ("io", ""),
        ("module_name", "a.b"),
        ("node_name", "n"),
        ("global", ""),
        ("module_name", "a"),
        ("module_type", "T"),
        ("node_target", "aten.relu.default"),
    ]:
        project = edits.assign(project, kind, match, "a8w8")
    assert kinds(project) == [
        "global",
        "module_type",
        "module_name",
        "module_name",
        "node_target",
        "node_name",
        "io",
    ]
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


@for_each("verb", [edits.remove_rule, lambda p, r: edits.move_rule(p, r, 0)])
def test_that_a_rule_nobody_has_is_named_with_those_there_are(verb):
    with refused("rule-unknown") as error:
        verb(make_project(rule("r1", "global")), "r9")
    assert "r1" in error.value.infos[0].hint


@for_each(
    "edit",
    [
        lambda p: edits.assign(p, "io", "", "uint8"),
        lambda p: edits.enable_rule(p, "r1", enabled=False),
        lambda p: edits.match_rule(p, "r1", "stem"),
        lambda p: edits.rename(p, "other"),
        lambda p: edits.set_notes(p, "a\nb"),
        lambda p: edits.assign_many(p, "module_name", ["a", "b"], "float"),
        lambda p: edits.fix_range(p, "relu", -0.5, 3.0),
        lambda p: edits.choose_method(p, "module", "stem", "kl"),
    ],
)
def test_that_every_edit_survives_saving_and_loading(edit):
    changed = edit(make_project(rule("r1", "global")))
    assert store.parse(store.dump(changed).encode(), "x") == changed


def test_that_a_range_is_fixed_once_for_each_tensor_and_freed_again():
    project = edits.fix_range(make_project(), "relu", 0.0, 3.0)
    project = edits.fix_range(project, "conv2d", -1.0, 1.0)
    project = edits.fix_range(project, "relu", 0.0, 2.0)
    assert [(r.tensor, r.maximum) for r in project.ranges] == [("relu", 2.0), ("conv2d", 1.0)]
    assert edits.free_ranges(project, ["relu", "conv2d"]) == make_project()


@for_each(("low", "high"), [(2.0, 1.0), (1.0, 2.0), (-2.0, -1.0), (0.0, math.inf), (math.nan, 1.0)])
def test_that_an_impossible_range_is_refused_at_its_tensor(low, high):
    with refused("fixed-range-invalid") as error:
        edits.fix_range(make_project(), "relu", low, high)
    assert error.value.infos[0].where.id == "relu"


def test_that_methods_stand_from_general_to_specific_one_for_each_place():
    project = edits.choose_method(make_project(), "tensor", "relu", "kl")
    project = edits.choose_method(project, "module", "stem.conv", "mse")
    project = edits.choose_method(project, "module", "stem", "mse")
    project = edits.choose_method(project, "all", "", "minmax")
    project = edits.choose_method(project, "tensor", "relu", "mse")
    assert [(m.scope_text, m.method) for m in project.range_methods] == [
        ("all activations", "minmax"),
        ("all of stem", "mse"),
        ("all of stem.conv", "mse"),
        ("relu", "mse"),
    ]
    freed = edits.free_ranges(project, ["relu"])
    assert freed.range_methods == project.range_methods[:-1]
    assert edits.drop_methods(freed, freed.range_methods) == make_project()


def test_that_a_tensor_has_numbers_or_a_method_whichever_came_last():
    fixed = edits.fix_range(make_project(), "relu", 0.0, 3.0)
    chosen = edits.choose_method(fixed, "tensor", "relu", "kl")
    assert (chosen.ranges, len(chosen.range_methods)) == ((), 1)
    assert edits.fix_range(chosen, "relu", 0.0, 3.0) == fixed
    wider = edits.choose_method(fixed, "all", "", "kl")
    assert wider.ranges == fixed.ranges


@for_each(("scope", "match"), [("all", "relu"), ("module", ""), ("tensor", "")])
def test_that_a_method_names_what_it_is_for(scope, match):
    with pytest.raises(ValidationError, match="match"):
        edits.choose_method(make_project(), scope, match, "kl")


def test_that_freeing_what_is_not_fixed_names_what_is():
    project = edits.fix_range(make_project(), "relu", 0.0, 3.0)
    with refused("range-method-unknown") as error:
        edits.free_ranges(project, ["add"])
    assert "relu" in error.value.infos[0].hint


def test_that_samples_are_left_out_of_calibration_and_taken_back():
    project = edits.set_calibration(make_project(), DataSource(spec="data.npz"))
    dropped = edits.drop_samples(edits.drop_samples(project, [7]), [3, 7])
    assert dropped.calibration.dropped == (3, 7)
    assert edits.restore_samples(dropped, [3, 7]) == project
    with refused("calibration-absent"):
        edits.drop_samples(make_project(), [0])


def test_that_an_assignment_replaces_and_enables_the_rule_of_the_same_match():
    project = edits.assign(make_project(rule("r1", "global")), "module_name", "a", "a8w8")
    off = edits.enable_rule(project, project.rules[-1].id, enabled=False)
    again = edits.assign(off, "module_name", "a", "a16w8")
    assert [(r.id, r.config, r.enabled) for r in again.rules] == [
        (project.rules[0].id, project.rules[0].config, True),
        (project.rules[1].id, "a16w8", True),
    ]


def test_that_a_part_may_have_a_precision_and_be_kept_off_the_npu():
    project = make_project(rule("r1", "global"))
    for config in ("a16w8", "cpu", "a8w4", "cpu"):
        project = edits.assign(project, "module_name", "a", config)
    assert [r.config for r in project.rules[1:]] == ["a8w4", "cpu"]
    many = edits.assign_many(project, "node_name", ["x", "y", "x"], "a16w8")
    assert [r.match for r in many.rules if r.kind == "node_name"] == ["x", "y"]


def test_that_weaker_rules_stand_before_stronger_ones():
    project = make_project(rule("r1", "global"))
    for kind, match in (("node_name", "n"), ("module_name", "m"), ("module_type", "T"), ("io", "")):
        project = edits.assign(project, kind, match, "a16w8")
    kinds = [r.kind for r in project.rules]
    assert kinds[0] == "global"
    assert kinds.index("module_type") < kinds.index("module_name")


def test_that_an_edit_of_one_field_changes_that_field():
    project = make_project()
    target, model = TargetChoice(id="ethos-u85-256"), ModelSource(spec="other.pt2")
    for edited, name, value in (
        (edits.set_target(project, target), "target", target),
        (edits.set_model(project, model), "model", model),
        (edits.use_trained(project, "trained.pt"), "trained_weights", "trained.pt"),
        (edits.save_preset(project, "mine", QuantConfig()), "presets", {"mine": QuantConfig()}),
    ):
        assert getattr(edited, name) == value
        assert edited.model_copy(update={name: getattr(project, name)}) == project
    trained = edits.use_trained(project, "trained.pt")
    assert edits.use_trained(trained, None) == project


def test_that_a_new_rule_gets_the_first_free_id():
    project = edits.assign_many(make_project(), "module_name", ["a", "b", "c"], "a8w8")
    assert {r.match: r.id for r in project.rules} == {"a": "r1", "b": "r2", "c": "r3"}
    assert edits.next_rule_id(edits.remove_rule(project, "r2")) == "r2"


def test_that_one_rule_is_removed_or_gets_another_match():
    project = make_project(rule("a", "module_name", "x"), rule("b", "module_name", "y"))
    assert [r.id for r in edits.remove_rule(project, "a").rules] == ["b"]
    changed = edits.match_rule(project, "a", "z")
    assert [(r.id, r.match) for r in changed.rules] == [("a", "z"), ("b", "y")]


def test_that_quantizers_of_plugins_stand_beside_each_other():
    project = edits.assign(make_project(), "quantizer", "", "own.py:Rows")
    project = edits.assign(project, "quantizer", "", "own.py:Columns")
    again = edits.assign(edits.enable_rule(project, "r1", enabled=False), "quantizer", "", "own.py:Rows")
    assert [(r.config, r.enabled) for r in again.rules] == [("own.py:Rows", True), ("own.py:Columns", True)]


def test_that_a_plugin_the_project_lacks_is_told_with_those_it_has():
    with refused("plugin-not-in-project") as error:
        edits.withdraw_plugin(make_project(), "own.py")
    assert "none" in error.value.infos[0].hint
    with refused("plugin-not-in-project") as error:
        edits.withdraw_plugin(make_project(plugins=("mine.py", "other.py")), "own.py")
    assert "mine.py, other.py" in error.value.infos[0].hint
    assert "none" not in error.value.infos[0].hint


def test_that_a_method_takes_the_place_of_the_range_of_its_tensor_alone():
    project = edits.fix_range(make_project(), "a", 0.0, 1.0)
    project = edits.fix_range(project, "b", 0.0, 1.0)
    chosen = edits.choose_method(project, "tensor", "a", "mse")
    assert [r.tensor for r in chosen.ranges] == ["b"]
    # A module may have the name of a tensor.
    chosen = edits.choose_method(project, "module", "a", "mse")
    assert [r.tensor for r in chosen.ranges] == ["a", "b"]
    chosen = edits.choose_method(edits.choose_method(chosen, "tensor", "c", "kl"), "tensor", "a", "kl")
    freed = edits.free_ranges(chosen, ["a"])
    assert [(m.scope, m.match) for m in freed.range_methods] == [("module", "a"), ("tensor", "c")]
