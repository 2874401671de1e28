"""Programs written with FlatBuffers' own builder are read back as they were written."""

import struct

from tests.for_each import for_each
from tests.problems import refused
from tests.workbench.pte.written import flatbuffer
from workbench.pte import description
from workbench.pte.program import DTYPES, Value, decode, decode_named_data

# Kinds of values and instructions: ExecuTorch 1.5.1, exir/_serialize/program.fbs.
NONE, INT, BOOL, DOUBLE, TENSOR, STRING = range(1, 7)
INTS, DOUBLES, BOOLS, TENSORS, OPTIONALS = range(7, 12)
KERNEL, DELEGATE, MOVE, JUMP, FREE = range(1, 6)
FLOAT32, INT8, INT64 = 6, 1, 4


def bits(number):
    return struct.unpack("<q", struct.pack("<d", number))[0]


def value(kind, **fields):
    return {0: ("B", kind), 1: {int(name[1:]): content for name, content in fields.items()}}


def tensor(dtype=FLOAT32, shape=(2, 3), order=None, constant=0, place=None):
    """Return a tensor; ``place`` are the memory and the low and high word of its address."""
    fields = {
        0: ("b", dtype),
        2: ("i", list(shape)),
        3: ("B", list(range(len(shape))) if order is None else list(order)),
        5: ("I", constant),
    }
    if place is not None:
        fields[6] = {i: ("I", number) for i, number in enumerate(place)}
    return {0: ("B", TENSOR), 1: fields}


def call(kind, **fields):
    return value(kind, **fields)


def method(
    values=(), inputs=(), outputs=(), calls=(), *, kernels=(), delegates=(), planned=(0,), name="forward"
):
    return {
        0: name,
        2: list(values),
        3: ("i", list(inputs)),
        4: ("i", list(outputs)),
        5: [{2: list(calls)}],
        6: [{0: base, 1: overload} for base, overload in kernels],
        7: list(delegates),
        8: ("q", list(planned)),
    }


def program(*methods, mark=b"ET12", **tables):
    """Return a program; ``tables`` are further fields of its root, ``f3`` the fourth."""
    root = {0: ("I", 7), 1: list(methods)}
    root |= {int(name[1:]): content for name, content in tables.items()}
    return flatbuffer(root, mark)


def with_segments(root, *segments, mark=b"ET12"):
    """Return a buffer with the extended header and segments behind it."""
    places, at = [], 0
    for data in segments:
        places.append({0: ("Q", at), 1: ("Q", len(data))})
        at += len(data) + 3
    flat = flatbuffer({**root, 4: places}, mark)
    # The header stands between mark and tables: the root's offset moves with it.
    (start,) = struct.unpack_from("<I", flat)
    header = struct.pack("<4sIQQQ", b"eh00", 32, len(flat) + 32, len(flat) + 32, at)
    moved = struct.pack("<I", start + 32) + flat[4:8] + header + flat[8:]
    return moved + b"".join(data + b"\xee" * 3 for data in segments)


def test_that_every_kind_of_value_is_read_with_its_content():
    values = (
        value(NONE),
        value(INT, f0=("q", -(2**40))),
        value(BOOL, f0=("B", 1)),
        value(BOOL, f0=("B", 0)),
        value(DOUBLE, f0=("q", bits(-2.5))),
        value(STRING, f0="text"),
        value(INTS, f0=("q", [3, -4])),
        value(DOUBLES, f0=("q", [bits(0.5), bits(1e300)])),
        value(BOOLS, f0=("B", [1, 0])),
        value(TENSORS, f0=("i", [9, -1])),
        value(OPTIONALS, f0=("i", [1])),
        value(99),
    )
    (read,) = decode(program(method(values))).methods
    assert [(v.kind, v.content) for v in read.values] == [
        ("none", None),
        ("int", -(2**40)),
        ("bool", True),
        ("bool", False),
        ("float", -2.5),
        ("text", "text"),
        ("list of int", (3, -4)),
        ("list of float", (0.5, 1e300)),
        ("list of bool", (1, 0)),
        ("list of tensors", (9, -1)),
        ("list of tensors", (1,)),
        ("unknown", None),
    ]


def test_that_tensors_are_read_with_type_shape_order_and_place():
    values = (
        tensor(INT8, (1, 8, 8, 4), (0, 2, 3, 1), 3),
        tensor(place=(2, 16, 0)),
        tensor(place=(1, 5, 1)),
        tensor(99, ()),
    )
    first, near, far, odd = decode(program(method(values))).method().values
    assert first == Value("tensor", "int8", (1, 8, 8, 4), (0, 2, 3, 1), 3)
    assert (first.memory_id, first.offset) == (-1, 0)
    assert near == Value("tensor", "float32", (2, 3), (0, 1), memory_id=2, offset=16)
    assert (far.memory_id, far.offset) == (1, (1 << 32) + 5)
    assert (odd.dtype, odd.bytes) == ("type 99", 0)


@for_each(
    ("dtype", "size"),
    [
        ("uint8", 1),
        ("int8", 1),
        ("bool", 1),
        ("int16", 2),
        ("float16", 2),
        ("bfloat16", 2),
        ("uint16", 2),
        ("int32", 4),
        ("float32", 4),
        ("uint32", 4),
        ("int64", 8),
        ("float64", 8),
        ("uint64", 8),
        ("complex64", 8),
        ("complex128", 16),
    ],
)
def test_that_a_tensor_has_the_bytes_of_its_type(dtype, size):
    # Scalar types as torch counts them: c10/core/ScalarType.h.
    number = {
        "uint8": 0,
        "int8": 1,
        "int16": 2,
        "int32": 3,
        "int64": 4,
        "float16": 5,
        "float32": 6,
        "float64": 7,
        "complex64": 9,
        "complex128": 10,
        "bool": 11,
        "bfloat16": 15,
        "uint16": 27,
        "uint32": 28,
        "uint64": 29,
    }[dtype]
    read = decode(program(method((tensor(number, (3, 5)), tensor(number, ()))))).method().values
    assert [v.dtype for v in read] == [dtype] * 2
    assert [v.bytes for v in read] == [15 * size, size]
    assert len(DTYPES) == 15


def test_that_sizes_of_damaged_shapes_are_bounded():
    assert Value("tensor", "float32", (2**31 - 1,) * 4).bytes == 2**48
    assert Value("tensor", "float32", (-3, 4)).bytes == 0
    assert Value("tensor", "int8", (2**20, 2**20)).bytes == 2**40


def test_that_instructions_are_read_with_kernel_delegate_and_target():
    calls = (
        call(KERNEL, f0=("i", 1), f1=("i", [0, 1])),
        call(DELEGATE, f0=("i", 0), f1=("i", [2])),
        call(MOVE, f0=("i", 3), f1=("i", 4)),
        call(JUMP, f0=("i", 5), f1=("i", 6)),
        call(FREE, f0=("i", 7)),
        call(77),
    )
    read = decode(program(method(calls=calls, kernels=(("aten::add", "out"), ("custom::op", ""))))).method()
    assert [(c.kind, c.index, c.values) for c in read.calls] == [
        ("kernel", 1, (0, 1)),
        ("delegate", 0, (2,)),
        ("move", -1, (3, 4)),
        ("jump", 6, (5,)),
        ("free", -1, ()),
        ("unknown", -1, ()),
    ]
    assert read.kernels == ("aten::add.out", "custom::op")


def test_that_a_program_has_its_methods_by_name_and_planned_memory():
    read = decode(program(method(planned=(0, 512, 64)), method(name="backward"), mark=b"ET13"))
    assert read.version == 7
    assert read.method().name == "forward"
    assert read.method("backward").name == "backward"
    assert read.method().planned == (512, 64)
    with refused("program-damaged"):
        decode(program()).method()
    with refused("program-damaged"):
        read.method().tensors((0,))


def test_that_constants_and_data_lie_in_the_file_or_in_segments():
    inline = program(method(), f2=[{}, {0: b"abcd"}])
    read = decode(inline)
    assert (read.constants, [bytes(c) for c in read.constant_data]) == ((0, 4), [b"", b"abcd"])
    root = {0: ("I", 1), 1: [method()], 5: {0: ("I", 1), 1: ("Q", [0, 0, 4])}, 7: [{0: "key", 1: ("I", 0)}]}
    read = decode(with_segments(root, b"named data", b"abcdefg"))
    assert [bytes(c) for c in read.constant_data] == [b"", b"abcd", b"efg"]
    assert {k: bytes(v) for k, v in read.named_data.items()} == {"key": b"named data"}
    assert read.named == {"key": 10}
    assert read.segment_bytes == 17


def test_that_the_first_contents_of_mutable_buffers_lie_in_a_segment_of_their_own():
    root = {
        0: ("I", 1),
        1: [method()],
        5: {0: ("I", 0), 1: ("Q", [0, 0])},
        # Only the first group is in use.
        6: [{0: ("I", 1), 1: ("Q", [0, 0, 4])}, {0: ("I", 0), 1: ("Q", [0, 0])}],
    }
    read = decode(with_segments(root, b"constant", b"abcdefg"))
    assert [bytes(c) for c in read.constant_data] == [b"", b"constant"]
    assert [bytes(c) for c in read.initial_data] == [b"", b"abcd", b"efg"]


def test_that_segments_of_a_program_without_the_extended_header_lie_where_they_say():
    made = program(method(delegates=(delegate(1, 0),)), f4=[{0: ("Q", 4), 1: ("Q", 4)}])
    assert bytes(decode(made).method().delegates[0].data) == b"ET12"
    # The shortest program of all, with the mark of the header but nothing of it.
    short = struct.pack("<I4s4siHH", 12, b"ET12", b"eh00", -4, 4, 4)
    assert decode(short).methods == ()


def shared(segment, count):
    """Return a program in which so many names stand for the same data."""
    named = [{0: f"key{number:04}", 1: ("I", 0)} for number in range(count)]
    return with_segments({0: ("I", 1), 1: [method()], 7: named}, segment)


@for_each(("size", "most"), [(1 << 16, 16), (300_000, 4)])
def test_that_parts_share_a_segment_up_to_a_mebibyte_or_four_times_the_file(size, most):
    assert set(decode(shared(bytes(size), most)).named.values()) == {size}
    with refused("program-damaged"):
        decode(shared(bytes(size), most + 1))


def test_that_a_tensor_without_content_has_no_type():
    (found,) = decode(program(method([{0: ("B", TENSOR)}]))).method().values
    assert (found.kind, found.dtype, found.bytes) == ("tensor", "", 0)


def test_that_a_single_offset_is_no_constant():
    root = {0: ("I", 1), 1: [method()], 5: {0: ("I", 0), 1: ("Q", [0])}}
    assert decode(with_segments(root, b"abcdefg")).constants == ()


def delegate(place, index, backend="Other"):
    return {0: backend, 1: {0: ("b", place), 1: ("I", index)}, 2: [{0: "spec", 1: b"value"}]}


def test_that_the_data_of_a_delegate_lies_in_the_file_or_in_a_segment():
    read = decode(program(method(delegates=(delegate(0, 1),)), f3=[{0: b"x"}, {0: b"blob"}]))
    (found,) = read.method().delegates
    assert (found.backend, bytes(found.data), found.specs) == ("Other", b"blob", {"spec": b"value"})
    root = {0: ("I", 1), 1: [method(delegates=(delegate(1, 0), delegate(1, 1)))]}
    first, second = decode(with_segments(root, b"one", b"second")).method().delegates
    assert (bytes(first.data), bytes(second.data)) == (b"one", b"second")
    for place in (0, 1):
        with refused("program-damaged"):
            decode(program(method(delegates=(delegate(place, 2),)), f3=[{0: b"x"}, {0: b"y"}]))


def test_that_a_segment_beyond_the_end_is_refused():
    root = {0: ("I", 1), 1: [method(delegates=(delegate(1, 0),))]}
    data = with_segments(root, b"segment")
    decode(data[:-3])
    with refused("program-damaged"):
        decode(data[:-4])


def test_that_test_vectors_are_read_from_a_bundle():
    def vector(dtype, shape, data):
        return {0: ("B", 1), 1: {0: ("b", dtype), 1: ("i", shape), 2: data, 3: ("B", [0, 1])}}

    number = {0: ("B", 2), 1: {0: ("q", 3)}}
    case = {0: [vector(FLOAT32, [1, 2], b"12345678"), number], 1: [vector(99, [1, 1], b"9")]}
    suites = [{0: "forward", 1: [case, case]}, {0: "other", 1: [case]}]
    read = decode(flatbuffer({1: suites, 2: program(method())}, b"BP08"))
    assert (read.test_cases, [c.method for c in read.cases]) == (3, ["forward", "forward", "other"])
    (given,), (expected,) = read.cases[0].inputs, read.cases[0].expected
    assert (given.dtype, given.shape, given.dim_order) == ("float32", (1, 2), (0, 1))
    assert bytes(given.data) == b"12345678"
    assert (expected.dtype, bytes(expected.data)) == ("type 99", b"9")
    with refused("program-damaged"):
        decode(flatbuffer({1: suites, 2: b"no program"}, b"BP08"))
    assert decode(program(method())).test_cases == 0


def ptd(segments, named):
    """Return a .ptd: a header behind the mark, tables, and segments behind them."""
    places, at = [], 0
    for data in segments:
        places.append({0: ("Q", at), 1: ("Q", len(data))})
        at += len(data)
    flat = flatbuffer({1: places, 2: [{0: k, 1: ("I", i)} for k, i in named.items()]}, b"FT01")
    size = struct.calcsize("<4sIQQQQ")
    (start,) = struct.unpack_from("<I", flat)
    base = len(flat) + size
    header = struct.pack("<4sIQQQQ", b"FH01", size, 0, base, base, at)
    return struct.pack("<I", start + size) + flat[4:8] + header + flat[8:] + b"".join(segments)


def test_that_weights_beside_a_program_are_read_by_their_keys():
    data = ptd((b"first", b"second!"), {"a": 1, "b": 0})
    assert {k: bytes(v) for k, v in decode_named_data(data).items()} == {"a": b"second!", "b": b"first"}
    for wrong in (
        data[: 8 + struct.calcsize("<4sIQQQQ") - 1],
        b"",
        program(method()),
        data[:4] + b"FT02" + data[8:],
    ):
        with refused("file-not-ptd"):
            decode_named_data(wrong)
    for wrong in (data[: 8 + struct.calcsize("<4sIQQQQ")], data[:-1]):
        with refused("program-damaged"):
            decode_named_data(wrong)


def small():
    values = (
        tensor(place=(1, 0, 0)),
        tensor(place=(1, 24, 0)),
        tensor(place=(1, 48, 0)),
        tensor(INT8, (4,), constant=1),
        value(INT, f0=("q", 2)),
        tensor(place=(2, 0, 0)),
        tensor(FLOAT32, ()),
    )
    calls = (
        call(KERNEL, f0=("i", 0), f1=("i", [0, 3, 4, 1])),
        call(KERNEL, f0=("i", 0), f1=("i", [1, 1, 99, 2])),
        call(KERNEL, f0=("i", 7), f1=("i", [2] * 18)),
        call(DELEGATE, f0=("i", 0), f1=("i", [2, 6])),
        call(DELEGATE, f0=("i", 1), f1=("i", [])),
    )
    return program(
        method(
            values,
            (0,),
            (2,),
            calls,
            kernels=(("aten::b", "out"), ("aten::a", "out")),
            delegates=(delegate(0, 0),),
            planned=(0, 72, 100),
        ),
        f2=[{}, {0: b"four"}, {0: b"unused"}],
        f3=[{0: b"blob"}],
    )


def test_that_the_whole_description_says_what_the_program_holds():
    found = description.describe(small(), whole=True)
    assert (found["methods"], found["method"]) == (["forward"], "forward")
    assert found["inputs"] == [{"type": "tensor", "dtype": "float32", "shape": [2, 3]}]
    assert found["outputs"] == found["inputs"]
    assert found["delegates"] == [
        {"index": 0, "backend": "Other", "bytes": 4, "compile_specs": {"spec": "value"}}
    ]
    assert found["kernels"] == ["aten::a.out", "aten::b.out"]
    assert found["instructions"] == {"kernel": 3, "delegate": 2}
    assert found["constants_bytes"] == 10
    assert found["bytes"] == len(small())
    # 4,096 bytes, 96 a value, 64 an instruction and the planned buffers, in KiB.
    assert found["memory"] == {
        "method_pool_bytes": 6 * 1024, "scratch_pool_bytes": 0, "planned_bytes": [72, 100],
    }  # fmt: skip
    shown = "float32 2x3"
    assert [(c["number"], c["kind"], c["name"]) for c in found["calls"]] == [
        (0, "kernel", "aten::b.out"), (1, "kernel", "aten::b.out"),
        (2, "kernel", "(not in the program)"), (3, "delegate", "Other 0"),
        (4, "delegate", "(not in the program) 1"),
    ]  # fmt: skip
    assert found["calls"][0]["values"] == (
        f"0: {shown}", "3: int8 4", "4: int", f"1: {shown}",
    )  # fmt: skip
    assert found["calls"][1]["values"][2] == "99: not in the program"
    assert found["calls"][2]["values"] == (*[f"2: {shown}"] * 16, "and 2 more")
    assert found["calls"][3]["values"][1] == "6: float32 scalar"
    assert [(p["index"], p["role"], p["memory"], p["address"], p["first"], p["last"])
            for p in found["plan"]] == [
        (0, "input", 1, 0, 0, 0), (1, "activation", 1, 24, 0, 1), (2, "output", 1, 48, 1, 4),
        (5, "activation", 2, 0, 0, 4),
    ]  # fmt: skip
    assert all(p["bytes"] == 24 for p in found["plan"])
    assert found["constants"] == [
        {"index": 1, "bytes": 4, "dtype": "int8", "shape": (4,)},
        {"index": 2, "bytes": 6, "dtype": "", "shape": ()},
    ]
    assert set(description.describe(small())) == set(found) - {"calls", "plan", "constants"}


def test_that_calls_are_counted_by_kernel_with_those_never_called():
    counted = description.calls_of_kernels(decode(small()).method())
    assert counted == {"aten::a.out": 0, "aten::b.out": 2}


def test_that_an_order_in_memory_is_told_where_it_is_not_the_usual_one():
    values = (tensor(INT8, (1, 8, 8, 4), (0, 2, 3, 1)), tensor(INT8, (1, 2), (0, 0)), value(INT, f0=("q", 2)))
    found = description.describe(program(method(values, (0, 1, 2), ())))
    assert found["inputs"] == [
        {"type": "tensor", "dtype": "int8", "shape": [1, 8, 8, 4], "dim_order": [0, 2, 3, 1]},
        {"type": "tensor", "dtype": "int8", "shape": [1, 2]},
        {"type": "int"},
    ]


@for_each(
    ("planned", "values", "calls", "kib"),
    [
        ((0,), 0, 0, 4),
        ((0, 1), 0, 0, 5),
        ((0, 1024), 0, 0, 5),
        ((0, -5), 0, 0, 4),
        ((0, 1024 - 96), 1, 0, 5),
        ((0, 1024 - 95), 1, 0, 6),
        ((0, 1024 - 64), 0, 1, 5),
        ((0, 1024 - 63), 0, 1, 6),
    ],
)
def test_that_the_pool_of_a_method_is_computed_from_its_parts(planned, values, calls, kib):
    made = method([value(NONE)] * values, calls=[call(FREE)] * calls, planned=planned)
    assert description.memory(program(made)).method_pool_bytes == kib * 1024


def vela_blob(scratch):
    def block(name, data, size=None):
        padded = data + bytes(-len(data) % 16)
        return struct.pack("<16sI?11x", name, len(data) if size is None else size, False) + padded

    sizes = struct.pack("<I", scratch)
    return block(b"vela_bin_stream", b"") + block(b"scratch_size", sizes) + block(b"vela_end_stream", b"")


@for_each(("scratch", "kib"), [((1008,), 1), ((1009,), 2), ((5, 3000, 7), 3)])
def test_that_the_scratch_pool_is_that_of_the_largest_delegate(scratch, kib):
    made = method(delegates=[delegate(0, i, "EthosUBackend") for i in range(len(scratch))])
    data = program(made, f3=[{0: vela_blob(size)} for size in scratch])
    assert description.memory(data).scratch_pool_bytes == kib * 1024
    found = description.describe(data)["delegates"]
    assert [d["scratch_bytes"] for d in found] == list(scratch)


def test_that_a_method_without_instructions_has_a_plan():
    read = decode(program(method([tensor(place=(0, 0, 0)), tensor(place=(1, 8, 0))], (0,), (1,))))
    plan = description.planned(read.method())
    assert [(p.memory, p.role, p.first, p.last) for p in plan] == [(0, "input", 0, 0), (1, "output", 0, 0)]
    one = program(method([tensor(place=(0, 0, 0))], calls=[call(FREE)]))
    (unused,) = description.planned(decode(one).method())
    assert (unused.role, unused.first, unused.last) == ("activation", 0, 0)


@for_each(("count", "more"), [(16, ()), (17, ("and 1 more",))])
def test_that_sixteen_values_of_an_instruction_are_shown(count, more):
    values = [value(NONE)] * count
    made = method(values, calls=[call(KERNEL, f0=("i", 0), f1=("i", list(range(count))))])
    (shown,) = description.instructions(decode(program(made)).method())
    assert shown.values[16:] == more
    assert shown.values[15] == "15: none"
