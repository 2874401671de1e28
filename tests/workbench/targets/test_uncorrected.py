"""Faults that a switched-off correction would have mended, by shapes, strides and precisions."""

from tests.for_each import for_each
from workbench.graph.snapshot import Edge, GraphSnapshot, Node, TensorInfo
from workbench.project.model import TargetChoice
from workbench.targets.ethos_u.corrections import CORRECTIONS
from workbench.targets.ethos_u.uncorrected import faults_without_corrections

U55, U85 = "ethos-u55-128", "ethos-u85-256"
IMAGE = (1, 4, 8, 8)


def node(name, shape=IMAGE, **attrs):
    operator = name.rstrip("0123456789")
    operator = operator if operator not in ("conv", "pool") else f"{name[:4]}2d"
    return Node(name, f"aten.{operator}.default", "call", "body", 0, (),
                (TensorInfo(shape, "float32"),) if shape else (), attrs=attrs)  # fmt: skip


def told(nodes, links, device=U55, wide=()):
    """Return the corrections that are missed, and the operators that miss them."""
    x = Node("x", "placeholder", "input", outputs=(TensorInfo(IMAGE, "float32"),))
    graph = GraphSnapshot("float", (x, *nodes), tuple(Edge(a, b) for a, b in links))
    choice = TargetChoice(id=device, options=dict.fromkeys((row.id for row in CORRECTIONS), False))
    integer = {one.id for one in nodes}
    infos = list(faults_without_corrections(choice, graph, integer, wide))
    assert all(" in body" in info.message for info in infos)
    assert list(faults_without_corrections(choice, graph, (), wide)) == []
    return [(info.where.id.rpartition(".")[2], info.message.split(" in body")[0].split()[-1])
            for info in infos]  # fmt: skip


def one(*arguments, device=U55, wide=False, **attrs):
    """Return what is missed by one operator that reads the input."""
    made = node(*arguments, **attrs)
    found = told([made], [("x", made.id)], device, {made.id} if wide else ())
    assert {name for _, name in found} <= {made.id}
    return [correction for correction, _ in found]


@for_each(
    ("stride", "told_of"),
    [("[4, 4]", True), ("[1, 4]", True), ("[3, 3]", False), ("[]", False), ("", False),
     ("4", True)],
)  # fmt: skip
def test_that_strides_above_three_are_told_on_the_u85(stride, told_of):
    for name in ("conv2d", "max_pool2d"):
        assert one(name, stride=stride, device=U85) == ["slices_computed"] * told_of
        assert one(name, stride=stride) == []
    assert one("add", stride=stride, device=U85) == []


@for_each("device", [U55, U85])
def test_that_a_dilation_above_two_is_told_where_a_slice_is_read(device):
    assert one("conv2d", dilation="[3, 3]", device=device) == []
    assert one("conv2d", dilation="[3, 3]", stride="[2, 2]", device=device) == ["slices_computed"]
    assert one("conv2d", dilation="[3]", groups="2", device=device) == ["slices_computed"]
    for dilation, told_of in (("[1, 3]", True), ("[2, 2]", False)):
        parts = [node("slice"), node("conv2d", dilation=dilation)]
        found = told(parts, [("x", "slice"), ("slice", "conv2d")], device)
        assert found == [("slices_computed", "conv2d")] * told_of


@for_each(("padding", "lost"), [("[1, 0]", True), ("[0, 2]", True), ("[0, 0]", False), ("", False)])
def test_that_a_padded_pool_with_a_large_stride_loses_its_padding(padding, lost):
    found = one("max_pool2d", stride="[4, 4]", padding=padding, device=U85)
    assert found == ["slices_computed", *["padded_pools"] * lost]
    assert one("max_pool2d", stride="[3, 3]", padding=padding, device=U85) == []
    assert one("avg_pool2d", stride="[4, 4]", padding=padding, device=U85) == ["slices_computed"]


@for_each(
    ("groups", "channels", "joined"),
    [("4", 8, True), ("4", 4, False), ("2", 8, False), ("1", 8, False)],
)
def test_that_several_outputs_a_channel_lose_their_place_where_they_are_joined(
    groups, channels, joined
):
    conv = node("conv2d", (1, channels, 8, 8), groups=groups)
    direct = told([conv, node("cat")], [("x", "conv2d"), ("conv2d", "cat")])
    assert direct == [("joined_computed", "cat")] * joined
    between = [conv, node("relu"), node("view"), node("stack")]
    links = [("x", "conv2d"), ("conv2d", "relu"), ("relu", "view"), ("view", "stack")]
    assert told(between, links) == [("joined_computed", "stack")] * joined
    other = [conv, node("add"), node("cat")]
    assert told(other, [("x", "conv2d"), ("conv2d", "add"), ("add", "cat")]) == []
    sliced = [node("slice"), conv]
    assert told(sliced, [("x", "slice"), ("slice", "conv2d")]) == (
        [("slices_computed", "conv2d")] * joined
    )


@for_each("name", ["amax", "amin", "sum", "mean", "matmul", "conv_transpose2d"])
def test_that_readers_of_slices_are_told_also_behind_a_view(name):
    direct = told([node("slice"), node(name)], [("x", "slice"), ("slice", name)])
    assert ("slices_computed", name) in direct
    shaped = [node("chunk"), node("getitem"), node(name)]
    links = [("x", "chunk"), ("chunk", "getitem"), ("getitem", name)]
    assert ("slices_computed", name) in told(shaped, links)
    assert ("slices_computed", name) not in told([node("relu"), node(name)],
                                                 [("x", "relu"), ("relu", name)])  # fmt: skip


@for_each(
    ("before", "after", "found"),
    [((1, 4, 1, 8), (1, 4, 8), True), ((1, 1, 1, 1), (1,), True), ((1, 4, 2, 8), (1, 4, 8), False),
     ((2, 4), (4,), False)],
)  # fmt: skip
def test_that_a_reduction_of_one_element_is_told(before, after, found):
    made = [node("abs", before), node("amax", after)]
    assert told(made, [("x", "abs"), ("abs", "amax")]) == (
        [("drop_reductions_of_one", "amax")] * found
    )
    made = [node("abs", before), node("sum", after)]
    assert told(made, [("x", "abs"), ("abs", "sum")]) == []


def test_that_single_operators_are_told_on_the_devices_that_fail_on_them():
    assert one("neg") == one("neg", device=U85) == ["negations_rescaled"]
    assert one("amin", (1, 4, 8)) == ["minima_from_maxima"]
    assert one("amin", (1, 4, 8), device=U85) == []


def test_that_one_element_of_16_bits_is_not_resized():
    for wide, shape, device, found in (
        (True, (1, 1, 1, 1), U55, True), (False, (1, 1, 1, 1), U55, False),
        (True, (1, 4, 1, 1), U55, False), (True, (1, 1, 1, 1), U85, False),
    ):  # fmt: skip
        name = "upsample_nearest2d"
        made = [node("mean", shape), node(name)]
        got = told(made, [("x", "mean"), ("mean", name)], device, {name} if wide else ())
        assert (("repeated_pixels", name) in got) is found


def test_that_a_convolution_called_twice_with_one_input_is_told_in_16_bits():
    both = [node("conv2d1"), node("conv2d2")]
    both = [Node(n.id, "aten.conv2d.default", n.kind, n.module, 0, (), n.outputs) for n in both]
    w = Node("w", "placeholder", "input")

    def found(links, wide, device=U55):
        return {name for correction, name in told([*both, w], links, device, wide)
                if correction == "rescales_joined"}  # fmt: skip

    same = [("x", "conv2d1"), ("w", "conv2d1"), ("x", "conv2d2"), ("w", "conv2d2")]
    assert found(same, {"conv2d1", "conv2d2"}) == {"conv2d1", "conv2d2"}
    assert found(same, {"conv2d1"}) == {"conv2d1"}
    assert found(same, ()) == set()
    assert found(same, {"conv2d1"}, U85) == set()
    assert found(same[:3], {"conv2d1", "conv2d2"}) == set()


@for_each(
    ("clamp", "shape", "wide", "found"),
    [
        ("hardtanh", (2, 8), False, True), ("relu", (2, 8), False, False),
        ("relu", (2, 8), True, True), ("hardtanh", (1, 8), False, False),
        ("clamp", (1, 3, 8), False, True), ("tanh", (2, 8), False, False),
        ("hardtanh", None, False, False),
    ],
)  # fmt: skip
def test_that_a_clamp_of_rows_between_two_products_is_told(clamp, shape, wide, found):
    made = [node("linear1"), node(clamp, shape), node("linear2")]
    made = [Node(n.id, "aten.linear.default", "call", "body", 0, (), n.outputs)
            if "linear" in n.id else n for n in made]  # fmt: skip
    links = [("x", "linear1"), ("linear1", clamp), (clamp, "linear2")]
    got = told(made, links, wide={clamp} if wide else ())
    assert got == [("clamps_over_rows", clamp)] * found
    assert told(made, links[:2], wide={clamp} if wide else ()) == []
    assert told(made, [("x", clamp), (clamp, "linear2")], wide={clamp} if wide else ()) == []


@for_each("name", ["add", "sub", "mul", "maximum", "minimum", "where"])
def test_that_a_number_is_told_only_as_the_first_operand(name):
    number, moved = node("mean", (1, 1, 1, 1)), ("layouts_moved_to_values", name)
    assert moved in told([number, node(name)], [("mean", name), ("x", name)])
    assert moved not in told([number, node(name)], [("x", name), ("mean", name)])
    # A reduction to several numbers, and an operator that reads nothing else.
    assert moved not in told([node("mean", (1, 4, 1, 1)), node(name)],
                             [("mean", name), ("x", name)])  # fmt: skip
    assert moved not in told([number, node(name)], [("mean", name)])


def test_that_a_number_minus_a_value_is_told_and_a_product_with_one_is_not():
    assert one("rsub") == one("rsub", device=U85) == ["layouts_moved_to_values"]
    assert ("layouts_moved_to_values", "div") not in told(
        [node("mean", (1, 1, 1, 1)), node("div")], [("mean", "div"), ("x", "div")]
    )


PART = [("x", "chunk"), ("chunk", "getitem"), ("getitem", "matmul2")]


def product_of_part(nodes, links, *, wide=("matmul2",), device=U55):
    """Return whether a product that reads a part of a split value is told."""
    products = [node("matmul1"), node("matmul2")]
    found = told([*products, node("chunk"), node("getitem"), *nodes], links, device, wide)
    return ("quantized_where_computed", "matmul2") in found


def test_that_a_16_bit_product_of_a_part_and_of_another_product_is_told():
    direct = [*PART, ("x", "matmul1"), ("matmul1", "matmul2")]
    assert product_of_part([], direct)
    assert not product_of_part([], direct, wide=())
    assert not product_of_part([], direct, device=U85)
    assert product_of_part([], [("x", "chunk"), ("chunk", "matmul2"), *direct[3:]])
    behind = [node("relu"), node("add")]
    links = [("x", "matmul1"), ("matmul1", "relu"), ("relu", "add"), ("relu", "add"),
             ("add", "matmul2")]  # fmt: skip
    assert product_of_part(behind, [*PART, *links])
    assert not product_of_part([node("relu")], [*PART, ("x", "relu"), ("relu", "matmul2")])
    assert not product_of_part([], PART)
    assert not product_of_part([], direct[3:])


def test_that_attention_to_a_part_is_told_without_another_product():
    name = "scaled_dot_product_attention"
    made = [node("chunk"), node(name)]
    links = [("x", "chunk"), ("chunk", name)]
    assert ("quantized_where_computed", name) in told(made, links, wide={name})
    assert ("quantized_where_computed", name) not in told(made, [("x", name)], wide={name})


@for_each(("batch", "told_of"), [(2, True), (1, False)])
def test_that_a_convolution_of_a_part_of_each_image_of_a_batch_is_told(batch, told_of):
    shape = (batch, 4, 8, 8)
    parts = [node("slice", shape), node("conv2d", shape)]
    found = told(parts, [("x", "slice"), ("slice", "conv2d")])
    assert found == [("slices_computed", "conv2d")] * told_of
    parts = [node("relu", shape), node("conv2d", shape, groups="2")]
    found = told(parts, [("x", "relu"), ("relu", "conv2d")])
    assert found == [("slices_computed", "conv2d")] * told_of
