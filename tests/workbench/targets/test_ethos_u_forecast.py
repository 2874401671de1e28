"""Which 16-bit convolutions Vela fails on, told from the shape of the graph."""

from tests.for_each import for_each
from workbench.graph.snapshot import Edge, GraphSnapshot, Node
from workbench.project.model import TargetChoice
from workbench.targets import target_of
from workbench.targets.ethos_u.forecast import convolutions_read_often, values_read_again


def graph_of(*edges):
    """Return a graph whose nodes are called after their operators, and all of its nodes."""
    ids = dict.fromkeys(name for edge in edges for name in edge)
    nodes = tuple(Node(i, f"aten.{i.rstrip('0123456789_')}.default", "call", "", 0, (), ()) for i in ids)
    return GraphSnapshot("float", nodes, tuple(Edge(a, b) for a, b in edges), ()), set(ids)


@for_each(
    ("edges", "told"),
    [
        ([("convolution", "add"), ("convolution", "relu")], [("convolution", "add")]),
        (
            [("convolution", "batch_norm"), ("batch_norm", "mul"), ("batch_norm", "mean")],
            [("convolution", "mul")],
        ),
        ([("convolution", "softmax")], [("convolution", "softmax")]),
        ([("convolution", "layer_norm")], [("convolution", "layer_norm")]),
        ([("convolution", "add")], []),
        ([("convolution", "relu"), ("relu", "add"), ("relu", "mean")], []),
        ([("convolution", "view"), ("convolution", "max_pool2d"), ("view", "add")], []),
        ([("linear", "add"), ("linear", "relu")], []),
        ([("linear", "softmax")], []),
    ],
)
def test_that_a_value_that_several_read_is_told_only_where_vela_fails(edges, told):
    assert list(convolutions_read_often(*graph_of(*edges))) == told


@for_each(
    ("edges", "told"),
    [
        (
            [
                ("x", "transpose"),
                ("x", "matmul1"),
                ("transpose", "matmul1"),
                ("matmul1", "softmax"),
                ("softmax", "matmul2"),
                ("x", "matmul2"),
            ],
            [("matmul2", "matmul1", "x")],
        ),
        (
            [
                ("x", "matmul1"),
                ("y", "matmul1"),
                ("matmul1", "softmax"),
                ("softmax", "matmul2"),
                ("z", "matmul2"),
            ],
            [],
        ),
        (
            [
                ("x", "transpose"),
                ("x", "matmul1"),
                ("transpose", "matmul1"),
                ("matmul1", "matmul2"),
                ("x", "matmul2"),
            ],
            [],
        ),
        ([("x", "matmul1"), ("matmul1", "relu"), ("relu", "matmul2")], []),
    ],
)
def test_that_a_value_that_two_products_read_is_told_only_where_vela_fails(edges, told):
    assert list(values_read_again(*graph_of(*edges))) == told


@for_each(
    ("edges", "correction", "code"),
    [
        (
            [("convolution", "add"), ("convolution", "relu")],
            "rounded_convolutions",
            "int16-convolution-shared",
        ),
        (
            [("x", "matmul1"), ("matmul1", "softmax"), ("softmax", "matmul2"), ("x", "matmul2")],
            "release_passthrough",
            "int16-value-read-again",
        ),
    ],
)
def test_that_a_whole_program_is_refused_only_where_its_correction_is_off(edges, correction, code):
    graph, nodes = graph_of(*edges)

    def found(*off):
        choice = TargetChoice(id="ethos-u55-128", options=dict.fromkeys(off, False))
        infos = target_of(choice.id).forecast(choice, graph, nodes, (), nodes)
        return {info.code for info in infos}

    assert code in found(correction)
    assert code not in found("slices_computed")
    assert found() == set()
