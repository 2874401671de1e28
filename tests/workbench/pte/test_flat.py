"""Tables of a FlatBuffer, laid out by hand, and every way an offset can lie."""

import struct

import pytest

from tests.for_each import for_each
from workbench.errors import WorkbenchError
from workbench.pte.flat import Data


def buffer():
    """A root table with a byte, a missing field, a text, numbers, two tables and a union.

    Offsets: root at 0; the table of fields at 4 (18 bytes); the table at 24.
    """
    data = bytearray(120)
    struct.pack_into("<I", data, 0, 24)
    # Size of the vtable and of the table, then the places of fields 0 to 6.
    struct.pack_into("<9H", data, 4, 18, 26, 4, 0, 8, 12, 16, 5, 20)
    struct.pack_into("<i", data, 24, 24 - 4)
    struct.pack_into("<bB", data, 28, -7, 9)
    struct.pack_into("<I", data, 32, 52 - 32)
    struct.pack_into("<I", data, 36, 60 - 36)
    struct.pack_into("<I", data, 40, 76 - 40)
    struct.pack_into("<I", data, 44, 100 - 44)
    data[52:59] = struct.pack("<I", 3) + b"a\xffc"
    struct.pack_into("<Ihhh", data, 60, 3, 5, -6, 7)
    struct.pack_into("<III", data, 76, 2, 100 - 80, 108 - 84)
    # Two tables that share the table of fields at 88: one field of 4 bytes.
    struct.pack_into("<3H", data, 88, 6, 8, 4)
    struct.pack_into("<ii", data, 100, 100 - 88, 11)
    struct.pack_into("<ii", data, 108, 108 - 88, 12)
    return data


def root(data=None):
    return Data(memoryview(bytes(buffer() if data is None else data))).root()


def test_that_fields_are_read_by_their_place_in_the_schema():
    table = root()
    assert table.whole(0, "b") == -7
    assert table.whole(5, "B") == 9
    assert table.text(2) == "a\ufffdc"
    assert bytes(table.bytes(2)) == b"a\xffc"
    assert table.numbers(3, "h") == (5, -6, 7)
    assert [each.whole(0, "i") for each in table.tables(4)] == [11, 12]
    assert table.table(6).whole(0, "i") == 11


def test_that_a_union_is_its_kind_and_the_table_behind_it():
    kind, table = root().union(5)
    assert (kind, table.whole(0, "i")) == (9, 11)
    assert root().union(1)[0] == 0


def test_that_absent_fields_are_their_defaults():
    table = root()
    for absent in (1, 7, 40):
        assert table.whole(absent, "i") == 0
        assert table.whole(absent, "i", 5) == 5
        assert table.table(absent) is None
        assert table.text(absent) == ""
        assert table.numbers(absent, "i") == ()
        assert list(table.tables(absent)) == []


def test_that_the_last_bytes_are_read_and_none_beyond():
    data = Data(memoryview(b"\x01\x02\x03\x04\x05\x06\x07\x08"))
    assert data.whole("I", 4) == 0x08070605
    assert data.whole("Q", 0) == 0x0807060504030201
    for form, at in (("I", 5), ("B", 8), ("H", 7), ("b", -1), ("q", 1)):
        with pytest.raises(WorkbenchError):
            data.whole(form, at)
    sizes = {form: struct.calcsize(f"<{form}") for form in "bBhHiIqQ"}
    for form, size in sizes.items():
        assert data.whole(form, 8 - size) == struct.unpack_from(f"<{form}", data.view, 8 - size)[0]


@for_each("last", [1, 2])
def test_that_a_list_may_end_with_the_file_and_not_behind_it(last):
    data = buffer()[:70]
    struct.pack_into("<I", data, 60, 2 + last)
    if last == 1:
        assert root(data).numbers(3, "h") == (5, -6, 7)
    else:
        with pytest.raises(WorkbenchError):
            root(data).numbers(3, "h")


def test_that_tables_that_refer_to_each_other_end():
    data = Data(memoryview(bytes(buffer())))
    for _ in range(10_000):
        data.table(24)
    with pytest.raises(WorkbenchError):
        data.table(24)


def test_that_larger_data_may_hold_more_tables():
    data = Data(memoryview(bytes(buffer()) + bytes(80_000)))
    allowed = (120 + 80_000) // 4
    for _ in range(allowed):
        data.table(24)
    with pytest.raises(WorkbenchError):
        data.table(24)


def test_that_tables_in_a_list_may_be_one_table():
    """Twenty offsets at 124 lead to a table at 204 that ends with the file."""
    data = buffer() + bytes(92)
    struct.pack_into("<I", data, 40, 120 - 40)
    struct.pack_into("<21I", data, 120, 20, *[204 - at for at in range(124, 204, 4)])
    struct.pack_into("<ii", data, 204, 204 - 88, 13)
    assert [each.whole(0, "i") for each in root(data).tables(4)] == [13] * 20


@for_each(("size", "budget"), [(100, 1 << 20), (600_000, 1_200_000), (9 << 20, 16 << 20)])
def test_that_lists_of_twice_the_file_are_decoded_or_of_a_mebibyte(size, budget):
    data = Data(memoryview(bytes(size)))
    data.spend(budget)
    with pytest.raises(WorkbenchError):
        data.spend(1)


@for_each(("form", "cost"), [("B", 4), ("i", 4), ("q", 8)])
def test_that_a_number_of_a_list_costs_what_it_takes_in_memory(form, cost):
    item = struct.calcsize(f"<{form}")
    data = buffer() + bytes(1000 * item)
    struct.pack_into("<I", data, 36, 120 - 36)
    data += bytes(4)
    struct.pack_into("<I", data, 120, 1000)
    table = root(data)
    for _ in range((1 << 20) // (1000 * cost)):
        assert len(table.numbers(3, form)) == 1000
    with pytest.raises(WorkbenchError):
        table.numbers(3, form)
