"""Which memory a Thumb instruction loads from or stores to.

Source: Armv8-M Architecture Reference Manual (DDI 0553), chapter C2, encodings of the loads and
stores of core registers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_ALL = 0xFFFFFFFF
_PC = 15
# Stores and loads with a register offset: (load, bytes, signed).
_WITH_REGISTER = (
    (False, 4, False),
    (False, 2, False),
    (False, 1, False),
    (True, 1, True),
    (True, 4, False),
    (True, 2, False),
    (True, 1, False),
    (True, 2, True),
)
# Bytes of the forms with a short offset, by the four highest bits.
_WITH_OFFSET = {6: 4, 7: 1, 8: 2}
# Bytes of loads that acquire and stores that release, by bits 4 to 7 of the second half.
_ORDERED = {8: 1, 9: 2, 10: 4}


@dataclass(frozen=True)
class Access:
    """A load or a store.

    Attributes:
        load: Whether it loads.
        registers: What is loaded or stored, each at the address behind the one before.
        size: Bytes of each register in memory.
        length: Bytes of the instruction.
        address: The first address.
        written_back: A base register and its new value; None if none changes.
        signed: Whether a loaded value has a sign.
    """

    load: bool
    registers: tuple[int, ...]
    size: int
    length: int
    address: int
    written_back: tuple[int, int] | None = None
    signed: bool = False


def decoded(code: bytes, registers: Sequence[int]) -> Access | None:
    """Return what an instruction loads or stores; None if it does neither in a form that is known.

    Args:
        code: Four bytes from the instruction on.
        registers: r0 to r15, before it is carried out.
    """
    first, second = (int.from_bytes(code[i : i + 2], "little") for i in (0, 2))
    if first >> 11 not in (0b11101, 0b11110, 0b11111):
        return _narrow(first, registers)
    if first >> 9 == 0b1111100 and first & 15 != _PC:
        return _single(first, second, registers)
    if first >> 9 != 0b1110100 or first & 15 == _PC:
        return None
    return _several(first, second, registers)


def _narrow(half: int, registers: Sequence[int]) -> Access | None:
    kind, load = half >> 12, bool(half >> 11 & 1)
    base, target = registers[half >> 3 & 7], half & 7
    if size := _WITH_OFFSET.get(kind):
        return Access(load, (target,), size, 2, base + (half >> 6 & 31) * size & _ALL)
    if kind == 5:
        load, size, signed = _WITH_REGISTER[half >> 9 & 7]
        address = base + registers[half >> 6 & 7] & _ALL
        return Access(load, (target,), size, 2, address, signed=signed)
    if kind == 9:
        return Access(load, (half >> 8 & 7,), 4, 2, registers[13] + 4 * (half & 255) & _ALL)
    if kind == 12:
        number, listed = half >> 8 & 7, tuple(r for r in range(8) if half >> r & 1)
        end = registers[number] + 4 * len(listed) & _ALL
        back = None if load and number in listed else (number, end)
        return Access(load, listed, 4, 2, registers[number], back)
    return None


def _single(first: int, second: int, registers: Sequence[int]) -> Access | None:
    """LDR, STR and their forms for bytes and halves, in 32 bits."""
    number, load = first & 15, bool(first >> 4 & 1)
    size, signed = 1 << (first >> 5 & 3), bool(first >> 8 & 1)
    target, base = second >> 12, registers[number]
    # Loads of bytes and halves into the PC are hints to prefetch.
    if size > 4 or (target == _PC and size < 4):
        return None
    access = Access(load, (target,), size, 4, base, signed=signed)
    if first >> 7 & 1:
        return replace(access, address=base + (second & 0xFFF) & _ALL)
    if second >> 11 & 1:
        moved = base + (second & 0xFF) * (1 if second >> 9 & 1 else -1) & _ALL
        back = (number, moved) if second >> 8 & 1 else None
        return replace(access, address=moved if second >> 10 & 1 else base, written_back=back)
    if second >> 6 & 63:
        return None
    offset = registers[second & 15] << (second >> 4 & 3)
    return replace(access, address=base + offset & _ALL)


def _several(first: int, second: int, registers: Sequence[int]) -> Access | None:
    """LDRD, STRD, LDM, STM, LDA and STL."""
    number, load = first & 15, bool(first >> 4 & 1)
    base, adds, writes_back = registers[number], bool(first >> 7 & 1), bool(first >> 5 & 1)
    if not first & 0x40:
        return _multiple(first, second, base)
    if first & 0x120:
        moved = base + 4 * (second & 0xFF) * (1 if adds else -1) & _ALL
        back = (number, moved) if writes_back else None
        listed = (second >> 12, second >> 8 & 15)
        return Access(load, listed, 4, 4, moved if first >> 8 & 1 else base, back)
    size = _ORDERED.get(second >> 4 & 15)
    if first >> 5 & 7 != 0b110 or size is None:
        return None
    return Access(load, (second >> 12,), size, 4, base)


def _multiple(first: int, second: int, base: int) -> Access | None:
    number, load, mode = first & 15, bool(first >> 4 & 1), first >> 7 & 3
    listed = tuple(r for r in range(16) if second >> r & 1)
    if mode not in (1, 2):
        return None
    end = base + 4 * len(listed) * (1 if mode == 1 else -1) & _ALL
    back = (number, end) if first >> 5 & 1 else None
    return Access(load, listed, 4, 4, base if mode == 1 else end, back)
