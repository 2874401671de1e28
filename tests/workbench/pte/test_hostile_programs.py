"""Small programs that would take much memory: lists, segments and commands that are shared."""

import struct
import tracemalloc

from tests.for_each import for_each
from tests.problems import refused
from workbench.pte import npu_commands
from workbench.pte.flat import Data


def shared_lists(tables, length):
    """Return a FlatBuffer whose root has a vector of tables that share one list of integers."""
    # vtable of two entries, root, vector of offsets, then one table per offset, then the list.
    items = bytearray(struct.pack("<I", 8) + struct.pack("<HH", 6, 8))
    items = bytearray(struct.pack("<I", 12)) + struct.pack("<HHH2x", 6, 8, 4)
    root = len(items)
    items += struct.pack("<iI", root - 4, 4)
    vector = len(items)
    first = vector + 4 + 4 * tables
    items += struct.pack("<I", tables)
    for number in range(tables):
        items += struct.pack("<I", first + 8 * number - (vector + 4 + 4 * number))
    shared = first + 8 * tables
    for number in range(tables):
        at = first + 8 * number
        items += struct.pack("<iI", at - 4, shared - (at + 4))
    return bytes(items) + struct.pack("<I", length) + bytes(4 * length)


def test_that_a_list_shared_by_thousands_of_tables_takes_little_memory():
    data = shared_lists(tables=20_000, length=20_000)
    tracemalloc.start()
    try:
        with refused("program-damaged"):
            kept = [t.numbers(0, "i") for t in Data(memoryview(data)).root().tables(0)]
            del kept
        assert tracemalloc.get_traced_memory()[1] < 200 << 20
    finally:
        tracemalloc.stop()


def test_that_lists_that_are_not_shared_are_read():
    data = shared_lists(tables=3, length=5)
    found = [t.numbers(0, "i") for t in Data(memoryview(data)).root().tables(0)]
    assert found == [(0,) * 5] * 3


def test_that_a_command_stream_that_is_too_long_is_refused():
    with refused("program-damaged"):
        npu_commands.decode(b"COP1" + bytes(8 << 20))


@for_each("count", [0, 1])
def test_that_an_empty_stream_is_read(count):
    assert npu_commands.decode(b"COP1" + bytes(4 * count)).commands == ()
