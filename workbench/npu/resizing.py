"""NPU_OP_RESIZE of the U85: bilinear, nearest, and replicated.

Source: Vela 5.1.0 (Apache-2.0), ``ethosu85/ethos_u85_register_cs_generator.cpp``. The position of
output o is ``t = o * d + offset`` in parts of 1/n of an input element, with ``d = step * n +
remainder``; bilinear weights stay unnormalised and OFM_SCALE's shift takes 16 bits more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.npu.arithmetic import Integers
from workbench.npu.faults import Fault, ModeFault
from workbench.npu.output_stage import OutputStage
from workbench.npu.registers import Registers, Scale
from workbench.npu.state import State

_Array = npt.NDArray[Any]

_BILINEAR, _REPLICATE, _NEAREST = range(3)
_EXTRA_SHIFT = 16


@dataclass(frozen=True)
class _Axis:
    """For each output along one axis: its neighbours, and how far it is behind the first."""

    first: _Array
    second: _Array
    nearest: _Array
    part: _Array
    parts: int


def resize(state: State, parameter: int) -> None:
    """Carry out NPU_OP_RESIZE; the parameter is the mode.

    Raises:
        Fault: the NPU has no such mode.
    """
    mode, registers = parameter & 3, state.registers
    if mode > _NEAREST:
        raise ModeFault(f"NPU_OP_RESIZE names the mode {mode}, which does not exist.")
    rows, columns, depth = registers.ofm_shape
    state.spend(4 * rows * columns * depth)
    state.memory.demand_room(registers.feature_map("OFM"), (rows, columns, depth))
    height, width = registers["KERNEL_HEIGHT_M1"] + 1, registers["KERNEL_WIDTH_M1"] + 1
    ifm = registers.feature_map("IFM")
    values = state.tensor(ifm, (height, width, depth)).astype(np.int64) - ifm.zero_point
    down, across = _axis(registers, "Y", height, rows), _axis(registers, "X", width, columns)
    if mode == _BILINEAR:
        resized = _bilinear(values, down, across)
    elif mode == _NEAREST:
        resized = values[:, down.nearest][:, :, across.nearest]
    else:
        resized = values[:, down.first][:, :, across.first]
    scale = registers.ofm_scale
    if scale.shift < _EXTRA_SHIFT:
        raise Fault("A resize has an output shift of less than 16.")
    OutputStage(state, Scale(1, scale.shift - _EXTRA_SHIFT, scale.rounding, scale.double_shift)).finish(
        resized
    )


def _axis(registers: Registers, name: str, size: int, count: int) -> _Axis:
    parts = (registers[f"RESIZE_{name}_SCALE_N_M1"] & 0x7FF) + 1
    offset = registers[f"RESIZE_{name}_OFFSET"] & 0xFFF
    offset -= (offset >> 11) << 12
    step = registers[f"RESIZE_{name}_STEP"]
    distance = (step >> 32 & 15) * parts + (step & 0x7FF)
    at = np.arange(count, dtype=np.int64) * distance + offset
    first = at // parts
    part = at - first * parts
    last = size - 1
    nearest = np.where(2 * part >= parts, first + 1, first)
    return _Axis(np.clip(first, 0, last), np.clip(first + 1, 0, last), np.clip(nearest, 0, last), part, parts)


def _bilinear(values: Integers, down: _Axis, across: _Axis) -> Integers:
    below = down.part[:, None, None]
    rows = values[:, down.first] * (down.parts - below) + values[:, down.second] * below
    right = across.part[:, None]
    left = rows[:, :, across.first] * (across.parts - right)
    return np.asarray(left + rows[:, :, across.second] * right)
