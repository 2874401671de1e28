"""Kernels that begin before the one in front of them has ended: NPU_SET_BLOCKDEP.

The NPU computes a feature map in jobs of one block, depth first, then from left to right, then
downwards. With a block dependency of b, job i of a kernel may begin while the last b - i jobs of
the kernel before it are not done. Where such a job reads what one of those writes, its values
depend on time. Sources: Vela 5.1.0 (Apache-2.0), ``CalcBlockDep``, ``GetJobs`` and
``CalcIFMJobShape`` of both register generators; depths of blocks of the IFM: ``ethos_u55.cpp``,
``ethos_u85.cpp``; tables in shared memory: ``_shram.reservedEndBanks``.

The jobs are those that Vela assumes, no others, so that a program whose dependencies Vela computed
has no error. Vela does not follow the layout of feature maps that are transposed or reversed while
they are written, and which of their jobs write what on the U85 is not public; what it lets overlap
there is a warning. What one kernel overwrites
while the one before still reads it is not looked at, nor kernels further apart: Vela leaves both
to the order of the jobs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from workbench.npu.memory import Area, Bytes, areas_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.npu.registers import FeatureMap, Registers

Shape = tuple[int, int, int]

_SHALLOW, _DEEP = 16, 32


@dataclass
class KernelAccess:
    """The feature maps of one kernel, and which of its jobs write what.

    Attributes:
        kind: The name of its command.
        reads: Feature maps it reads from memory, with their (height, width, depth).
        writes: The feature map it writes, with its shape; None if it writes none to memory.
        last_jobs: What its last jobs write, the very last one first.
        uses_table: Whether it reads a table.
        moves: Whether it transposes or reverses what it writes (U85).
    """

    kind: str = ""
    reads: list[tuple[FeatureMap, Shape]] = field(default_factory=list)
    writes: tuple[FeatureMap, Shape] | None = None
    last_jobs: list[list[Area]] = field(default_factory=list)
    uses_table: bool = False
    moves: bool = False

    def conclude(self, registers: Registers) -> None:
        """Split what it writes into jobs, as the settings of its end say."""
        if self.writes is None:
            return
        tensor, shape = self.writes
        count = registers.device.most_dependent_blocks
        self.moves = bool(registers.device.u85 and registers["OFM_PRECISION"] >> 9 & 0x1F)
        # Jobs of a transposed or reversed feature map do not follow its addresses.
        boxes = [_whole(shape)] if self.moves else _jobs(shape, _ofm_block(registers), count, last=True)
        self.last_jobs = [list(areas_of(tensor, shape, box)) for box in reversed(list(boxes))]


@dataclass(frozen=True)
class Early:
    """What a kernel takes too early; ``is_sure`` is false where Vela does not follow the layout."""

    what: str
    is_sure: bool = True


def too_early(before: KernelAccess, now: KernelAccess, registers: Registers) -> Early | None:
    """Return what a kernel takes before the kernel in front of it has written it.

    Args:
        before: The kernel in front.
        now: The kernel.
        registers: The settings of the kernel.
    """
    dependency = registers.get("BLOCKDEP")
    if not dependency:
        return None
    if before.uses_table and not now.uses_table and registers.device.table_is_shared:
        return Early("takes the memory of the table that the operation in front of it uses")
    unfinished = before.last_jobs[:dependency]
    written = [area for areas in unfinished for area in areas]
    for tensor, shape in now.reads:
        if not any(_touches(area, written) for area in areas_of(tensor, shape, _whole(shape))):
            continue
        if before.writes and _is_read_early((tensor, shape), unfinished, registers, now.kind):
            what = f"reads its {tensor.side} before the operation in front of it has written it"
            is_alike = _is_laid_out_alike(before.writes, (tensor, shape))
            return Early(what, is_sure=is_alike and not before.moves)
    return None


def _is_laid_out_alike(one: tuple[FeatureMap, Shape], other: tuple[FeatureMap, Shape]) -> bool:
    """Whether rows and columns of two feature maps are equally far apart."""
    return all(
        one[0].strides[axis] == other[0].strides[axis]
        for axis in (0, 1)
        if max(one[1][axis], other[1][axis]) > 1
    )


def _is_read_early(
    source: tuple[FeatureMap, Shape], jobs: list[list[Area]], registers: Registers, kind: str
) -> bool:
    """Return whether job i reads what a job writes of which the last b - i may not be done."""
    tensor, shape = source
    dependency = registers.get("BLOCKDEP")
    first = min(area.first for areas in jobs for area in areas)
    # For each byte: how many jobs of this kernel may begin before it is written.
    early = np.zeros(max(area.end for areas in jobs for area in areas) - first, np.uint8)
    for back, areas in enumerate(jobs):
        for area in areas:
            _bytes(early, area, first)[...] = dependency - back
    block = _ifm_block(registers, kind)
    boxes = _jobs(shape, block, dependency, last=False)
    return any(
        int(part.max(initial=0)) > number
        for number, box in enumerate(boxes)
        for area in areas_of(tensor, shape, box)
        for part in _parts_inside(early, area, first)
    )


def _bytes(data: Bytes, area: Area, first: int) -> Bytes:
    strides = (*area.strides, 1)
    return np.ndarray((*area.shape, area.item), np.uint8, data.data, area.base - first, strides)


def _parts_inside(data: Bytes, area: Area, first: int) -> Iterator[Bytes]:
    """Yield the bytes of an area that lie inside ``data``, which begins at ``first``."""
    if area.first >= first and area.end <= first + data.size:
        yield _bytes(data, area, first)
        return
    for row in range(area.shape[0]):
        base = area.base + row * area.strides[0]
        part = Area(area.region, base, area.shape[1:], area.strides[1:], area.item)
        if part.first < first + data.size and part.end > first:
            offsets = np.arange(area.item)
            for length, stride in zip(part.shape, part.strides, strict=True):
                offsets = np.add.outer(np.arange(length) * stride, offsets).ravel()
            offsets += base - first
            yield data[offsets[(offsets >= 0) & (offsets < data.size)]]


def _touches(area: Area, others: list[Area]) -> bool:
    return any(
        area.region == other.region and area.first < other.end and other.first < area.end for other in others
    )


def _whole(shape: Shape) -> tuple[slice, slice, slice]:
    return slice(0, shape[0]), slice(0, shape[1]), slice(0, shape[2])


def _jobs(shape: Shape, block: Shape, count: int, *, last: bool) -> Iterator[tuple[slice, slice, slice]]:
    """Yield rows, columns and channels of the first or last jobs, in the order of the NPU."""
    high, wide, deep = (-(-size // step) for size, step in zip(shape, block, strict=True))
    total = high * wide * deep
    for number in range(total)[-count:] if last else range(min(count, total)):
        at = number // (deep * wide), number // deep % wide, number % deep
        y, x, c = (
            slice(place * step, min((place + 1) * step, size))
            for place, step, size in zip(at, block, shape, strict=True)
        )
        yield y, x, c


def _ofm_block(registers: Registers) -> Shape:
    height, width, depth = (registers.get(f"OFM_BLK_{side}_M1") + 1 for side in ("HEIGHT", "WIDTH", "DEPTH"))
    return height, width, depth


def _ifm_block(registers: Registers, kind: str) -> Shape:
    """Return what one job reads: height, width and depth of the IFM.

    The U85 reads 32 to 128 channels at a time where weights are not shallow; the least is taken.
    """
    height, width, depth = _ofm_block(registers)
    if kind in {"NPU_OP_ELEMENTWISE", "NPU_OP_RESIZE"}:
        return height, width, depth
    kernel = registers.kernel
    rows, columns = kernel.covered(height, width)
    if kind != "NPU_OP_CONV":
        return rows, columns, depth
    is_wide = not registers.device.u85 and (registers["IFM_PRECISION"] >> 2 & 3) == 1
    return rows, columns, _SHALLOW if is_wide or kernel.part_kernel else _DEEP
