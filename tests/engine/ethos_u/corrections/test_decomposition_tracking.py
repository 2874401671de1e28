"""Rules reach what ExecuTorch makes of an operator, whatever it calls it, and everybody knows."""

import pytest

from tests.engine.in_process import project, without
from workbench.graph.lineage import Lineage
from workbench.graph.snapshot import GraphSnapshot
from workbench.project import edits
from workbench.results import GRAPH_FILE

pytestmark = [pytest.mark.engine, pytest.mark.shared_results]
RELATING, RELATED = "wide_networks.py:relating", "wide_networks.py:related"
APART = {
    "matmul",
    "matmul_1",
    "softmax",
    "scaled_dot_product_attention",
    "layer_norm",
    "group_norm",
    "einsum",
}
U85 = "ethos-u85-256"


def ran(engine, made, until):
    assert engine.run(made, until, "evaluate") == "done", engine.failure
    return engine.result(made, until)


def configs(prepared):
    """Return the configs of all parts of each operation of the float program."""
    found = {}
    for note in prepared.annotations:
        if note.config != "shared":
            found.setdefault(note.origin, set()).add(note.config)
    return found


@pytest.mark.slow
def test_that_every_part_is_on_record_at_every_level(engine):
    made = project(RELATING, target=U85)
    ran(engine, made, "lower")
    levels = {"float": "export", "prepared": "prepare", "quantized": "convert", "edge": "lower"}
    graphs = {
        level: GraphSnapshot.load(engine.path(made, stage) / GRAPH_FILE) for level, stage in levels.items()
    }
    lineage = Lineage(graphs)
    for level in ("prepared", "quantized", "edge"):
        calls = [n for n in graphs[level].nodes if n.kind == "call" and "aten." in n.op]
        roots = {n.id: lineage.key(level, n.id) for n in calls}
        assert [name for name, key in roots.items() if key is None] == []
        assert {key.root for key in roots.values()} >= APART
        of_second = {n.op.split(".")[1] for n in calls if roots[n.id].root == "matmul_1"}
        assert {"bmm"} <= of_second
        assert not {"exp", "amax", "sum"} & of_second
        assert {"exp", "bmm"} <= {
            n.op.split(".")[1] for n in calls if roots[n.id].root == "scaled_dot_product_attention"
        }


RULES = [
    ("node_name", "softmax", {"softmax"}),
    ("node_name", "matmul_1", {"matmul_1"}),
    ("node_target", "aten.matmul.default", {"matmul", "matmul_1"}),
    ("node_name", "scaled_dot_product_attention", {"scaled_dot_product_attention"}),
    ("node_target", "aten.layer_norm.default", {"layer_norm"}),
    ("module_name", "norm", {"layer_norm"}),
    ("module_type", "torch.nn.modules.normalization.GroupNorm", {"group_norm"}),
]
# One of each kind.
QUICK = {
    "scaled_dot_product_attention",
    "aten.matmul.default",
    "norm",
    "torch.nn.modules.normalization.GroupNorm",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "match", "wide"),
    [pytest.param(*rule, marks=[pytest.mark.slow] * (rule[1] not in QUICK)) for rule in RULES],
)
def test_that_a_rule_for_an_operation_reaches_all_its_parts_and_no_other(engine, kind, match, wide):
    made = edits.assign(project(RELATING, target=U85), kind, match, "a16w8")
    found = configs(ran(engine, made, "prepare"))
    assert {name for name, labels in found.items() if "a16w8" in labels} == wide
    assert all(found[name] == {"a16w8"} for name in wide)


@pytest.mark.slow
def test_that_what_is_kept_off_takes_all_its_parts_along(engine):
    made = edits.assign(project(RELATING, target=U85), "node_name", "layer_norm", "cpu")
    lowered = ran(engine, made, "lower")
    off = [n.op for n in lowered.cpu_nodes if n.cause == "rule"]
    edge = GraphSnapshot.load(engine.path(made, "lower") / GRAPH_FILE)
    parts = [n for n in edge.nodes if n.attrs.get("origin") == "layer_norm" and "aten." in n.op]
    assert len(off) == len(parts) > 5
    assert {"aten.rsqrt.default", "aten.sum.dim_IntList"} <= set(off)


def handing_on():
    return without(project(RELATED, "a16w8"), "release_passthrough")


def test_that_a_value_that_is_only_handed_on_is_named_before_vela_runs(engine):
    assert engine.run(handing_on(), "lower", "evaluate") == "failed"
    assert engine.failure.code == "passthrough-partition"
    assert engine.failure.where.id == "matmul"


@pytest.mark.parametrize(
    "helped",
    [
        pytest.param(edits.assign(handing_on(), "node_name", "matmul", "cpu"), id="cpu"),
        pytest.param(project(RELATED, "a16w8", U85), id="u85", marks=pytest.mark.slow),
        pytest.param(project(RELATED), id="8 bits", marks=pytest.mark.slow),
    ],
)
def test_that_nothing_is_only_handed_on_where_a_rule_a_device_or_a_width_helps(engine, helped):
    assert engine.run(helped, "lower", "evaluate") == "done", engine.failure
