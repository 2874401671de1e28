"""The instructions of a program around its delegates: values, jumps, lists, and damaged calls."""

import numpy as np
import pytest

from tests.for_each import for_each
from tests.problems import refused
from tests.workbench.npu.streams import COPY, Stream
from workbench.errors import WorkbenchError
from workbench.npu.program import Program, Tensor, load
from workbench.npu.state import Limits, Options
from workbench.pte import vela_stream
from workbench.pte.program import Call, Delegate, Method, Value
from workbench.pte.vela_stream import ETHOS_U

INPUT = np.arange(-16, 16, dtype=np.int8).reshape(1, 1, 4, 8)
CLIPPED = "quantized_decomposed::quantize_per_tensor.out"


def tensor(*shape, dtype="float32", order=None, **more):
    return Value("tensor", dtype, shape, order or tuple(range(len(shape))), **more)


def number(content, kind="int"):
    return Value(kind, content=content)


def program(values, calls, inputs=(0,), outputs=(1,), *, kernels=(), delegates=(), constants=(), initial=()):
    method = Method("forward", tuple(values), inputs, outputs, kernels, delegates, tuple(calls), ())
    return Program(method, constants, initial=initial)


def ran(made, *inputs, operators=None, options=None):
    return [o.tolist() for o in made.run(list(inputs), options, operators).outputs]


def test_that_a_move_and_a_free_leave_a_value():
    made = program([tensor(2), tensor(2)], [Call("move", values=(0, 1)), Call("free")])
    assert ran(made, np.array([1.5, -2.0], np.float32)) == [[1.5, -2.0]]


@for_each(("condition", "chosen"), [([True], 10), ([False], 20)])
def test_that_a_jump_is_taken_where_its_condition_is_false(condition, chosen):
    values = [tensor(1, dtype="bool"), tensor(), number(10), number(20), number(False, "bool")]
    calls = [
        Call("jump", 3, (0,)),
        Call("move", values=(2, 1)),
        Call("jump", 4, (4,)),
        Call("move", values=(3, 1)),
    ]
    assert ran(program(values, calls), np.array(condition)) == [chosen]


def test_that_a_loop_may_go_back_to_the_first_instruction():
    values = [tensor(1, dtype="bool"), tensor(), number(True, "bool"), number(False, "bool"), number(7)]
    calls = [
        Call("jump", 2, (0,)),
        Call("jump", 4, (3,)),
        Call("move", values=(2, 0)),
        Call("jump", 0, (3,)),
        Call("move", values=(4, 1)),
    ]
    assert ran(program(values, calls), np.array([False])) == [7]


def test_that_a_loop_without_an_end_and_a_jump_before_the_start_are_refused():
    values = [tensor(1), tensor(1), number(False, "bool")]
    turn = np.zeros(1, np.float32)
    few = Options(limits=Limits(steps=50))
    with refused("program-damaged"):
        ran(program(values, [Call("jump", 0, (2,))]), turn, options=few)
    with refused("program-damaged"):
        ran(program(values, [Call("jump", -1, (2,))]), turn, options=few)
    steps = [Call("move", values=(0, 1))] * 50
    assert ran(program(values, steps), turn, options=few) == [[0.0]]
    with refused("program-damaged"):
        ran(program(values, [*steps, Call("free")]), turn, options=few)


@for_each(
    "call",
    [
        Call("something"),
        Call("kernel", 1, (0, 1)),
        Call("kernel", -1, (0, 1)),
        Call("kernel", 0, ()),
        Call("delegate", 0, (0, 1)),
        Call("delegate", -1, (0, 1)),
    ],
)
def test_that_calls_of_what_is_not_there_are_refused(call):
    made = program([tensor(1), tensor(1)], [call], kernels=(CLIPPED,))
    with refused("program-damaged"):
        ran(made, np.zeros(1, np.float32))


def test_that_a_kernel_gets_its_arguments_without_its_outputs():
    seen = []

    def operators(name, arguments, outputs):
        seen.append((name, arguments, [(o.dtype, o.shape) for o in outputs]))
        return [np.full(o.shape, 7, o.dtype) for o in outputs]

    values = [
        tensor(2),
        tensor(3),
        tensor(4, dtype="int32"),
        number(5),
        number((3, 3), "list of int"),
        number((0.5, 2.0), "list of float"),
        number("text", "text"),
        number(None, "none"),
        number((0, 2), "list of tensors"),
        number((1, 2), "list of tensors"),
    ]
    taken = np.array([1.0, 2.0], np.float32)
    call = Call("kernel", 0, (0, 3, 4, 5, 6, 7, 1, 1))
    assert ran(program(values, [call], kernels=("a::b",)), taken, operators=operators) == [[7.0] * 3]
    name, (first, *others), planned = seen[0]
    assert (name, first.tolist()) == ("a::b", [1.0, 2.0])
    assert others == [5, [5, 5], [0.5, 2.0], "text", None]
    assert planned == [("float32", (3,))]
    several = program(values, [Call("kernel", 0, (0, 1, 2, 9))], outputs=(1, 2), kernels=("a::c",))
    assert ran(several, taken, operators=operators) == [[7.0] * 3, [7] * 4]
    assert [value.tolist() for value in seen[1][1]] == [[1.0, 2.0]]
    assert seen[1][2] == [("float32", (3,)), ("int32", (4,))]


def test_that_a_list_of_outputs_may_have_two_values():
    counts = []

    def operators(name, arguments, outputs):
        counts.append((name, len(arguments)))
        return [np.full(o.shape, 7, o.dtype) for o in outputs]

    values = [
        tensor(2),
        tensor(3),
        tensor(4),
        number(5),
        number((1, 2), "list of tensors"),
        number((1, 2), "list of tensors"),
    ]
    call = Call("kernel", 0, (0, 3, 4, 5))
    split = program(values, [call], outputs=(1, 2), kernels=("a::split.out",))
    assert ran(split, np.ones(2, np.float32), operators=operators) == [[7.0] * 3, [7.0] * 4]
    assert counts == [("a::split.out", 2)]


@for_each("memory_id", [0, 1])
def test_that_a_tensor_that_nothing_writes_is_a_view_of_what_lies_at_its_address(memory_id):
    place = {"memory_id": memory_id, "offset": 64}
    values = [
        tensor(2, 3, order=(1, 0), **place),
        tensor(3, 2, **place),
        tensor(4, **place),
        tensor(3, 2, memory_id=2, offset=64),
    ]
    given = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert ran(program(values, []), given) == [[[0, 3], [1, 4], [2, 5]]]
    for elsewhere in (2, 3):
        with refused("program-damaged"):
            ran(program(values, [], outputs=(elsewhere,)), given)


def test_that_numbers_in_a_list_are_an_argument_also_where_they_are_those_of_the_outputs():
    seen = []

    def operators(name, arguments, outputs):
        seen.append((name, [np.asarray(one).tolist() for one in arguments], len(outputs)))
        return [np.full(o.shape, 7, o.dtype) for o in outputs]

    values = [
        tensor(2),
        tensor(3),
        tensor(4),
        number((1.0, 2.0), "list of float"),
        number((1, 2), "list of tensors"),
    ]
    made = program(values, [Call("kernel", 0, (0, 3, 4))], outputs=(1, 2), kernels=("a::b",))
    assert ran(made, np.ones(2, np.float32), operators=operators) == [[7.0] * 3, [7.0] * 4]
    assert seen == [("a::b", [[1.0, 1.0], [1.0, 2.0]], 2)]


def test_that_the_number_of_an_instruction_of_an_unknown_kind_is_named():
    made = program([tensor(1), tensor(1)], [Call("free"), Call("free"), Call("something")])
    with refused("program-damaged") as caught:
        ran(made, np.zeros(1, np.float32))
    assert "instruction 2 " in caught.value.infos[0].message


def test_that_a_tensor_without_an_address_is_no_view_of_another():
    with refused("program-damaged"):
        ran(program([tensor(2), tensor(2)], []), np.zeros(2, np.float32))


@for_each("given", [0, 2])
def test_that_a_kernel_with_another_number_of_outputs_is_refused(given):
    made = program([tensor(1), tensor(1)], [Call("kernel", 0, (0, 1))], kernels=("a::b",))
    answer = [np.zeros(1, np.float32)] * given
    with refused("program-damaged"):
        ran(made, np.zeros(1, np.float32), operators=lambda *_: answer)


def test_that_a_kernel_with_wrong_arguments_is_refused():
    made = program([tensor(1), tensor(1)], [Call("kernel", 0, (0, 1))], kernels=(CLIPPED,))
    with refused("program-damaged"):
        ran(made, np.zeros(1, np.float32))


def test_that_constants_are_read_by_their_number_and_in_their_order_in_memory():
    stored = memoryview(np.arange(6, dtype=np.int16).tobytes())
    values = [
        tensor(1),
        tensor(3, 2, dtype="int16", order=(1, 0), constant=1),
        tensor(6, dtype="int16", constant=1),
    ]
    made = program(values, [], outputs=(1, 2), constants=(memoryview(b""), stored))
    turned = np.arange(6).reshape(2, 3).T.tolist()
    assert ran(made, np.zeros(1, np.float32)) == [turned, list(range(6))]


@for_each(
    "value",
    [
        tensor(3, dtype="int16"),
        tensor(3, dtype="int16", constant=2),
        tensor(4, dtype="int16", constant=1),
        tensor(-3, dtype="int16", constant=1),
    ],
)
def test_that_a_constant_that_is_not_there_is_refused(value):
    made = program([tensor(1), value], [], constants=(memoryview(b""), memoryview(bytes(6))))
    with refused("program-damaged"):
        ran(made, np.zeros(1, np.float32))


@for_each("memory_id", [0, 1])
def test_that_a_mutable_buffer_begins_with_its_first_content_and_not_with_a_constant(memory_id):
    constant, first = np.float32([1, 2]).tobytes(), np.float32([3, 4]).tobytes()
    values = [tensor(1), tensor(2, constant=1, memory_id=memory_id), tensor(2, constant=1)]
    made = program(
        values,
        [],
        outputs=(1, 2),
        constants=(memoryview(b""), memoryview(constant)),
        initial=(memoryview(b""), memoryview(first)),
    )
    assert ran(made, np.zeros(1, np.float32)) == [[3, 4], [1, 2]]


def test_that_a_mutable_buffer_without_content_is_refused():
    values = [tensor(1), tensor(2, constant=1, memory_id=1)]
    made = program(values, [], constants=(memoryview(b""), memoryview(bytes(8))))
    with refused("program-damaged"):
        ran(made, np.zeros(1, np.float32))


def test_that_a_constant_may_have_no_elements():
    made = program([tensor(1), tensor(2, 0, constant=1)], [], constants=(memoryview(b""), memoryview(b"")))
    assert ran(made, np.zeros(1, np.float32)) == [[[], []]]


def test_that_a_single_number_is_a_tensor_without_axes():
    made = program(
        [tensor(1), tensor(dtype="float32", constant=1)],
        [],
        constants=(memoryview(b""), memoryview(np.float32(2.5).tobytes())),
    )
    assert ran(made, np.zeros(1, np.float32)) == [2.5]


def delegated(calls=None, **fields):
    """A program whose delegate copies 32 bytes; ``fields`` replace those of its tensors."""
    blob = Stream().set(COPY).do("POOL", 1).do("STOP").blob()
    shape = {"dtype": "int8", "shape": (1, 1, 4, 8), "dim_order": (0, 1, 2, 3)} | fields
    values = [Value("tensor", "int8", (1, 1, 4, 8), (0, 1, 2, 3)), Value("tensor", **shape)]
    return program(
        values, calls or [Call("delegate", 0, (0, 1))], delegates=(Delegate(ETHOS_U, memoryview(blob), {}),)
    )


def test_that_a_delegate_gives_a_tensor_of_the_program():
    (found,) = delegated().run([INPUT]).outputs
    assert np.array_equal(found, INPUT)
    (found,) = delegated(shape=(8, 4), dim_order=(1, 0)).run([INPUT]).outputs
    assert np.array_equal(found, INPUT.reshape(4, 8).T)
    result = delegated().run([INPUT])
    assert result.peak == {0: {0: 0, 1: 96, 2: 0}}
    assert [one.command for one in result.counters] == ["NPU_OP_POOL"]


def test_that_tensors_of_operations_are_kept_by_delegate_and_offset():
    made = delegated()
    (offset,) = [c.offset for c in made.machines[0].commands if c.name == "NPU_OP_POOL"]
    result = made.run([INPUT], Options(record=frozenset({(0, offset), (1, offset)})))
    assert list(result.accesses) == [(0, offset)]
    read, written = result.accesses[0, offset]
    assert (read.side, read.written, read.address) == ("IFM", False, 0)
    assert (written.side, written.written, written.address) == ("OFM", True, 64)
    for access, base in ((read, 0), (written, 64)):
        assert access.values.reshape(-1).tolist() == INPUT.reshape(-1).tolist()
        assert access.places.reshape(-1).tolist() == list(range(base, base + 32))
    assert delegated().run([INPUT]).accesses == {}


@for_each("values", [(0,), (0, 1, 1), ()])
def test_that_a_delegate_needs_all_of_its_tensors(values):
    with refused("program-damaged"):
        delegated([Call("delegate", 0, values)]).run([INPUT])


@for_each("fields", [{"shape": (33,), "dim_order": (0,)}, {"dtype": "bits"}])
def test_that_a_delegate_cannot_fill_another_tensor(fields):
    with pytest.raises(WorkbenchError) as caught:
        delegated(**fields).run([INPUT])
    assert caught.value.codes in {("program-damaged",), ("tensor-type-not-simulated",)}


def test_that_only_tensors_can_be_inputs_and_outputs():
    with refused("program-value-not-tensor"):
        program([number(3), tensor(1)], [])
    with refused("program-value-not-tensor"):
        program([tensor(1), number(3)], [Call("free")])


@for_each(
    ("dtype", "given", "fits"),
    [
        ("int8", np.int8, True),
        ("int8", np.uint8, True),
        ("uint8", np.bool_, True),
        ("int8", np.int16, False),
        ("int16", np.uint16, True),
        ("float32", np.float64, True),
        ("float32", np.int32, False),
        ("int32", np.float32, False),
        ("bool", np.int8, True),
    ],
)
def test_that_inputs_have_the_kind_and_the_width_of_the_program(dtype, given, fits):
    made = program([tensor(2, dtype=dtype), tensor(2, dtype=dtype)], [Call("move", values=(0, 1))])
    if fits:
        (found,) = made.run([np.ones(2, given)]).outputs
        assert (found.dtype, found.tolist()) == (np.dtype(dtype), [1, 1])
    else:
        with refused("npu-input"):
            made.run([np.ones(2, given)])


def test_that_inputs_have_the_number_and_the_shape_of_the_program():
    made = program([tensor(2, 3), tensor(2, 3)], [Call("move", values=(0, 1))])
    for wrong in ([], [np.zeros((3, 2), np.float32)], [np.zeros((2, 3), np.float32)] * 2):
        with refused("npu-input"):
            made.run(wrong)
    raw = load(Stream().set(COPY).do("POOL", 1).do("STOP").blob())
    # Of the leading axes of length one, one is kept.
    assert raw.run([INPUT.reshape(1, -1)]).outputs[0].shape == (1, 32)
    with refused("npu-input"):
        raw.run([INPUT.reshape(-1)[:31]])


def raw(shape, item_bytes=1):
    """Return the delegate that copies 32 bytes, with another description of its input."""
    blob = Stream().set(COPY).do("POOL", 1).do("STOP").blob()
    parts = {name: block.data for name, block in vela_stream.blocks(blob).items()}
    return vela_stream.packed(parts | {"inputs": [vela_stream.Port(shape, item_bytes, 0, 1)]})


@for_each(
    ("shape", "kept"),
    [
        ((1, 1, 1, 1, 4, 8), (1, 4, 8)),
        ((2, 1, 1, 1, 2, 8), (2, 1, 1, 1, 2, 8)),
        ((1, 2, 1, 1, 2, 8), (1, 2, 1, 1, 2, 8)),
        ((1, 1, 1, 1, 1, 1), (1, 1)),
    ],
)
def test_that_of_the_leading_axes_of_a_raw_delegate_one_is_kept(shape, kept):
    assert load(raw(shape)).inputs[0].shape == kept


@for_each(("item_bytes", "dtype"), [(1, "int8"), (2, "int16"), (4, "int32"), (8, "int64")])
def test_that_a_raw_delegate_has_integers_of_its_widths(item_bytes, dtype):
    (taken,) = load(raw((1, 1, 1, 1, 1, 4), item_bytes)).inputs
    assert (taken.dtype, taken.shape, taken.exact) == (dtype, (1, 4), False)
    assert Tensor("int8", (4,)).exact


@for_each(
    ("shape", "item_bytes"),
    [((1, 1, 1, 1, 4, 8), 3), ((1, 1, 1, 1, 4, 8), 0), ((1, 1, 1, 1, 0, 8), 1), ((1, 1, 1, 1, -4, -8), 1)],
)
def test_that_a_raw_delegate_with_a_size_that_cannot_be_is_refused(shape, item_bytes):
    with refused("program-damaged"):
        load(raw(shape, item_bytes))


def test_that_a_delegate_needs_commands_but_no_weights():
    blob = Stream().set(COPY).do("POOL", 1).do("STOP").blob()
    parts = {name: block.data for name, block in vela_stream.blocks(blob).items()}
    without = {
        name: vela_stream.packed({at: part for at, part in parts.items() if at != name})
        for name in ("weight_data", "cmd_data")
    }
    (found,) = load(without["weight_data"]).run([INPUT]).outputs
    assert np.array_equal(found.reshape(-1), INPUT.reshape(-1))
    with refused("delegate-block-missing"):
        load(without["cmd_data"])
