"""What people type into the search box, and what they find."""

from __future__ import annotations

from tests.for_each import for_each
from tests.problems import refused
from workbench.graph.query import find
from workbench.graph.snapshot import GraphSnapshot, Node, TensorInfo

SNAPSHOT = GraphSnapshot(
    "float",
    (
        Node("x", "placeholder", "input", outputs=(TensorInfo((1, 3, 224, 224), "float32"),)),
        Node(
            "conv2d",
            "aten.conv2d.default",
            "call",
            "encoder.0.conv",
            outputs=(TensorInfo(("s0", 8, 4, 4), "float32"),),
            source="net.py:3 in forward: c",
        ),
        Node(
            "conv2d_1",
            "aten.conv2d.default",
            "call",
            "encoder.1.conv",
            outputs=(TensorInfo((1, 8, 4, 4), "int8"),),
        ),
        Node("add", "aten.add.Tensor", "call", "decoder", attrs={"target": "decoder.bias"}),
    ),
    (),
)
NUMBERS = {"sqnr": {"conv2d": 12.0, "add": 40.0}, "cycles": {"add": 2e5}}


@for_each(
    ("text", "found"),
    [
        ("conv", ["conv2d", "conv2d_1"]),
        ("CONV encoder.1", ["conv2d_1"]),
        ('"conv2d"', ["conv2d", "conv2d_1"]),
        ('name:"conv2d"', ["conv2d"]),
        ("int8", ["conv2d_1"]),
        ("1,3,224,224", ["x"]),
        ("1x3x224x224", ["x"]),
        ("*,8,4,4", ["conv2d", "conv2d_1"]),
        ("s0,8,4,4", ["conv2d"]),
        ("module:encoder.*", ["conv2d", "conv2d_1"]),
        ("kind:input", ["x"]),
        ("source:net.py", ["conv2d"]),
        ("decoder.bias", ["add"]),
        ("sqnr<20", ["conv2d"]),
        ("SQNR>=12", ["conv2d", "add"]),
        ("cycles>1e5 sqnr>20", ["add"]),
        ("-conv", ["x", "add"]),
        ("-kind:input", ["conv2d", "conv2d_1", "add"]),
        ("--kind:input", ["x"]),
        ("", []),
        ("   ", []),
        ('"', []),
        ("nothing like it", []),
        ("aten:conv2d", []),
        ("module:", []),
        ("a" * 4000, []),
    ],
)
def test_that_a_query_finds_what_it_says(text: str, found: list[str]) -> None:
    assert list(find(text, SNAPSHOT, NUMBERS)) == found


def test_that_an_unknown_number_is_told_with_those_that_exist() -> None:
    with refused("query-metric-unknown") as problem:
        find("sram>3", SNAPSHOT, NUMBERS)
    assert "cycles, sqnr" in problem.value.infos[0].hint


def test_that_a_malformed_number_is_told() -> None:
    with refused("query-value-invalid"):
        find("sqnr<1.2.3", SNAPSHOT, NUMBERS)
