"""What is known of the model: fused groups, effective configs, paths that move along."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.fakes.projects import MODULES, make_project, snapshot
from ui.shared.explanations import why
from ui.shared.problem_list import project_problems
from ui.state.model_index import fused_groups
from ui.state.relocate import relocate
from workbench.graph.snapshot import GraphSnapshot, Module
from workbench.project.configs import Activation, Observer, QuantConfig
from workbench.project.model import DataSource, Evaluation, ModelSource, Rule
from workbench.project.opened import OpenProject
from workbench.project.rules import Effective, ModuleRef, NodeRef, resolve


def observed(plugin):
    return QuantConfig(activation=Activation(observer=Observer(kind="plugin", plugin=plugin)))


def test_that_convolution_norm_and_activation_are_one_group_with_its_block():
    groups = fused_groups(snapshot())
    assert set(groups) == {"stem.conv", "stem.bn", "stem.relu"}
    assert groups["stem.conv"].members == ("stem.conv", "stem.bn", "stem.relu")
    assert groups["stem.conv"].matches == ["stem"]


def test_that_a_block_with_more_in_it_offers_its_members_instead():
    graph = snapshot()
    wider = (*MODULES, Module("stem.extra", "torch.nn.Identity", "stem", 0))
    groups = fused_groups(GraphSnapshot("float", graph.nodes, graph.edges, wider))
    assert groups["stem.bn"].parent is None
    assert groups["stem.bn"].matches == ["stem.conv", "stem.bn", "stem.relu"]


def test_that_a_rule_for_a_block_reaches_the_group_in_it():
    group = fused_groups(snapshot())["stem.bn"]
    assert group.is_within("stem")
    assert not group.is_within("stem.bn")


RULES = (
    Rule(id="a", kind="global", config="a8w8"),
    Rule(id="b", kind="module_name", match="stem", config="a16w8"),
)


@pytest.mark.parametrize(
    ("effective", "module", "said"),
    [
        (Effective("a16w8", "b", ("a",)), "stem.conv", "a16w8 from rule 2 stem.*, overrides rule 1"),
        (Effective("a16w8", "b", ("a",)), "stem", "a16w8 from rule 2 stem, overrides rule 1"),
        (Effective("a8w8", "a"), "head", "a8w8 from rule 1 whole model"),
        (Effective("float", None), "head", "float: no rule matches"),
    ],
)
def test_that_a_config_says_where_it_comes_from(effective, module, said):
    assert why(effective, RULES, module) == said


GRAPH = snapshot()


def problems(*rules, graph=GRAPH):
    project = make_project(*rules, calibration=DataSource(spec="data.npy"))
    refs = [ModuleRef(m.path, m.type_name) for m in MODULES]
    nodes = [NodeRef("conv2d", "aten.conv2d.default", tuple(refs[:3]))]
    return list(project_problems(OpenProject(project, Path.cwd()), graph, resolve(project, refs, nodes)))


def test_that_rules_without_effect_are_problems_with_their_place():
    lost = Rule(id="lost", kind="module_name", match="nowhere", config="a8w8")
    weak = Rule(id="weak", kind="module_name", match="stem.conv", config="a8w8")
    strong = Rule(id="strong", kind="module_name", match="stem", config="a16w8")
    found = problems(lost, weak, strong)
    assert [(p.where.id, p.severity) for p in found] == [("lost", "warning"), ("weak", "warning")]
    assert [p.code for p in found] == ["rule-unmatched", "rule-overridden"]


def test_that_nothing_is_said_of_matches_before_the_model_is_known():
    lost = Rule(id="lost", kind="module_name", match="nowhere", config="a8w8")
    assert problems(lost, graph=None) == []


def test_that_a_config_the_target_refuses_is_an_error():
    (problem,) = problems(Rule(id="u", kind="global", config="uint8"))
    assert problem.severity == "error"
    assert problem.code == "rule-not-supported"


def test_that_a_moved_project_means_the_same_files(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    project = make_project().model_copy(
        update={
            "model": ModelSource(spec="net.py:make", weights="w.safetensors"),
            "calibration": DataSource(spec="data.npz", labels="/abs/labels.npy"),
            "evaluation": Evaluation(metric="package.module:score"),
            "trained_weights": "trained.safetensors",
            "training_function": "teach.py:teach",
            "plugins": ("own.py",),
            "presets": {"mine": observed("own.py:Wide")},
            "rules": (Rule(id="r1", kind="finder", match="own.py:first", config="own.py:narrow"),),
        }
    )
    moved = relocate(OpenProject(project, tmp_path / "a"), tmp_path / "b")
    assert moved.model.spec == "../a/net.py:make"
    assert moved.model.weights == "../a/w.safetensors"
    assert moved.calibration.spec == "../a/data.npz"
    assert moved.calibration.labels == "/abs/labels.npy"
    assert moved.trained_weights == "../a/trained.safetensors"
    assert moved.training_function == "../a/teach.py:teach"
    assert moved.plugins == ("../a/own.py",)
    assert moved.presets == {"mine": observed("../a/own.py:Wide")}
    assert (moved.rules[0].match, moved.rules[0].config) == ("../a/own.py:first", "../a/own.py:narrow")
    assert moved.evaluation.metric == "package.module:score"
    assert relocate(OpenProject(moved, tmp_path / "b"), tmp_path / "a") == project
    assert relocate(OpenProject(project, tmp_path / "a"), tmp_path / "a") is project


def test_that_the_graph_is_not_parsed_in_the_threads_of_the_window(opened, qtbot, monkeypatch):
    threads, load = [], GraphSnapshot.load
    monkeypatch.setattr(
        GraphSnapshot, "load", lambda path: (threads.append(threading.get_ident()), load(path))[1]
    )
    outline = opened.context.model_index
    with qtbot.waitSignal(outline.model_changed):
        opened.runs.run_to("export")
    assert [module.path for module in outline.modules] == [module.path for module in MODULES]
    assert outline.groups["stem.conv"].matches == ["stem"]
    assert outline.effective("stem") is not None
    assert threads
    assert threading.get_ident() not in threads


def test_that_a_graph_that_comes_too_late_for_its_project_is_not_shown(opened, qtbot, monkeypatch):
    begun, go_on, load = threading.Event(), threading.Event(), GraphSnapshot.load

    def slow(path):
        begun.set()
        go_on.wait(5)
        return load(path)

    monkeypatch.setattr(GraphSnapshot, "load", slow)
    opened.runs.run_to("export")
    qtbot.waitUntil(begun.is_set)
    opened.files.close_project()
    go_on.set()
    qtbot.wait(200)
    assert opened.document.project is None
    assert opened.context.model_index.snapshot is None
