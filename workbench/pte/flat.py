"""FlatBuffer tables, read with bounds checks on every offset.

The usual readers trust all offsets. Here every offset is checked against the end of the data, and
the number of tables and the length of all lists together against the size of the data.
Source: FlatBuffers internals, https://flatbuffers.dev/internals/.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from workbench.errors import Place, WorkbenchError, failure

_TABLES_AT_LEAST = 10_000
_BYTES_PER_TABLE = 4
_TABLES_AT_MOST = 400_000
# Bytes of lists and texts that are decoded: files share some of them, but not again and again.
_LISTS_AT_LEAST = 1 << 20
_LISTS_AT_MOST = 16 << 20
_SIZES = {"b": 1, "B": 1, "h": 2, "H": 2, "i": 4, "I": 4, "f": 4, "q": 8, "Q": 8}


def damaged(what: str) -> WorkbenchError:
    """Return the error for invalid data."""
    return failure(
        f"The program is damaged: {what}.",
        "The file may be truncated or overwritten. Create it again or compare its digest.",
        Place(kind="file", id="program"),
        code="program-damaged",
    )


class Data:
    """The bytes, and the number of tables that may still be opened."""

    def __init__(self, view: memoryview) -> None:
        self.view = view
        tables = max(_TABLES_AT_LEAST, len(view) // _BYTES_PER_TABLE)
        self._left = min(tables, _TABLES_AT_MOST)
        self._list_bytes = min(max(_LISTS_AT_LEAST, 2 * len(view)), _LISTS_AT_MOST)

    def whole(self, form: str, at: int) -> int:
        """Return one little-endian integer; ``form`` is its ``struct`` format character."""
        if not 0 <= at <= len(self.view) - _SIZES[form]:
            raise damaged("an offset points outside of it")
        value: int = struct.unpack_from("<" + form, self.view, at)[0]
        return value

    def table(self, at: int) -> Table:
        """Return the table at an absolute offset."""
        self._left -= 1
        if self._left < 0:
            raise damaged("its tables refer to each other again and again")
        return Table(self, at)

    def spend(self, count: int) -> None:
        """Count bytes of a list that is decoded; the sum is limited."""
        self._list_bytes -= count
        if self._list_bytes < 0:
            raise damaged("its tables refer to the same lists again and again")

    def root(self) -> Table:
        """Return the root table."""
        return self.table(self.whole("I", 0))


class Table:
    """One table; fields are accessed by schema index, absent fields return defaults."""

    def __init__(self, data: Data, at: int) -> None:
        self._data, self._at = data, at
        self._fields = at - data.whole("i", at)
        self._size = data.whole("H", self._fields)

    def whole(self, field: int, form: str, default: int = 0) -> int:
        """Return an integer field."""
        at = self._offset_of(field)
        return default if at is None else self._data.whole(form, at)

    def table(self, field: int) -> Table | None:
        """Return the table of a field; None if absent."""
        at = self._target(field)
        return None if at is None else self._data.table(at)

    def union(self, kind_field: int) -> tuple[int, Table | None]:
        """Return a union's kind and table; the table is in the field after the kind."""
        return self.whole(kind_field, "B"), self.table(kind_field + 1)

    def tables(self, field: int) -> Iterator[Table]:
        """Yield the tables of a vector."""
        start, count = self._vector(field, 4)
        for index in range(count):
            at = start + 4 * index
            yield self._data.table(at + self._data.whole("I", at))

    def numbers(self, field: int, form: str) -> tuple[int, ...]:
        """Return a vector of integers."""
        return self._items(field, form)

    def reals(self, field: int) -> tuple[float, ...]:
        """Return a vector of floats of 32 bits."""
        return self._items(field, "f")

    def _items(self, field: int, form: str) -> tuple[Any, ...]:
        start, count = self._vector(field, _SIZES[form])
        self._data.spend(count * max(4, _SIZES[form]))
        return struct.unpack_from(f"<{count}{form}", self._data.view, start) if count else ()

    def copied(self, field: int) -> bytes:
        """Return a vector of bytes, copied."""
        data = self.bytes(field)
        self._data.spend(len(data))
        return bytes(data)

    def bytes(self, field: int) -> memoryview:
        """Return a vector of bytes, or a string, not copied."""
        start, count = self._vector(field, 1)
        return self._data.view[start : start + count]

    def text(self, field: int) -> str:
        """Return a string; invalid UTF-8 is replaced."""
        data = self.bytes(field)
        self._data.spend(len(data))
        return str(data, "utf-8", "replace")

    def _offset_of(self, field: int) -> int | None:
        entry = 4 + 2 * field
        if entry + 2 > self._size:
            return None
        offset = self._data.whole("H", self._fields + entry)
        return self._at + offset if offset else None

    def _target(self, field: int) -> int | None:
        at = self._offset_of(field)
        return None if at is None else at + self._data.whole("I", at)

    def _vector(self, field: int, size: int) -> tuple[int, int]:
        at = self._target(field)
        if at is None:
            return 0, 0
        count = self._data.whole("I", at)
        if at + 4 + size * count > len(self._data.view):
            raise damaged("a list is longer than the file")
        return at + 4, count
