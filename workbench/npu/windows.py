"""What convolutions and pools share: the padded IFM, and one tap's part of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.npu.faults import Fault, ModeFault
from workbench.npu.registers import FeatureMap, Kernel, Registers
from workbench.npu.state import State

_Array = npt.NDArray[Any]

_NEAREST, _ZEROS = 1, 2


def stored_size(registers: Registers, kernel: Kernel) -> tuple[int, int]:
    """Return height and width of the IFM without padding, before any upscaling is undone.

    The registers do not hold them; they follow from the OFM, the kernel and the padding.

    Raises:
        Fault: nothing is left of the IFM.
    """
    rows, columns, _ = registers.ofm_shape
    height, width = kernel.covered(rows, columns)
    height, width = height - kernel.top - kernel.bottom, width - kernel.left - kernel.right
    if height < 1 or width < 1:
        raise Fault("The padding covers all of the IFM.")
    return height, width


def padded_ifm(
    state: State, ifm: FeatureMap, kernel: Kernel, dtype: npt.DTypeLike, fill: int = 0
) -> _Array:
    """Return the IFM less its zero point, with padding.

    Args:
        state: Of the run.
        ifm: Where it lies.
        kernel: With the padding.
        dtype: Of the result; whole numbers that it must hold exactly.
        fill: What stands in the padding.

    Returns:
        Shape (height, width, depth) as the kernel covers it.

    Raises:
        Fault: it is outside its memory.
    """
    registers = state.registers
    height, width = stored_size(registers, kernel)
    depth = (registers["IFM_DEPTH_M1"] & 0xFFFF) + 1
    upscale = registers.get("IFM_UPSCALE") & 3
    if upscale not in {0, _NEAREST, _ZEROS}:
        raise ModeFault(f"IFM_UPSCALE names the mode {upscale}, which does not exist.")
    size = (-(-height // 2), -(-width // 2)) if upscale else (height, width)
    stored = state.tensor(ifm, (*size, depth))
    zero = np.dtype(dtype).type(ifm.zero_point)
    if not upscale and not kernel.padded:
        return np.subtract(stored, zero, dtype=dtype)
    rows, columns, _ = registers.ofm_shape
    covered = kernel.covered(rows, columns)
    whole = np.full((*covered, depth), fill, dtype)
    inner = whole[kernel.top : kernel.top + height, kernel.left : kernel.left + width]
    if not upscale:
        np.subtract(stored, zero, out=inner, casting="unsafe")
        return whole
    values = np.subtract(stored, zero, dtype=dtype)
    if upscale == _ZEROS:
        inner[...] = 0
        inner[::2, ::2] = values
    else:
        inner[...] = values.repeat(2, 0).repeat(2, 1)[:height, :width]
    return whole


def taps(values: _Array, kernel: Kernel, rows: int, columns: int) -> Iterator[_Array]:
    """Yield, for each tap of the kernel with x fastest, what it meets; (rows, columns, depth).

    Args:
        values: With padding.
        kernel: Its taps.
        rows: Height of the OFM.
        columns: Width of the OFM.
    """
    for y in range(0, kernel.height * kernel.dilation_y, kernel.dilation_y):
        below = values[y : y + (rows - 1) * kernel.stride_y + 1 : kernel.stride_y]
        for x in range(0, kernel.width * kernel.dilation_x, kernel.dilation_x):
            yield below[:, x : x + (columns - 1) * kernel.stride_x + 1 : kernel.stride_x]


def columns_of(values: _Array, kernel: Kernel, columns: int, rows: slice) -> _Array:
    """Return the inputs of some rows of the OFM as a matrix: a row for each output element.

    Returns:
        Shape (rows * columns, kernel height * kernel width * depth); not copied for 1x1 kernels
        without stride.
    """
    depth = values.shape[2]
    count = rows.stop - rows.start
    first = rows.start * kernel.stride_y
    y, x, c = values.strides
    view = np.lib.stride_tricks.as_strided(
        values[first:],
        (count, columns, kernel.height, kernel.width, depth),
        (y * kernel.stride_y, x * kernel.stride_x, y * kernel.dilation_y, x * kernel.dilation_x, c),
        writeable=False,
    )
    return view.reshape(count * columns, kernel.height * kernel.width * depth)
