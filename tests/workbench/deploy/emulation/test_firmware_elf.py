"""Firmware of others: read within bounds of work, or refused in a sentence."""

import struct
import tracemalloc
import zlib

import pytest

from tests.problems import refused
from workbench.deploy.emulation.firmware_elf import FirmwareElf
from workbench.deploy.simulators.compatibility import read_runner

SYMBOL = struct.pack("<IIIBBH", 1, 0x20000001, 4, 2, 0, 1)
SYMBOLS = [(".symtab", 2, 0, bytes(16) + SYMBOL, 2), (".strtab", 3, 0, b"\0main\0", 0)]
PACKED = 0x800


def elf(path, sections, listed=None):
    """Write firmware with sections: name, type, flags, content and the section it belongs to."""
    names, headers, body = b"\0", [bytes(40)], b""
    listing = b"\0" + b"".join(name.encode() + b"\0" for name, *_ in [*sections, (".shstrtab",)])
    for name, kind, flags, content, link in [*sections, (".shstrtab", 3, 0, listing, 0)]:
        begins, names = len(names), names + name.encode() + b"\0"
        size = content if isinstance(content, int) else len(content)
        headers.append(struct.pack("<10I", begins, kind, flags, 0, 52 + len(body), size, link, 0, 1, 16))
        body += b"" if isinstance(content, int) else content
    last, headers = len(headers) - 1, headers * (listed or 1)
    header = struct.pack(
        "<HHIIIIIHHHHHH", 2, 40, 1, 0, 0, 52 + len(body), 0, 52, 32, 0, 40, len(headers), last
    )
    path.write_bytes(b"\x7fELF\1\1\1" + bytes(9) + header + body + b"".join(headers))
    return path


def line_table(rows):
    """Return sections of debug information of one unit, whose line table has so many rows."""
    header = bytes([1, 1, 1, 0xFB, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1]) + b"\0a.c\0\0\0\0\0"
    program = b"\0\5\2" + struct.pack("<I", 0x20000000) + b"\x20" * rows + b"\0\1\1"
    unit = struct.pack("<HI", 3, len(header)) + header + program
    info = struct.pack("<HIBBI", 4, 0, 4, 1, 0)
    return [
        (".debug_info", 1, 0, struct.pack("<I", len(info)) + info, 0),
        (".debug_abbrev", 1, 0, b"\1\x11\0\x10\x17\0\0\0", 0),
        (".debug_line", 1, 0, struct.pack("<I", len(unit)) + unit, 0),
        (".debug_str", 1, 0, b"\0", 0),
    ]


def test_that_symbols_and_lines_are_read(tmp_path):
    firmware = FirmwareElf(elf(tmp_path / "a.elf", [*SYMBOLS, *line_table(9)]))
    assert firmware.at(0x20000003).name == "main"
    assert firmware.source(0x20000002).startswith("a.c:")


@pytest.mark.parametrize(
    "sections",
    [
        [(name, 1, PACKED, struct.pack("<III", 1, 1 << 30, 1) + zlib.compress(bytes(1 << 20)), 0)
         for name in (".debug_info", ".debug_abbrev", ".debug_line")],
        [(name, 8, 0, (1 << 32) - 1, 0) for name in (".debug_info", ".debug_abbrev", ".debug_line")],
        line_table(1 << 20),
    ],
    ids=["unpacks", "has-no-bytes", "has-many-rows"],
)  # fmt: skip
def test_that_debug_information_that_takes_gigabytes_is_left_out(tmp_path, sections):
    """A file of 4 MB became 5 GB."""
    path = elf(tmp_path / "a.elf", [*SYMBOLS, *sections])
    tracemalloc.start()
    firmware = FirmwareElf(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert firmware.at(0x20000001).name == "main"
    assert firmware.source(0x20000001) == ""
    assert peak < 64 << 20


@pytest.mark.parametrize(
    "sections",
    [
        [(".symtab", 2, 0, SYMBOL * (1 << 20), 2), (".strtab", 3, 0, b"\0main\0", 0)],
        [(".symtab", 2, 0, SYMBOL * 9000, 2), (".strtab", 3, 0, b"\0" + b"x" * (1 << 20), 0)],
        [(".symtab", 2, 0, SYMBOL * 18_000, 2), (".strtab", 3, 0, b"\0" + b"x" * 4000 + b"\0", 0)],
    ],
    ids=["many", "no-end", "long-names"],
)
def test_that_symbols_that_take_minutes_are_refused(tmp_path, sections):
    with refused("firmware-not-elf"):
        FirmwareElf(elf(tmp_path / "a.elf", sections))


def test_that_sections_that_share_their_bytes_are_refused_or_read_once(tmp_path):
    """10,000 tables of symbols, and loaded sections, of the same bytes: terabytes to read."""
    path = elf(tmp_path / "a.elf", SYMBOLS, listed=3000)
    with refused("runner-damaged"):
        read_runner(path, {"main": "method"})
    loaded = [(".text", 1, 2, b"aten::add.out\0" + bytes(1 << 20), 0)]
    tracemalloc.start()
    assert read_runner(elf(tmp_path / "b.elf", loaded, listed=10_000)).links("aten::add.out")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20
