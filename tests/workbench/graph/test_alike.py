"""Blocks of equal structure are found wherever they are in a program."""

from __future__ import annotations

from itertools import pairwise

from workbench.graph.compare import alike_anywhere
from workbench.graph.hierarchy import ROOT, Hierarchy
from workbench.graph.snapshot import Edge, GraphSnapshot, Node, TensorInfo

BLOCKS = {"encoder/0": 8, "encoder/1": 8, "decoder/0": 8, "decoder/up": 16, "head": 8}


def network() -> GraphSnapshot:
    """Return blocks of two operations in two parents, one of another shape, one of more."""
    nodes = [Node("x", "placeholder", "input", outputs=(TensorInfo((1, 8), "float32"),))]
    for path, width in BLOCKS.items():
        tensor = (TensorInfo((1, width), "float32"),)
        ops = ("linear", "relu", "softmax") if path == "head" else ("linear", "relu")
        nodes += [
            Node(
                f"{path}/{op}",
                f"aten.{op}.default",
                "call",
                path.replace("/", "."),
                0,
                tuple(path.split("/")),
                tensor,
            )
            for op in ops
        ]
    edges = tuple(Edge(a.id, b.id) for a, b in pairwise(nodes))
    return GraphSnapshot("float", tuple(nodes), edges)


def test_that_equal_blocks_are_found_under_other_parents() -> None:
    tree = Hierarchy(network())
    assert tree.twins("encoder/0/") == ("encoder/0/", "encoder/1/")
    assert set(alike_anywhere(tree, "decoder/0/")) == {"encoder/0/", "encoder/1/", "decoder/0/"}


def test_that_blocks_of_other_shapes_are_alike_only_if_shapes_may_differ() -> None:
    tree = Hierarchy(network())
    assert alike_anywhere(tree, "decoder/up/") == ("decoder/up/",)
    found = alike_anywhere(tree, "decoder/up/", any_shape=True)
    assert set(found) == {"encoder/0/", "encoder/1/", "decoder/0/", "decoder/up/"}


def test_that_the_whole_graph_is_like_nothing_else() -> None:
    assert alike_anywhere(Hierarchy(network()), ROOT) == (ROOT,)
