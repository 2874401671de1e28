"""The accumulators: what they begin with, their width, and the scales of their channels.

Sources: Vela 5.1.0 (Apache-2.0), ``ethosu55/ethos_u55_weight_encoder.cpp`` and
``ethosu85/ethos_u85_weight_encoder.cpp`` (scale records), the register generators.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from workbench.npu.arithmetic import Integers
from workbench.npu.faults import Fault, ModeFault
from workbench.npu.output_stage import ChannelScales
from workbench.npu.registers import Registers
from workbench.npu.state import State

_RECORD = 10


def begun(state: State, sums: Integers) -> Integers:
    """Return sums plus what the accumulators held before (U85); and keep them.

    Raises:
        Fault: nothing of this shape is in the accumulators.
    """
    source = state.registers["ACC_FORMAT"] >> 4 & 3
    if source == 1:
        held = state.accumulators
        if held is None or held.shape[1:] != sums.shape[1:]:
            raise Fault("The accumulators are kept, but hold nothing of this shape.")
        sums = sums + held
    elif source == 2:
        ifm2 = state.registers.feature_map("IFM2")
        _, height, width, depth = sums.shape
        sums = sums + state.tensor(ifm2, (height, width, depth)).astype(np.int64)
        sums -= ifm2.zero_point
    elif source:
        raise ModeFault("ACC_FORMAT names a start of the accumulators that does not exist.")
    if state.keep_accumulators:
        state.accumulators = sums
    return sums


def accumulator_bits(registers: Registers) -> int:
    """Return the width of the accumulators.

    Raises:
        Fault: the format does not exist, or is one of floating point.
    """
    code = registers["ACC_FORMAT"] & 3
    if code > 1:
        raise ModeFault(f"ACC_FORMAT names the format {code}, which no compiled program uses.")
    wide = 48 if registers.device.u85 else 40
    return wide if code else 32


def channel_scales(state: State, depth: int) -> ChannelScales:
    """Return bias, scale and shift of each channel: records of ten bytes."""
    registers = state.registers
    region = registers.region("SCALE")
    records = np.zeros((depth, _RECORD), np.uint8)
    count_of_cores = cores(state)
    for core in range(count_of_cores):
        name = f"SCALE{core or ''}"
        count = -(-(depth - core) // count_of_cores)
        if count < 1:
            continue
        size = _RECORD * count
        data = state.memory.shared_bytes_at(region, registers.address(f"{name}_BASE"), size)
        records[core::count_of_cores] = data.reshape(count, _RECORD)
        state.counters.scale_bytes += size
    return _decoded_records(records, state)


def _decoded_records(records: npt.NDArray[np.uint8], state: State) -> ChannelScales:
    def number(first: int, size: int) -> Integers:
        total: Integers = np.zeros(len(records), np.int64)
        for index in range(size):
            total |= records[:, first + index].astype(np.int64) << 8 * index
        return total

    if not state.device.u85:
        return ChannelScales(_with_sign(number(0, 5), 40), number(5, 4), number(9, 1) & 63)
    shift = number(8, 1) & 63
    if state.registers["ACC_FORMAT"] & 3:
        return ChannelScales(_with_sign(number(0, 6), 48), number(6, 2) & 0x7FFF, shift)
    return ChannelScales(_with_sign(number(0, 4), 32), number(4, 4) & 0x7FFFFFFF, shift)


def _with_sign(values: Integers, bits: int) -> Integers:
    return values - ((values >> bits - 1 & 1) << bits)


def cores(state: State) -> int:
    """Return over how many cores channels of scales and weights are spread (U65)."""
    parallel = not state.device.u85 and state.registers.get("PARALLEL_MODE") & 1
    return state.device.cores if parallel else 1
