"""Lineage over real programs: the sample through all stages, and MobileNetV1 through the tools."""

from __future__ import annotations

import pytest

from workbench.graph.lineage import Lineage, attribute
from workbench.graph.snapshot import GraphSnapshot
from workbench.results import DEVICE_GRAPH_FILE, LowerResult, load_result

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def mobilenet():
    from tests.engine.fx.test_snapshot_quantized import levels_of

    found = levels_of("MobileNetV1")
    return Lineage(
        {
            "float": found.exported,
            "prepared": found.prepared,
            "quantized": found.converted,
            "edge": found.edge,
        }
    )


@pytest.fixture(scope="module")
def sample(digits):
    """The levels of the sample, and what Vela says of it."""
    workbench, _, _ = digits
    paths = list((workbench.folder / "cache").rglob("graph.json"))
    read = {snapshot.level: (path, snapshot) for path in paths for snapshot in [GraphSnapshot.load(path)]}
    levels = {name: read[name][1] for name in ("float", "prepared", "quantized", "edge")}
    device = GraphSnapshot.load(read["edge"][0].with_name(DEVICE_GRAPH_FILE))
    return Lineage({**levels, device.level: device}), load_result(LowerResult, read["edge"][0].parent)


WHICH = ["sample", pytest.param("mobilenet", marks=pytest.mark.slow)]


def calls(lineage, level, *parts):
    return [
        node
        for node in lineage.levels[level].nodes
        if node.kind == "call" and any(part in node.op for part in parts)
    ]


@pytest.mark.parametrize("which", WHICH)
@pytest.mark.parametrize("level", ["prepared", "quantized", "edge"])
def test_that_every_convolution_is_found_once_at_every_level(which, level, request):
    made = request.getfixturevalue(which)
    lineage = made[0] if which == "sample" else made
    convolutions = calls(lineage, "float", "conv2d", "linear")
    assert convolutions
    seen = set()
    for node in convolutions:
        match = lineage.counterparts("float", node.id, level)
        there = [lineage.levels[level].nodes_by_id[name] for name in match.nodes]
        assert {other.module for other in there} == {node.module}
        assert sum("conv" in o.op or "linear" in o.op or "mm" in o.op for o in there) == 1
        assert not seen & set(match.nodes)
        seen.update(match.nodes)
        assert all(lineage.counterparts(level, name, "float").nodes == (node.id,) for name in match.nodes)


@pytest.mark.parametrize("which", WHICH)
def test_that_every_operation_of_the_device_has_an_origin(which, request):
    made = request.getfixturevalue(which)
    lineage = made[0] if which == "sample" else made
    lost = [
        node.op
        for node in calls(lineage, "edge", "aten.")
        if not lineage.counterparts("edge", node.id, "float").nodes
    ]
    assert lost == []


def test_that_a_folded_batch_norm_has_no_counterpart(sample):
    lineage, _ = sample
    for node in calls(lineage, "float", "batch_norm"):
        assert lineage.counterparts("float", node.id, "edge") == ((), "")


def test_that_grids_lead_to_observers_and_to_their_operation(sample):
    lineage, _ = sample
    for node in lineage.levels["quantized"].nodes:
        if node.kind == "quantize":
            observers = lineage.counterparts("quantized", node.id, "prepared").nodes
            kinds = {lineage.levels["prepared"].nodes_by_id[o].kind for o in observers}
            assert kinds == {"observer"}
            assert lineage.counterparts("quantized", node.id, "float").how == "owner"


def test_that_the_delegate_leads_to_all_that_is_in_it(sample):
    lineage, _ = sample
    (delegate,) = [n for n in lineage.levels["edge"].nodes if n.kind == "delegate"]
    inside = lineage.counterparts("edge", delegate.id, "float")
    assert inside.how == "inside"
    assert {n.id for n in calls(lineage, "float", "conv2d")} <= set(inside.nodes)


def test_that_nearly_all_cycles_belong_to_an_operation(sample):
    lineage, lowered = sample
    rows = [row for report in lowered.vela for row in report.operations]
    owners = attribute([(row.module, row.operator) for row in rows], lineage.levels["float"])
    told = sum(row.cycles for row, owner in zip(rows, owners, strict=True) if owner)
    assert told >= 0.95 * sum(row.cycles for row in rows)


def test_that_operators_of_tosa_lead_to_the_float_operation_they_compute(sample):
    lineage, _ = sample
    for node in calls(lineage, "tosa", "CONV2D"):
        (name,) = lineage.counterparts("tosa", node.id, "float").nodes
        origin = lineage.levels["float"].nodes_by_id[name]
        assert any(word in origin.op for word in ("conv", "linear"))
        assert origin.module == node.module
        assert node.attrs["dilation"] == "1, 1"
        assert node.outputs[0].dtype in {"int32", "int48"}


def test_that_every_row_of_vela_is_named_as_an_operator_of_tosa(sample):
    lineage, lowered = sample
    known = lineage.levels["tosa"].nodes_by_id
    rows = [(report.delegate, row) for report in lowered.vela for row in report.operations]
    assert rows
    assert all(f"delegate_{number}/{row.name}" in known for number, row in rows)


def test_that_the_tosa_level_is_one_connected_program(sample):
    lineage, _ = sample
    program = lineage.levels["tosa"]
    assert [n.outputs[0].shape_text for n in program.nodes if n.kind == "input"] == ["1\u00d71\u00d78\u00d78"]
    (output,) = [n for n in program.nodes if n.kind == "output"]
    reached, waiting = set(), [output.id]
    while waiting:
        node_id = waiting.pop()
        reached.add(node_id)
        waiting += [n.id for n in program.producers(node_id) if n.id not in reached]
    assert reached == set(program.nodes_by_id)
