"""Rules keep operators, modules and nodes off the NPU, and their precision stays."""

from __future__ import annotations

import pytest

from tests.engine.in_process import CALIBRATED, project
from workbench.graph.snapshot import GraphSnapshot
from workbench.pipeline.resolution import resolve_graph
from workbench.project import edits
from workbench.results import GRAPH_FILE

pytestmark = [pytest.mark.engine, pytest.mark.shared_results]


RULES = [
    ("module_name", "fc", {"aten.linear.default"}),
    ("module_type", "torch.nn.modules.conv.Conv2d", {"aten.convolution.default"}),
    ("module_type", "Conv2d", {"aten.convolution.default"}),
    ("node_target", "aten.conv2d.default", {"aten.convolution.default"}),
    ("node_name", "relu", {"aten.relu.default", "aten.convolution.default"}),
]


@pytest.mark.parametrize(
    ("kind", "match", "kept"), [pytest.param(*r, marks=[pytest.mark.slow] * (r[1] != "fc")) for r in RULES]
)
def test_that_a_rule_keeps_what_it_names_off_the_npu(engine, kind, match, kept):
    made = edits.assign(project("small", **CALIBRATED), kind, match, "cpu")
    assert engine.run(made, "lower", "evaluate") == "done", engine.failure
    lowered = engine.result(made, "lower")
    off = [node for node in lowered.cpu_nodes if node.cause == "rule"]
    assert {node.op for node in off} == kept


@pytest.mark.parametrize(("kind", "match", "kept"), RULES)
def test_that_it_is_predicted_what_a_rule_keeps_off(engine, kind, match, kept):
    plain = project("small", **CALIBRATED)
    made = edits.assign(plain, kind, match, "cpu")
    assert engine.run(made, "export") == "done", engine.failure
    assert engine.path(made, "convert") == engine.path(plain, "convert")
    graph = GraphSnapshot.load(engine.path(made, "export") / GRAPH_FILE)
    found = resolve_graph(made, graph)
    predicted = {graph.nodes_by_id[i].op for i, e in found.nodes.items() if e.cpu_only}
    named = kept - {"aten.convolution.default"} or {"aten.conv2d.default"}
    assert predicted == named
    assert {e.label for e in found.nodes.values() if e.cpu_only} == {"a8w8"}


def test_that_a_program_of_which_nothing_may_run_on_the_npu_says_so(engine):
    made = edits.assign(project("small", **CALIBRATED), "global", "", "cpu")
    assert engine.run(made, "lower", "evaluate") == "done", engine.failure
    lowered = engine.result(made, "lower")
    assert lowered.delegates == 0
    # Nothing runs on the NPU; and a linear that is left whole has no portable kernel.
    assert len(lowered.warnings) == 2


@pytest.mark.slow
def test_that_a_kept_off_module_gives_the_same_numbers_with_less_on_the_npu(engine):
    plain = project("small", **CALIBRATED)
    made = edits.assign(plain, "module_name", "fc", "cpu")
    for each in (plain, made):
        assert engine.run(each, "verify", "evaluate") == "done", engine.failure
        assert engine.result(each, "verify").max_lsb <= 1
    npu = [engine.result(each, "lower").delegated_nodes for each in (plain, made)]
    assert npu[1] < npu[0]
