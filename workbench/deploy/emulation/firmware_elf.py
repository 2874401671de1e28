"""The firmware's ELF file: whether it can run here, and what is at an address."""

from __future__ import annotations

import hashlib
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
                machine, bits = elf["e_machine"], elf.elfclass
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
        if machine != _ARM or bits != 32:
            text = f"{path.name} is for another processor ({machine}, {bits} bits)."
            raise failure(text, "Build for a Cortex-M55.", place, code="firmware-other-processor")
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


def _symbols(elf: Any) -> Iterator[Symbol]:
    table = elf.get_section_by_name(".symtab")
    if table is None:
        return
    for symbol in table.iter_symbols():
        kind, size = symbol["st_info"]["type"], symbol["st_size"]
        if kind in {"STT_FUNC", "STT_OBJECT", "STT_NOTYPE"} and symbol.name[:1] not in ("", "$"):
            # The lowest bit of a function's address says that it is Thumb code.
            value = symbol["st_value"] & ~1 if kind == "STT_FUNC" else symbol["st_value"]
            yield Symbol(symbol.name, value, size)


def _lines(elf: Any) -> Iterator[tuple[int, str, int]]:
    """Yield address, file and line of the line tables; nothing without debug information."""
    if not elf.has_dwarf_info():
        return
    dwarf = elf.get_dwarf_info()
    for unit in dwarf.iter_CUs():
        table = dwarf.line_program_for_CU(unit)
        if table is None:
            continue
        first = 0 if table["version"] >= 5 else 1
        files = table["file_entry"]
        for entry in table.get_entries():
            state = entry.state
            if state is None or state.end_sequence or not 0 <= state.file - first < len(files):
                continue
            name = files[state.file - first].name.decode("utf-8", "replace")
            yield state.address, Path(name).name, state.line
