"""Every part of a TensorFlow Lite file, from files written by hand; codes against Vela's schema."""

import ast
import struct
from importlib import resources

from tests.for_each import for_each
from tests.problems import refused
from tests.workbench.pte.written import flatbuffer
from workbench.pte import vela_stream
from workbench.pte.program import Call
from workbench.pte.vela_tflite import decode_tflite

NAMES = (
    "float32",
    "float16",
    "int32",
    "uint8",
    "int64",
    "bool",
    "int16",
    "int8",
    "float64",
    "uint32",
    "uint16",
)
COMMANDS, WEIGHTS = b"commands" * 2, b"weights." * 3


def numbers_of(name):
    """Return the numbers of an enumeration of TensorFlow Lite, as Vela carries it."""
    path = resources.files("ethosu") / "vela" / "tflite" / f"{name}.py"
    (definition,) = [n for n in ast.parse(path.read_text()).body if isinstance(n, ast.ClassDef)]
    return {
        n.targets[0].id: n.value.value
        for n in definition.body
        if isinstance(n, ast.Assign) and isinstance(n.value, ast.Constant)
    }


def tensor(shape, kind=9, buffer=0):
    return {0: ("i", list(shape)), 1: ("b", kind), 2: ("I", buffer)}


def operator(code, inputs, outputs):
    return {0: ("I", code), 1: ("i", list(inputs)), 2: ("i", list(outputs))}


def custom(name="ethos-u"):
    return {0: ("b", 32), 1: name, 3: ("i", 32)}


def builtin(number):
    return {0: ("b", min(number, 127)), 3: ("i", number)}


# Tensors 0 to 3 are commands, constants, scratch and fast scratch; 4 is the input, 5 the output.
TENSORS = (
    tensor([16], 3, 1),
    tensor([24], 3, 2),
    tensor([4096], 3),
    tensor([8], 3),
    tensor([1, 4, 4, 3], 9),
    tensor([1, 10], 7),
)
CODES = (custom(),)
DELEGATE = operator(0, [0, 1, 2, 3, 4], [5])
OFFSETS = (-1, -1, 0, -1, 64, 256)


def graph(tensors=TENSORS, operators=(DELEGATE,), name="net", inputs=(4,), outputs=(5,)):
    made = {0: list(tensors), 1: ("i", list(inputs)), 2: ("i", list(outputs)), 3: list(operators)}
    return made | ({4: name} if name else {})


def model(*graphs, codes=CODES, offsets=OFFSETS, allocation=None, buffers=None):
    places = struct.pack(f"<{len(offsets)}i", *offsets)
    data = allocation if allocation is not None else struct.pack("<3i", 0, 0, len(offsets)) + places
    kept = buffers or [{}, {0: COMMANDS}, {0: WEIGHTS}, {0: data}]
    entries = [{0: "Other", 1: ("I", 0)}, {0: "OfflineMemoryAllocation", 1: ("I", 3)}]
    root = {0: ("I", 3), 1: list(codes), 2: list(graphs or (graph(),)), 4: kept, 6: entries}
    return flatbuffer(root, b"TFL3")


def decoded(*graphs, **parts):
    return decode_tflite(model(*graphs, **parts)).methods[0]


def test_that_types_are_those_of_the_schema():
    known = numbers_of("TensorType")
    for name in NAMES:
        method = decoded(graph([*TENSORS[:5], tensor([1, 10], known[name.upper()])]))
        assert method.values[5].dtype == name
    strange = decoded(graph([*TENSORS[:5], tensor([1, 10], known["STRING"])]))
    assert strange.values[5].dtype == ""


def test_that_operators_are_named_as_in_the_schema_or_by_their_number():
    known = numbers_of("BuiltinOperator")
    named = (
        "ADD",
        "CONV_2D",
        "DEPTHWISE_CONV_2D",
        "DEQUANTIZE",
        "FULLY_CONNECTED",
        "LOGISTIC",
        "MUL",
        "RESHAPE",
        "SOFTMAX",
        "TANH",
        "PAD",
        "GATHER",
        "TRANSPOSE",
        "MEAN",
        "EXP",
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        "CAST",
        "ARG_MAX",
        "SLICE",
        "SUM",
        "QUANTIZE",
        "BATCH_MATMUL",
        "IF",
        "WHILE",
    )
    for name in named:
        codes = (custom(), builtin(known[name]))
        method = decoded(graph(operators=[operator(1, [4], [5])]), codes=codes)
        assert method.kernels == (f"tflite::{name}",)
    codes = (custom(), builtin(147), custom("own"))
    operators = [operator(n, [4], [5]) for n in (1, 2, 1)]
    method = decoded(graph(operators=operators), codes=codes)
    assert method.kernels == ("tflite::builtin operator 147", "own")
    assert [call.index for call in method.calls] == [0, 1, 0]


def test_that_an_older_file_has_its_operators_in_the_older_field():
    old = {0: ("b", 25)}
    method = decoded(graph(operators=[operator(1, [4], [5])]), codes=(custom(), old))
    assert method.kernels == ("tflite::SOFTMAX",)


def test_that_tensors_have_their_place_in_the_arena_or_their_data():
    method = decoded()
    values = method.values
    assert [(v.memory_id, v.offset) for v in values] == [(-1, 0), (-1, 0), (1, 0), (-1, 0), (1, 64), (1, 256)]
    assert [v.constant for v in values] == [1, 2, 0, 0, 0, 0]
    assert values[4].dim_order == (0, 1, 2, 3)
    assert values[4].shape == (1, 4, 4, 3)
    assert method.planned == (0, 4096)
    assert (method.inputs, method.outputs, method.name) == ((4,), (5,), "net")


def test_that_only_the_first_graph_has_places():
    program = decode_tflite(model(graph(), graph(name="")))
    assert [m.name for m in program.methods] == ["net", "main"]
    assert {v.memory_id for v in program.methods[1].values} == {-1}
    assert program.methods[1].planned == (0, 0)
    assert program.version == 3
    assert program.constants == (0, 16, 24, 36)


def test_that_the_operator_of_vela_becomes_a_delegate():
    method = decoded()
    assert method.calls == (Call("delegate", 0, (4, 5)),)
    (delegate,) = method.delegates
    blocks = vela_stream.blocks(delegate.data)
    assert bytes(blocks["cmd_data"].data) == COMMANDS
    assert bytes(blocks["weight_data"].data) == WEIGHTS
    assert vela_stream.scratch_bytes(blocks) == 4096
    (taken,), (given,) = (vela_stream.ports(blocks, side) for side in ("inputs", "outputs"))
    assert (taken.offset, taken.bytes, taken.item_bytes, taken.region) == (64, 48, 1, 1)
    assert (given.offset, given.bytes, given.item_bytes) == (256, 20, 2)


def test_that_operators_around_the_delegate_keep_their_values():
    codes = (custom(), builtin(25))
    method = decoded(graph(operators=[DELEGATE, operator(1, [5, -1], [5]), DELEGATE]), codes=codes)
    assert method.calls == (
        Call("delegate", 0, (4, 5)),
        Call("kernel", 0, (5, 5)),
        Call("delegate", 1, (4, 5)),
    )


@for_each(
    "parts",
    [
        {"allocation": struct.pack("<2i", 0, 0)},
        {"allocation": struct.pack("<3i", 0, 0, 1)},
        {"buffers": [{}]},
    ],
)
def test_that_an_allocation_shorter_than_it_says_is_damage(parts):
    with refused("program-damaged"):
        decoded(**parts)


@for_each(
    "operators",
    [
        [operator(1, [4], [5])],
        [operator(0, [0, 1, 2], [5])],
        [operator(0, [0, 1, 2, 3, 9], [5])],
        [operator(0, [0, 1, 2, 3, 4], [-1])],
        [operator(0, [0, 1, 2, 6, 4], [5])],
    ],
)
def test_that_operators_of_what_is_not_there_are_damage(operators):
    with refused("program-damaged"):
        decoded(graph(operators=operators))


def test_that_the_memories_alone_are_enough_for_an_operator():
    method = decoded(graph(operators=[operator(0, [0, 1, 2, 3], [5])]))
    assert method.calls == (Call("delegate", 0, (5,)),)
    short = decoded(offsets=OFFSETS[:5])
    assert short.values[5].memory_id == -1
    assert decoded(allocation=struct.pack("<4i", 0, 0, 1, 32)).values[0].offset == 32


def test_that_a_file_without_the_operator_was_not_compiled():
    with refused("tflite-not-compiled"):
        decoded(codes=(custom("other"),))


def test_that_places_end_with_those_that_are_counted():
    extra = struct.pack("<8i", 0, 0, 4, -1, -1, 0, 7, 64)
    assert [(v.memory_id, v.offset) for v in decoded(allocation=extra).values[2:]] == [
        (1, 0),
        (1, 7),
        (-1, 0),
        (-1, 0),
    ]
    for count in (0, 1):
        exact = struct.pack(f"<{3 + count}i", 0, 0, count, *[16] * count)
        assert [v.offset for v in decoded(allocation=exact).values[:2]] == [16 * count, 0]


def test_that_a_buffer_of_one_byte_is_data():
    buffers = [{}, {0: b"c"}, {0: b"w"}, {0: struct.pack("<3i", 0, 0, 0)}]
    assert [v.constant for v in decoded(buffers=buffers).values[:3]] == [1, 2, 0]


def test_that_the_first_tensor_may_be_one_of_an_operator_on_the_cpu():
    codes = (custom(), builtin(25))
    method = decoded(graph(operators=[operator(1, [0, -1], [5])]), codes=codes)
    assert method.calls == (Call("kernel", 0, (0, 5)),)


def test_that_ports_have_the_bytes_of_an_element_also_where_there_is_one_or_none():
    tensors = [*TENSORS[:4], tensor([1], 7), tensor([0, 3], 7)]
    (delegate,) = decoded(graph(tensors)).delegates
    blocks = vela_stream.blocks(delegate.data)
    (taken,), (given,) = (vela_stream.ports(blocks, side) for side in ("inputs", "outputs"))
    assert (taken.item_bytes, taken.bytes) == (2, 2)
    assert (given.item_bytes, given.bytes) == (0, 0)


def test_that_scratch_is_told_up_to_what_32_bits_hold():
    for shape, told in (([1 << 30, 4], (1 << 32) - 1), ([1 << 30, 3], 3 << 30)):
        tensors = [*TENSORS[:2], tensor(shape, 3), *TENSORS[3:]]
        (delegate,) = decoded(graph(tensors)).delegates
        assert vela_stream.scratch_bytes(vela_stream.blocks(delegate.data)) == told


def test_that_a_compiled_file_has_no_segments_and_no_test_cases():
    program = decode_tflite(model())
    assert (program.segment_bytes, program.test_cases, program.cases) == (0, 0, ())
