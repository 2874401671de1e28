"""Which 16-bit convolutions Vela fails on, told from the shape of the graph."""

from tests.for_each import for_each
from workbench.graph.snapshot import Edge, GraphSnapshot, Node
from workbench.project.model import TargetChoice
from workbench.targets import target_of
from workbench.targets.ethos_u.correction import CLAMPS, NEGATED, RELEASED, ROUNDED, SLICES
from workbench.targets.ethos_u.corrections import CORRECTIONS
from workbench.targets.ethos_u.forecast import convolutions_read_often, values_read_again
from workbench.targets.ethos_u.uncorrected import faults_without_corrections


def graph_of(*edges):
    """Return a graph whose nodes are called after their operators, and all of its nodes."""
    ids = dict.fromkeys(name for edge in edges for name in edge)
    nodes = tuple(Node(i, f"aten.{i.rstrip('0123456789_')}.default", "call", "", 0, (), ())
                  for i in ids)  # fmt: skip
    return GraphSnapshot("float", nodes, tuple(Edge(a, b) for a, b in edges), ()), set(ids)


@for_each(
    ("edges", "told"),
    [
        ([("convolution", "add"), ("convolution", "relu")], [("convolution", "add")]),
        ([("convolution", "batch_norm"), ("batch_norm", "mul"), ("batch_norm", "mean")],
         [("convolution", "mul")]),
        ([("convolution", "softmax")], [("convolution", "softmax")]),
        ([("convolution", "layer_norm")], [("convolution", "layer_norm")]),
        ([("convolution", "add")], []),
        ([("convolution", "relu"), ("relu", "add"), ("relu", "mean")], []),
        ([("convolution", "view"), ("convolution", "max_pool2d"), ("view", "add")], []),
        ([("linear", "add"), ("linear", "relu")], []),
        ([("linear", "softmax")], []),
    ],
)  # fmt: skip
def test_that_a_value_that_several_read_is_told_only_where_vela_fails(edges, told):
    assert list(convolutions_read_often(*graph_of(*edges))) == told


@for_each(
    ("edges", "told"),
    [
        ([("x", "transpose"), ("x", "matmul1"), ("transpose", "matmul1"), ("matmul1", "softmax"),
          ("softmax", "matmul2"), ("x", "matmul2")], [("matmul2", "matmul1", "x")]),
        ([("x", "matmul1"), ("y", "matmul1"), ("matmul1", "softmax"), ("softmax", "matmul2"),
          ("z", "matmul2")], []),
        ([("x", "transpose"), ("x", "matmul1"), ("transpose", "matmul1"), ("matmul1", "matmul2"),
          ("x", "matmul2")], []),
        ([("x", "matmul1"), ("matmul1", "relu"), ("relu", "matmul2")], []),
    ],
)  # fmt: skip
def test_that_a_value_that_two_products_read_is_told_only_where_vela_fails(edges, told):
    assert list(values_read_again(*graph_of(*edges))) == told


def faults(edges, device="ethos-u55-128", off=tuple(row.id for row in CORRECTIONS)):
    """Return the corrections and operators that are foretold with corrections switched off."""
    graph, nodes = graph_of(*edges)
    choice = TargetChoice(id=device, options=dict.fromkeys(off, False))
    infos = list(faults_without_corrections(choice, graph, nodes, ()))
    assert {info.code for info in infos} <= {"correction-switched-off"}
    return [(info.where.id.rpartition(".")[2], info.message.split()[0]) for info in infos]


@for_each(
    ("edges", "told"),
    [
        # A ReLU meets values below zero in cat, also behind a pool.
        ([("conv2d", "relu"), ("relu", "cat"), ("conv2d_2", "cat")], ["relu"]),
        ([("conv2d", "batch_norm"), ("batch_norm", "relu"), ("relu", "max_pool2d"),
          ("max_pool2d", "cat"), ("linear", "cat")], ["relu"]),
        ([("conv2d", "relu"), ("relu", "cat"), ("conv2d_2", "view"), ("view", "cat")], ["relu"]),
        # All values are zero or more.
        ([("conv2d", "relu"), ("relu", "cat"), ("conv2d_2", "relu_2"), ("relu_2", "cat")], []),
        ([("conv2d", "relu"), ("relu", "cat"), ("conv2d_2", "sigmoid"), ("sigmoid", "view"),
          ("view", "cat")], []),
        # The ReLU is not fused, or shares no range.
        ([("add", "relu"), ("relu", "cat"), ("conv2d", "cat")], []),
        ([("conv2d", "relu"), ("relu", "add"), ("conv2d_2", "add")], []),
        # Another operator reads the convolution, or the clamp does not start at zero.
        ([("conv2d", "relu"), ("relu", "cat"), ("conv2d", "cat")], []),
        ([("conv2d", "relu"), ("relu", "cat"), ("conv2d_2", "cat"), ("conv2d", "mean")], []),
        ([("conv2d", "clamp"), ("clamp", "cat"), ("conv2d_2", "cat")], []),
    ],
)  # fmt: skip
def test_that_a_lost_clamp_is_foretold_where_a_relu_shares_its_range(edges, told):
    assert faults(edges, off=(CLAMPS,)) == [(CLAMPS, name) for name in told]


@for_each(
    ("edges", "device", "told"),
    [
        ([("conv2d", "slice"), ("slice", "amax")], "ethos-u55-128", [SLICES]),
        ([("conv2d", "slice"), ("slice", "view"), ("view", "matmul")], "ethos-u85-256", [SLICES]),
        ([("conv2d", "slice"), ("slice", "add")], "ethos-u55-128", []),
        ([("conv2d", "amax")], "ethos-u55-128", []),
        ([("tanh", "flip"), ("flip", "sigmoid")], "ethos-u55-128", []),
        ([("tanh", "flip"), ("flip", "sigmoid")], "ethos-u85-256", ["activations_before_layouts"]),
        ([("matmul", "flip")], "ethos-u85-256", []),
        ([("matmul", "flip")], "ethos-u85-1024", ["flips_of_copies"]),
        ([("upsample_nearest2d", "cat")], "ethos-u65-256", ["joined_computed"]),
        ([("upsample_nearest2d", "cat")], "ethos-u85-256", []),
    ],
)
def test_that_a_fault_is_foretold_on_the_devices_that_have_it(edges, device, told):
    assert [name for name, _ in faults(edges, device)] == told
    assert faults(edges, device, off=()) == []


@for_each(
    ("edges", "correction", "code"),
    [
        ([("convolution", "add"), ("convolution", "relu")], ROUNDED, "int16-convolution-shared"),
        ([("x", "matmul1"), ("matmul1", "softmax"), ("softmax", "matmul2"), ("x", "matmul2")],
         RELEASED, "int16-value-read-again"),
        ([("x", "neg")], NEGATED, "correction-switched-off"),
    ],
)  # fmt: skip
def test_that_a_whole_program_is_refused_only_where_its_correction_is_off(edges, correction, code):
    graph, nodes = graph_of(*edges)

    def found(*off):
        choice = TargetChoice(id="ethos-u55-128", options=dict.fromkeys(off, False))
        infos = target_of(choice.id).forecast(choice, graph, nodes, (), nodes)
        return {info.code for info in infos}

    assert code in found(correction)
    assert code not in found(SLICES)
    assert found() == set()
