"""The graph on real exports, from MobileNetV2 to a decoder of 5,000 operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.benchmarks.crossings import dot, ours
from tests.benchmarks.graph_networks import real_graph
from tests.benchmarks.test_graph import opened, report, timed
from tests.fakes.drawings import struck_boxes
from workbench.graph.hierarchy import Hierarchy, Shape
from workbench.graph.layout import Flow, Layout

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot

pytestmark = pytest.mark.benchmark

DOT_S = 60.0


NETWORKS = [
    "mobilenet_v2", "transformer", "transformer_24", "decoder", "decoder_4", "resnet", "u_net",
    "inception",
]  # fmt: skip
FLOWS: list[Flow] = ["down", "right", "wrapped"]


@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("shape", ["modules", "folded", "flat"])
@pytest.mark.parametrize("name", NETWORKS)
def test_that_no_edge_of_a_real_graph_runs_through_a_foreign_box(
    name: str, shape: Shape, flow: Flow
) -> None:
    tree = Hierarchy(real_graph(name), shape)
    layout = Layout(tree, flow=flow)
    for opened_groups in (frozenset(tree.groups), frozenset()):
        placement = layout.arrange(opened_groups)
        struck = struck_boxes(placement)
        what = f"{name}, {shape}, {flow}, {len(opened_groups)} groups open"
        report(f"{what}: boxes struck", len(struck), "")
        report(f"{what}: width over height", placement.width / placement.height, "")
        assert struck == []


@pytest.mark.parametrize("name", NETWORKS)
def test_that_a_real_graph_crosses_no_more_than_dot(qtbot: QtBot, name: str) -> None:
    snapshot = real_graph(name)
    tree = Hierarchy(snapshot)
    calls = sum(node.kind == "call" for node in snapshot.nodes)
    what = f"{name}, {len(snapshot.nodes):,} nodes, {calls:,} operations"
    report(f"{what}: tree", timed(lambda: Hierarchy(snapshot)))
    report(
        f"{what}: lay out everything", timed(lambda: Layout(tree).arrange(frozenset(tree.groups)))
    )
    theirs = dot(tree, DOT_S)
    if theirs is None:
        print(f"{what}: dot does not finish in {DOT_S:.0f} s")
    else:
        report(f"{what}: crossings of dot", theirs, "")
    for flow in FLOWS:
        mine = ours(tree, flow)
        report(f"{what}: crossings, {flow}", mine, "")
        assert theirs is None or mine <= theirs
    view = opened(qtbot, snapshot)

    def frame() -> None:
        view.surface.look(view.surface.camera.panned(0, -7))
        view.repaint()

    report(f"{what}: panning at reading zoom", timed(frame, 15))
