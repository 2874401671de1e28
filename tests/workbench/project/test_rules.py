from tests.workbench.project.builders import make_project, rule
from workbench.errors import Place
from workbench.project import edits
from workbench.project.rules import ModuleRef, NodeRef, ambiguous_classes, resolve

LINEAR = "torch.nn.modules.linear.Linear"
MODULES = [
    ModuleRef("", "net.Net"),
    ModuleRef("encoder", "net.Encoder"),
    ModuleRef("encoder.0", LINEAR),
    ModuleRef("encoder.1", "torch.nn.modules.activation.ReLU"),
    ModuleRef("encoder2", LINEAR),
]


def labels(*rules):
    return {path: e.label for path, e in resolve(make_project(*rules), MODULES).modules.items()}


def test_that_the_last_matching_rule_wins_whatever_its_kind():
    name = rule("n", "module_name", "encoder.0", "a8w8")
    type_ = rule("t", "module_type", LINEAR, "a16w8")
    assert labels(name, type_)["encoder.0"] == "a16w8"
    assert labels(type_, name)["encoder.0"] == "a8w8"


def test_that_the_global_rule_is_weakest_wherever_it_stands():
    last = labels(rule("n", "module_name", "encoder", "a16w8"), rule("g", "global"))
    assert last["encoder.0"] == "a16w8"
    assert last["encoder2"] == "a8w8"


def test_that_a_module_name_covers_what_is_below_but_no_longer_names():
    found = labels(rule("n", "module_name", "encoder", "a16w8"))
    assert found["encoder.1"] == "a16w8"
    assert found["encoder2"] == "float"


def test_that_a_class_may_be_named_without_its_module():
    found = labels(rule("t", "module_type", "Linear", "a16w8"))
    assert {path for path, label in found.items() if label == "a16w8"} == {"encoder.0", "encoder2"}


def test_that_a_class_of_which_the_model_has_several_is_an_error_with_their_names():
    types = [LINEAR, "net.Linear", "net.Net"]
    (info,) = ambiguous_classes(make_project(rule("t", "module_type", "Linear")), types)
    assert info.where == Place(kind="rule", id="t")
    assert all(name in info.hint for name in types[:2])
    for named in (rule("t", "module_type", LINEAR), rule("t", "module_type", "Net")):
        assert list(ambiguous_classes(make_project(named), types)) == []


def test_that_a_disabled_rule_does_nothing():
    assert labels(rule("g", "global", enabled=False))["encoder"] == "float"


def test_that_a_rule_counts_what_it_wins_and_loses():
    project = make_project(
        rule("g", "global"),
        rule("n", "module_name", "encoder", "a16w8"),
        rule("x", "module_name", "no"),
    )
    counts = resolve(project, MODULES).counts
    assert (counts["g"].wins, counts["g"].loses) == (2, 3)
    assert (counts["n"].wins, counts["n"].loses) == (3, 0)
    assert counts["x"].matched == 0


def test_that_the_beaten_rules_are_told_strongest_first():
    project = make_project(
        rule("g", "global"),
        rule("a", "module_name", "encoder"),
        rule("b", "module_name", "encoder.0"),
    )
    effective = resolve(project, MODULES).modules["encoder.0"]
    assert effective.rule == "b"
    assert effective.overridden == ("a", "g")


def test_that_io_and_node_rules_reach_nodes_only():
    chain = (MODULES[0],)
    nodes = [
        NodeRef("x", "x", chain, is_io=True),
        NodeRef("relu", "aten.relu.default", chain),
        NodeRef("add", "aten.add.Tensor", chain),
    ]
    project = make_project(
        rule("g", "global"),
        rule("i", "io", config="uint8"),
        rule("t", "node_target", "aten.relu.default", "a16w8"),
        rule("n", "node_name", "add", "float"),
    )
    resolution = resolve(project, MODULES, nodes)
    assert {n: e.label for n, e in resolution.nodes.items()} == {
        "x": "uint8", "relu": "a16w8", "add": "float",
    }  # fmt: skip
    assert resolution.counts["n"].wins == 1
    assert resolution.modules[""].label == "a8w8"


def test_that_precision_and_place_are_decided_apart():
    project = make_project(
        rule("r1", "global"), rule("r2", "module_name", "body", "cpu"),
        rule("r3", "module_name", "body.0", "a16w8"),
    )  # fmt: skip
    modules = [ModuleRef("", "net.Net"), ModuleRef("body", "B"), ModuleRef("body.0", "C")]
    found = resolve(project, modules)
    body, inner = found.modules["body"], found.modules["body.0"]
    assert (body.label, body.rule, body.kept_off, body.chip) == ("a8w8", "r1", "r2", "a8w8 CPU")
    assert (inner.label, inner.rule, inner.kept_off) == ("a16w8", "r3", "r2")
    assert inner.overridden == ("r1",)
    assert found.modules[""].kept_off is None
    assert (found.counts["r2"].wins, found.counts["r2"].loses) == (2, 0)
    assert project.kept_off() == [("module_name", "body")]
    assert [kind for kind, _, _ in project.quantizer_calls()] == ["global", "module_name"]


def test_that_a_rule_for_place_stands_beside_one_for_precision():
    project = edits.assign(make_project(rule("r1", "global")), "module_name", "head", "a16w8")
    project = edits.assign(project, "module_name", "head", "cpu")
    project = edits.assign(project, "module_name", "head", "a8w4")
    assert [r.config for r in project.rules] == ["a8w8", "a8w4", "cpu"]
