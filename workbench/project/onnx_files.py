"""The files that hold the weights of an ONNX model, read without a parser of ONNX.

The fields are those of ``onnx.proto``: ModelProto.graph 7, GraphProto.initializer 5,
TensorProto.external_data 13, StringStringEntryProto key 1 and value 2. The wire format is that of
Protocol Buffers: a varint of field and type, then a varint, 8 bytes, a length with bytes, or 4.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING

from workbench.errors import Place, failure
from workbench.files import open_regular

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator
    from pathlib import Path

_GRAPH, _INITIALIZER, _EXTERNAL, _KEY, _VALUE = 7, 5, 13, 1, 2
_MAX_VARINT_BYTES = 10
_FIXED = {1: 8, 5: 4}
# A hundred thousand weights have a million fields; these take some seconds.
_MAX_FIELDS = 4_000_000
_MAX_NAME_BYTES = 4096


class _TooManyFieldsError(Exception):
    """A file has more fields than a model has."""


def external_files(path: Path) -> list[Path]:
    """Return the files in a model's folder that hold its weights, sorted; none for a damaged one.

    Names that lead out of the folder are left out: loading the model refuses them.

    Raises:
        WorkbenchError: the file has so many fields that reading them takes minutes.
    """
    try:
        state = os.stat(path)
    except OSError:
        return []
    names = _locations(path, (state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino))
    if names is None:
        raise failure(
            f"{path.name} has more than {_MAX_FIELDS:,} fields.",
            "Export the model again.",
            Place(kind="file", id=path.name),
            code="model-file-unreadable",
        )
    files = [path.parent / name for name in names if name and not os.path.isabs(name)]
    return sorted(file for file in files if ".." not in file.parts and file.is_file())


@lru_cache(maxsize=64)
def _locations(path: Path, state: tuple[int, ...]) -> tuple[str, ...] | None:
    """Return the locations of external data, None for too many fields; every plan asks."""
    del state
    try:
        # Not mapped: a file that is cut while it is read would end the process.
        with open_regular(path) as file:
            return tuple(sorted(set(_Message(file).locations())))
    except _TooManyFieldsError:
        return None
    except (OSError, ValueError):
        return ()


class _Message:
    """A file of messages, and how many of their fields may still be read."""

    def __init__(self, file: io.BufferedReader) -> None:
        self._file = file
        self._size = os.fstat(file.fileno()).st_size
        self._left = _MAX_FIELDS

    def locations(self) -> Iterator[str]:
        """Yield the locations of external data.

        Raises:
            ValueError: the message is damaged.
            _TooManyFieldsError: it has more fields than a model has.
        """
        for graph in self._fields((0, self._size), _GRAPH):
            for tensor in self._fields(graph, _INITIALIZER):
                for entry in self._fields(tensor, _EXTERNAL):
                    if [self._text(key) for key in self._fields(entry, _KEY)] == [b"location"]:
                        yield from (self._text(value).decode() for value in self._fields(entry, _VALUE))

    def _text(self, span: tuple[int, int]) -> bytes:
        begin, end = span
        if end - begin > _MAX_NAME_BYTES:
            return b""
        self._file.seek(begin)
        return self._file.read(end - begin)

    def _fields(self, span: tuple[int, int], number: int) -> Iterator[tuple[int, int]]:
        """Yield where the bytes of a field of a message are."""
        position, end = span
        while position < end:
            self._left -= 1
            if self._left < 0:
                raise _TooManyFieldsError
            self._file.seek(position)
            tag, position = self._varint(position, end)
            kind = tag & 7
            if kind == 0:
                _, position = self._varint(position, end)
                continue
            if kind == 2:
                length, position = self._varint(position, end)
            elif kind in _FIXED:
                length = _FIXED[kind]
            else:
                raise ValueError("no such type on the wire")
            if length > end - position:
                raise ValueError("the message is cut short")
            if kind == 2 and tag >> 3 == number:
                yield position, position + length
            position += length

    def _varint(self, position: int, end: int) -> tuple[int, int]:
        """Return the number where the file is read, at ``position``, and where it ends."""
        value = 0
        for shift in range(_MAX_VARINT_BYTES):
            if position >= end or not (read := self._file.read(1)):
                break
            position += 1
            value |= (read[0] & 0x7F) << (7 * shift)
            if read[0] < 0x80:
                return value, position
        raise ValueError("a number is cut short")
