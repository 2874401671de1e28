"""The graph on real exports, from MobileNetV2 to a decoder of 5,000 operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.benchmarks.crossings import dot, ours
from tests.benchmarks.graph_networks import real_graph
from tests.fakes.drawings import struck_boxes
from workbench.graph.hierarchy import Hierarchy, Shape
from workbench.graph.layout import Flow, Layout

if TYPE_CHECKING:
    from tests.benchmarks.conftest import Measured

pytestmark = pytest.mark.benchmark

DOT_S = 60.0


NETWORKS = ["mobilenet_v2", "transformer", "decoder", "resnet", "u_net", "inception"]
SHAPES: tuple[Shape, ...] = ("modules", "folded", "flat")
FLOWS: tuple[Flow, ...] = ("down", "right", "wrapped")


@pytest.mark.parametrize("name", NETWORKS)
def test_that_no_edge_of_a_real_graph_runs_through_a_foreign_box(name: str, measured: Measured) -> None:
    struck = 0
    for shape in SHAPES:
        tree = Hierarchy(real_graph(name), shape)
        for flow in FLOWS:
            layout = Layout(tree, flow=flow)
            for opened_groups in (frozenset(tree.groups), frozenset()):
                struck += len(struck_boxes(layout.arrange(opened_groups)))
    measured(f"Edges through foreign boxes: {name}", struck)


@pytest.mark.parametrize("name", [name if name != "decoder" else "decoder_4" for name in NETWORKS])
def test_that_a_real_graph_crosses_no_more_than_dot(name: str, measured: Measured) -> None:
    # dot does not finish on the decoder of 96 layers; one of 4 layers stands for it.
    tree = Hierarchy(real_graph(name))
    theirs = dot(tree, DOT_S)
    if theirs is None:
        pytest.skip(f"dot does not finish in {DOT_S:.0f} s, or is not installed")
    most = max(ours(tree, flow) for flow in FLOWS)
    measured(f"Crossings beyond those of Graphviz dot: {name}", max(0, most - theirs))
