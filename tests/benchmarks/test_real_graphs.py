"""The graph on real exports: MobileNetV2, a 24-layer transformer, a decoder of 5,000 operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.benchmarks.crossings import dot, ours
from tests.benchmarks.graph_networks import real_graph
from tests.fakes.drawings import struck_boxes
from workbench.graph.hierarchy import Hierarchy, Shape
from workbench.graph.layout import Layout

if TYPE_CHECKING:
    from tests.benchmarks.conftest import Measured

pytestmark = pytest.mark.benchmark

DOT_S = 60.0


NETWORKS = ["mobilenet_v2", "transformer", "resnet", "u_net", "inception"]
SHAPES: tuple[Shape, ...] = ("modules", "folded", "flat")


@pytest.mark.parametrize("name", NETWORKS)
def test_that_no_edge_of_a_real_graph_runs_through_a_foreign_box(
    name: str, measured: Measured
) -> None:
    struck = 0
    for shape in SHAPES:
        tree = Hierarchy(real_graph(name), shape)
        layout = Layout(tree)
        for opened_groups in (frozenset(tree.groups), frozenset()):
            struck += len(struck_boxes(layout.arrange(opened_groups)))
    measured(f"Edges through foreign boxes: {name}", struck)


@pytest.mark.parametrize("name", NETWORKS)
def test_that_a_real_graph_crosses_no_more_than_dot(name: str, measured: Measured) -> None:
    tree = Hierarchy(real_graph(name))
    theirs = dot(tree, DOT_S)
    if theirs is None:
        pytest.skip(f"dot does not finish in {DOT_S:.0f} s, or is not installed")
    measured(f"Crossings beyond those of Graphviz dot: {name}", max(0, ours(tree) - theirs))
