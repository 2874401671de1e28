"""Convolutions, depthwise convolutions, and products of two feature maps.

Sums of products are computed in floating point where that is exact: when the largest input times
the sum of a channel's absolute weights is below 2**24 (float32) or 2**53 (float64), every partial
sum in any order is a whole number that the type holds, so no addition rounds.

Source: Vela 5.1.0 (Apache-2.0), the register generators (what the settings mean).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.npu.accumulators import accumulator_bits, begun, channel_scales
from workbench.npu.arithmetic import Integers
from workbench.npu.faults import Fault
from workbench.npu.output_stage import OutputStage
from workbench.npu.registers import CHAINED, Kernel
from workbench.npu.state import State
from workbench.npu.weight_loading import load_weights
from workbench.npu.windows import Ifm, columns_of, taps

_Array = npt.NDArray[Any]

_SINGLE, _DOUBLE = 1 << 24, 1 << 53
# Pieces of a convolution and of a depthwise one: large enough for fast products, small enough for
# the processor's cache.
_MATRIX_BYTES = 4 << 20
_PIECE = 1 << 15


def convolution(state: State, parameter: int) -> None:
    """Carry out NPU_OP_CONV; on the U85 with bit 0 the weights are the second feature map."""
    if state.device.u85 and parameter & 1:
        _product(state)
        return
    ifm, kernel = state.registers.feature_map("IFM"), state.registers.kernel
    weights = load_weights(state, ifm, kernel, depthwise=False)
    rows, columns, depth = state.registers.ofm_shape
    macs = rows * columns * weights.matrix.size
    _count(state, macs)
    bound = float(max(map(abs, ifm.span)) * weights.sums)
    dtype = _exact_type(bound)
    stage = _stage(state, depth)
    matrix = weights.matrix.astype(dtype, copy=False)
    if weights.sums:
        values = Ifm(state, ifm, kernel, dtype)
        samples, parts = len(values), _sums(values, kernel, matrix, (rows, columns))
    else:
        samples, parts = 1, _zeros(matrix, (rows, columns))
    if _needs_all(state):
        sums = np.empty((samples, rows, columns, depth), np.int64)
        for part, products in parts:
            sums[part] = products
        _conclude(state, sums, bound, stage)
        return
    results = np.empty((samples, rows, columns, depth), stage.ofm.dtype)
    for part, products in parts:
        stage.check_accumulators(products, bound)
        stage.fill(results[part], products, bound)
    stage.store(results)


def depthwise(state: State, parameter: int) -> None:
    """Carry out NPU_OP_DEPTHWISE: one plane of weights for each channel."""
    del parameter
    ifm, kernel = state.registers.feature_map("IFM"), state.registers.kernel
    weights = load_weights(state, ifm, kernel, depthwise=True)
    rows, columns, depth = state.registers.ofm_shape
    if (state.registers["IFM_DEPTH_M1"] & 0xFFFF) + 1 != depth:
        raise Fault("A depthwise operation has another depth in its IFM than in its OFM.")
    _count(state, rows * columns * weights.matrix.size)
    bound = float(max(map(abs, ifm.span)) * weights.sums)
    dtype = _exact_type(bound)
    stage = _stage(state, depth)
    values = Ifm(state, ifm, kernel, dtype)
    planes = weights.matrix.astype(dtype, copy=False)
    whole = _needs_all(state)
    results: _Array = np.empty((len(values), rows, columns, depth), np.int64 if whole else stage.ofm.dtype)
    for samples, pieces in _pieces(len(values), rows, columns * depth, _PIECE):
        padded = values.padded(samples)
        for part in pieces:
            sums = _plane_sums(padded[:, part.start * kernel.stride_y :], kernel, planes, part, columns)
            if whole:
                results[samples, part] = sums
                continue
            stage.check_accumulators(sums, bound)
            results[samples, part] = stage.apply(sums, bound)
    if whole:
        _conclude(state, results, bound, stage)
    else:
        stage.store(results)


def _plane_sums(values: _Array, kernel: Kernel, planes: _Array, part: slice, columns: int) -> _Array:
    count = part.stop - part.start
    sums = np.zeros((len(values), count, columns, planes.shape[1]), values.dtype)
    product = np.empty_like(sums)
    for tap, plane in zip(taps(values, kernel, count, columns), planes, strict=True):
        np.multiply(tap, plane, out=product)
        sums += product
    return sums


def _pieces(samples: int, rows: int, row: int, most: int) -> Iterator[tuple[slice, list[slice]]]:
    """Yield samples and for them rows, of about ``most`` together; a row counts ``row``.

    Several samples are together only with all of their rows.
    """
    together = max(1, most // (rows * row))
    step = min(rows, max(1, most // row))
    parts = [slice(first, min(first + step, rows)) for first in range(0, rows, step)]
    for first in range(0, samples, together):
        yield slice(first, min(first + together, samples)), parts


def _sums(
    values: Ifm, kernel: Kernel, matrix: _Array, size: tuple[int, int]
) -> Iterator[tuple[tuple[slice, slice], _Array]]:
    """Yield samples and rows of the OFM with their sums, as many as moderate memory holds."""
    rows, columns = size
    inner, depth = matrix.shape
    row_bytes = columns * max(inner, depth) * matrix.itemsize
    for samples, parts in _pieces(len(values), rows, row_bytes, _MATRIX_BYTES):
        padded = values.padded(samples)
        for part in parts:
            inputs = columns_of(padded, kernel, columns, part)
            shape = (samples.stop - samples.start, part.stop - part.start, columns, depth)
            yield (samples, part), (inputs @ matrix).reshape(shape)


def _zeros(matrix: _Array, size: tuple[int, int]) -> Iterator[tuple[tuple[slice, slice], _Array]]:
    """Yield the sums of weights that are all zero; no input matters for them.

    Vela 5.1.0 writes the gaps of a transposed convolution on the U85 with such weights, and with
    padding of which IFM_PAD_BOTTOM and IFM_PAD_RIGHT hold the lowest 8 bits only. The size of the
    input that follows from them may be larger than the input is.
    """
    rows, columns = size
    depth = matrix.shape[1]
    for samples, parts in _pieces(1, rows, columns * depth * matrix.itemsize, _MATRIX_BYTES):
        for part in parts:
            shape = (1, part.stop - part.start, columns, depth)
            yield (samples, part), np.zeros(shape, matrix.dtype)


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
    state.counters.accumulator_bits = accumulator_bits(registers)
    stage = OutputStage(state, registers.ofm_scale)
    left = state.tensor(ifm, (rows, columns, inner)).astype(dtype) - ifm.zero_point
    right = state.tensor(ifm2, (ifm2.height0, ifm2.width0, inner)).astype(dtype)
    right = right.reshape(len(right), depth, inner) - ifm2.zero_point
    products = left.reshape(len(left), rows * columns, inner) @ right.swapaxes(1, 2)
    sums = products.reshape(len(products), rows, columns, depth).astype(np.int64)
    _conclude(state, sums, bound, stage)
