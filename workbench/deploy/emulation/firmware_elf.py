"""The firmware's ELF file: whether it can run here, and what is at an address."""

from __future__ import annotations

import hashlib
import struct
import time
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elftools.common.exceptions import DWARFError, ELFError
from elftools.elf.elffile import ELFFile

from workbench.errors import Place, failure
from workbench.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator

_ARM = "EM_ARM"
_MOST_BYTES = 512 << 20
# An entry of a symbol table (Elf32_Sym of elf.h), and the types of symbols that are read.
_SYMBOL, _KINDS, _FUNCTION = struct.Struct("<IIIBBH"), {0, 1, 2}, 2
_MOST_SECTIONS, _MOST_SYMBOLS, _LONGEST_NAME, _MOST_NAME_BYTES = 10_000, 1_000_000, 4096, 64 << 20
# The library reads 100,000 lines in a second, 700 bytes each: time for all [s], sizes of sections once
# they are unpacked, and of one unit's line table.
_MOST_DEBUG_S, _MOST_PROGRAM_BYTES = 8.0, 512 << 10
_MOST_DEBUG_BYTES = {".debug_abbrev": 4 << 20, ".debug_info": 128 << 20}
# What the library raises for files whose tables do not fit each other.
_DAMAGED = (
    ELFError,
    DWARFError,
    ValueError,
    LookupError,
    AssertionError,
    AttributeError,
    TypeError,
    ArithmeticError,
    RecursionError,
    MemoryError,
)


@dataclass(frozen=True)
class Symbol:
    """An object or a function: ``start`` is its address, ``size`` its bytes (0 if unknown)."""

    name: str
    start: int
    size: int

    @property
    def end(self) -> int:
        """The address behind it."""
        return self.start + self.size


class FirmwareElf:
    """Symbols and source lines by address; ``sha256`` is the digest of the file."""

    def __init__(self, path: Path) -> None:
        """Read a file.

        Raises:
            WorkbenchError: it is no ELF file for an Arm processor, or it has no symbols.
        """
        place = Place(kind="file", id=str(path))
        try:
            if path.stat().st_size > _MOST_BYTES:
                text = f"{path.name} is larger than {_MOST_BYTES:,} bytes."
                raise failure(text, "", place, code="firmware-too-large")
            with open_regular(path) as file:
                self.sha256 = hashlib.file_digest(file, "sha256").hexdigest()
                elf = ELFFile(file)
                _require_arm(elf, path)
                self._symbols = sorted(_symbols(elf), key=lambda symbol: symbol.start)
                self._lines = sorted(_lines(elf))
        except OSError as error:
            text = f"{path} cannot be read: {error.strerror}."
            raise failure(text, "", place, code="firmware-unreadable") from error
        except _DAMAGED as error:
            raise failure(
                f"{path.name} is no complete ELF file: {error}.",
                "Give the linked firmware, not an image made by objcopy.",
                place,
                code="firmware-not-elf",
            ) from error
        if not self._symbols:
            text = f"{path.name} has no symbols."
            raise failure(text, "Do not strip it.", place, code="firmware-without-symbols")
        self._starts = [symbol.start for symbol in self._symbols]
        self._places = [line[0] for line in self._lines]

    def named(self, name: str) -> Symbol | None:
        """Return the symbol of a name."""
        return next((symbol for symbol in self._symbols if symbol.name == name), None)

    def at(self, address: int) -> Symbol | None:
        """Return the object or function that has an address."""
        index = bisect_right(self._starts, address) - 1
        symbol = self._symbols[index] if index >= 0 else None
        return symbol if symbol is not None and symbol.start <= address < symbol.end else None

    def over(self, start: int, end: int) -> list[Symbol]:
        """Return the objects and functions that have bytes of a span."""
        return [s for s in self._symbols if s.start < end and start < s.end]

    def source(self, address: int) -> str:
        """Return the line of an instruction, as ``main.c:27``; "" if it is not known."""
        index = bisect_right(self._places, address) - 1
        if index < 0:
            return ""
        start, name, line = self._lines[index]
        return f"{name}:{line}" if line and address - start < 64 else ""

    def text(self, address: int) -> str:
        """Return an address with its symbol, as ``0x20000010 (scratch+0x10)``."""
        symbol = self.at(address)
        if symbol is None:
            return f"{address:#010x}"
        return f"{address:#010x} ({symbol.name}+{address - symbol.start:#x})"


def _require_arm(elf: Any, path: Path) -> None:
    machine, bits = elf["e_machine"], elf.elfclass
    if machine != _ARM or bits != 32:
        text = f"{path.name} is for another processor ({machine}, {bits} bits)."
        raise failure(
            text, "Build for a Cortex-M55.", Place(kind="file", id=str(path)), code="firmware-other-processor"
        )


def _symbols(elf: Any) -> Iterator[Symbol]:
    """Yield the symbols of a file.

    Raises:
        ValueError: There are too many sections or symbols, or names that are too long.
    """
    if elf.num_sections() > _MOST_SECTIONS:
        raise ValueError(f"it has {elf.num_sections():,} sections")
    table = elf.get_section_by_name(".symtab")
    if table is None:
        return
    entries, names = _content(elf, table), _content(elf, elf.get_section(table["sh_link"]))
    if len(entries) > _MOST_SYMBOLS * _SYMBOL.size:
        raise ValueError(f"it has more than {_MOST_SYMBOLS:,} symbols")
    named = 0
    for at, value, size, info, _, _ in _SYMBOL.iter_unpack(entries[: len(entries) // 16 * 16]):
        end = names.find(b"\0", at, at + _LONGEST_NAME)
        if info & 15 not in _KINDS or names[at : at + 1] in (b"", b"\0", b"$"):
            continue
        named += end - at
        if end < 0 or named > _MOST_NAME_BYTES:
            raise ValueError("the names of its symbols are too long")
        # The lowest bit of a function's address says that it is Thumb code.
        start = value & ~1 if info & 15 == _FUNCTION else value
        yield Symbol(names[at:end].decode("utf-8", "replace"), start, size)


def _content(elf: Any, section: Any) -> bytes:
    """Return the bytes of a section as they are in the file."""
    elf.stream.seek(section["sh_offset"])
    data: bytes = elf.stream.read(section["sh_size"])
    return data


def _lines(elf: Any) -> Iterator[tuple[int, str, int]]:
    """Yield address, file and line of the line tables; nothing without debug information.

    What takes too long to read is left out: the lines are a help only.
    """
    sizes = {s.name: s.data_size for s in elf.iter_sections() if s.name.startswith((".debug", ".zdebug"))}
    if ".debug_info" not in sizes or any(
        size > _MOST_DEBUG_BYTES.get(n, 32 << 20) for n, size in sizes.items()
    ):
        return
    end = time.thread_time() + _MOST_DEBUG_S
    dwarf = elf.get_dwarf_info(relocate_dwarf_sections=False, follow_links=False)
    for unit in dwarf.iter_CUs():
        if time.thread_time() > end:
            return
        table = dwarf.line_program_for_CU(unit)
        if table is None or table.program_end_offset - table.program_start_offset > _MOST_PROGRAM_BYTES:
            continue
        first = 0 if table["version"] >= 5 else 1
        files = table["file_entry"]
        for entry in table.get_entries():
            state = entry.state
            if state is None or state.end_sequence or not 0 <= state.file - first < len(files):
                continue
            name = files[state.file - first].name.decode("utf-8", "replace")
            yield state.address, Path(name).name, state.line
