"""Summary of a ``.pte``: contents, required kernels and required memory."""

from __future__ import annotations

import hashlib
import mmap
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, assert_never

from workbench.errors import ErrorInfo, WorkbenchError
from workbench.files import MAX_PROGRAM_BYTES, open_regular, read_limited
from workbench.pte import npu_commands, vela_stream
from workbench.pte.flat import damaged
from workbench.pte.program import (
    NAMED_MARK,
    Call,
    Delegate,
    Method,
    Program,
    Value,
    decode,
    decode_named_data,
)
from workbench.pte.tflite_model import MARK as TFLITE
from workbench.pte.vela_tflite import decode_tflite

_ARGUMENTS_SHOWN = 16
# A file beyond this is decoded before it is read as a whole [bytes].
_LARGE_BYTES = 64 << 20


def read_program(data: bytes | memoryview) -> Program:
    """Return the program in a ``.pte``, a ``.bpte`` or a TensorFlow Lite file that Vela compiled.

    Raises:
        WorkbenchError: It is neither, or it is damaged.
    """
    return decode_tflite(data) if bytes(data[4:8]) == TFLITE else decode(data)


def program_bytes(path: Path) -> bytes:
    """Return the content of a file with a program, or with a program's weights.

    A large file is decoded before it is read as a whole, so that one that is no program, e.g. an
    unfinished download, takes no memory.

    Raises:
        OSError: it cannot be read, is not regular, or is too large.
        WorkbenchError: it is large, and no program.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if _LARGE_BYTES < size <= MAX_PROGRAM_BYTES:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                _decode_mapped(mapped)
    return read_limited(path, MAX_PROGRAM_BYTES)


def _decode_mapped(mapped: mmap.mmap) -> None:
    """Decode a program and forget it: nothing of it may refer to the memory when that is closed."""
    if mapped[: len(vela_stream.HEADER)] == vela_stream.HEADER.encode():
        return
    infos: tuple[ErrorInfo, ...] = ()
    with memoryview(mapped) as view:
        try:
            if mapped[4:8] != NAMED_MARK:
                read_program(view).method()
            elif not decode_named_data(view):
                raise damaged("it names no weights")
        except WorkbenchError as error:
            # Raised below, because the frames of its traceback refer to the memory.
            infos = error.infos
    if infos:
        raise WorkbenchError(infos)


@dataclass(frozen=True)
class Planned:
    """A tensor in one of the method's planned memories [bytes].

    ``first`` and ``last`` are the first and last instruction that use it; inputs exist before the
    first instruction, outputs after the last.
    """

    index: int
    role: str
    dtype: str
    shape: tuple[int, ...]
    memory: int
    address: int
    bytes: int
    first: int
    last: int


@dataclass(frozen=True)
class OutputLife:
    """How long an output keeps its values; outputs and inputs by their numbers.

    ``until`` is "input" if filling one of ``inputs`` overwrites it, "inference" if the next
    inference does, "given" if its memory is not planned: the firmware gives it, and "always" for a
    constant.
    """

    output: int
    until: Literal["input", "inference", "given", "always"]
    inputs: tuple[int, ...] = ()

    @property
    def sentence(self) -> str:
        """What the firmware must heed."""
        match self.until:
            case "input":
                named = ", ".join(map(str, self.inputs))
                return f"Read output {self.output} before input {named} is filled again: they share memory."
            case "inference":
                return f"Output {self.output} is valid until the next inference starts."
            case "given":
                return f"The memory of output {self.output} is not planned: the firmware gives it."
            case "always":
                return f"Output {self.output} is a constant of the program."
            case _:
                assert_never(self.until)


def output_lives(method: Method) -> list[OutputLife]:
    """Return how long each output of a method keeps its values.

    Planned memory is used again from the next inference on, or, where an input has the same
    addresses, as soon as that is filled.
    """
    lives = []
    inputs = method.tensors(method.inputs)
    for number, value in enumerate(method.tensors(method.outputs)):
        if value.kind != "tensor":
            continue
        if value.constant:
            lives.append(OutputLife(number, "always"))
        elif value.memory_id < 0:
            lives.append(OutputLife(number, "given"))
        else:
            shared = [k for k, other in enumerate(inputs) if _overlap(value, other)]
            lives.append(OutputLife(number, "input" if shared else "inference", tuple(shared)))
    return lives


def _overlap(one: Value, other: Value) -> bool:
    """Return whether two tensors have common planned addresses."""
    return (
        one.memory_id == other.memory_id
        and one.offset < other.offset + other.bytes
        and other.offset < one.offset + one.bytes
    )


@dataclass(frozen=True)
class Instruction:
    """One instruction as text: kind, kernel or backend, and values."""

    number: int
    kind: str
    name: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Constant:
    """A constant buffer [bytes] and its tensor; "" if no method refers to it."""

    index: int
    bytes: int
    dtype: str = ""
    shape: tuple[int, ...] = ()


def planned(method: Method) -> list[Planned]:
    """Return the tensors with planned memory, in order of their values."""
    first, last = dict[int, int](), dict[int, int]()
    for number, call in enumerate(method.calls):
        for value in call.values:
            first.setdefault(value, number)
            last[value] = number
    end = max(len(method.calls) - 1, 0)
    first.update(dict.fromkeys(method.inputs, 0))
    last.update(dict.fromkeys(method.outputs, end))
    return [
        Planned(
            index=index,
            role=_role(index, method),
            dtype=value.dtype,
            shape=value.shape,
            memory=value.memory_id,
            address=value.offset,
            bytes=value.bytes,
            first=first.get(index, 0),
            last=max(last.get(index, end), first.get(index, 0)),
        )
        for index, value in enumerate(method.values)
        if value.memory_id >= 0
    ]


def instructions(method: Method) -> Iterator[Instruction]:
    """Yield the instructions of a method as text."""
    for number, call in enumerate(method.calls):
        values = [_value(method, index) for index in call.values[:_ARGUMENTS_SHOWN]]
        rest = len(call.values) - _ARGUMENTS_SHOWN
        more = (f"and {rest} more",) if rest > 0 else ()
        yield Instruction(number, call.kind, _called(method, call), (*values, *more))


def constants(program: Program, method: Method) -> list[Constant]:
    """Return the non-empty constant buffers with their tensors."""
    on = {v.constant: v for v in method.values if v.kind == "tensor" and v.constant}
    rows = []
    for index, size in enumerate(program.constants):
        value = on.get(index)
        if value is not None:
            rows.append(Constant(index, size, value.dtype, value.shape))
        elif size:
            rows.append(Constant(index, size))
    return rows


def calls_of_kernels(method: Method) -> dict[str, int]:
    """Return the number of calls of each kernel; unused kernels have 0."""
    counted = Counter(call.index for call in method.calls if call.kind == "kernel")
    counts = dict.fromkeys(sorted(set(method.kernels)), 0)
    for index, number in counted.items():
        if 0 <= index < len(method.kernels):
            counts[method.kernels[index]] += number
    return counts


def _called(method: Method, call: Call) -> str:
    if call.kind == "kernel":
        return _named(method.kernels, call.index)
    if call.kind == "delegate":
        backend = _named(tuple(d.backend for d in method.delegates), call.index)
        return f"{backend} {call.index}"
    return ""


def _named(names: tuple[str, ...], index: int) -> str:
    return names[index] if 0 <= index < len(names) else "(not in the program)"


def _role(index: int, method: Method) -> str:
    if index in method.inputs:
        return "input"
    return "output" if index in method.outputs else "activation"


def _value(method: Method, index: int) -> str:
    if not 0 <= index < len(method.values):
        return f"{index}: not in the program"
    value = method.values[index]
    return f"{index}: {in_words(value)}"


def in_words(value: Value) -> str:
    """Return a value's kind; for a tensor, its type and shape."""
    if value.kind != "tensor":
        return value.kind
    return f"{value.dtype} {'x'.join(map(str, value.shape)) or 'scalar'}"


_ALIGNMENT = 16
# Runtime structures per value and per instruction, measured as an upper bound; the rest of the
# method pool is computed from the program.
_BYTES_PER_VALUE, _BYTES_PER_INSTRUCTION, _BYTES_FIXED = 96, 64, 4096


@dataclass(frozen=True)
class Memory:
    """Memory that a runtime must provide: pools and planned buffers [bytes]."""

    method_pool_bytes: int
    scratch_pool_bytes: int
    planned_bytes: tuple[int, ...]


def memory(data: bytes) -> Memory:
    """Return the memory that a runtime must provide.

    The method pool contains planned buffers and runtime structures; the scratch pool is the largest
    delegate's scratch plus alignment. Source: pools of ExecuTorch's Arm runner.

    Raises:
        WorkbenchError: the data is not a program.
    """
    return memory_of(decode(data).method())


def describe(data: bytes, method: str = "", *, whole: bool = False) -> dict[str, Any]:
    """Return the output of ``workbench inspect --json``.

    Args:
        data: The file contents.
        method: Name of the method; "" selects the first.
        whole: Whether to include long lists: instructions, memory plan, constants.

    Raises:
        WorkbenchError: the data is not a valid program, or the method does not exist.
    """
    program = read_program(data)
    chosen = program.method(method)
    needs = memory_of(chosen)
    description: dict[str, Any] = {
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "methods": [entry.name for entry in program.methods],
        "method": chosen.name,
        "inputs": [_tensor(value) for value in chosen.tensors(chosen.inputs)],
        "outputs": [_tensor(value) for value in chosen.tensors(chosen.outputs)],
        "output_lives": [asdict(life) for life in output_lives(chosen)],
        "delegates": [_delegate(i, item) for i, item in enumerate(chosen.delegates)],
        "kernels": sorted(set(chosen.kernels)),
        "instructions": _counted(chosen),
        "constants_bytes": sum(program.constants),
        "named_data_bytes": program.named,
        "test_cases": program.test_cases,
        "memory": asdict(needs) | {"planned_bytes": list(needs.planned_bytes)},
    }
    if whole:
        description["calls"] = [asdict(instruction) for instruction in instructions(chosen)]
        description["plan"] = [asdict(tensor) for tensor in planned(chosen)]
        description["constants"] = [asdict(constant) for constant in constants(program, chosen)]
    return description


def memory_of(method: Method) -> Memory:
    """Return the memory that a runtime must provide for one method.

    Raises:
        WorkbenchError: a delegate is damaged.
    """
    structures = (
        _BYTES_FIXED + _BYTES_PER_VALUE * len(method.values) + _BYTES_PER_INSTRUCTION * len(method.calls)
    )
    scratch = [
        vela_stream.scratch_bytes(vela_stream.blocks(delegate.data))
        for delegate in method.delegates
        if delegate.backend == vela_stream.ETHOS_U
    ]
    return Memory(
        method_pool_bytes=_rounded(sum(max(size, 0) for size in method.planned) + structures),
        scratch_pool_bytes=_rounded(max(scratch) + _ALIGNMENT) if scratch else 0,
        planned_bytes=method.planned,
    )


def _rounded(size: int, to: int = 1024) -> int:
    return -(-size // to) * to


def _tensor(value: Value) -> dict[str, Any]:
    if value.kind != "tensor":
        return {"type": value.kind}
    fields: dict[str, Any] = {"type": "tensor", "dtype": value.dtype, "shape": list(value.shape)}
    axes = list(value.dim_order)
    # Included only if meaningful and not the default, such as channels last.
    if axes != sorted(axes) and sorted(axes) == list(range(len(value.shape))):
        fields["dim_order"] = axes
    return fields


def _delegate(index: int, delegate: Delegate) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "index": index,
        "backend": delegate.backend,
        "bytes": len(delegate.data),
        "compile_specs": {k: v.decode("utf-8", "replace") for k, v in delegate.specs.items()},
    }
    if delegate.backend == vela_stream.ETHOS_U:
        blocks = vela_stream.blocks(delegate.data)
        entry["vela_blocks"] = {
            name: len(block.data) for name, block in blocks.items() if not name.startswith("vela_")
        }
        entry["scratch_bytes"] = vela_stream.scratch_bytes(blocks)
        entry["external_blocks"] = {b.name: b.key for b in blocks.values() if b.external}
        for side in ("inputs", "outputs"):
            entry[side] = [asdict(port) for port in vela_stream.ports(blocks, side)]
        commands = vela_stream.commands(blocks)
        if commands is not None:
            entry["npu"] = _stream(npu_commands.decode(commands))
    return entry


def _stream(stream: npu_commands.CommandStream) -> dict[str, Any]:
    kinds: dict[str, int] = {}
    for operation in stream.operations:
        kinds[operation.kind] = kinds.get(operation.kind, 0) + 1
    return {
        "family": stream.family,
        "macs": stream.macs,
        "format": stream.format,
        "commands": len(stream.commands),
        "operations": kinds,
    }


def _counted(method: Method) -> dict[str, int]:
    counts: dict[str, int] = {}
    for call in method.calls:
        counts[call.kind] = counts.get(call.kind, 0) + 1
    return counts
