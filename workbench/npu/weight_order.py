"""In what order a weight stream holds the weights of an operation.

The streams are written for the order in which the hardware reads: blocks of the OFM, blocks of the
IFM, parts of the kernel, small blocks of both. Positions outside of the operation's weights hold
zeros. Sources: Vela 5.1.0 (Apache-2.0), ``ethosu55/ethos_u55_weight_encoder.cpp`` and
``ethosu85/ethos_u85_weight_encoder.cpp``; blocks of the IFM and microblocks of the U85:
``ethosu85/ethos_u85.cpp``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.npu.faults import ModeFault, WeightFault

Places = npt.NDArray[np.int64]
_Array = npt.NDArray[Any]

_SUBKERNEL = 8
_OUTSIDE = -1
# The depth of the OFM's smallest block by MACs and the microblock in ACC_FORMAT
# (0: 1x1, 1: 1x2, 2: 1x4, 3: 2x2, 4: 2x4, 5: 4x4).
_MICROBLOCKS = {
    128: {0: 16, 1: 8},
    256: {1: 16, 2: 8, 3: 8},
    512: {2: 16, 3: 16},
    1024: {2: 32, 3: 32, 4: 16},
    2048: {2: 64, 3: 64, 5: 16},
}
_QUAD = 4


@dataclass(frozen=True, slots=True)
class Geometry:
    """What the order of weights depends on.

    Attributes:
        ofm_depth: Channels of the OFM, of all cores.
        ifm_depth: Channels of the IFM; 1 for depthwise operations.
        block_depth: Depth of the OFM's block.
        ofm_ublock: Depth of the OFM's smallest block.
        streams: How many streams the weights are spread over.
        macs: MACs in each cycle (U85).
        sparse: Whether two of four weights are left out (U85).
    """

    ofm_depth: int
    height: int
    width: int
    ifm_depth: int
    block_depth: int
    ifm_bits: int
    ofm_ublock: int
    depthwise: bool
    part_kernel: bool
    dilation_y: int
    dilation_x: int
    streams: int
    stride_y: int
    stride_x: int
    macs: int
    sparse: bool

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Shape of the weights: OFM depth, height, width, IFM depth."""
        return self.ofm_depth, self.height, self.width, self.ifm_depth

    @property
    def wide(self) -> bool:
        """Whether the IFM has 16 bits."""
        return self.ifm_bits == 16

    @property
    def ifm_block(self) -> int:
        """Depth of the IFM's block on the U85."""
        if self.part_kernel and not self.depthwise:
            return 16
        small = self.macs in {128, 256} and self.ofm_ublock == 16 and not self.sparse
        if self.ifm_bits == 32 or small:
            return 32
        return 128 if self.sparse and self.ifm_bits == 8 else 64

    @property
    def ifm_ublock(self) -> int:
        """Channels of the IFM that stand together on the U85."""
        if self.depthwise:
            return 1
        if self.part_kernel and self.wide and not self.sparse:
            return 8
        return self.ifm_block

    @property
    def rounding(self) -> int:
        """To how many a row of kernel elements is filled up on the U85."""
        if self.depthwise:
            return 10
        if self.part_kernel:
            return 10 if self.wide or self.sparse else 5
        return 1


def microblock_depth(macs: int, microblock: int) -> int:
    """Return the depth of the OFM's smallest block on a U85.

    Raises:
        Fault: this NPU has no such microblock.
    """
    try:
        return _MICROBLOCKS[macs][microblock]
    except KeyError:
        raise ModeFault(f"ACC_FORMAT names the microblock {microblock}, not one of this NPU.") from None


@lru_cache(maxsize=8)
def order_u55(geometry: Geometry, stream: int) -> Places:
    """Return where each weight of a stream stands, on U55 and U65.

    Returns:
        Flat indices into ``geometry.shape``; -1 for filling. With two streams, stream k has the
        channels k, k + 2, ... of the OFM.
    """
    parts = []
    depth = -(-(geometry.ofm_depth - stream) // geometry.streams)
    step = max(1, (geometry.block_depth + geometry.streams - 1 - stream) // geometry.streams)
    windows = [
        (y, rows, x, columns)
        for y, rows in _pieces(geometry.height, _SUBKERNEL // geometry.dilation_y)
        for x, columns in _pieces(geometry.width, _SUBKERNEL // geometry.dilation_x)
    ]
    for first in range(0, depth, step):
        block = min(step, depth - first)
        for ifm in _ifm_blocks_u55(geometry, together=len(windows) == 1):
            parts += [_block_u55(geometry, (first, block, depth, stream), ifm, window) for window in windows]
    return np.concatenate(parts)


def _ifm_blocks_u55(geometry: Geometry, *, together: bool) -> Iterator[tuple[int, int, int]]:
    """Yield first channel, channels of a block with filling, and how many such blocks follow."""
    if geometry.depthwise:
        yield 0, 1, 1
        return
    size = 16 if geometry.part_kernel or geometry.wide else 32
    rest = geometry.ifm_depth % size if geometry.part_kernel else 0
    blocks = -(-geometry.ifm_depth // size) - bool(rest)
    if together and blocks:
        yield 0, size, blocks
    else:
        for block in range(blocks):
            yield block * size, size, 1
    if rest:
        yield blocks * size, rest, 1


def _pieces(size: int, step: int) -> Iterator[tuple[int, int]]:
    for first in range(0, size, step):
        yield first, min(step, size - first)


def _block_u55(
    geometry: Geometry,
    ofm: tuple[int, int, int, int],
    ifm: tuple[int, int, int],
    window: tuple[int, int, int, int],
) -> Places:
    """Return the places of blocks: OFM and IFM channels times a part of the kernel."""
    first, block, depth, stream = ofm
    y, rows, x, columns = window
    unit = 1 if geometry.depthwise else 8
    fill = 4 if geometry.depthwise else 1
    if geometry.part_kernel and not geometry.depthwise:
        fill = 2 if geometry.wide else 4
    elements = -(-rows * columns // fill) * fill
    outer, inner = (ifm[1], 1) if geometry.part_kernel else (1, ifm[1])
    # Axes, outermost first: IFM blocks, IFM (part kernel), OFM, kernel, IFM (depth first), OFM,
    # IFM.
    number, above, across, element, below, channel, lane = np.ix_(
        np.arange(ifm[2]),
        np.arange(0, outer, unit),
        np.arange(0, block, geometry.ofm_ublock),
        np.arange(elements),
        np.arange(0, inner, unit),
        np.arange(geometry.ofm_ublock),
        np.arange(unit),
    )
    i = ifm[0] + number * ifm[1] + above + below + lane
    o = first + across + channel
    ky, kx = y + element // columns, x + element % columns
    inside = (i < geometry.ifm_depth) & (o < depth) & (element < rows * columns)
    row = o * geometry.streams + stream
    offset = ((row * geometry.height + ky) * geometry.width + kx) * geometry.ifm_depth + i
    order: Places = np.where(inside, offset, _OUTSIDE).ravel()
    return order


@lru_cache(maxsize=8)
def order_u85(geometry: Geometry, stream: int) -> Places:
    """Return where each weight of a stream stands, on the U85.

    Returns:
        Flat indices into ``geometry.shape``; -1 for filling. Streams take the quads of channels
        in turn.
    """
    parts: list[Places] = []
    lanes = _lanes_u85(geometry, stream)
    blocks = list(range(0, geometry.ifm_depth, geometry.ifm_block))
    for number, first in enumerate(range(0, geometry.ofm_depth, geometry.block_depth)):
        block = min(geometry.block_depth, geometry.ofm_depth - first)
        # The IFM is read forward for one block of the OFM, backward for the next.
        for ifm in reversed(blocks) if number % 2 else blocks:
            size = min(geometry.ifm_block, geometry.ifm_depth - ifm)
            for x, columns in _pieces(geometry.width, _SUBKERNEL // geometry.dilation_x):
                for y, rows in _pieces(geometry.height, _SUBKERNEL // geometry.dilation_y):
                    elements = _elements_u85(geometry, (y, rows, x, columns))
                    for above in range(ifm, ifm + size, geometry.ifm_ublock):
                        parts += _block_u85(geometry, (first, block), above, elements, lanes)
    return np.concatenate(parts)


def _lanes_u85(geometry: Geometry, stream: int) -> tuple[_Array, _Array]:
    """Return OFM and IFM channel of each weight of one kernel element."""
    step = 16 if geometry.sparse else 8
    step = 1 if geometry.depthwise else step
    above, quad, channel, lane = np.ix_(
        np.arange(0, geometry.ifm_ublock, step),
        np.arange(stream * _QUAD, geometry.ofm_ublock, _QUAD * geometry.streams),
        np.arange(_QUAD),
        np.arange(step),
    )
    ofm, ifm = np.broadcast_arrays(quad + channel, above + lane)
    return ofm.ravel(), ifm.ravel()


def _elements_u85(geometry: Geometry, window: tuple[int, int, int, int]) -> _Array:
    """Return the flat kernel positions of a part of the kernel in their order, -1 for filling.

    Elements go by the phase of the stride, rows of one phase forth and back. A depthwise
    operation has filling behind every group of ten.
    """
    y, rows, x, columns = window
    by_phase = geometry.part_kernel or geometry.depthwise
    stride_y, stride_x = (geometry.stride_y, geometry.stride_x) if by_phase else (1, 1)
    elements = []
    for phase_y in range(min(stride_y, rows)):
        for phase_x in range(min(stride_x, columns)):
            across = list(range(phase_x, columns, stride_x))
            for number, row in enumerate(range(phase_y, rows, stride_y)):
                turn = reversed(across) if number % 2 else across
                elements += [(y + row) * geometry.width + x + column for column in turn]
    filled = -(-len(elements) // geometry.rounding) * geometry.rounding
    elements += [_OUTSIDE] * (filled - len(elements))
    if not geometry.depthwise:
        return np.array(elements)
    gap = [_OUTSIDE] * _gap_u85(geometry)
    groups = [elements[at : at + geometry.rounding] + gap for at in range(0, filled, geometry.rounding)]
    return np.array([element for group in groups for element in group])


def _gap_u85(geometry: Geometry) -> int:
    """Return the zero elements behind each group of ten of a depthwise operation."""
    if not geometry.wide and geometry.macs < 512:
        return 0
    return 2 if geometry.macs < 1024 else 6


def _block_u85(
    geometry: Geometry, ofm: tuple[int, int], ifm: int, elements: _Array, lanes: tuple[_Array, _Array]
) -> Iterator[Places]:
    first, block = ofm
    for above in range(first, first + block, geometry.ofm_ublock):
        o, i = above + lanes[0], ifm + lanes[1]
        inside = (o < geometry.ofm_depth) & (i < geometry.ifm_depth)
        size = geometry.height * geometry.width
        offset = (o * size + elements[:, None]) * geometry.ifm_depth + i
        order: Places = np.where(inside & (elements[:, None] >= 0), offset, _OUTSIDE).ravel()
        yield order


def woven_u85(geometry: Geometry) -> Places:
    """Return the places of the one stream of the fast format: blocks of the cores in turn."""
    orders = [order_u85(geometry, stream) for stream in range(geometry.streams)]
    if len(orders) == 1:
        return orders[0]
    size = geometry.ofm_ublock * geometry.ifm_ublock // geometry.streams
    size *= geometry.rounding if geometry.part_kernel else 1
    longest = max(len(order) for order in orders)
    return np.concatenate([order[at : at + size] for at in range(0, longest, size) for order in orders])


def placed(stream: npt.NDArray[np.int16], places: Places, into: npt.NDArray[np.int16]) -> None:
    """Put the weights of a stream where they belong.

    Raises:
        Fault: the stream is too short or too long, or its filling is not zero.
    """
    if len(stream) != len(places):
        raise WeightFault(f"The weight stream has {len(stream):,} weights, {len(places):,} are expected.")
    inside = places >= 0
    into[places[inside]] = stream[inside]
    if stream[~inside].any():
        raise WeightFault("The weight stream has filling that is not zero.")
