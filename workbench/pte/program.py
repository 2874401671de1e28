"""A decoded ``.pte``: methods, values, kernels, delegates and constants, without torch.

Source: ExecuTorch 1.5.1, ``exir/_serialize/program.fbs`` (tables and the order of their fields),
``exir/_serialize/_program.py`` (the extended header) and
``devtools/bundled_program/schema/bundled_program_schema.fbs`` (programs with test vectors).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from workbench.errors import Place, failure
from workbench.pte.flat import Data, Table, damaged

_PROGRAM_MARKS, _BUNDLE_MARK = (b"ET12", b"ET13"), b"BP08"
_HEADER_MARK, _HEADER = b"eh00", struct.Struct("<4sIQQQ")
NAMED_MARK, _NAMED_HEADER = b"FT01", struct.Struct("<4sIQQQQ")
_TENSOR = 5
DTYPES = {
    0: "uint8",
    1: "int8",
    2: "int16",
    3: "int32",
    4: "int64",
    5: "float16",
    6: "float32",
    7: "float64",
    9: "complex64",
    10: "complex128",
    11: "bool",
    15: "bfloat16",
    27: "uint16",
    28: "uint32",
    29: "uint64",
}
_ITEM_BYTES = {
    "uint8": 1,
    "int8": 1,
    "bool": 1,
    "int16": 2,
    "float16": 2,
    "bfloat16": 2,
    "uint16": 2,
    "int32": 4,
    "float32": 4,
    "uint32": 4,
    "int64": 8,
    "float64": 8,
    "uint64": 8,
    "complex64": 8,
    "complex128": 16,
}
# Bytes of segments that all parts take together, at least, and as times of the file.
_SHARED_AT_LEAST, _SHARED_TIMES = 1 << 20, 4
# Larger than any memory; thousands of them still fit 64 bits.
_MOST_BYTES = 2**48
_VALUE_KINDS = {
    1: "none",
    2: "int",
    3: "bool",
    4: "float",
    5: "tensor",
    6: "text",
    7: "list of int",
    8: "list of float",
    9: "list of bool",
    10: "list of tensors",
    11: "list of tensors",
}
_CALLS = {1: "kernel", 2: "delegate", 3: "move", 4: "jump", 5: "free"}


Content = None | bool | int | float | str | tuple[int, ...] | tuple[float, ...]


@dataclass(frozen=True)
class Value:
    """A value of a method; ``memory_id`` and ``offset`` are its planned address, -1 if none.

    ``dim_order`` are a tensor's axes as they lie in memory, the outermost first. ``content`` is a
    number or a text; of a list its items, which for integers and tensors are indices of values.
    """

    kind: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    dim_order: tuple[int, ...] = ()
    constant: int = 0
    memory_id: int = -1
    offset: int = 0
    content: Content = None

    @property
    def bytes(self) -> int:
        """The size of a tensor's data [bytes]; 0 for a type of unknown width.

        Limited to ``_MOST_BYTES``, because a damaged file may contain any shape.
        """
        size = _ITEM_BYTES.get(self.dtype, 0)
        for length in self.shape:
            size = min(size * max(length, 0), _MOST_BYTES)
        return size


@dataclass(frozen=True)
class Call:
    """An instruction: what kind, the kernel's or delegate's index, and its values.

    A move has the values it goes from and to; a jump has its condition, and as ``index`` the
    instruction it goes to where the condition is false.
    """

    kind: str
    index: int = -1
    values: tuple[int, ...] = ()


@dataclass(frozen=True)
class Delegate:
    """A part of the program that runs on a backend."""

    backend: str
    data: memoryview
    specs: dict[str, bytes]


@dataclass(frozen=True)
class Method:
    """One entry point. ``planned`` are activation buffer sizes by memory id [bytes]."""

    name: str
    values: tuple[Value, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    kernels: tuple[str, ...]
    delegates: tuple[Delegate, ...]
    calls: tuple[Call, ...]
    planned: tuple[int, ...]

    def tensors(self, indices: tuple[int, ...]) -> list[Value]:
        """Return the values at some indices; invalid indices are an error."""
        if any(not 0 <= i < len(self.values) for i in indices):
            raise damaged("a value is named that does not exist")
        return [self.values[i] for i in indices]


@dataclass(frozen=True)
class VectorTensor:
    """A tensor of a test vector, as its bytes lie in memory."""

    dtype: str
    shape: tuple[int, ...]
    dim_order: tuple[int, ...]
    data: memoryview


@dataclass(frozen=True)
class VectorCase:
    """Inputs of a method and the outputs that are expected of it."""

    method: str
    inputs: tuple[VectorTensor, ...]
    expected: tuple[VectorTensor, ...]


@dataclass(frozen=True)
class Program:
    """All of a ``.pte``. ``named`` are sizes of data with names [bytes].

    ``constant_data``, ``initial_data`` and ``named_data`` are views of the file, ``cases`` the test
    vectors. ``constant`` of a value is an index of ``constant_data``, or of ``initial_data`` if the
    value has a planned address: it is mutable then, and begins with these bytes.
    """

    version: int
    methods: tuple[Method, ...]
    constants: tuple[int, ...]
    named: dict[str, int]
    segment_bytes: int
    test_cases: int = 0
    constant_data: tuple[memoryview, ...] = ()
    initial_data: tuple[memoryview, ...] = ()
    named_data: dict[str, memoryview] = field(default_factory=dict)
    cases: tuple[VectorCase, ...] = ()

    def method(self, name: str = "") -> Method:
        """Return the method with a name; "" selects the first.

        Raises:
            WorkbenchError: there is no such method.
        """
        if not self.methods:
            raise damaged("it holds no method")
        for method in self.methods:
            if name in {"", method.name}:
                return method
        names = ", ".join(method.name for method in self.methods)
        raise failure(
            f"The program has no method {name}.",
            f"Methods: {names}.",
            Place(kind="option", id="method"),
            code="program-method-unknown",
        )


@dataclass(frozen=True)
class _Segments:
    view: memoryview
    base: int
    places: tuple[tuple[int, int], ...]
    taken: list[int] = field(default_factory=list)

    def take(self, index: int) -> memoryview:
        """Return a segment; several parts may share one, but not again and again."""
        if not 0 <= index < len(self.places):
            raise damaged("a segment is named that does not exist")
        offset, size = self.places[index]
        start = self.base + offset
        if start + size > len(self.view):
            raise damaged("a segment reaches beyond its end")
        self.taken.append(size)
        if sum(self.taken) > max(_SHARED_AT_LEAST, _SHARED_TIMES * len(self.view)):
            raise damaged("its parts refer to the same segment again and again")
        return self.view[start : start + size]


def decode(data: bytes | memoryview) -> Program:
    """Return the program in these bytes; for a bundled program, the program inside.

    Raises:
        WorkbenchError: not a valid ExecuTorch program.
    """
    view = memoryview(data)
    mark = bytes(view[4:8])
    if mark == _BUNDLE_MARK:
        bundle = Data(view).root()
        cases = tuple(_cases(bundle))
        inner = bundle.bytes(2)
        if bytes(inner[4:8]) not in _PROGRAM_MARKS:
            raise damaged("the bundle holds no program")
        return _program(inner, cases)
    if mark not in _PROGRAM_MARKS:
        raise failure(
            "Not an ExecuTorch program: the identifier ET12 is missing.",
            "Choose a .pte or .bpte file.",
            code="program-not-executorch",
        )
    return _program(view, ())


def decode_named_data(data: bytes | memoryview) -> dict[str, memoryview]:
    """Return the data in a ``.ptd`` by its keys.

    Source: ExecuTorch 1.5.1, ``extension/flat_tensor/serialize/flat_tensor.fbs`` and
    ``serialize.py`` (the header).

    Raises:
        WorkbenchError: it is no ``.ptd``, or a damaged one.
    """
    view = memoryview(data)
    if bytes(view[4:8]) != NAMED_MARK or len(view) < 8 + _NAMED_HEADER.size:
        raise failure(
            "This is no file of weights: the mark FT01 is missing.",
            "Choose a .ptd file.",
            code="file-not-ptd",
        )
    base = _NAMED_HEADER.unpack_from(view, 8)[4]
    root = Data(view).root()
    spans = tuple((t.whole(0, "Q"), t.whole(1, "Q")) for t in root.tables(1))
    segments = _Segments(view, base, spans)
    return {t.text(0): segments.take(t.whole(1, "I")) for t in root.tables(2)}


def _cases(bundle: Table) -> Iterator[VectorCase]:
    for suite in bundle.tables(1):
        name = suite.text(0)
        for case in suite.tables(1):
            yield VectorCase(name, tuple(_test_tensors(case, 0)), tuple(_test_tensors(case, 1)))


def _test_tensors(case: Table, field_: int) -> Iterator[VectorTensor]:
    """Yield tensors; numbers are left out, as no method of ours takes them."""
    for value in case.tables(field_):
        kind, content = value.union(0)
        if kind == 1 and content is not None:
            scalar = content.whole(0, "b")
            yield VectorTensor(
                DTYPES.get(scalar, f"type {scalar}"),
                content.numbers(1, "i"),
                content.numbers(3, "B"),
                content.bytes(2),
            )


def _program(view: memoryview, cases: tuple[VectorCase, ...]) -> Program:
    root = Data(view).root()
    segments = _segments(view, root)
    inline = [item.bytes(0) for item in root.tables(3)]
    constants = tuple(_constants(root, segments))
    named = {t.text(0): segments.take(t.whole(1, "I")) for t in root.tables(7)}
    return Program(
        version=root.whole(0, "I"),
        methods=tuple(_method(table, inline, segments) for table in root.tables(1)),
        constants=tuple(map(len, constants)),
        named={key: len(data) for key, data in named.items()},
        segment_bytes=sum(size for _, size in segments.places),
        test_cases=len(cases),
        constant_data=constants,
        initial_data=tuple(_initial(root, segments)),
        named_data=named,
        cases=cases,
    )


def _segments(view: memoryview, root: Table) -> _Segments:
    base = 0
    if bytes(view[8:12]) == _HEADER_MARK and len(view) >= 8 + _HEADER.size:
        _, _, _, base, _ = _HEADER.unpack_from(view, 8)
    spans = tuple((t.whole(0, "Q"), t.whole(1, "Q")) for t in root.tables(4))
    return _Segments(view, base, spans)


def _constants(root: Table, segments: _Segments) -> Iterator[memoryview]:
    yield from (buffer.bytes(0) for buffer in root.tables(2))
    parts = root.table(5)
    if parts is not None:
        yield from _parts(parts, segments)


def _initial(root: Table, segments: _Segments) -> Iterator[memoryview]:
    """Yield the first contents of mutable buffers. Only the first group is in use."""
    for parts in islice(root.tables(6), 1):
        yield from _parts(parts, segments)


def _parts(parts: Table, segments: _Segments) -> Iterator[memoryview]:
    """Yield the parts of a segment; the first one is reserved and empty."""
    offsets = parts.numbers(1, "Q")
    if len(offsets) > 1:
        data = segments.take(parts.whole(0, "I"))
        for first, last in zip(offsets, [*offsets[1:], len(data)], strict=False):
            yield data[first : max(first, last)]


def _method(table: Table, inline: list[memoryview], segments: _Segments) -> Method:
    return Method(
        name=table.text(0),
        values=tuple(_value(value) for value in table.tables(2)),
        inputs=table.numbers(3, "i"),
        outputs=table.numbers(4, "i"),
        kernels=tuple(f"{o.text(0)}.{o.text(1)}".rstrip(".") for o in table.tables(6)),
        delegates=tuple(_delegate(item, inline, segments) for item in table.tables(7)),
        calls=tuple(_call(item) for chain in table.tables(5) for item in chain.tables(2)),
        planned=table.numbers(8, "q")[1:],
    )


def _value(table: Table) -> Value:
    kind, content = table.union(0)
    if kind != _TENSOR or content is None:
        return Value(_VALUE_KINDS.get(kind, "unknown"), content=_content(kind, content))
    allocation = content.table(6)
    scalar = content.whole(0, "b")
    return Value(
        kind="tensor",
        dtype=DTYPES.get(scalar, f"type {scalar}"),
        shape=content.numbers(2, "i"),
        dim_order=content.numbers(3, "B"),
        constant=content.whole(5, "I"),
        memory_id=-1 if allocation is None else allocation.whole(0, "I"),
        offset=0 if allocation is None else allocation.whole(1, "I") | allocation.whole(2, "I") << 32,
    )


def _content(kind: int, table: Table | None) -> Content:
    if table is None or kind not in _CONTENT:
        return None
    return _CONTENT[kind](table)


def _number(table: Table) -> float:
    (value,) = struct.unpack("<d", struct.pack("<q", table.whole(0, "q")))
    return float(value)


def _numbers(table: Table) -> tuple[float, ...]:
    words = table.numbers(0, "q")
    return struct.unpack(f"<{len(words)}d", struct.pack(f"<{len(words)}q", *words))


# How the content of a value is read, by its kind.
_CONTENT: dict[int, Callable[[Table], Content]] = {
    2: lambda table: table.whole(0, "q"),
    3: lambda table: bool(table.whole(0, "B")),
    4: _number,
    6: lambda table: table.text(0),
    7: lambda table: table.numbers(0, "q"),
    8: _numbers,
    9: lambda table: table.numbers(0, "B"),
    10: lambda table: table.numbers(0, "i"),
    11: lambda table: table.numbers(0, "i"),
}


def _delegate(table: Table, inline: list[memoryview], segments: _Segments) -> Delegate:
    reference = table.table(1)
    data = memoryview(b"")
    if reference is not None:
        index = reference.whole(1, "I")
        if reference.whole(0, "b") == 1:
            data = segments.take(index)
        elif index < len(inline):
            data = inline[index]
        else:
            raise damaged("a delegate's data is missing")
    specs = {spec.text(0): spec.copied(1) for spec in table.tables(2)}
    return Delegate(table.text(0), data, specs)


def _call(table: Table) -> Call:
    kind, content = table.union(0)
    name = _CALLS.get(kind, "unknown")
    if content is None or name in {"free", "unknown"}:
        return Call(name)
    if name == "move":
        return Call(name, -1, (content.whole(0, "i"), content.whole(1, "i")))
    if name == "jump":
        return Call(name, content.whole(1, "i"), (content.whole(0, "i"),))
    return Call(name, content.whole(0, "i"), content.numbers(1, "i"))
