from tests.workbench.project.builders import make_project, rule
from workbench.errors import Place
from workbench.project import edits
from workbench.project.rules import (
    Effective,
    ModuleRef,
    NodeRef,
    RuleCount,
    ambiguous_classes,
    by_strength,
    matches_module,
    matches_node,
    module_chains,
    resolve,
)

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
        rule("g", "global"), rule("n", "module_name", "encoder", "a16w8"), rule("x", "module_name", "no")
    )
    counts = resolve(project, MODULES).counts
    assert (counts["g"].wins, counts["g"].loses) == (2, 3)
    assert (counts["n"].wins, counts["n"].loses) == (3, 0)
    assert counts["x"].matched == 0


def test_that_the_beaten_rules_are_told_strongest_first():
    project = make_project(
        rule("g", "global"), rule("a", "module_name", "encoder"), rule("b", "module_name", "encoder.0")
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
        "x": "uint8",
        "relu": "a16w8",
        "add": "float",
    }
    assert resolution.counts["n"].wins == 1
    assert resolution.modules[""].label == "a8w8"


def test_that_precision_and_place_are_decided_apart():
    project = make_project(
        rule("r1", "global"),
        rule("r2", "module_name", "body", "cpu"),
        rule("r3", "module_name", "body.0", "a16w8"),
    )
    modules = [ModuleRef("", "net.Net"), ModuleRef("body", "B"), ModuleRef("body.0", "C")]
    found = resolve(project, modules)
    body, inner = found.modules["body"], found.modules["body.0"]
    assert (body.label, body.rule, body.cpu_only, body.chip) == ("a8w8", "r1", "r2", "a8w8 CPU")
    assert (inner.label, inner.rule, inner.cpu_only) == ("a16w8", "r3", "r2")
    assert inner.overridden == ("r1",)
    assert found.modules[""].cpu_only is None
    assert (found.counts["r2"].wins, found.counts["r2"].loses) == (2, 0)
    assert project.cpu_only_rules() == [("module_name", "body")]
    assert [kind for kind, _, _ in project.quantizer_calls()] == ["global", "module_name"]


def test_that_a_rule_for_place_stands_beside_one_for_precision():
    project = edits.assign(make_project(rule("r1", "global")), "module_name", "head", "a16w8")
    project = edits.assign(project, "module_name", "head", "cpu")
    project = edits.assign(project, "module_name", "head", "a8w4")
    assert [r.config for r in project.rules] == ["a8w8", "a8w4", "cpu"]


def test_that_patterns_match_whole_names_written_either_way():
    chain = (ModuleRef("", "net.Net"), ModuleRef("layers", "L"), ModuleRef("layers.0", "B"))
    node = NodeRef("add_1", "aten.add.Tensor", chain)

    def fits(pattern):
        asked = rule("r1", "pattern", pattern)
        return matches_module(asked, chain), matches_node(asked, node)

    assert fits(r"layers\.0") == (True, True)
    assert fits("layers_0") == (True, True)
    assert fits("layers") == (False, False)
    assert fits("add_[0-9]") == (False, True)
    assert fits("add") == (False, False)
    assert fits("(") == (False, False)
    assert fits("") == (False, False)
    assert not matches_module(rule("r1", "pattern", ".*"), ())
    assert not matches_module(rule("r1", "pattern", ".*"), chain[:1])


def test_that_each_kind_of_rule_matches_its_own():
    chain = (ModuleRef("", "net.Net"), ModuleRef("stem", "my.Block"))
    node, border = NodeRef("n", "aten.add.Tensor", chain), NodeRef("x", "input", (), is_io=True)
    for kind, match, module, inner, outer in (
        ("global", "", True, True, True),
        ("io", "", False, False, True),
        ("node_name", "n", False, True, False),
        ("node_name", "x", False, False, True),
        ("node_target", "aten.add.Tensor", False, True, False),
        ("module_name", "stem", True, True, False),
        ("module_name", "ste", False, False, False),
        ("module_type", "Block", True, True, False),
        ("module_type", "my.Block", True, True, False),
        ("module_type", "Net", True, True, False),
        ("finder", "n", False, False, False),
    ):
        asked = rule("r1", kind, match)
        assert matches_module(asked, chain) == module, (kind, match)
        assert matches_node(asked, node) == inner, (kind, match)
        assert matches_node(asked, border) == outer, (kind, match)


def test_that_a_module_has_the_chain_of_its_known_ancestors():
    modules = [ModuleRef(p, "T") for p in ("", "a", "a.b.c", "z.y")]
    chains = {path: [m.path for m in chain] for path, chain in module_chains(modules).items()}
    assert chains == {"": [""], "a": ["", "a"], "a.b.c": ["", "a", "a.b.c"], "z.y": ["", "z.y"]}


def test_that_a_config_off_the_npu_is_shown_with_its_place():
    assert Effective("a8w8", "r1").chip == "a8w8"
    assert Effective("a8w8", "r1", cpu_only="r2").chip == "a8w8 CPU"
    assert RuleCount(2, 3).matched == 5


def test_that_a_plugin_rule_decides_a_module_of_which_it_took_every_node():
    project = make_project(rule("r1", "global"), rule("r2", "finder", "own.py:F", "a16w8"))
    modules = [ModuleRef("", "Net"), ModuleRef("a", "A"), ModuleRef("b", "B")]
    nodes = [NodeRef(n, "op", (modules[0], modules[1 if n < "m" else 2])) for n in "acxy"]
    found = resolve(project, modules, nodes, {"a": "r2", "c": "r2", "x": "r2"})
    assert {m: e.rule for m, e in found.modules.items()} == {"": "r1", "a": "r2", "b": "r1"}
    assert {n: e.rule for n, e in found.nodes.items()} == {"a": "r2", "c": "r2", "x": "r2", "y": "r1"}
    assert found.counts["r2"] == RuleCount(3, 0)
    unknown = resolve(project, modules, nodes)
    assert set(unknown.counts) == {"r1"}
    assert set(resolve(project, modules, nodes, {}).counts) == {"r1", "r2"}


def test_that_later_rules_are_stronger_and_general_ones_weakest():
    rules = [
        rule("g1", "global"),
        rule("a", "module_name", "x"),
        rule("g2", "global"),
        rule("b", "node_name", "y"),
        rule("g3", "global"),
        rule("off", "node_name", "z", enabled=False),
        rule("c", "io"),
    ]
    assert [r.id for r in by_strength(rules)] == ["c", "b", "a", "g3", "g2", "g1"]
