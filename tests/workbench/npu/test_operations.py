"""Single operations, written by hand, against numpy."""

from itertools import product

import numpy as np

from tests.for_each import for_each
from tests.problems import refused
from tests.workbench.npu.streams import COPY, SECOND, Stream
from tests.workbench.npu.test_arithmetic import exact
from workbench.npu.arithmetic import Rounding
from workbench.npu.machine import Machine
from workbench.npu.state import Limits, Options

A = np.random.default_rng(0).integers(-128, 128, 32).astype(np.int64)
B = np.random.default_rng(1).integers(-128, 128, 32).astype(np.int64)
SHAPE = (1, 4, 8)
IDENTITY_U85 = 1 << 13 << 32 | 1
U85 = (
    COPY
    | SECOND
    | {
        "OFM_PRECISION": 1 | 1 << 8,
        "OFM_SCALE": IDENTITY_U85,
        "IFM_SCALE": IDENTITY_U85,
        "IFM2_SCALE": IDENTITY_U85,
        "IFM_BROADCAST": 0,
    }
)


def elementwise(mode, settings=None, *, u85=False):
    """Return what an operation on A and B, both of int8, gives."""
    if u85:
        kept = {name: value for name, value in U85.items() if not name.startswith("OP")}
        stream = Stream("u85", 256).set(kept | (settings or {}))
    else:
        stream = Stream().set(COPY | SECOND | (settings or {}))
    blob = stream.do("ELEMENTWISE", mode).do("STOP").blob(ports=((0, 64), (64, 32)))
    inputs = np.concatenate([A, B]).astype(np.int8)
    return Machine(blob).run([inputs], Options(check=True)).outputs[0].view(np.int8).tolist()


def clipped(values):
    return np.clip(values, -128, 127).tolist()


@for_each("u85", [False, True])
@for_each(
    ("mode", "expected"),
    [(0, A * B), (1, A + B), (2, A - B), (3, np.minimum(A, B)), (4, np.maximum(A, B)), (6, np.abs(A))],
)
def test_that_both_families_compute_the_common_operations(mode, expected, u85):
    assert elementwise(mode, u85=u85) == clipped(expected)


@for_each(
    ("mode", "expected"),
    [
        (16, -(A == B).astype(int)),
        (17, -(A != B).astype(int)),
        (18, -(A >= B).astype(int)),
        (19, -(A > B).astype(int)),
        (33, A & B),
        (34, A | B),
        (35, A ^ B),
        (36, ~A),
        (42, A & ~B),
        (11, np.trunc(A / B).astype(int)),
    ],
)
def test_that_the_u85_compares_divides_and_combines_bits(mode, expected):
    assert elementwise(mode, u85=True) == clipped(expected)


@for_each("amount", [0, 1, 3, 7, 8, 62, 63, 100])
def test_that_values_are_shifted_by_the_second_operand(amount):
    second, by = {"IFM2_BROADCAST": 8, "OP_SCALAR": amount}, min(amount, 62)
    assert elementwise(8, second | {"OFM_SCALE": 1}, u85=True) == clipped(A >> by)
    assert elementwise(10, second, u85=True) == clipped((A & 255) >> by)
    # The result has 32 bits before it is cut to those of the OFM.
    words = [((int(a) << by) + (1 << 31) & 0xFFFFFFFF) - (1 << 31) for a in A]
    assert elementwise(9, second, u85=True) == clipped(words)


def test_that_a_shift_to_the_right_may_round_halves_up():
    for amount in (0, 1, 3):
        second = {"IFM2_BROADCAST": 8, "OP_SCALAR": amount}
        halves = (1 << amount) >> 1
        assert elementwise(8, second, u85=True) == clipped(A + halves >> amount)


def test_that_a_shift_by_a_negative_amount_is_refused():
    with refused("npu-command"):
        elementwise(9, {"IFM2_BROADCAST": 8, "OP_SCALAR": 0xFFFFFFFF}, u85=True)


def test_that_leading_zeros_of_8_bits_are_counted():
    expected = [8 - (int(a) & 255).bit_length() for a in A]
    assert elementwise(7) == elementwise(7, u85=True) == expected


def test_that_a_mode_of_the_other_family_is_refused():
    for mode, u85 in ((10, False), (16, False), (12, True), (63, True)):
        with refused("npu-mode"):
            elementwise(mode, u85=u85)


def test_that_a_division_by_zero_is_refused():
    with refused("npu-command"):
        elementwise(11, {"IFM2_ZERO_POINT": int(B[5]) & 0xFFFF}, u85=True)


def test_that_operand_order_exchanges_operands_and_their_scales():
    exchanged = elementwise(2, {"IFM2_BROADCAST": 1 << 6})
    assert exchanged == clipped(B - A)
    assert elementwise(2, {"IFM2_BROADCAST": 1 << 6, "OPA_SCALE": 3}) == clipped(3 * B - A)
    assert elementwise(2, {"OPA_SCALE": 3}) == clipped(3 * A - B)


@for_each(("mode", "first"), [(1, True), (2, False)])
def test_that_one_operand_has_a_scale_and_the_other_a_fixed_shift(mode, first):
    settings = {
        "IFM_PRECISION": 1 | mode << 8 | 2 << 14,
        "OPA_SCALE": 10 << 32 | 3 << 29,
        "OFM_SCALE": 19 << 32 | 1,
    }
    scaled, other = (A, B) if first else (B, A)
    assert elementwise(1, settings) == clipped(3 * scaled + other)


def test_that_scalars_and_broadcasts_repeat():
    assert elementwise(1, {"IFM2_BROADCAST": 1 << 7, "IFM2_SCALAR": 0xFFF6}) == clipped(A - 10)
    column = B.reshape(SHAPE)[:, :1]
    assert elementwise(1, {"IFM2_BROADCAST": 2}) == clipped((A.reshape(SHAPE) + column).reshape(-1))
    channel = B.reshape(SHAPE)[:, :, :1]
    wanted = clipped((A.reshape(SHAPE) + channel).reshape(-1))
    assert elementwise(1, {"IFM2_BROADCAST": 4}) == wanted
    assert elementwise(1, {"IFM2_BROADCAST": 4}, u85=True) == wanted
    scalar = {"IFM2_BROADCAST": 8, "OP_SCALAR": 0xFFFFFFF6}
    assert elementwise(1, scalar, u85=True) == clipped(A - 10)
    # A zero point is read with the sign of its operand.
    for precision, zero_point in ((0, 0xFF00), (1, 0xFF00 - (1 << 16))):
        scalar |= {"IFM2_PRECISION": precision, "IFM2_ZERO_POINT": 0xFF00, "OP_SCALAR": 0}
        assert elementwise(1, scalar, u85=True) == clipped(A - zero_point)


def test_that_the_first_operand_may_be_the_scalar():
    scalar = {"IFM_BROADCAST": 8, "OP_SCALAR": 5}
    assert elementwise(2, scalar, u85=True) == clipped(5 - B)
    assert elementwise(6, scalar | {"OP_SCALAR": 0xFFFFFFFB}, u85=True) == [5] * len(A)


def test_that_zero_points_are_taken_off_and_put_on():
    settings = {"IFM_ZERO_POINT": 0xFFFB, "IFM2_ZERO_POINT": 7, "OFM_ZERO_POINT": 11}
    assert elementwise(1, settings) == clipped(A + 5 + B - 7 + 11)


def test_that_the_clamp_holds_and_is_counted():
    stream = Stream().set(COPY, ACTIVATION_MIN=0xFFF6, ACTIVATION_MAX=20)
    blob = stream.do("POOL", 1).do("STOP").blob()
    result = Machine(blob).run([A.astype(np.int8)], Options(counters=True))
    assert result.outputs[0].view(np.int8).tolist() == np.clip(A, -10, 20).tolist()
    assert result.counters[0].saturated == np.count_nonzero((A < -10) | (A > 20))


def test_that_leaky_relu_scales_negative_values_only():
    leaky = np.where(A >= 0, A, np.floor(A / 4 + 0.5)).astype(int)
    assert elementwise(5, {"OFM_SCALE": 2 << 32 | 1}) == clipped(leaky)


WIDE = {
    "IFM_PRECISION": 1 | 2 << 2,
    "IFM2_PRECISION": 1 | 2 << 2,
    "IFM_DEPTH_M1": 1,
    "OFM_DEPTH_M1": 1,
    "OFM_PRECISION": 1 | 2 << 1 | 1 << 8 | 2 << 14,
}


def wide(mode, first, second, **more):
    """Return what an operation on two rows of four pixels of two int32 gives."""
    blob = Stream().set(COPY | SECOND | WIDE, **more).do("ELEMENTWISE", mode).do("STOP")
    inputs = np.array([*first, *second], np.int32)
    machine = Machine(blob.blob(ports=((0, 64), (64, 32))))
    return machine.run([inputs.view(np.uint8)]).outputs[0].view(np.int32).tolist()


def test_that_bits_of_int32_are_counted_and_shifted():
    values = [1, 0, -1, 5, 1 << 30, -(1 << 31), 77, -77]
    shifts = [0, 1, 2, 3, 4, 5, 1, 1]
    assert wide(7, values, shifts) == [31, 32, 0, 29, 1, 0, 25, 0]
    assert wide(8, values, shifts) == [
        v if not s else (v + (1 << s - 1)) >> s for v, s in zip(values, shifts, strict=True)
    ]
    wrapped = [((v << s) + (1 << 31) & 0xFFFFFFFF) - (1 << 31) for v, s in zip(values, shifts, strict=True)]
    assert wide(9, values, shifts) == wrapped


def test_that_int32_results_are_not_clamped():
    sums = wide(1, [1000, -1000, 5, 6, 7, 8, 9, 10], [1] * 8)
    assert sums == [1001, -999, 6, 7, 8, 9, 10, 11]


def pooled(mode, settings, *, family="u55"):
    """Return a pool of 1 x 3 windows with padding left and right over A; 4 pixels of 8."""
    base = COPY if family == "u55" else {k: v for k, v in U85.items() if not k.startswith("OP")}
    stream = Stream(family, 128).set(base, KERNEL_WIDTH_M1=2, IFM_PAD_LEFT=1, IFM_PAD_RIGHT=1)
    blob = stream.set(settings).do("POOL", mode).do("STOP").blob()
    return Machine(blob).run([A.astype(np.int8)]).outputs[0].view(np.int8).reshape(4, 8)


@for_each("family", ["u55", "u85"])
def test_that_pools_leave_padding_out(family):
    rows = A.reshape(4, 8)
    windows = [rows[max(0, at - 1) : at + 2] for at in range(4)]
    assert pooled(0, {}, family=family).tolist() == [w.max(0).tolist() for w in windows]
    settings = {"ACC_FORMAT": 1 << 8} if family == "u85" else {}
    # Halves go away from zero, as with the reference model.
    means = [w.sum(0) / len(w) for w in windows]
    means = [(np.sign(m) * np.floor(np.abs(m) + 0.5)).astype(int).tolist() for m in means]
    assert pooled(1, settings, family=family).tolist() == means


def test_that_the_u85_has_smallest_values_and_sums():
    windows = [A.reshape(4, 8)[max(0, at - 1) : at + 2] for at in range(4)]
    assert pooled(5, {}, family="u85").tolist() == [w.min(0).tolist() for w in windows]
    assert pooled(3, {}, family="u85").tolist() == [clipped(w.sum(0)) for w in windows]


def test_that_channels_are_added_up():
    settings = {"OFM_DEPTH_M1": 0, "OFM_STRIDE_X": 1}
    stream = Stream().set(COPY, **settings).do("POOL", 2).do("STOP")
    found = Machine(stream.blob(ports=((0, 32), (64, 4)))).run([(A // 16).astype(np.int8)])
    sums = (A // 16).reshape(4, 8).sum(1)
    assert found.outputs[0].view(np.int8).tolist() == sums.tolist()


@for_each(("mode", "expected"), [(1, [0, 0, 1, 1]), (2, [0, None, 1, None])])
def test_that_the_ifm_is_doubled(mode, expected):
    rows = A.reshape(4, 8)
    stream = Stream().set(COPY, IFM_UPSCALE=mode, IFM_WIDTH0_M1=1).do("POOL", 1).do("STOP")
    found = Machine(stream.blob()).run([A.astype(np.int8)]).outputs[0].view(np.int8).reshape(4, 8)
    wanted = [rows[place].tolist() if place is not None else [0] * 8 for place in expected]
    assert found.tolist() == wanted


@for_each(("order", "axes"), [(1, (1, 0, 2)), (2, (0, 2, 1)), (3, (1, 2, 0)), (6, (2, 0, 1)), (7, (2, 1, 0))])
def test_that_the_u85_transposes_its_output(order, axes):
    height, width, depth = np.array(SHAPE)[list(axes)].tolist()
    settings = {name: value for name, value in U85.items() if not name.startswith("OP")} | {
        "OFM_PRECISION": 1 | 1 << 8 | order << 11,
        "OFM_HEIGHT0_M1": height - 1,
        "OFM_HEIGHT1_M1": height - 1,
        "OFM_WIDTH0_M1": width - 1,
        "OFM_STRIDE_X": depth,
        "OFM_STRIDE_Y": depth * width,
    }
    blob = Stream("u85", 256).set(settings).do("POOL", 3).do("STOP").blob()
    found = Machine(blob).run([A.astype(np.int8)]).outputs[0].view(np.int8)
    assert found.tolist() == A.reshape(SHAPE).transpose(axes).reshape(-1).tolist()


@for_each("axis", [1, 2])
def test_that_the_u85_reverses_its_output(axis):
    settings = {name: value for name, value in U85.items() if not name.startswith("OP")}
    settings["OFM_PRECISION"] = 1 | 1 << 8 | axis + 1 << 9
    blob = Stream("u85", 256).set(settings).do("POOL", 3).do("STOP").blob()
    found = Machine(blob).run([A.astype(np.int8)]).outputs[0].view(np.int8)
    assert found.tolist() == np.flip(A.reshape(SHAPE), axis).reshape(-1).tolist()


def resized(mode, shape, size, axes, shift=16, options=None, **more):
    """Return a resize of int8 [H, W, 1] to another size; an axis is (n, d, offset)."""
    ifm = A[: shape[0] * shape[1]].astype(np.int8)
    settings = {name: value for name, value in U85.items() if not name.startswith("OP")} | {
        "IFM_DEPTH_M1": 0,
        "OFM_DEPTH_M1": 0,
        "IFM_WIDTH0_M1": shape[1] - 1,
        "IFM_HEIGHT0_M1": shape[0] - 1,
        "IFM_HEIGHT1_M1": shape[0] - 1,
        "IFM_STRIDE_X": 1,
        "IFM_STRIDE_Y": shape[1],
        "OFM_HEIGHT_M1": size[0] - 1,
        "OFM_WIDTH_M1": size[1] - 1,
        "OFM_HEIGHT0_M1": size[0] - 1,
        "OFM_HEIGHT1_M1": size[0] - 1,
        "OFM_WIDTH0_M1": size[1] - 1,
        "OFM_STRIDE_X": 4,
        "OFM_STRIDE_Y": 4 * size[1],
        "OFM_PRECISION": 1 | 2 << 1 | 1 << 8,
        "OFM_SCALE": (1 << 13 | shift) << 32 | 1,
        "ACTIVATION": 1 << 12,
        "KERNEL_HEIGHT_M1": shape[0] - 1,
        "KERNEL_WIDTH_M1": shape[1] - 1,
    }
    for name, (parts, distance, offset) in zip("YX", axes, strict=True):
        settings |= {
            f"RESIZE_{name}_SCALE_N_M1": parts - 1,
            f"RESIZE_{name}_OFFSET": offset & 0xFFF,
            f"RESIZE_{name}_STEP": (distance // parts) << 32 | distance % parts,
        }
    blob = Stream("u85", 256).set(settings | more).do("RESIZE", mode).do("STOP")
    made = Machine(blob.blob(scratch=512, ports=((0, ifm.size), (64, 4 * size[0] * size[1]))))
    found = made.run([ifm], options).outputs[0].view(np.int32).reshape(size)
    return ifm.reshape(shape).astype(int), found


def resize_by_definition(mode, values, size, axes):
    """TOSA 1.0, RESIZE: positions in parts of 1/n, neighbours clamped to the image."""
    found = np.zeros(size, int)
    for place in np.ndindex(*size):
        sides = []
        for axis, at in enumerate(place):
            parts, distance, offset = axes[axis]
            first, part = divmod(at * distance + offset, parts)
            last = values.shape[axis] - 1
            low, high = min(max(first, 0), last), min(max(first + 1, 0), last)
            near = min(max(first + (2 * part >= parts), 0), last)
            sides.append((low, high, near, part, parts))
        (y0, y1, y, py, ny), (x0, x1, x, px, nx) = sides
        if mode == 0:
            upper = values[y0, x0] * (nx - px) + values[y0, x1] * px
            lower = values[y1, x0] * (nx - px) + values[y1, x1] * px
            found[place] = upper * (ny - py) + lower * py
        else:
            found[place] = values[y, x] if mode == 2 else values[y0, x0]
    return found


@for_each("mode", [0, 1, 2])
@for_each(
    ("shape", "size", "axes"),
    [
        ((4, 6), (7, 12), ((4, 2, -1), (4, 2, 1))),
        ((3, 3), (5, 5), ((2, 1, 0), (2, 1, 0))),
        ((5, 4), (2, 3), ((2, 5, 1), (3, 4, -2))),
        ((1, 1), (3, 2), ((4, 1, -3), (2, 3, 1))),
        ((2, 2), (4, 3), ((2, 1, 1), (2, 1, 2))),
        ((4, 4), (6, 5), ((5, 2, 0), (5, 3, -1))),
    ],
)
def test_that_resizing_follows_the_definition_of_tosa(mode, shape, size, axes):
    values, found = resized(mode, shape, size, axes)
    assert found.tolist() == resize_by_definition(mode, values, size, axes).tolist()


def test_that_a_resize_needs_its_shift_and_a_mode():
    axes = ((2, 1, 0), (2, 1, 0))
    with refused("npu-command"):
        resized(0, (3, 3), (5, 5), axes, shift=15)
    with refused("npu-mode"):
        resized(3, (3, 3), (5, 5), axes)


def test_that_a_branch_is_taken_where_the_last_element_was_not_zero():
    plain = {name: value for name, value in U85.items() if not name.startswith("OP")}

    def found(values, first):
        """Return which of two copies behind a branch was made."""
        stream = Stream("u85", 256).set(plain)
        if first:
            stream.do("POOL", 3)
        at = stream.offset
        copy = Stream("u85", 256).set(OFM_BASE0=96).do("POOL", 3).do("STOP").words
        stream.do("BRANCH", 1, at + 8 + 4 * len(copy))
        stream.words += copy
        stream.set(OFM_BASE0=128).do("POOL", 3).do("STOP")
        blob = stream.blob(scratch=256, ports=((0, 32), (96, 64)))
        out = Machine(blob).run([np.array(values, np.int8)]).outputs[0].view(np.int8)
        return "next" if out[:32].any() else "branch"

    some = [1] * 31
    assert found([*some, 5], True) == "branch"
    assert found([*some, 0], True) == "next"
    assert found([*some, 5], False) == "next"


def test_that_two_cores_share_channels_only_where_they_run_in_parallel():
    from tests.workbench.npu.test_output_stage import record, state
    from workbench.npu.accumulators import channel_scales

    rows = [(5, 3, 1), (-7, 4, 2), (9, 5, 3)]
    for parallel, order in ((0, rows), (1, [rows[0], rows[2], rows[1]]), (2, rows)):
        first = b"".join(record(*row, "ethos-u65") for row in order)
        held = state(
            "ethos-u65",
            512,
            first + bytes(6),
            SCALE_REGION=0,
            SCALE_BASE=0,
            SCALE1_BASE=20,
            PARALLEL_MODE=parallel,
        )
        assert channel_scales(held, 3).bias.tolist() == [5, -7, 9]


def test_that_lrelu_of_the_u85_has_a_scale_for_each_sign():
    half = (1 << 13 | 1) << 32 | 1
    found = elementwise(5, {"IFM2_SCALE": half}, u85=True)
    halves = np.where(A >= 0, A, np.floor(A / 2 + 0.5))
    assert found == clipped(halves)


@for_each(
    ("settings", "u85", "code"),
    [
        ({"IFM_PRECISION": 1 | 3 << 8}, False, "npu-mode"),
        ({"OFM_PRECISION": U85["OFM_PRECISION"] | 4 << 11}, True, "npu-mode"),
        ({"ACC_FORMAT": 1 << 6}, True, "npu-command"),
    ],
)
def test_that_modes_that_do_not_exist_are_refused(settings, u85, code):
    with refused(code):
        elementwise(1, settings, u85=u85)


def test_that_elementwise_operations_spend_work_for_each_output():
    blob = Stream().set(COPY | SECOND).do("ELEMENTWISE", 1).do("STOP").blob(ports=((0, 64), (64, 32)))
    machine, inputs = Machine(blob), [np.concatenate([A, B]).astype(np.int8)]
    assert machine.run(inputs, Options(limits=Limits(work=32))).outputs
    with refused("npu-limit"):
        machine.run(inputs, Options(limits=Limits(work=31)))


def test_that_results_are_scaled_where_a_bit_says_so_and_the_operation_has_a_scale():
    halves = {"OFM_SCALE": 1 << 32 | 1}
    rounded = clipped(np.floor((A + B) / 2 + 0.5).astype(int))
    assert elementwise(1, halves) == rounded
    assert elementwise(1, halves | {"OFM_PRECISION": 1 | 2 << 14}) == clipped(A + B)
    # The least of two values is never scaled.
    for precision in (1 | 2 << 14, 1 | 1 << 8 | 2 << 14):
        assert elementwise(3, halves | {"OFM_PRECISION": precision}) == np.minimum(A, B).tolist()


def test_that_operands_of_32_bits_have_no_scale_of_their_own():
    first, second = [1 << 20, -5, 7, 0, 1, 2, 3, 4], [10, 20, 30, 40, 50, 60, 70, 80]
    sums = [one + other for one, other in zip(first, second, strict=True)]
    assert wide(1, first, second, OPA_SCALE=3, OPB_SCALE=5) == sums


def test_that_a_scalar_without_a_sign_is_read_as_such():
    scalar = {"IFM2_BROADCAST": 1 << 7, "IFM2_SCALAR": 0xFFF6}
    assert elementwise(4, scalar | {"IFM2_PRECISION": 1}) == np.maximum(A, -10).tolist()
    assert elementwise(4, scalar | {"IFM2_PRECISION": 0}) == [127] * len(A)


@for_each("side", ["IFM", "IFM2"])
@for_each("precision", [1, 0])
def test_that_an_operand_without_storage_is_the_scalar(side, precision):
    settings = {f"{side}_PRECISION": precision | 3 << 14, "OP_SCALAR": 7, f"{side}_ZERO_POINT": 0xFFFE}
    number = 7 - (-2 if precision else 0xFFFE)
    a, b = (number, B) if side == "IFM" else (A, number)
    found = elementwise(2, settings, u85=True)
    assert found == clipped(np.broadcast_to(a - b, A.shape))


@for_each(("bits", "kept", "double"), [(8, 19, 20), (16, 14, 15)])
def test_that_a_scaled_operand_is_rounded_twice_where_its_rounding_is_double(bits, kept, double):
    """Vela 5.1.0, the constraints of the U55: the other operand moves left by 19 or 14 bits."""
    for scale, shift in product((0x5A827999, 0x7FFFFFFF), range(31 - double, 36 - double)):
        found, values = scaled_apart(bits, scale, shift)
        wanted = [exact(v, scale, shift, Rounding.DOUBLE, double) + (1 << kept) for v in values]
        assert found == wanted


def scaled_apart(bits, scale, shift):
    """Return the sums of scaled values and one that is not scaled, and the values."""
    item = bits // 8
    reach = 1 << bits - 1
    values = np.random.default_rng(bits).integers(-reach, reach, 32 // item)
    stream = Stream().set(
        COPY | SECOND,
        IFM_PRECISION=1 | (item - 1) << 2 | 1 << 8,
        IFM_DEPTH_M1=8 // item // 2 - 1,
        IFM2_PRECISION=1 | (item - 1) << 2,
        IFM2_BROADCAST=1 << 7,
        IFM2_SCALAR=1,
        IFM_STRIDE_X=4,
        IFM_STRIDE_Y=16,
        OFM_DEPTH_M1=8 // item // 2 - 1,
        OFM_STRIDE_X=16,
        OFM_STRIDE_Y=64,
        OFM_PRECISION=1 | 2 << 1 | 1 << 8 | 2 << 14,
        OPA_SCALE=shift << 32 | scale,
    )
    blob = stream.do("ELEMENTWISE", 1).do("STOP").blob(ports=((0, 32), (64, 64)))
    inputs = values.astype(f"<i{item}").view(np.uint8)
    found = Machine(blob).run([inputs]).outputs[0].view(np.int32).reshape(4, 4)
    count = 8 // item // 2
    return found[:, :count].reshape(-1).tolist(), values[: 4 * count].tolist()


def test_that_resizing_spends_four_multiplications_for_each_output():
    axes = ((2, 1, 0), (2, 1, 0))
    assert resized(0, (3, 3), (5, 5), axes, options=Options(limits=Limits(work=100)))
    with refused("npu-limit"):
        resized(0, (3, 3), (5, 5), axes, options=Options(limits=Limits(work=99)))


def test_that_resizing_takes_the_zero_point_off():
    axes = ((2, 1, 0), (2, 1, 0))
    values, found = resized(0, (3, 3), (5, 5), axes, IFM_ZERO_POINT=9)
    assert found.tolist() == resize_by_definition(0, values - 9, (5, 5), axes).tolist()


def test_that_every_operation_counts_its_own_bytes():
    stream = Stream().set(COPY).do("POOL", 1).do("POOL", 1).do("STOP")
    counted = Machine(stream.blob()).run([A.astype(np.int8)]).counters
    assert [(one.read_bytes, one.written_bytes) for one in counted] == [(32, 32), (32, 32)]
