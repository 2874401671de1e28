"""Pools, sums, and what Vela expresses as pools: copies, casts, rescaling.

Source: Vela 5.1.0 (Apache-2.0), ``regor/architecture/ethos_u_scaling.cpp`` and the register
generators. The constants by which the hardware divides padded averages are not public; those used
here agree with the TOSA reference model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.npu.accumulators import accumulator_bits, begun, channel_scales
from workbench.npu.arithmetic import Integers, rescale
from workbench.npu.faults import Fault, ModeFault
from workbench.npu.output_stage import OutputStage
from workbench.npu.registers import Kernel
from workbench.npu.state import State
from workbench.npu.windows import Ifm, stored_size, taps

_Array = npt.NDArray[Any]

_MAX, _AVERAGE, _REDUCE_SUM, _SUM, _NONE, _MIN, _ARGMAX_X, _ARGMAX_Y = range(8)
_FAR = 1 << 40
_NEARLY_ONE = 20


def pool(state: State, parameter: int) -> None:
    """Carry out NPU_OP_POOL; the parameter is the mode.

    Raises:
        Fault: the NPU has no such mode.
    """
    mode = parameter & 7
    computed = (_POOLS_U85 if state.device.u85 else _POOLS_U55).get(mode)
    if computed is None:
        raise ModeFault(f"NPU_OP_POOL names the mode {mode}, which this NPU does not have.")
    rows, columns, depth = state.registers.ofm_shape
    state.spend(rows * columns * depth)
    ofm = state.registers.feature_map("OFM")
    state.memory.demand_room(ofm, (rows, columns, depth))
    sums = computed(state)
    if mode in {_ARGMAX_X, _ARGMAX_Y}:
        OutputStage(state, None).finish(sums)
        return
    if state.device.u85 and mode not in {_MAX, _MIN}:
        sums = begun(state, sums)
        if state.registers["ACC_FORMAT"] >> 6 & 1:
            return
    state.counters.accumulator_bits = accumulator_bits(state.registers)
    _stage(state, sums).finish(sums)


def _stage(state: State, sums: Integers) -> OutputStage:
    registers = state.registers
    if not registers["OFM_PRECISION"] >> 8 & 1:
        return OutputStage(state, None, channel_scales(state, sums.shape[-1]))
    return OutputStage(state, registers.ofm_scale)


def _window(state: State, fill: int) -> tuple[Integers, Kernel]:
    kernel = state.registers.kernel
    ifm = state.registers.feature_map("IFM")
    rows, columns, depth = state.registers.ofm_shape
    if (state.registers["IFM_DEPTH_M1"] & 0xFFFF) + 1 != depth:
        raise Fault("A pool has another depth in its IFM than in its OFM.")
    work = rows * columns * depth * kernel.height * kernel.width
    state.spend(work)
    if kernel.height * kernel.width > 1 or _rescales(state):
        state.counters.macs += work
    return Ifm(state, ifm, kernel, np.int64, fill).padded(), kernel


def _rescales(state: State) -> bool:
    """Whether a pool of single elements computes; those that only move data are not counted.

    Vela writes a factor of one as (2**31 + 1) / 2**31 too, and counts just like this.
    """
    registers = state.registers
    if not registers["OFM_PRECISION"] >> 8 & 1:
        return True
    scale = registers.ofm_scale
    return abs(scale.scale - (1 << scale.shift)) > 1 << scale.shift >> _NEARLY_ONE


def _folded(state: State, fill: int, fold: Callable[..., Any]) -> Integers:
    """Return what a ufunc makes of all taps."""
    values, kernel = _window(state, fill)
    rows, columns, depth = state.registers.ofm_shape
    if kernel.height * kernel.width == 1:
        return next(taps(values, kernel, rows, columns))
    folded = np.full((len(values), rows, columns, depth), fill, np.int64)
    for tap in taps(values, kernel, rows, columns):
        fold(folded, tap, out=folded)
    return folded


def _largest(state: State) -> Integers:
    return _folded(state, -_FAR, np.maximum)


def _smallest(state: State) -> Integers:
    return _folded(state, _FAR, np.minimum)


def _sum(state: State) -> Integers:
    return _folded(state, 0, np.add)


def _average_u55(state: State) -> Integers:
    """Return sums, which OFM_SCALE divides; with padding, sums divided by the valid elements."""
    sums = _sum(state)
    if not state.registers.kernel.padded:
        return sums
    return _divided(state, sums, 31)


def _average_u85(state: State) -> Integers:
    """Return sums divided by the valid elements."""
    return _divided(state, _sum(state), 30)


def _divided(state: State, sums: Integers, bits: int) -> Integers:
    """Return sums divided by the number of elements that are not padding.

    The division is a multiplication by ``(2**bits + 1) * 2**k / n`` with ``k = ceil(log2(n))``,
    rounded as the OFM is.
    """
    registers = state.registers
    kernel = registers.kernel
    rows, columns, _ = registers.ofm_shape
    height, width = stored_size(registers, kernel)
    down = _valid(np.arange(rows) * kernel.stride_y - kernel.top, kernel.height, height)
    across = _valid(np.arange(columns) * kernel.stride_x - kernel.left, kernel.width, width)
    count = np.maximum(down[:, None] * across, 1)[:, :, None]
    extra = np.array([int(n - 1).bit_length() for n in count.reshape(-1)]).reshape(count.shape)
    factor = ((np.int64(1) << bits) + 1 << extra) // count
    rounding, double_shift = registers.ofm_rounding
    shape = sums.shape
    factor, shift = np.broadcast_to(factor, shape), np.broadcast_to(bits + extra, shape)
    return rescale(sums, factor, shift, rounding, double_shift)


def _valid(first: _Array, taps_: int, size: int) -> _Array:
    return np.asarray(np.minimum(first + taps_, size) - np.maximum(first, 0))


def _reduce_sum(state: State) -> Integers:
    """Return the sum over the channels of the IFM."""
    ifm = state.registers.feature_map("IFM")
    rows, columns, _ = state.registers.ofm_shape
    depth = (state.registers["IFM_DEPTH_M1"] & 0xFFFF) + 1
    state.spend(rows * columns * depth)
    values = state.tensor(ifm, (rows, columns, depth)).astype(np.int64) - ifm.zero_point
    summed: Integers = values.sum(-1, keepdims=True)
    return summed


def _nothing(state: State) -> Integers:
    """Return zeros: all comes from the start of the accumulators."""
    return np.zeros((1, *state.registers.ofm_shape), np.int64)


def _position_x(state: State) -> Integers:
    return _position(state, 1)


def _position_y(state: State) -> Integers:
    return _position(state, 0)


def _position(state: State, axis: int) -> Integers:
    """Return where the largest element stands, the first of equal ones."""
    registers = state.registers
    ifm, kernel = registers.feature_map("IFM"), registers.kernel
    rows, columns, _ = registers.ofm_shape
    depth = (registers["IFM_DEPTH_M1"] & 0xFFFF) + 1
    size = (rows, kernel.width) if axis else (kernel.height, columns)
    values = state.tensor(ifm, (*size, depth))
    state.remark("warning", "argmax", "Which of equal elements ARGMAX takes on the hardware is not public.")
    return np.asarray(values.argmax(axis + 1, keepdims=True), np.int64)


_POOLS_U55 = {_MAX: _largest, _AVERAGE: _average_u55, _REDUCE_SUM: _reduce_sum}
_POOLS_U85 = {
    _MAX: _largest,
    _AVERAGE: _average_u85,
    _REDUCE_SUM: _reduce_sum,
    _SUM: _sum,
    _NONE: _nothing,
    _MIN: _smallest,
    _ARGMAX_X: _position_x,
    _ARGMAX_Y: _position_y,
}
