"""A TensorFlow Lite file that Vela compiled, as a program: to look at it beside a ``.pte``.

The custom operator ``ethos-u`` becomes a delegate with the blocks that ExecuTorch gives Vela's
output. Sources: TensorFlow Lite, ``schema.fbs`` (tables and the order of their fields); Vela 5.1.0,
``tflite_writer.py`` (inputs of the operator: commands, constants, scratch, fast scratch, tensors;
the metadata ``OfflineMemoryAllocation``: version, subgraph, count, and an offset [bytes] for each
tensor).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from workbench.errors import failure
from workbench.pte.flat import Data, Table, damaged
from workbench.pte.program import Call, Delegate, Method, Program, Value
from workbench.pte.tflite_model import DTYPES, VELA_OPERATOR, operator_name
from workbench.pte.vela_stream import ETHOS_U, FOOTER, HEADER, Port, packed

_FIRST_TENSOR = 4
_ARENA = 1
_ALLOCATION = "OfflineMemoryAllocation"
_NO_OFFSET = -1
# Sizes of ports are 32-bit integers.
_MOST = 2**31 - 1


@dataclass(frozen=True)
class _Model:
    """The parts of the file that all operators refer to."""

    buffers: tuple[memoryview, ...]
    operators: tuple[str, ...]

    def data(self, index: int) -> memoryview:
        """Return the data of a buffer; empty for a tensor that is computed."""
        if not 0 <= index < len(self.buffers):
            raise damaged("a tensor names a buffer that does not exist")
        return self.buffers[index]


@dataclass(frozen=True)
class _Tensor:
    value: Value
    buffer: int


def decode_tflite(data: bytes | memoryview) -> Program:
    """Return the program in a compiled TensorFlow Lite file.

    Raises:
        WorkbenchError: Vela has not compiled it, or it is damaged.
    """
    root = Data(memoryview(data)).root()
    model = _Model(
        tuple(table.bytes(0) for table in root.tables(4)),
        tuple(operator_name(table) for table in root.tables(1)),
    )
    if VELA_OPERATOR not in model.operators:
        raise failure(
            "This TensorFlow Lite file was not compiled by Vela: it has no operator ethos-u.",
            "Compile it: vela FILE.tflite --accelerator-config DEVICE. To quantize a network "
            "here, use its PyTorch model.",
            code="tflite-not-compiled",
        )
    offsets = _offsets(root, model)
    methods = tuple(
        _method(graph, model, offsets if index == 0 else ()) for index, graph in enumerate(root.tables(2))
    )
    constants = tuple(len(buffer) for buffer in model.buffers)
    return Program(root.whole(0, "I"), methods, constants, {}, 0, constant_data=model.buffers)


def _offsets(root: Table, model: _Model) -> tuple[int, ...]:
    """Return the place of each tensor in the arena [bytes]; -1 if it has none."""
    for entry in root.tables(6):
        if entry.text(0) == _ALLOCATION:
            data = model.data(entry.whole(1, "I"))
            numbers = struct.unpack_from(f"<{len(data) // 4}i", data)
            if len(numbers) < 3 or len(numbers) < 3 + numbers[2]:
                raise damaged("the allocation of its tensors is shorter than it says")
            return numbers[3 : 3 + numbers[2]]
    return ()


def _tensors(graph: Table, model: _Model, offsets: tuple[int, ...]) -> Iterator[_Tensor]:
    for index, table in enumerate(graph.tables(0)):
        buffer, shape = table.whole(2, "I"), table.numbers(0, "i")
        offset = offsets[index] if index < len(offsets) else _NO_OFFSET
        has_data = len(model.data(buffer)) > 0
        value = Value(
            kind="tensor",
            dtype=DTYPES.get(table.whole(1, "b"), ""),
            shape=shape,
            dim_order=tuple(range(len(shape))),
            constant=buffer if has_data else 0,
            memory_id=_NO_OFFSET if has_data or offset < 0 else _ARENA,
            offset=max(offset, 0),
        )
        yield _Tensor(value, buffer)


def _method(graph: Table, model: _Model, offsets: tuple[int, ...]) -> Method:
    tensors = list(_tensors(graph, model, offsets))
    calls, kernels, delegates = list[Call](), list[str](), list[Delegate]()
    # As in a .pte, an operator with several outputs ends with their list.
    lists = list[Value]()
    for table in graph.tables(3):
        number = table.whole(0, "I")
        if number >= len(model.operators):
            raise damaged("an operator is named that does not exist")
        name = model.operators[number]
        ins, outs = table.numbers(1, "i"), table.numbers(2, "i")
        if name == VELA_OPERATOR:
            calls.append(Call("delegate", len(delegates), (*ins[_FIRST_TENSOR:], *outs)))
            delegates.append(_delegate(tensors, ins, outs, model))
            continue
        if name not in kernels:
            kernels.append(name)
        used = tuple(index for index in (*ins, *outs) if index >= 0)
        if len(outs) > 1:
            used = (*used[: -len(outs)], len(tensors) + len(lists))
            lists.append(Value("list of tensors", content=outs))
        calls.append(Call("kernel", kernels.index(name), used))
    placed = [t.value for t in tensors if t.value.memory_id == _ARENA]
    return Method(
        name=graph.text(4) or "main",
        values=(*(tensor.value for tensor in tensors), *lists),
        inputs=graph.numbers(1, "i"),
        outputs=graph.numbers(2, "i"),
        kernels=tuple(kernels),
        delegates=tuple(delegates),
        calls=tuple(calls),
        planned=(0, max((value.offset + value.bytes for value in placed), default=0)),
    )


def _delegate(tensors: list[_Tensor], ins: tuple[int, ...], outs: tuple[int, ...], model: _Model) -> Delegate:
    if len(ins) < _FIRST_TENSOR or any(not 0 <= i < len(tensors) for i in (*ins, *outs)):
        raise damaged("an operator ethos-u lacks its commands or memories")
    commands, constants, scratch = (tensors[index] for index in ins[:3])

    def ports(indices: tuple[int, ...]) -> list[Port]:
        values = [tensors[index].value for index in indices]
        if any(min(v.shape, default=0) < 0 or math.prod(s or 1 for s in v.shape) > _MOST for v in values):
            raise damaged("a tensor of an operator ethos-u has an impossible shape")
        return [Port(v.shape, v.bytes // max(math.prod(v.shape), 1), v.offset, _ARENA) for v in values]

    blob = packed(
        {
            HEADER: b"",
            "cmd_data": model.data(commands.buffer),
            "weight_data": model.data(constants.buffer),
            "scratch_size": struct.pack("<I", min(scratch.value.bytes, 2**32 - 1)),
            "inputs": ports(ins[_FIRST_TENSOR:]),
            "outputs": ports(outs),
            FOOTER: b"",
        }
    )
    return Delegate(ETHOS_U, memoryview(blob), {})
