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


def corrections_of(nodes, links, name, device=U55, wide=()):
    """Return the corrections that one operator of several misses."""
    return [correction for correction, missed in told(nodes, links, device, wide) if missed == name]


DEEP = (2, 3, 4, 5, 6)


@for_each(
    ("before", "reader", "device", "found"),
    [
        (DEEP, "relu", U55, True), (DEEP, "add", U55, True), (DEEP, "relu", U85, False),
        (DEEP, "cat", U55, False), ((2, 3, 4, 5, 1), "relu", U55, False),
        (None, "relu", U55, False),
    ],
)  # fmt: skip
def test_that_a_function_of_a_slice_of_five_dimensions_is_told(before, reader, device, found):
    made = [node("abs", before), node("slice"), node(reader)]
    links = [("x", "abs"), ("abs", "slice"), ("slice", reader)]
    assert corrections_of(made, links, reader, device) == ["slices_computed"] * found
    # What the slice reads counts, not what else is read.
    other = [node("sin", DEEP), *made]
    second = [*links, ("sin", "slice")]
    assert corrections_of(other, second, reader, device) == ["slices_computed"] * found


@for_each(
    ("part", "first", "device", "found"),
    [
        ((1, 1, 8), "relu", U85, True),
        ((1, 1, 8), "relu", U55, False),
        ((1, 6, 8), "relu", U85, False),
        ((1, 1, 8), "x", U85, False),
    ],
)
def test_that_a_part_that_is_repeated_behind_another_operator_is_told(part, first, device, found):
    rows = (1, 6, 8)
    made = [node("relu", rows), node("chunk", part), node("unsqueeze", part), node("add", rows)]
    links = [("x", "relu"), ("x", "chunk"), ("chunk", "unsqueeze"), ("unsqueeze", "add")]
    told_of = corrections_of(made, [*links, (first, "add")], "add", device)
    assert told_of == ["slices_computed"] * found


@for_each(
    ("groups", "channels", "found"),
    [("2", 2, True), ("1", 1, False), ("2", 4, False), ("4", 2, False)],
)
def test_that_a_group_of_one_channel_may_have_several_outputs(groups, channels, found):
    made = [node("abs", (1, channels, 8, 8)), node("conv2d", (1, 8, 8, 8), groups=groups),
            node("cat")]  # fmt: skip
    links = [("x", "abs"), ("abs", "conv2d"), ("conv2d", "cat")]
    assert corrections_of(made, links, "cat") == ["joined_computed"] * found


@for_each(
    ("groups", "channels", "found"),
    [("2", 2, False), ("2", 4, True), ("1", 4, False), ("1", 1, False)],
)
def test_that_a_group_of_several_channels_is_told_in_a_batch(groups, channels, found):
    made = [node("abs", (2, channels, 8, 8)), node("conv2d", (2, channels, 8, 8), groups=groups)]
    links = [("x", "abs"), ("abs", "conv2d")]
    assert corrections_of(made, links, "conv2d") == ["slices_computed"] * found


def test_that_only_a_resize_by_repetition_loses_what_joins_it():
    for name, found in (("upsample_nearest2d", True), ("upsample_bilinear2d", False)):
        made = [node(name), node("cat")]
        assert corrections_of(made, [("x", name), (name, "cat")], "cat") == (
            ["joined_computed"] * found
        )


@for_each(
    ("product", "shape", "joint", "device", "found"),
    [
        ("matmul", IMAGE, "cat", U55, True), ("bmm", IMAGE, "pad", U55, True),
        ("matmul", IMAGE, "cat", U85, False), ("matmul", (4, 8, 8), "cat", U55, False),
        ("matmul", None, "cat", U55, False), ("matmul", IMAGE, "mul", U55, False),
        ("scaled_dot_product_attention", IMAGE, "cat", U55, False),
    ],
)  # fmt: skip
def test_that_a_joined_product_of_four_dimensions_is_told(product, shape, joint, device, found):
    direct = [node(product, shape), node(joint)]
    links = [("x", product), (product, joint)]
    assert corrections_of(direct, links, joint, device) == ["joined_computed"] * found
    behind = [node(product, shape), node("relu"), node("view"), node(joint)]
    links = [("x", product), (product, "relu"), ("relu", "view"), ("view", joint)]
    assert corrections_of(behind, links, joint, device) == ["joined_computed"] * found


@for_each(
    ("first", "between", "found"),
    [("sigmoid", "permute", True), ("add", "permute", False), ("sigmoid", "view", False)],
)
def test_that_a_function_behind_a_turned_function_is_told(first, between, found):
    made = [node(first), node(between), node("tanh")]
    links = [("x", first), (first, between), (between, "tanh")]
    missed = ["activations_before_layouts"] * found
    assert corrections_of(made, links, "tanh", U85) == missed
    assert corrections_of(made, links, "tanh", U55) == []


@for_each(
    ("shapes", "functions", "joint", "found"),
    [
        (((1, 1, 8, 8), IMAGE), ("sigmoid", "tanh"), "cat", True),
        ((IMAGE, IMAGE), ("sigmoid", "tanh"), "cat", False),
        (((1, 1, 8, 8), IMAGE), ("neg", "abs"), "cat", False),
        (((1, 1, 8, 8), IMAGE), ("sigmoid", "tanh"), "stack", False),
        (((1,), IMAGE), ("sigmoid", "tanh"), "cat", False),
        ((None, IMAGE), ("sigmoid", "tanh"), "cat", False),
    ],
)  # fmt: skip
def test_that_joined_functions_with_one_of_a_single_channel_are_told(
    shapes, functions, joint, found
):
    made = [node("conv2d", shapes[1])]
    made += [node(name, shape) for name, shape in zip(functions, shapes, strict=True)]
    links = [("x", "conv2d"), *(("conv2d", name) for name in functions)]
    links += [(name, joint) for name in functions]
    missed = ["activations_before_layouts"] * found
    assert corrections_of([*made, node(joint)], links, joint, U85) == missed
    assert corrections_of([*made, node(joint)], links, joint, U55) == []
    # Functions of what is no convolution.
    links[0:1] = [("x", "relu"), ("relu", "abs1"), ("abs1", "conv2d")]
    plain = Node("conv2d", "aten.mul.Tensor", "call", "body", 0, (), made[0].outputs)
    made = [node("relu"), node("abs1"), plain, *made[1:], node(joint)]
    assert corrections_of(made, links, joint, U85) == []


@for_each(
    ("clamp", "least", "found"),
    [("hardtanh", "0.0", True), ("hardtanh", "0", True), ("hardtanh", "-1", False),
     ("hardtanh", "1", False), ("hardtanh", None, False), ("tanh", "0.0", False),
     ("relu6", None, True)],
)  # fmt: skip
def test_that_a_fused_clamp_from_zero_is_told_where_its_range_is_shared(clamp, least, found):
    made = [node("conv2d"), node(clamp, **({} if least is None else {"min_val": least})),
            node("cat")]  # fmt: skip
    links = [("x", "conv2d"), ("conv2d", clamp), (clamp, "cat"), ("x", "cat")]
    assert corrections_of(made, links, clamp) == ["keep_relu_clamps"] * found


def test_that_the_values_of_a_maximum_with_places_are_compared():
    outputs = (TensorInfo((1,), "float32"), TensorInfo((3,), "int64"))
    most = Node("max", "aten.max.dim", "call", "body", 0, (), outputs)
    made = [node("abs", (1, 1, 1)), most]
    assert corrections_of(made, [("x", "abs"), ("abs", "max")], "max") == ["drop_reductions_of_one"]
    nothing = node("amax", None)
    assert corrections_of([made[0], nothing], [("x", "abs"), ("abs", "amax")], "amax") == []


def test_that_operators_are_known_with_and_without_an_overload():
    for name in ("aten.neg", "neg"):
        other = Node("n", name, "call", "body")
        assert told([other], [("x", "n")]) == [("negations_rescaled", "n")]


def test_that_only_a_convolution_has_outputs_for_each_channel():
    made = [node("abs", (1, 2, 8, 8)), node("view", (1, 8, 4, 4)), node("cat")]
    assert told(made, [("x", "abs"), ("abs", "view"), ("view", "cat")]) == []
