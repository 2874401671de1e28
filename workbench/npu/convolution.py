"""Convolutions, depthwise convolutions, and products of two feature maps.

Sums of products are computed in floating point where that is exact: when the largest input times
the sum of a channel's absolute weights is below 2**24 (float32) or 2**53 (float64), every partial
sum in any order is a whole number that the type holds, so no addition rounds.

Sources: Vela 5.1.0 (Apache-2.0), ``ethos_u55_weight_encoder.cpp`` and ``ethos_u85_...`` (scale
records), the register generators (what the settings mean).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.npu import weight_order
from workbench.npu.arithmetic import Integers
from workbench.npu.faults import Fault
from workbench.npu.output_stage import ChannelScales, OutputStage
from workbench.npu.registers import CHAINED, FeatureMap, Kernel, Registers
from workbench.npu.state import State
from workbench.npu.weight_order import Geometry
from workbench.npu.weights import decode, decode_fast
from workbench.npu.windows import columns_of, padded_ifm, taps

_Array = npt.NDArray[Any]

_SINGLE, _DOUBLE = 1 << 24, 1 << 53
_MATRIX_BYTES = 4 << 20
_PIECE = 1 << 15
_RECORD = 10
_STREAMS_U55 = ("WEIGHT", "WEIGHT1")
_STREAMS_U85 = ("WEIGHT", "WEIGHT1", "WEIGHT2", "WEIGHT3")


@dataclass(frozen=True)
class Weights:
    """Weights of one operation, ready for products.

    Attributes:
        matrix: Shape (kernel height * width * IFM depth, OFM depth), float32.
        sums: The largest sum of absolute weights of a channel.
        zeros: How many weights are zero.
    """

    matrix: _Array
    sums: int
    zeros: int


def convolution(state: State, parameter: int) -> None:
    """Carry out NPU_OP_CONV; on the U85 with bit 0 the weights are the second feature map."""
    if state.device.u85 and parameter & 1:
        _product(state)
        return
    ifm, kernel = state.registers.feature_map("IFM"), state.registers.kernel
    weights = _load(state, ifm, kernel, depthwise=False)
    rows, columns, depth = state.registers.ofm_shape
    macs = rows * columns * weights.matrix.size
    _count(state, macs)
    bound = float(max(map(abs, ifm.span)) * weights.sums)
    dtype = _exact_type(bound)
    values = padded_ifm(state, ifm, kernel, dtype)
    matrix = weights.matrix.astype(dtype, copy=False)
    stage = _stage(state, depth)
    if _needs_all(state):
        sums = np.empty((rows, columns, depth), np.int64)
        for part, found in _sums(values, kernel, matrix, (rows, columns)):
            sums[part] = found
        _conclude(state, sums, bound, stage)
        return
    results = np.empty((rows, columns, depth), stage.ofm.dtype)
    for part, found in _sums(values, kernel, matrix, (rows, columns)):
        stage.check_accumulators(found, bound)
        stage.fill(results[part], found, bound)
    stage.store(results)


def depthwise(state: State, parameter: int) -> None:
    """Carry out NPU_OP_DEPTHWISE: one plane of weights for each channel."""
    del parameter
    ifm, kernel = state.registers.feature_map("IFM"), state.registers.kernel
    weights = _load(state, ifm, kernel, depthwise=True)
    rows, columns, depth = state.registers.ofm_shape
    if (state.registers["IFM_DEPTH_M1"] & 0xFFFF) + 1 != depth:
        raise Fault("A depthwise operation has another depth in its IFM than in its OFM.")
    _count(state, rows * columns * weights.matrix.size)
    bound = float(max(map(abs, ifm.span)) * weights.sums)
    dtype = _exact_type(bound)
    values = padded_ifm(state, ifm, kernel, dtype)
    planes = weights.matrix.astype(dtype, copy=False)
    stage = _stage(state, depth)
    whole = _needs_all(state)
    results: _Array = np.empty((rows, columns, depth), np.int64 if whole else stage.ofm.dtype)
    step = max(1, _PIECE // (columns * depth))
    for first in range(0, rows, step):
        part = slice(first, min(first + step, rows))
        found = _plane_sums(values[first * kernel.stride_y :], kernel, planes, part, columns)
        if whole:
            results[part] = found
            continue
        stage.check_accumulators(found, bound)
        results[part] = stage.apply(found, bound)
    if whole:
        _conclude(state, results, bound, stage)
    else:
        stage.store(results)


def _plane_sums(
    values: _Array, kernel: Kernel, planes: _Array, part: slice, columns: int
) -> _Array:
    count = part.stop - part.start
    found = np.zeros((count, columns, planes.shape[1]), values.dtype)
    product = np.empty_like(found)
    for tap, plane in zip(taps(values, kernel, count, columns), planes, strict=True):
        np.multiply(tap, plane, out=product)
        found += product
    return found


def _sums(
    values: _Array, kernel: Kernel, matrix: _Array, size: tuple[int, int]
) -> Iterator[tuple[slice, _Array]]:
    """Yield rows of the OFM and their sums, as many at a time as moderate memory holds."""
    rows, columns = size
    inner, depth = matrix.shape
    row_bytes = columns * max(inner, depth) * matrix.itemsize
    step = max(1, _MATRIX_BYTES // row_bytes)
    for first in range(0, rows, step):
        part = slice(first, min(first + step, rows))
        inputs = columns_of(values, kernel, columns, part)
        yield part, (inputs @ matrix).reshape(part.stop - first, columns, depth)


def _exact_type(bound: float) -> npt.DTypeLike:
    """Return the cheapest type that adds up exactly.

    Raises:
        Fault: sums do not fit 63 bits; no accumulator of the NPU holds them.
    """
    if bound < _SINGLE:
        return np.float32
    if bound < _DOUBLE:
        return np.float64
    if bound >= float(1 << 62):
        raise Fault("The sums of products do not fit any accumulator.")
    return np.int64


def _count(state: State, macs: int) -> None:
    state.spend(macs)
    state.counters.macs += macs


def _needs_all(state: State) -> bool:
    """Whether accumulators of the whole tensor are needed: they go on, or begin with something."""
    if not state.device.u85:
        return False
    value = state.registers["ACC_FORMAT"]
    return bool(state.keep_accumulators or value >> 4 & 3 or value >> 6 & 1)


def _conclude(state: State, sums: Integers, bound: float, stage: OutputStage) -> None:
    """Finish accumulators that began with something, or that stay inside (U85)."""
    sums = begun(state, sums)
    if state.registers["ACC_FORMAT"] >> 6 & 1:
        return
    exact = None if state.registers["ACC_FORMAT"] >> 4 & 3 else bound
    stage.check_accumulators(sums, float("inf") if exact is None else exact)
    stage.finish(sums, exact)


def begun(state: State, sums: Integers) -> Integers:
    """Return sums plus what the accumulators held before (U85); and keep them.

    Raises:
        Fault: nothing of this shape is in the accumulators.
    """
    source = state.registers["ACC_FORMAT"] >> 4 & 3
    if source == 1:
        held = state.accumulators
        if held is None or held.shape != sums.shape:
            raise Fault("The accumulators are kept, but hold nothing of this shape.")
        sums = sums + held
    elif source == 2:
        ifm2 = state.registers.feature_map("IFM2")
        height, width, depth = sums.shape
        sums = sums + state.tensor(ifm2, (height, width, depth)).astype(np.int64)
        sums -= ifm2.zero_point
    elif source:
        raise Fault("ACC_FORMAT names a start of the accumulators that does not exist.")
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
        raise Fault(f"ACC_FORMAT names the format {code}, which no compiled program uses.")
    wide = 48 if registers.device.u85 else 40
    return wide if code else 32


def _stage(state: State, depth: int) -> OutputStage:
    """Return the output stage of an operation with weights."""
    registers = state.registers
    state.counters.accumulator_bits = accumulator_bits(registers)
    if state.device.u85 and registers["ACC_FORMAT"] >> 6 & 1:
        return OutputStage(state, None)
    channels = channel_scales(state, depth)
    shared = registers["OFM_PRECISION"] >> 8 & 1
    return OutputStage(state, registers.ofm_scale if shared else None, channels)


def _product(state: State) -> None:
    """A product of two feature maps: rows of IFM2 are the channels of the OFM (U85)."""
    registers = state.registers
    ifm, ifm2 = registers.feature_map("IFM"), registers.feature_map("IFM2")
    if ifm2.storage == CHAINED:
        raise Fault("A product of feature maps has its second one in a chain buffer.")
    rows, columns, depth = registers.ofm_shape
    inner = (registers["IFM_DEPTH_M1"] & 0xFFFF) + 1
    across = ifm2.height0 * ifm2.width0
    if across != depth:
        raise Fault(f"A product has {across} rows in IFM2 and {depth} channels in its OFM.")
    _count(state, rows * columns * depth * inner)
    bound = float(max(map(abs, ifm.span)) * max(map(abs, ifm2.span)) * inner)
    dtype = _exact_type(bound)
    left = state.tensor(ifm, (rows, columns, inner)).astype(dtype) - ifm.zero_point
    right = state.tensor(ifm2, (ifm2.height0, ifm2.width0, inner)).astype(dtype)
    right = right.reshape(-1, inner) - ifm2.zero_point
    state.counters.accumulator_bits = accumulator_bits(registers)
    sums = (left.reshape(-1, inner) @ right.T).reshape(rows, columns, depth).astype(np.int64)
    _conclude(state, sums, bound, OutputStage(state, registers.ofm_scale))


def channel_scales(state: State, depth: int) -> ChannelScales:
    """Return bias, scale and shift of each channel: records of ten bytes."""
    registers = state.registers
    region = registers.region("SCALE")
    records = np.zeros((depth, _RECORD), np.uint8)
    cores = _cores(state)
    for core in range(cores):
        name = f"SCALE{core or ''}"
        count = -(-(depth - core) // cores)
        if count < 1:
            continue
        size = _RECORD * count
        data = state.memory.bytes_at(region, registers.address(f"{name}_BASE"), size)
        records[core::cores] = data.reshape(count, _RECORD)
        state.counters.scale_bytes += size
    return _decoded_records(records, state)


def _decoded_records(records: npt.NDArray[np.uint8], state: State) -> ChannelScales:
    def number(first: int, size: int) -> Integers:
        total: Integers = np.zeros(len(records), np.int64)
        for place in range(size):
            total |= records[:, first + place].astype(np.int64) << 8 * place
        return total

    if not state.device.u85:
        return ChannelScales(_with_sign(number(0, 5), 40), number(5, 4), number(9, 1) & 63)
    shift = number(8, 1) & 63
    if state.registers["ACC_FORMAT"] & 3:
        return ChannelScales(_with_sign(number(0, 6), 48), number(6, 2) & 0x7FFF, shift)
    return ChannelScales(_with_sign(number(0, 4), 32), number(4, 4) & 0x7FFFFFFF, shift)


def _with_sign(values: Integers, bits: int) -> Integers:
    return values - ((values >> bits - 1 & 1) << bits)


def _cores(state: State) -> int:
    """Return over how many cores channels of scales and weights are spread (U65)."""
    parallel = not state.device.u85 and state.registers.get("PARALLEL_MODE") & 1
    return state.device.cores if parallel else 1


def _load(state: State, ifm: FeatureMap, kernel: Kernel, *, depthwise: bool) -> Weights:
    """Return the weights of an operation, decoded or from the cache."""
    registers = state.registers
    geometry = _geometry(state, ifm, kernel, depthwise=depthwise)
    fast = state.device.u85 and bool(registers.get("WEIGHT_FORMAT") & 1)
    streams = [
        _stream(state, name)
        for name in (_STREAMS_U85 if state.device.u85 else _STREAMS_U55)[: geometry.streams]
    ]
    if fast:
        streams = streams[:1]
    digest = hashlib.blake2b(digest_size=16)
    for stream in streams:
        digest.update(len(stream).to_bytes(8, "little"))
        digest.update(stream)
    key = (digest.digest(), geometry, fast)
    found: Weights | None = state.weights.get(key)
    if found is None:
        found = _decoded(state, geometry, streams, fast=fast)
        state.weights.put(key, found, found.matrix.nbytes)
    state.counters.weights += found.matrix.size
    state.counters.zero_weights += found.zeros
    return found


def _stream(state: State, name: str) -> bytes:
    registers = state.registers
    size = registers.get(f"{name}_LENGTH") & 0xFFFFFFFF
    if not size:
        return b""
    state.counters.weight_bytes += size
    base = registers.address(f"{name}_BASE")
    return state.memory.bytes_at(registers.region("WEIGHT"), base, size).tobytes()


def _geometry(state: State, ifm: FeatureMap, kernel: Kernel, *, depthwise: bool) -> Geometry:
    registers, device = state.registers, state.device
    depth = registers.ofm_shape[2]
    ublock = device.ofm_ublock
    if device.u85:
        microblock = registers["ACC_FORMAT"] >> 8 & 7
        ublock = weight_order.microblock_depth(device.macs, microblock)
    return Geometry(
        ofm_depth=depth,
        height=kernel.height,
        width=kernel.width,
        ifm_depth=1 if depthwise else (registers["IFM_DEPTH_M1"] & 0xFFFF) + 1,
        block_depth=registers["OFM_BLK_DEPTH_M1"] + 1,
        ifm_bits=ifm.bits,
        ofm_ublock=ublock,
        depthwise=depthwise,
        part_kernel=kernel.part_kernel,
        dilation_y=kernel.dilation_y,
        dilation_x=kernel.dilation_x,
        streams=device.cores if device.u85 else _cores(state),
        stride_y=kernel.stride_y if device.u85 else 1,
        stride_x=kernel.stride_x if device.u85 else 1,
        macs=device.macs if device.u85 else 0,
        sparse=device.u85 and bool(registers.get("WEIGHT_FORMAT") & 0x10),
    )


def _decoded(state: State, geometry: Geometry, streams: list[bytes], *, fast: bool) -> Weights:
    """Decode streams and put their weights in order.

    Raises:
        Fault: they do not fit the operation.
    """
    size = int(np.prod(geometry.shape, dtype=np.int64))
    # Filling makes a stream longer than its weights, at most by the blocks' sizes.
    limit = state.options.limits.memory_bytes // 32
    if size > limit:
        raise Fault(f"The operation has {size:,} weights; a run may have {limit:,}.")
    flat = np.zeros(size, np.int16)
    if fast:
        _demand_bits(8 * len(streams[0]) * 4, size)
        places = weight_order.woven_u85(geometry)
        weight_order.placed(decode_fast(streams[0], len(places)), places, flat)
    else:
        order = weight_order.order_u85 if state.device.u85 else weight_order.order_u55
        decoded = [decode(stream, limit) for stream in streams]
        _demand_bits(sum(map(len, decoded)), size)
        for number, stream in enumerate(decoded):
            if number < geometry.ofm_depth or state.device.u85:
                weight_order.placed(stream, order(geometry, number), flat)
    volume = flat.reshape(geometry.shape[0], -1)
    sums = int(np.abs(volume.astype(np.int32)).sum(1, dtype=np.int64).max(initial=0))
    matrix = np.ascontiguousarray(volume.T.astype(np.float32))
    return Weights(matrix, sums, int(size - np.count_nonzero(flat)))


def _demand_bits(found: int, wanted: int) -> None:
    if found < wanted:
        raise Fault(f"The weight stream has {found:,} weights, the operation needs {wanted:,}.")
