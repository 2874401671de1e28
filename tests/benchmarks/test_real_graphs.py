"""The graph on real exports: MobileNetV2, a 24-layer transformer, a decoder of 5,000 operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.benchmarks.crossings import dot, ours
from tests.benchmarks.graph_networks import real_graph
from tests.benchmarks.test_graph import opened, report, timed
from workbench.graph.hierarchy import Hierarchy
from workbench.graph.layout import Layout

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot

pytestmark = pytest.mark.benchmark

DOT_S = 60.0


@pytest.mark.parametrize("name", ["mobilenet_v2", "transformer", "decoder"])
def test_that_a_real_graph_crosses_no_more_than_dot(qtbot: QtBot, name: str) -> None:
    snapshot = real_graph(name)
    tree = Hierarchy(snapshot)
    calls = sum(node.kind == "call" for node in snapshot.nodes)
    what = f"{name}, {len(snapshot.nodes):,} nodes, {calls:,} operations"
    report(f"{what}: tree", timed(lambda: Hierarchy(snapshot)))
    report(
        f"{what}: lay out everything", timed(lambda: Layout(tree).arrange(frozenset(tree.groups)))
    )
    mine, theirs = ours(tree), dot(tree, DOT_S)
    report(f"{what}: crossings", mine, "")
    if theirs is None:
        print(f"{what}: dot does not finish in {DOT_S:.0f} s")
    else:
        report(f"{what}: crossings of dot", theirs, "")
        assert mine <= theirs
    view = opened(qtbot, snapshot)

    def frame() -> None:
        view.look(view.camera.panned(0, -7))
        view.repaint()

    report(f"{what}: panning at reading zoom", timed(frame, 15))
