"""Graphs small enough to point at, and a view that shows them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from ui.features.graph.graph_view import GraphView
from ui.shared.theme import DARK
from workbench.graph.snapshot import Edge, GraphSnapshot, Module, Node, TensorInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytestqt.qtbot import QtBot


@pytest.fixture
def layers() -> GraphSnapshot:
    """An input, three layers of three operations each, and an output."""
    tensor = (TensorInfo((1, 8, 4, 4), "float32"),)
    nodes = [Node("x", "placeholder", "input", outputs=tensor)]
    modules = [Module("", "net.Net", "", 9), Module("layers", "net.Layers", "", 9)]
    for k in range(3):
        modules.append(Module(f"layers.{k}", "net.Layer", "layers", 3))
        for op in ("conv2d", "relu", "add"):
            nodes.append(
                Node(
                    f"{op}_{k}",
                    f"aten.{op}.default",
                    "call",
                    f"layers.{k}",
                    0,
                    ("layers", str(k)),
                    tensor,
                    "net.py:7 in forward: y = self.f(x)",
                )
            )
    nodes.append(Node("output", "output", "output"))
    edges = [Edge(a.id, b.id) for a, b in pairwise(nodes)]
    return GraphSnapshot("float", tuple(nodes), tuple(edges), tuple(modules))


@pytest.fixture
def show(qtbot: QtBot) -> Iterator[Callable[[GraphSnapshot | None], GraphView]]:
    """Return a function that shows a graph in a view of its own and waits for the drawing."""
    views: list[GraphView] = []

    def make(snapshot: GraphSnapshot | None) -> GraphView:
        view = GraphView(DARK)
        qtbot.addWidget(view)
        views.append(view)
        view.resize(900, 700)
        view.show()
        qtbot.waitExposed(view)
        if snapshot is not None:
            with qtbot.waitSignal(view.groups.laid_out):
                view.groups.render_snapshot(snapshot)
        return view

    yield make
    for view in views:
        view.groups.stop()
