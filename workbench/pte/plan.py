"""What a method does one instruction after the other, and where its tensors lie meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from workbench.pte.program import Call, Method, Program, Value

_ARGUMENTS_SHOWN = 16


@dataclass(frozen=True)
class Planned:
    """A tensor with a place in one of the method's memories [bytes].

    ``first`` and ``last`` are the instructions that touch it; inputs are there before the first,
    outputs after the last one.
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
class Instruction:
    """One instruction in words: what kind, which kernel or backend, and its values."""

    number: int
    kind: str
    name: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Constant:
    """A constant buffer [bytes], and the tensor that it is; "" where no method names it."""

    index: int
    bytes: int
    dtype: str = ""
    shape: tuple[int, ...] = ()


def planned(method: Method) -> list[Planned]:
    """Return the tensors that the memory plan places, in the order of their values."""
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
    """Yield the instructions of a method in words."""
    for number, call in enumerate(method.calls):
        values = [_value(method, index) for index in call.values[:_ARGUMENTS_SHOWN]]
        rest = len(call.values) - _ARGUMENTS_SHOWN
        more = (f"and {rest} more",) if rest > 0 else ()
        yield Instruction(number, call.kind, _called(method, call), (*values, *more))


def constants(program: Program, method: Method) -> list[Constant]:
    """Return the constant buffers that hold something, with the tensors of a method on them."""
    on = {v.constant: v for v in method.values if v.kind == "tensor" and v.constant}
    made = []
    for index, size in enumerate(program.constants):
        value = on.get(index)
        if value is not None:
            made.append(Constant(index, size, value.dtype, value.shape))
        elif size:
            made.append(Constant(index, size))
    return made


def calls_of_kernels(method: Method) -> dict[str, int]:
    """Return how often each kernel is called; those that are only named count 0."""
    counted = Counter(call.index for call in method.calls if call.kind == "kernel")
    found = dict.fromkeys(sorted(set(method.kernels)), 0)
    for index, number in counted.items():
        if 0 <= index < len(method.kernels):
            found[method.kernels[index]] += number
    return found


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
    """Return a value's kind; of a tensor, its type and shape."""
    if value.kind != "tensor":
        return value.kind
    return f"{value.dtype} {'x'.join(map(str, value.shape)) or 'scalar'}"
