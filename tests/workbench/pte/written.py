"""Writes FlatBuffers of any schema: a field is given by its place in its table.

A table is a dictionary of places. A value is a scalar ``("i", 3)`` or a vector
``("i", [1, 2])`` with the format character of ``struct``, a text, bytes, a table, or a list of
tables. Source: FlatBuffers' own builder.
"""

import flatbuffers
from flatbuffers import number_types as types

_TYPES = {
    "b": types.Int8Flags,
    "B": types.Uint8Flags,
    "i": types.Int32Flags,
    "I": types.Uint32Flags,
    "q": types.Int64Flags,
    "Q": types.Uint64Flags,
}


def flatbuffer(root, mark):
    """Return the bytes of a buffer with this root table and this mark of four letters."""
    builder = flatbuffers.Builder()
    builder.Finish(_table(builder, root), file_identifier=mark)
    return bytes(builder.Output())


def _table(builder, fields):
    placed = {place: _offset(builder, value) for place, value in fields.items()}
    builder.StartObject(max(fields, default=-1) + 1)
    for place, value in fields.items():
        if placed[place] is not None:
            builder.PrependUOffsetTRelativeSlot(place, placed[place], 0)
        else:
            form, number = value
            builder.PrependSlot(_TYPES[form], place, number, None)
    return builder.EndObject()


def _offset(builder, value):
    match value:
        case dict():
            return _table(builder, value)
        case str():
            return builder.CreateString(value)
        case bytes():
            return builder.CreateByteVector(value)
        case list():
            made = [_table(builder, each) for each in value]
            builder.StartVector(4, len(made), 4)
            for offset in reversed(made):
                builder.PrependUOffsetTRelative(offset)
            return builder.EndVector()
        case (form, [*numbers]):
            kind = _TYPES[form]
            builder.StartVector(kind.bytewidth, len(numbers), kind.bytewidth)
            for number in reversed(numbers):
                builder.Prepend(kind, number)
            return builder.EndVector()
    return None
