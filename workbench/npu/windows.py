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


class Ifm:
    """The IFM of an operation with a window, less its zero point, with padding."""

    def __init__(
        self, state: State, ifm: FeatureMap, kernel: Kernel, dtype: npt.DTypeLike, fill: int = 0
    ) -> None:
        """Read the IFM.

        Args:
            state: Of the run.
            ifm: Where it lies.
            kernel: With the padding.
            dtype: Of the result; whole numbers that it must hold exactly.
            fill: What stands in the padding.

        Raises:
            Fault: it is outside its memory.
        """
        registers = state.registers
        self._size = stored_size(registers, kernel)
        depth = (registers["IFM_DEPTH_M1"] & 0xFFFF) + 1
        self._upscale = registers.get("IFM_UPSCALE") & 3
        if self._upscale not in {0, _NEAREST, _ZEROS}:
            raise ModeFault(f"IFM_UPSCALE names the mode {self._upscale}, which does not exist.")
        height, width = self._size
        size = (-(-height // 2), -(-width // 2)) if self._upscale else (height, width)
        self._stored = state.tensor(ifm, (*size, depth))
        rows, columns, _ = registers.ofm_shape
        self._covered = (*kernel.covered(rows, columns), depth)
        self._kernel, self._dtype, self._fill = kernel, dtype, fill
        self._zero = np.dtype(dtype).type(ifm.zero_point)

    def __len__(self) -> int:
        return len(self._stored)

    def padded(self, samples: slice = slice(None)) -> _Array:
        """Return (samples, height, width, depth) as the kernel covers it."""
        stored, zero, dtype = self._stored[samples], self._zero, self._dtype
        kernel, (height, width) = self._kernel, self._size
        if not self._upscale and not kernel.padded:
            return np.subtract(stored, zero, dtype=dtype)
        whole = np.full((len(stored), *self._covered), self._fill, dtype)
        inner = whole[:, kernel.top : kernel.top + height, kernel.left : kernel.left + width]
        if not self._upscale:
            np.subtract(stored, zero, out=inner, casting="unsafe")
            return whole
        values = np.subtract(stored, zero, dtype=dtype)
        if self._upscale == _ZEROS:
            inner[...] = 0
            inner[:, ::2, ::2] = values
        else:
            inner[...] = values.repeat(2, 1).repeat(2, 2)[:, :height, :width]
        return whole


def taps(values: _Array, kernel: Kernel, rows: int, columns: int) -> Iterator[_Array]:
    """Yield, for each tap of the kernel with x fastest, what it meets.

    Args:
        values: With padding, of shape (samples, height, width, depth).
        kernel: Its taps.
        rows: Height of the OFM.
        columns: Width of the OFM.

    Yields:
        Shape (samples, rows, columns, depth), not copied.
    """
    for y in range(0, kernel.height * kernel.dilation_y, kernel.dilation_y):
        below = values[:, y : y + (rows - 1) * kernel.stride_y + 1 : kernel.stride_y]
        for x in range(0, kernel.width * kernel.dilation_x, kernel.dilation_x):
            yield below[:, :, x : x + (columns - 1) * kernel.stride_x + 1 : kernel.stride_x]


def columns_of(values: _Array, kernel: Kernel, columns: int, rows: slice) -> _Array:
    """Return the inputs of some rows of the OFM as a matrix: a row for each output element.

    Returns:
        Shape (samples * rows * columns, kernel height * kernel width * depth); not copied for 1x1
        kernels without stride.
    """
    samples, _, _, depth = values.shape
    count = rows.stop - rows.start
    first = rows.start * kernel.stride_y
    s, y, x, c = values.strides
    view = np.lib.stride_tricks.as_strided(
        values[:, first:],
        (samples, count, columns, kernel.height, kernel.width, depth),
        (s, y * kernel.stride_y, x * kernel.stride_x, y * kernel.dilation_y, x * kernel.dilation_x, c),
        writeable=False,
    )
    return view.reshape(samples * count * columns, kernel.height * kernel.width * depth)
