"""Errors and warnings of a project, and the rule that decides each module and node."""

import pytest

from tests.fakes.projects import MODULES, make_project, snapshot, write_project
from tests.fakes.results import result_of, write_result
from tests.for_each import for_each
from workbench.graph.snapshot import Edge, GraphSnapshot, Module, Node
from workbench.pipeline.cache import Cache
from workbench.pipeline.plan import plan
from workbench.pipeline.resolution import (
    float_graph,
    prepared_result,
    problems,
    resolve_graph,
    rule_name,
    taken_by_plugins,
    warnings,
)
from workbench.project import edits
from workbench.project.configs import QuantConfig
from workbench.project.model import DataSource, Preprocess, Rule, TargetChoice
from workbench.project.opened import OpenProject
from workbench.results import NodeAnnotation, PrepareResult
from workbench.targets.ethos_u.corrections import CORRECTIONS


@pytest.fixture
def folder(tmp_path):
    write_project(tmp_path / "mine")
    (tmp_path / "mine" / "data.npy").write_bytes(b"")
    return tmp_path / "mine"


def rule(id_, kind, match="", config="a8w8", **rest):
    return Rule(id=id_, kind=kind, match=match, config=config, **rest)


GLOBAL = rule("r1", "global")
DATA = DataSource(spec="data.npy")


def told(folder, *rules, graph=None, prepared=None, **fields):
    """Return level, code and place of every problem of a project with these rules."""
    project = make_project(*rules, **{"calibration": DATA, **fields})
    found = problems(OpenProject(project, folder), graph, prepared)
    return [(p.level, p.info.code, p.info.where.id) for p in found]


def hints(folder, *rules):
    project = make_project(*rules, calibration=DATA)
    return [p.info.hint for p in problems(OpenProject(project, folder), snapshot(), None)]


def test_that_a_project_in_order_has_no_problem(folder):
    assert told(folder, GLOBAL) == []
    assert told(folder, GLOBAL, graph=snapshot()) == []


def test_that_missing_data_and_rules_are_warned_of(folder):
    assert told(folder, GLOBAL, calibration=None) == [("warning", "calibration-missing", "calibration")]
    assert told(folder, rule("r1", "global", enabled=False)) == [("warning", "rules-missing", "rules")]
    assert told(folder, rule("r1", "global", enabled=False), GLOBAL) == []


def test_that_missing_files_are_errors_and_stand_first(folder):
    (folder / "net.pt2").unlink()
    assert told(folder, GLOBAL, calibration=None) == [
        ("error", "source-file-missing", "model.spec"),
        ("warning", "calibration-missing", "calibration"),
    ]


def test_that_an_unknown_device_is_the_only_error_of_its_options(folder):
    project = make_project(GLOBAL, calibration=DATA).model_copy(
        update={"target": TargetChoice(id="ethos-u1-1")}
    )
    found = problems(OpenProject(project, folder), None)
    assert [p.info.code for p in found if p.level == "error"] == ["target-unknown"]


def test_that_a_config_that_the_device_refuses_is_an_error_of_its_rule(folder):
    assert told(folder, rule("r1", "global", config="uint8")) == [("error", "rule-not-supported", "r1")]
    assert told(folder, GLOBAL, rule("r2", "io", config="cpu")) == [("error", "rule-not-supported", "r2")]
    assert told(folder, GLOBAL, rule("r2", "node_name", "linear", "cpu")) == []
    disabled = rule("r2", "io", config="cpu", enabled=False)
    assert told(folder, GLOBAL, disabled) == []


def test_that_a_problem_of_several_rules_is_told_once(folder):
    project = make_project(GLOBAL, rule("r2", "node_name", "linear", "uint8"), calibration=DATA)
    twice = project.model_copy(update={"rules": (*project.rules, project.rules[1])})
    found = [p.info.code for p in problems(OpenProject(twice, folder), None)]
    assert found == ["rule-not-supported"]


def test_that_a_rule_that_matches_nothing_is_told_with_near_names(folder):
    near = rule("r2", "module_name", "steem.conv", "a16w8")
    assert told(folder, GLOBAL, near, graph=snapshot()) == [("warning", "rule-unmatched", "r2")]
    assert told(folder, GLOBAL, near) == []
    assert "stem.conv" in hints(folder, GLOBAL, near)[0]
    (by_class,) = hints(folder, GLOBAL, rule("r2", "module_type", "Linearr", "a16w8"))
    assert "Linear" in by_class
    (by_node,) = hints(folder, GLOBAL, rule("r2", "node_name", "linaer", "a16w8"))
    assert "linear" in by_node
    (far,) = hints(folder, GLOBAL, rule("r2", "module_name", "qqqqqqqq", "a16w8"))
    assert "linear" not in far
    off = rule("r2", "module_name", "steem.conv", "a16w8", enabled=False)
    assert told(folder, GLOBAL, off, graph=snapshot()) == []


def test_that_a_rule_that_never_wins_is_told_with_what_overrides_it(folder):
    rules = (GLOBAL, rule("r2", "module_name", "head", "a16w8"), rule("r3", "module_name", "head", "a8w4"))
    # Two rules for one module: the later call wins.
    project = make_project(*rules, calibration=DATA)
    found = problems(OpenProject(project, folder), snapshot(), None)
    assert [(p.info.code, p.info.where.id) for p in found] == [("rule-overridden", "r2")]
    assert "a8w4" in found[0].info.message
    assert "a8w8" not in found[0].info.message


def test_that_a_class_of_which_there_are_two_is_an_error_with_the_graph(folder):
    modules = (*MODULES, Module("other", "my.Linear", "", 0))
    graph = GraphSnapshot("float", snapshot().nodes, snapshot().edges, modules)
    rules = (GLOBAL, rule("r2", "module_type", "Linear", "a16w8"))
    assert ("error", "rule-class-ambiguous", "r2") in told(folder, *rules, graph=graph)
    assert all(level == "warning" for level, _, _ in told(folder, *rules))


def test_that_every_module_and_node_has_its_config_and_deciding_rule():
    project = make_project(
        GLOBAL, rule("r2", "module_name", "stem", "a16w8"), rule("r3", "io", config="uint8")
    )
    parameter = Node("w", "", "parameter", "head")
    outside = Node("free", "aten.add.Tensor", "call", "unknown.module")
    whole = snapshot()
    graph = GraphSnapshot("float", (*whole.nodes, parameter, outside), whole.edges, MODULES)
    found = resolve_graph(project, graph)
    assert {m: e.rule for m, e in found.modules.items()} == {
        "": "r1",
        "stem": "r2",
        "stem.conv": "r2",
        "stem.bn": "r2",
        "stem.relu": "r2",
        "head": "r1",
    }
    assert {n: (e.label, e.rule) for n, e in found.nodes.items()} == {
        "x": ("uint8", "r3"),
        "conv2d": ("a16w8", "r2"),
        "batch_norm": ("a16w8", "r2"),
        "relu": ("a16w8", "r2"),
        "linear": ("a8w8", "r1"),
        "output": ("uint8", "r3"),
        "free": ("a8w8", "r1"),
    }


def note(node, by="", **rest):
    fields = {"op": "", "module": "", "config": "", "quantized": True, **rest}
    return NodeAnnotation(node=node, origin=node, by=by, **fields)


def test_that_matches_of_plugins_come_from_the_quantizers_report():
    project = make_project(
        GLOBAL,
        rule("r2", "finder", "own.py:First", "a16w8"),
        rule("r3", "finder", "own.py:Off", "a16w8", enabled=False),
        rule("r4", "quantizer", "", "own.py:Rows"),
    )
    prepared = PrepareResult(
        observers=1,
        annotations=(
            note("conv2d", "own.py:First"),
            note("relu", "own.py:Off"),
            note("linear", "own.py:Rows"),
            note("x"),
        ),
    )
    assert taken_by_plugins(project, prepared) == {"conv2d": "r2", "linear": "r4"}
    assert resolve_graph(project, snapshot(), prepared).nodes["conv2d"].rule == "r2"
    assert resolve_graph(project, snapshot()).nodes["conv2d"].rule == "r1"
    assert rule_name(project.rules[1]).startswith("finder ")
    assert rule_name(project.rules[0]) == "global"
    assert rule_name(project.rules[3]).startswith("quantizer ")


def test_that_pinned_ranges_of_lost_tensors_are_warned_of(folder):
    project = make_project(GLOBAL, calibration=DATA)
    for tensor in ("relu", "made", "gone"):
        project = edits.fix_range(project, tensor, -1.0, 1.0)
    prepared = PrepareResult(observers=1, annotations=(note("made"),))
    found = problems(OpenProject(project, folder), snapshot(), prepared)
    assert [(p.level, p.info.code, p.info.where.id) for p in found] == [
        ("warning", "fixed-range-lost", "gone")
    ]
    assert problems(OpenProject(project, folder), snapshot(), None) == []
    assert problems(OpenProject(project, folder), None, prepared) == []


def test_that_range_methods_of_lost_tensors_and_modules_are_warned_of(folder):
    project = make_project(GLOBAL, calibration=DATA)
    for scope, match in (
        ("all", ""),
        ("tensor", "relu"),
        ("tensor", "made"),
        ("tensor", "gone"),
        ("module", "head"),
        ("module", "lost"),
    ):
        project = edits.choose_method(project, scope, match, "mse")
    prepared = PrepareResult(observers=1, annotations=(note("made", module="head"),))
    found = problems(OpenProject(project, folder), snapshot(), prepared)
    assert {(p.info.code, p.info.where.kind, p.info.where.id) for p in found} == {
        ("range-method-lost", "tensor", "gone"),
        ("range-method-lost", "module", "lost"),
    }


def transposed(config, target="ethos-u55-128", operator="aten.conv_transpose2d.input"):
    nodes = (
        Node("x", "placeholder", "input"),
        Node("up", operator, "call", "head"),
        Node("output", "output", "output"),
    )
    graph = GraphSnapshot("float", nodes, (Edge("x", "up"), Edge("up", "output")), MODULES)
    project = make_project(rule("r1", "global", config=config), calibration=DATA)
    choice = TargetChoice(id=target, options={row.id: False for row in CORRECTIONS})
    return project.model_copy(update={"target": choice}), graph


PER_TENSOR_4 = QuantConfig.model_validate({"weight": {"bits": 4, "per_channel": False}})


@for_each(
    ("config", "target", "refused"),
    [
        ("a8w8", "ethos-u55-128", False),
        ("a16w8", "ethos-u55-128", True),
        ("a16w8", "ethos-u85-256", False),
        ("a8w4", "ethos-u55-128", True),
        (PER_TENSOR_4, "ethos-u55-128", False),
        ("float", "ethos-u55-128", False),
    ],
)
def test_that_operators_that_the_tools_reject_are_warned_of(folder, config, target, refused):
    project, graph = transposed(config, target)
    found = [p.info.code for p in problems(OpenProject(project, folder), graph, None)]
    assert ("operator-not-supported" in found) == refused


def test_that_operators_kept_off_or_left_in_float_are_not_rejected(folder):
    project, graph = transposed("a16w8")
    off = edits.assign(project, "node_name", "up", "cpu")
    assert "operator-not-supported" not in [
        p.info.code for p in problems(OpenProject(off, folder), graph, None)
    ]
    left = PrepareResult(observers=1, annotations=(note("up", quantized=False),))
    quantized = PrepareResult(observers=1, annotations=(note("up"),))
    assert "operator-not-supported" not in [
        p.info.code for p in problems(OpenProject(project, folder), graph, left)
    ]
    assert "operator-not-supported" in [
        p.info.code for p in problems(OpenProject(project, folder), graph, quantized)
    ]


def test_that_sixteen_bit_products_are_warned_of_at_their_rule(folder):
    nodes = (Node("x", "placeholder", "input"), Node("mm", "aten.matmul.default", "call", "head"))
    graph = GraphSnapshot("float", nodes, (Edge("x", "mm"),), MODULES)
    rules = (GLOBAL, rule("r2", "module_name", "head", "a16w8"))
    assert ("warning", "rule-warning", "r2") in told(folder, *rules, graph=graph)
    assert told(folder, GLOBAL, graph=graph) == []


def test_that_graph_and_report_come_from_the_cache(folder):
    project, cache = make_project(GLOBAL), Cache(folder / "cache")
    planned = plan(OpenProject(project, folder), cache)
    assert float_graph(planned, cache) is None
    assert prepared_result(planned, cache) is None
    for stage in ("export", "prepare"):
        with cache.writing(planned.key(stage)) as made:
            write_result(stage, made)
    again = planned.looked_up(cache)
    assert float_graph(again, cache) == snapshot()
    assert prepared_result(again, cache) == result_of("prepare")


@for_each(("preprocess", "warned"), [(None, True), (Preprocess(size=(8, 8)), False)])
def test_that_a_folder_of_pictures_without_preprocess_is_warned_of(folder, preprocess, warned):
    (folder / "pictures").mkdir(exist_ok=True)
    (folder / "pictures" / "one.png").write_bytes(b"")
    data = DataSource(spec="pictures", preprocess=preprocess)
    found = told(folder, GLOBAL, calibration=data)
    wanted = ("warning", "pictures-preprocess-missing", "calibration.preprocess")
    assert found == [wanted] * warned


@for_each("config", ["a8w8", "float"])
def test_that_a_quantized_operator_is_not_rejected_for_a_precision_it_does_not_have(folder, config):
    project, graph = transposed(config)
    quantized = PrepareResult(observers=1, annotations=(note("up"),))
    found = [p.info.code for p in problems(OpenProject(project, folder), graph, quantized)]
    assert "operator-not-supported" not in found


def test_that_the_code_of_a_plugin_decides_what_its_rule_matches(folder):
    (folder / "own.py").write_text("def first(graph): ...\nFINDERS = [first]\n")
    finder = rule("r2", "finder", "own.py:first", "a16w8")
    prepared = PrepareResult(observers=1, annotations=(note("conv2d"),))
    project = make_project(GLOBAL, finder, calibration=DATA)
    (found,) = [
        p.info
        for p in problems(OpenProject(project, folder), snapshot(), prepared)
        if p.info.where.id == "r2"
    ]
    assert found.code == "rule-unmatched"
    assert found.hint
    assert found.hint != hints(folder, GLOBAL, rule("r2", "module_name", "qqqq", "a16w8"))[0]


def test_that_nothing_is_told_of_rules_before_they_are_resolved(folder):
    project = make_project(GLOBAL, rule("r2", "module_name", "none", "a16w8"), calibration=DATA)
    resolution = resolve_graph(project, snapshot())
    assert [w.code for w in warnings(OpenProject(project, folder), snapshot(), resolution)] == [
        "rule-unmatched"
    ]
    assert list(warnings(OpenProject(project, folder), snapshot(), None)) == []
    assert list(warnings(OpenProject(project, folder), None, resolution)) == []


def test_that_parameters_and_nodes_without_a_rule_are_no_operators_of_a_rule(folder):
    whole = snapshot()
    nodes = (
        *whole.nodes,
        Node("w", "", "parameter", "head"),
        Node("mm", "aten.matmul.default", "call", "stem"),
    )
    graph = GraphSnapshot("float", nodes, whole.edges, MODULES)
    assert told(folder, rule("r1", "module_name", "head", "a16w8"), graph=graph) == []


@for_each(("config", "quantized", "told"), [("a8w8", True, 1), ("a8w8", False, 0), ("float", True, 0)])
def test_that_only_quantized_operators_are_compiled_wrongly(folder, config, quantized, told):
    """A negation is compiled wrongly where its correction is off."""
    project, graph = transposed(config, operator="aten.neg.default")
    report = PrepareResult(observers=1, annotations=(note("up", quantized=quantized),))
    found = [p.info.code for p in problems(OpenProject(project, folder), graph, report)]
    assert found == ["correction-switched-off"] * told
