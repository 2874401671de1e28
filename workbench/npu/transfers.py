"""NPU_OP_DMA_START: copies between memory regions, and into the table memory.

Source: Vela 5.1.0 (Apache-2.0), the register generators. Copies in two and three dimensions of the
U65, and indexed destinations of the U85, follow the register descriptions; Vela was not seen to
use them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from workbench.npu.faults import Fault, ModeFault
from workbench.npu.memory import TABLE_BYTES, Bytes, shared
from workbench.npu.registers import Registers
from workbench.npu.state import State

_INTERNAL = 1 << 8
_INDEXED = 1 << 11
_FLAT, _PLANES, _CUBES = range(3)
_INDEX_BYTES = 4
# A row of a copy costs the simulator about as much as so many multiplications.
_ROW_WORK = 20_000


@dataclass(frozen=True)
class _Row:
    """One copy of consecutive bytes."""

    source: int
    target: int


def transfer(state: State, parameter: int) -> None:
    """Carry out NPU_OP_DMA_START.

    Raises:
        Fault: an address is outside of its region, or a mode does not exist.
    """
    del parameter
    registers = state.registers
    length = registers.address("DMA0_LEN")
    if not length:
        raise Fault("A DMA copies nothing.")
    rows = _rows_u85(state) if state.device.u85 else _rows_u65(registers, length)
    for row in rows:
        state.spend(length + _ROW_WORK)
        source, target = registers["DMA0_SRC_REGION"], registers["DMA0_DST_REGION"]
        if (source | target) & _INTERNAL:
            _write(state, target, row.target, _read(state, source, row.source, length))
        else:
            state.memory.copy((source & 7, row.source), (target & 7, row.target), length)
        state.counters.copied_bytes += length


def _read(state: State, region: int, address: int, length: int) -> Bytes:
    if region & _INTERNAL:
        return state.memory.table(_table_offset(state, address), length)[None]
    return state.memory.bytes_at(region & 7, address, length)


def _write(state: State, region: int, address: int, data: Bytes) -> None:
    if region & _INTERNAL:
        state.memory.load_table(_table_offset(state, address), shared(data))
    else:
        state.memory.put(region & 7, address, data.copy())


def _table_offset(state: State, address: int) -> int:
    """Return the offset in the table memory: on the U55 and U65 it is the end of the SHRAM."""
    return address if state.device.u85 else address % TABLE_BYTES


def _rows_u65(registers: Registers, length: int) -> Iterator[_Row]:
    """Yield the rows of a copy; in two and three dimensions its destination has gaps."""
    mode = registers["DMA0_DST_REGION"] >> 9 & 3
    if mode > _CUBES:
        raise ModeFault(f"DMA0_DST_REGION names the mode {mode}, which does not exist.")
    count = registers["DMA0_SIZE0"] if mode else 1
    planes = registers["DMA0_SIZE1"] if mode == _CUBES else 1
    skip = registers.stride("DMA0_SKIP0") if mode else 0
    skip_plane = registers.stride("DMA0_SKIP1") if mode == _CUBES else 0
    source, target = registers.address("DMA0_SRC"), registers.address("DMA0_DST")
    for _ in range(planes):
        for _ in range(count):
            yield _Row(source, target)
            source, target = source + length, target + length + skip
        target += skip_plane


def _rows_u85(state: State) -> Iterator[_Row]:
    """Yield the rows of a copy; an indexed side takes its row's number from a list of int32."""
    registers = state.registers
    source_region, target_region = registers["DMA0_SRC_REGION"], registers["DMA0_DST_REGION"]
    mode = source_region >> 9 & 3
    if mode > _CUBES:
        raise ModeFault(f"DMA0_SRC_REGION names the mode {mode}, which does not exist.")
    indexed = bool((source_region | target_region) & _INDEXED)
    count = registers["DMA0_SIZE0"] if mode or indexed else 1
    planes = registers["DMA0_SIZE1"] if mode == _CUBES else 1
    sides = []
    for name, region in (("SRC", source_region), ("DST", target_region)):
        by_index = bool(region & _INDEXED)
        rows = registers.stride(f"DMA0_{name}_STRIDE0") if mode or by_index else 0
        beyond = registers.stride(f"DMA0_{name}_STRIDE1") if mode == _CUBES else 0
        sides.append((registers.address(f"DMA0_{name}"), rows, beyond, by_index))
    for plane in range(planes):
        for row in range(count):
            number = _index(state, plane, plane * count + row) if indexed else row
            source, target = (
                base + (number if by_index else row) * stride + plane * beyond
                for base, stride, beyond, by_index in sides
            )
            yield _Row(source, target)


def _index(state: State, plane: int, position: int) -> int:
    registers = state.registers
    skip = registers.stride("DMA0_IDX_SKIP1") if plane else 0
    address = registers.address("DMA0_IDX") + _INDEX_BYTES * position + plane * skip
    data = state.memory.shared_bytes_at(registers["DMA0_IDX_REGION"] & 7, address, _INDEX_BYTES)
    index = int.from_bytes(data.tobytes(), "little", signed=True)
    largest = registers.get("DMA0_IDX_MAX", 0x7FFFFFFF) & 0x7FFFFFFF
    if not 0 <= index <= largest:
        raise Fault(f"The index {index} of a gather is outside 0 to {largest}.")
    return index
