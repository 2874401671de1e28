"""Thumb loads and stores, against capstone."""

import random

import capstone
import pytest
from capstone import arm
from capstone.arm import ARM_INS_LDM, ARM_OP_MEM, ARM_OP_REG

from workbench.deploy.emulation.thumb import Access, decoded

DISASSEMBLER = capstone.Cs(capstone.CS_ARCH_ARM, capstone.CS_MODE_THUMB | capstone.CS_MODE_MCLASS)
DISASSEMBLER.detail = True
CORE = {getattr(arm, f"ARM_REG_R{number}"): number for number in range(13)} | {
    arm.ARM_REG_SP: 13,
    arm.ARM_REG_LR: 14,
    arm.ARM_REG_PC: 15,
}
# Mnemonics without condition and width: bytes and sign of what they load or store.
SINGLE = {
    "ldr": (4, False),
    "str": (4, False),
    "ldrb": (1, False),
    "strb": (1, False),
    "ldrh": (2, False),
    "strh": (2, False),
    "ldrsb": (1, True),
    "ldrsh": (2, True),
    "lda": (4, False),
    "stl": (4, False),
    "ldab": (1, False),
    "stlb": (1, False),
    "ldah": (2, False),
    "stlh": (2, False),
    "ldrt": (4, False),
    "strt": (4, False),
    "ldrbt": (1, False),
    "strbt": (1, False),
    "ldrht": (2, False),
    "strht": (2, False),
    "ldrsbt": (1, True),
    "ldrsht": (2, True),
    "ldrd": (4, False),
    "strd": (4, False),
}
SEVERAL = {"ldm", "stm", "ldmdb", "stmdb", "push", "pop", "ldmia", "stmia", "ldmfd", "stmea"}
REGISTERS = [0x20000000 + 0x1000 * number + 4 * number * number for number in range(16)]


def told(code):
    """Return what capstone says of the first instruction: an access, or None."""
    found = next(DISASSEMBLER.disasm(code, 0), None)
    if found is None:
        return None
    name = found.mnemonic.removesuffix(".w")
    reads = name.startswith(("ld", "pop"))
    if name in SINGLE:
        return _single(found, SINGLE[name], reads)
    if name in SEVERAL:
        return _several(found, name, reads)
    return None


def _single(found, form, reads):
    operands = found.operands
    memory = next(operand for operand in operands if operand.type == ARM_OP_MEM)
    listed = tuple(CORE[o.reg] for o in operands if o.type == ARM_OP_REG)
    at = operands.index(memory)
    registers, base = listed[:at], CORE[memory.mem.base]
    offset = memory.mem.disp
    if memory.mem.index:
        offset += REGISTERS[CORE[memory.mem.index]] << memory.shift.value
    if operands[at + 1 :]:  # the offset is added behind the access
        last = operands[-1]
        moved = REGISTERS[base] + (-last.imm if last.subtracted else last.imm)
        address, back = REGISTERS[base], (base, moved & 0xFFFFFFFF)
    else:
        address = REGISTERS[base] + offset
        back = (base, address & 0xFFFFFFFF) if found.writeback else None
    return Access(reads, registers, form[0], found.size, address & 0xFFFFFFFF, back, form[1])


def _several(found, name, reads):
    listed = [CORE[operand.reg] for operand in found.operands]
    base = 13 if name in {"push", "pop"} else listed.pop(0)
    falls = name in {"push", "ldmdb", "stmdb"}
    moved = REGISTERS[base] + 4 * len(listed) * (-1 if falls else 1) & 0xFFFFFFFF
    back = (base, moved) if found.writeback or name in {"push", "pop"} else None
    if found.id == ARM_INS_LDM and base in listed and found.size == 2:
        back = None
    first = moved if falls else REGISTERS[base]
    return Access(reads, tuple(listed), 4, found.size, first, back)


def drawn(first):
    """Return codes that begin with given bits, the rest of them drawn."""
    draw = random.Random(first)
    return [
        (first | draw.getrandbits(9) & 0x1FF).to_bytes(2, "little")
        + draw.getrandbits(16).to_bytes(2, "little")
        for _ in range(1500)
    ]


BEGINNINGS = (0xE800, 0xF800, *range(0x5000, 0xA000, 0x200), *range(0xC000, 0xD000, 0x200))


@pytest.mark.parametrize("first", BEGINNINGS)
def test_that_what_is_decoded_is_what_capstone_decodes(first):
    compared = 0
    for code in drawn(first):
        found = decoded(code, REGISTERS)
        if found is None:
            continue
        expected = told(code)
        if expected is None:  # unpredictable, or a hint
            continue
        assert found == expected, (code.hex(), found, expected)
        compared += 1
    assert compared > 100


@pytest.mark.parametrize(
    "code",
    [
        "1a68",
        "5a68",
        "d0f80430",
        "d0e90123",
        "c0e90223",
        "0ecf",
        "0cc0",
        "90e80c00",
        "d0e8af3f",
        "c0e8af3f",
        "50f8043f",
        "50f8043b",
        "50f82130",
        "1a78",
        "1a88",
    ],
)
def test_that_the_forms_that_compilers_write_are_known(code):
    code = bytes.fromhex(code).ljust(4, b"\0")
    found = decoded(code, REGISTERS)
    assert found is not None
    assert found == told(code)


@pytest.mark.parametrize("code", ["7047", "00bf", "50ef003f", "40e80013"])
def test_that_other_instructions_are_not_taken_for_accesses(code):
    assert decoded(bytes.fromhex(code).ljust(4, b"\0"), REGISTERS) is None
