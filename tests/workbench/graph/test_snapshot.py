"""The file form of a graph: what goes in comes out, and bad files are refused with a sentence."""

import gc
import json
import sys
from pathlib import Path
from unittest import mock

import pytest

from tests.for_each import for_each
from tests.problems import refused
from workbench.graph.snapshot import (
    Edge,
    GraphSnapshot,
    Module,
    Node,
    QParams,
    TensorInfo,
    collection_paused,
    packed,
    unpacked,
)

QPARAMS = QParams("torch.int8", (0.5, 0.25), (0, 0), -127, 127, 0)
IMAGE = TensorInfo((1, 3, "s0", 8), "float32")
SNAPSHOT = GraphSnapshot(
    level="converted",
    nodes=(
        Node("x", "placeholder", "input", outputs=(IMAGE,)),
        Node(
            "conv",
            "aten.conv2d.default",
            "call",
            "stem.0",
            1,
            ("stem", "stem.0@1"),
            (TensorInfo((1, 4, 8, 8), "int8", QPARAMS),),
            "net.py:3 in forward: x = …",
            {"target": "日本語"},
        ),
        Node("output", "output", "output"),
    ),
    edges=(Edge("x", "conv", 0, 0), Edge("conv", "output", 0, 0), Edge("x", "output", 0, 1)),
    modules=(Module("", "net.Net", "", 3), Module("stem", "torch.nn.Sequential", "", 3)),
)


def test_that_a_saved_graph_comes_back_equal(tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    SNAPSHOT.save(path)
    assert GraphSnapshot.load(path) == SNAPSHOT
    # Letters of every script are readable in the file.
    assert "日本語" in path.read_text(encoding="utf-8")


def test_that_a_node_and_an_edge_have_defaults_and_are_hashable() -> None:
    assert Edge("a", "b") == Edge("a", "b", 0, 0)
    node = Node("a", "op", "call", attrs={"stride": "2"})
    assert (node.call, node.module, node.group) == (0, "", ())
    assert node in {node}


def test_that_only_what_was_packed_is_unpacked() -> None:
    text = packed("q", [1, -2])
    assert unpacked("q", text) == (1, -2)
    for broken in (text + "!", text[:-8] + "AAA=", "\u00e9"):
        with pytest.raises(ValueError, match=r"padding|truncated|ASCII"):
            unpacked("q", broken)


def test_that_neighbours_and_modules_are_found_by_name() -> None:
    assert [node.id for node in SNAPSHOT.producers("output")] == ["conv", "x"]
    assert [node.id for node in SNAPSHOT.consumers("x")] == ["conv", "output"]
    assert SNAPSHOT.consumers("output") == ()
    assert SNAPSHOT.modules_by_path["stem"].parameters == 3
    assert SNAPSHOT.node("conv") is SNAPSHOT.nodes[1]
    with refused("node-unknown"):
        SNAPSHOT.node("gone")


def test_that_bits_and_shapes_read_as_people_write_them() -> None:
    assert QPARAMS.bits == 8
    assert QParams("torch.int8", (1.0,), (0,), -7, 7, None).bits == 4
    assert IMAGE.shape_text == "1\u00d73\u00d7s0\u00d78"
    assert TensorInfo((), "float32").shape_text == "scalar"


@for_each(
    ("text", "code"),
    [
        ("{", "graph-damaged"),
        ("[]", "graph-damaged"),
        ("null", "graph-damaged"),
        ('{"version": 1}', "graph-damaged"),
        ('{"format": "quantization-workbench-graph", "version": 99}', "graph-version-newer"),
        ('{"format": "quantization-workbench-graph", "version": 0}', "graph-version-older"),
        ('{"format": "other", "version": 2}', "graph-damaged"),
        ('{"format": "quantization-workbench-graph", "version": 2}', "graph-damaged"),
    ],
)
def test_that_a_bad_file_is_refused_with_a_sentence(tmp_path: Path, text: str, code: str) -> None:
    path = tmp_path / "graph.json"
    path.write_text(text, encoding="utf-8")
    with refused(code):
        GraphSnapshot.load(path)


@for_each("index", [-1, 3])
def test_that_an_edge_to_nowhere_is_refused(tmp_path: Path, index: int) -> None:
    path = tmp_path / "graph.json"
    SNAPSHOT.save(path)
    raw = json.loads(path.read_text(encoding="utf-8"))
    raw["edges"]["target"][0] = index
    path.write_text(json.dumps(raw), encoding="utf-8")
    with refused("graph-damaged"):
        GraphSnapshot.load(path)


def test_that_columns_of_unlike_length_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    SNAPSHOT.save(path)
    raw = json.loads(path.read_text(encoding="utf-8"))
    raw["nodes"]["op"].pop()
    path.write_text(json.dumps(raw), encoding="utf-8")
    with refused("graph-damaged"):
        GraphSnapshot.load(path)


def test_that_a_missing_file_is_told_as_a_problem(tmp_path: Path) -> None:
    with refused("graph-unreadable"):
        GraphSnapshot.load(tmp_path / "none.json")


def test_that_numbers_of_a_grid_come_back_bit_for_bit(tmp_path):
    scales = (0.1, 1e-30, 3.0000000000000004)
    grid = QParams("int8", scales, (0, -128, 2**31), -128, 127, 0)
    info = TensorInfo((3,), "int8", grid)
    made = GraphSnapshot("quantized", (Node("q", "quantize", "quantize", outputs=(info,)),), ())
    made.save(tmp_path / "graph.json")
    assert GraphSnapshot.load(tmp_path / "graph.json").nodes[0].outputs == (info,)


def test_that_a_grid_cut_short_is_damage(tmp_path):
    path = tmp_path / "graph.json"
    grid = QParams("int8", (0.5, 0.25), (0, 0), -128, 127, 0)
    info = TensorInfo((2,), "int8", grid)
    GraphSnapshot("q", (Node("q", "q", "quantize", outputs=(info,)),), ()).save(path)
    word = packed("d", (0.5, 0.25))
    path.write_text(path.read_text().replace(word, word[:12]))
    with refused("graph-damaged"):
        GraphSnapshot.load(path)


@for_each(
    ("modules", "before", "inside", "frozen"),
    [({}, 0, 30_000, True), ({}, 30_000, 0, False), ({"torch": None}, 0, 30_000, False)],
)
def test_that_only_many_new_objects_are_left_out_of_collections_and_none_in_an_engine(
    modules, before, inside, frozen
):
    """A program that a job of the engine drops has cycles, and must be freed."""
    stock = gc.get_threshold()
    gc.collect()
    gc.set_threshold(10**6)
    try:
        kept = [[] for _ in range(before)]
        earlier = gc.get_freeze_count()
        with mock.patch.dict(sys.modules, modules), collection_paused():
            kept += [[] for _ in range(inside)]
        assert (gc.get_freeze_count() > earlier + 10_000) == frozen
    finally:
        gc.set_threshold(*stock)


def test_that_the_collector_is_left_on_or_off_as_it_was():
    was_on = gc.isenabled()
    try:
        for before in (True, False):
            (gc.enable if before else gc.disable)()
            with collection_paused():
                assert not gc.isenabled()
            assert gc.isenabled() == before
    finally:
        (gc.enable if was_on else gc.disable)()
