"""The files that hold the weights of an ONNX model, read without a parser of ONNX.

The fields are those of ``onnx.proto``: ModelProto.graph 7, GraphProto.initializer 5,
TensorProto.external_data 13, StringStringEntryProto key 1 and value 2. The wire format is that of
Protocol Buffers: a varint of field and type, then a varint, 8 bytes, a length with bytes, or 4.
"""

from __future__ import annotations

import mmap
import os
from functools import lru_cache
from typing import TYPE_CHECKING

from workbench.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_GRAPH, _INITIALIZER, _EXTERNAL, _KEY, _VALUE = 7, 5, 13, 1, 2
_MAX_VARINT_BYTES = 10
_FIXED = {1: 8, 5: 4}


def external_files(path: Path) -> list[Path]:
    """Return the files in a model's folder that hold its weights, sorted; none for a damaged one.

    Names that lead out of the folder are left out: loading the model refuses them.
    """
    try:
        state = os.stat(path)
    except OSError:
        return []
    names = _locations(path, (state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino))
    files = [path.parent / name for name in names if name and not os.path.isabs(name)]
    return sorted(file for file in files if ".." not in file.parts and file.is_file())


@lru_cache(maxsize=64)
def _locations(path: Path, state: tuple[int, ...]) -> tuple[str, ...]:
    """Return the locations of external data; every plan asks."""
    del state
    try:
        with open_regular(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return tuple(sorted(set(_all_locations(data))))
    except (OSError, ValueError, UnicodeDecodeError):
        return ()


def _all_locations(data: mmap.mmap) -> Iterator[str]:
    for graph in _fields(data, (0, len(data)), _GRAPH):
        for tensor in _fields(data, graph, _INITIALIZER):
            for entry in _fields(data, tensor, _EXTERNAL):
                keys = [data[a:b] for a, b in _fields(data, entry, _KEY)]
                if keys == [b"location"]:
                    yield from (data[a:b].decode() for a, b in _fields(data, entry, _VALUE))


def _fields(data: mmap.mmap, span: tuple[int, int], number: int) -> Iterator[tuple[int, int]]:
    """Yield where the bytes of a field of a message are.

    Raises:
        ValueError: The message is damaged.
    """
    position, end = span
    while position < end:
        tag, position = _varint(data, position, end)
        kind = tag & 7
        if kind == 0:
            _, position = _varint(data, position, end)
            continue
        if kind == 2:
            length, position = _varint(data, position, end)
        elif kind in _FIXED:
            length = _FIXED[kind]
        else:
            raise ValueError("no such type on the wire")
        if length > end - position:
            raise ValueError("the message is cut short")
        if kind == 2 and tag >> 3 == number:
            yield position, position + length
        position += length


def _varint(data: mmap.mmap, position: int, end: int) -> tuple[int, int]:
    """Return a number and where it ends."""
    value = 0
    for shift in range(_MAX_VARINT_BYTES):
        if position >= end:
            break
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return value, position
    raise ValueError("a number is cut short")
