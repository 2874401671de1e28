"""Names and widths of what is drawn."""

import pytest

from tests.for_each import for_each
from workbench.graph.labels import (
    dtype_label,
    elide,
    local_name,
    natural,
    node_title,
    operator_name,
    text_width,
    type_label,
)
from workbench.graph.snapshot import Node, QParams, TensorInfo


@for_each(
    ("op", "name"),
    [
        ("aten.conv2d.default", "conv2d"),
        ("aten.relu", "relu"),
        ("add.Tensor", "add.Tensor"),
        ("placeholder", "placeholder"),
        ("a.b.c.d", "b"),
    ],
)
def test_that_an_operator_is_named_without_library_and_overload(op, name):
    assert operator_name(op) == name


def test_that_types_are_shortened():
    shown = {"float32": "f32", "bfloat16": "bf16", "uint8": "u8", "int16": "i16", "bool": "bool"}
    assert {dtype: dtype_label(dtype) for dtype in shown} == shown
    assert type_label("torch.nn.modules.conv.Conv2d") == "Conv2d"
    assert local_name("cond/true/add") == "add"


def grid(scale=(0.12345,), zero=(-3,), dtype="int8"):
    return TensorInfo((1, 4), "int8", QParams(dtype, scale, zero, -128, 127, None))


@for_each(
    ("node", "title"),
    [
        (Node("sub/x", "placeholder", "input", outputs=(grid(),)), "x"),
        (Node("sub/y", "output", "output"), "y"),
        (Node("q", "quantize_per_tensor", "quantize", outputs=(grid(),)), "quantize i8 (0.123, -3)"),
        (
            Node("d", "dequantize", "dequantize", outputs=(grid((0.1, 0.2), (0, 0)),)),
            "dequantize i8 per channel",
        ),
        (Node("q", "aten.q.default", "quantize"), "q"),
        (Node("c", "aten.conv2d.default", "call", outputs=(grid(),)), "conv2d"),
        (
            Node(
                "o",
                "HistogramObserver",
                "observer",
                attrs={"dtype": "int8", "min_val": "-1.2345", "max_val": "2"},
            ),
            "Histogram i8 -1.23 to 2",
        ),
        (Node("o", "MinMaxObserver", "observer", attrs={"dtype": "int8", "min_val": "1"}), "MinMax i8"),
        (Node("o", "MinMaxObserver", "observer"), "MinMax "),
    ],
)
def test_that_a_node_is_titled_by_what_it_does(node, title):
    assert node_title(node) == title


def test_that_long_names_keep_head_and_tail():
    assert elide("a" * 34) == "a" * 34
    name = "head" + "x" * 60 + "tail"
    short = elide(name)
    assert len(short) == 34
    assert short == name[:17] + "…" + name[-16:]
    assert elide("abcdefghij", 5) == "ab…ij"
    assert elide("a  b   c", 6) == "a b c"
    assert elide("a  b") == elide("a  b", 4) == "a  b"


def test_that_widths_grow_with_letters_and_wide_scripts():
    assert text_width("abcde") == pytest.approx(5 * 12 * 0.58)
    assert text_width("abcde", 10.0) == pytest.approx(29.0)
    assert text_width("é") == pytest.approx(12 * 0.58)
    assert text_width("層a", 10.0) == pytest.approx(10.5 + 5.8)


def test_that_numbers_in_names_are_ordered_as_numbers():
    names = ["layer10", "layer2", "layer2.b", "10", "9"]
    assert sorted(names, key=natural) == ["9", "10", "layer2", "layer2.b", "layer10"]
    assert natural("layer2") == ((1, "layer"), (0, 2))


@for_each(
    ("op", "attrs", "weight", "title"),
    [
        ("aten.conv2d.default", {"stride": "[2, 2]"}, (24, 96, 3, 3), "conv2d 3\u00d73 s2 · 96→24"),
        ("aten.conv1d.default", {"stride": "[1]"}, (8, 4, 5), "conv1d 5 · 4→8"),
        ("aten.conv1d.default", {}, (8, 1, 5), "conv1d 5 · 1→8"),
        ("aten.conv2d.default", {"groups": "32"}, (32, 1, 3, 3), "conv2d 3\u00d73 depthwise · 32→32"),
        ("aten.conv2d.default", {"groups": "2"}, (8, 4, 1, 1), "conv2d 1\u00d71 2 groups · 8→8"),
        (
            "aten.conv_transpose2d.input",
            {"stride": "[2, 1]"},
            (16, 8, 2, 2),
            "conv_transpose2d 2\u00d72 s2\u00d71 · 16→8",
        ),
        ("aten.conv2d.default", {"groups": "2"}, (2, 1, 3, 3), "conv2d 3\u00d73 depthwise · 2→2"),
        ("aten.bmm.default", {}, (2, 3, 4), "bmm"),
        ("aten.linear.default", {}, (10, 64), "linear 64→10"),
        (
            "aten.max_pool2d.default",
            {"kernel_size": "[3, 3]", "stride": "[2, 2]"},
            (),
            "max_pool2d 3\u00d73 s2",
        ),
        ("aten.relu.default", {}, (), "relu"),
        ("aten.conv2d.default", {"stride": "[2, 2]"}, (), "conv2d"),
    ],
)
def test_that_a_title_says_kernel_stride_and_channels(op, attrs, weight, title):
    assert node_title(Node("n", op, "call", attrs=attrs), weight) == title
