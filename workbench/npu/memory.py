"""The memory that the driver gives the NPU, the table memory, and tensors in them.

Element (y, x, c) of e bytes lies at ``base + y*SY + x*SX + c*e`` (NHWC), or at
``base + y*SY + (c >> 4)*SC + x*SX + (c & 15)*e`` (NHCWB16). A tensor has up to four tiles.
Source: Vela 5.1.0, ``ethos_u55_register_cs_generator.cpp`` and ``ethos_u85_...``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from workbench.npu.faults import AddressFault, LimitFault, ModeFault, SamplesDiffer, TableFault
from workbench.npu.registers import CHAINED, NO_STORAGE, TILES_2X2, FeatureMap

CONSTANTS, SCRATCH, FAST_SCRATCH = 0, 1, 2
TABLES = -1
TABLE_BYTES = 2048
_BRICK = 16
_PAGE = 1 << 16
# What computing one element takes at most: two values of 64 bits.
_BYTES_TO_COMPUTE = 16
_UNWRITTEN = 0xA5

Bytes = npt.NDArray[np.uint8]
Values = npt.NDArray[Any]
Shape = tuple[int, int, int]
Box = tuple[slice, slice, slice]


class Watch(Protocol):
    """What wants to know which bytes a command reads and writes."""

    def reads(self, area: Area) -> None:
        """Take note of bytes before they are read."""

    def writes(self, area: Area) -> None:
        """Take note of bytes before they are written."""

    def copies(self, source: Area, target: Area) -> None:
        """Take note of bytes before they are copied."""

    def feature_map(self, tensor: FeatureMap, shape: Shape, *, written: bool) -> None:
        """Take note of a whole tensor that is read or written."""


@dataclass(frozen=True)
class Access:
    """A tensor that one command reads or writes.

    Attributes:
        side: "IFM", "IFM2" or "OFM"; "source" or "destination" of a copy.
        written: Whether it is written.
        address: Its first address in the region [bytes].
        values: (height, width, depth) of a tensor, or the bytes of a copy.
        places: The address of each of the values in the region [bytes].
        bricks: Whether the tensor lies in bricks of 16 channels.
    """

    side: str
    written: bool
    region: int
    address: int
    values: Values
    places: npt.NDArray[np.int64]
    bricks: bool = False


@dataclass(frozen=True, slots=True)
class Area:
    """Bytes that one command touches: elements of ``item`` bytes at distances of ``strides``."""

    region: int
    base: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    item: int

    @property
    def first(self) -> int:
        """The lowest address."""
        return self.base + sum(min(0, (n - 1) * s) for n, s in zip(self.shape, self.strides, strict=True))

    @property
    def end(self) -> int:
        """The address behind the highest one."""
        reach = sum(max(0, (n - 1) * s) for n, s in zip(self.shape, self.strides, strict=True))
        return self.base + reach + self.item

    @property
    def places(self) -> npt.NDArray[np.int64]:
        """The address of each element, in its shape."""
        addresses = np.array(self.base, np.int64)
        for length, stride in zip(self.shape, self.strides, strict=True):
            addresses = np.add.outer(addresses, np.arange(length, dtype=np.int64) * stride)
        return addresses

    @property
    def elements(self) -> int:
        """How many elements it has."""
        count = 1
        for length in self.shape:
            count *= length
        return count


class Memory:
    """Regions 0 (constants), 1 (scratch) and 2 (fast scratch), and the table memory.

    The program does not say how large region 2 is; it grows up to the highest address that a
    command names. Every sample has bytes of its own in regions 1 and 2; regions are arrays of shape
    (samples, bytes), constants of shape (1, bytes).
    """

    def __init__(
        self,
        constants: bytes | memoryview,
        scratch_bytes: int,
        *,
        limit: int,
        checked: bool,
        samples: int = 1,
    ) -> None:
        if len(constants) + scratch_bytes > limit:
            raise LimitFault(
                f"The program wants {len(constants) + scratch_bytes:,} bytes of memory, the limit "
                f"is {limit:,}.",
                "Raise the limit if the program is meant to be that large.",
            )
        self._limit = limit - len(constants) - scratch_bytes
        self._most_elements = limit // _BYTES_TO_COMPUTE
        self._fill = _UNWRITTEN if checked else 0
        self.regions: dict[int, Bytes] = {
            CONSTANTS: np.frombuffer(constants, np.uint8)[None],
            SCRATCH: np.full((samples, scratch_bytes), self._fill, np.uint8),
            FAST_SCRATCH: np.zeros((samples, 0), np.uint8),
        }
        self.tables: Bytes = np.zeros(TABLE_BYTES, np.uint8)
        self.loaded = np.zeros(TABLE_BYTES, np.bool_)
        self.peak = dict.fromkeys(self.regions, 0)
        self.watch: Watch | None = None
        self.record: list[Access] | None = None
        self.bytes_read = 0
        self.bytes_written = 0

    def view(self, area: Area, dtype: np.dtype[Any], *, write: bool) -> Values:
        """Return the elements of an area as (samples, *its shape), not copied.

        Raises:
            Fault: it is not all inside its region, or it lies in constants and is written.
        """
        values = self._view(area, dtype, write=write)
        if self.watch is not None:
            (self.watch.writes if write else self.watch.reads)(area)
        return values

    def _view(self, area: Area, dtype: np.dtype[Any], *, write: bool) -> Values:
        data = self._region(area)
        if write and area.region == CONSTANTS:
            raise AddressFault(f"Constants are written at {area.first:#x}.")
        if area.elements * area.item > data.shape[1]:
            raise AddressFault(f"A tensor of {area.elements:,} elements is larger than its memory region.")
        self._note(area, write=write)
        shape, strides = (len(data), *area.shape), (data.shape[1], *area.strides)
        return np.ndarray(shape, dtype, data.data, area.base, strides)

    def _note(self, area: Area, *, write: bool) -> None:
        size = area.elements * area.item
        if write:
            self.bytes_written += size
        else:
            self.bytes_read += size
        self.peak[area.region] = max(self.peak[area.region], area.end)

    def _region(self, area: Area) -> Bytes:
        data = self.regions.get(area.region)
        if data is None:
            raise AddressFault(f"Memory region {area.region} is not given to the NPU.")
        if not all(area.shape):
            raise AddressFault("A tensor without elements is accessed.")
        if area.region == FAST_SCRATCH and data.shape[1] < area.end <= self._limit:
            data = self._grown(area.end)
        if area.first < 0 or area.end > data.shape[1]:
            raise AddressFault(
                f"Addresses {area.first:#x} to {area.end:#x} are outside memory region "
                f"{area.region} of {data.shape[1]:,} bytes."
            )
        return data

    def _grown(self, end: int) -> Bytes:
        old = self.regions[FAST_SCRATCH]
        larger = np.full((len(old), -(-end // _PAGE) * _PAGE), self._fill, np.uint8)
        larger[:, : old.shape[1]] = old
        self.regions[FAST_SCRATCH] = larger
        return larger

    def size(self, region: int) -> int:
        """Return how many bytes a region has for each sample."""
        return int(self.regions[region].shape[1])

    def bytes_at(self, region: int, address: int, size: int) -> Bytes:
        """Return bytes that a command reads, of shape (samples, size)."""
        area = Area(region, address, (size,), (1,), 1)
        return self.view(area, np.dtype(np.uint8), write=False)

    def shared_bytes_at(self, region: int, address: int, size: int) -> Bytes:
        """Return bytes that must be the same for all samples, of shape (size,).

        Raises:
            SamplesDiffer: they are not.
        """
        return shared(self.bytes_at(region, address, size))

    def put(self, region: int, address: int, data: Bytes) -> None:
        """Write bytes of shape (samples, size), or (size,) for all samples."""
        area = Area(region, address, (data.shape[-1],), (1,), 1)
        self.view(area, np.dtype(np.uint8), write=True)[:] = data

    def copy(self, source: tuple[int, int], target: tuple[int, int], size: int) -> None:
        """Copy bytes from one region and address to another.

        Bytes that nothing wrote may be copied: transfers are rounded up to 16 bytes.

        Raises:
            Fault: they are not all inside their regions, or constants are written.
        """
        taken, given = (Area(region, at, (size,), (1,), 1) for region, at in (source, target))
        data = self._view(taken, np.dtype(np.uint8), write=False).copy()
        room = self._view(given, np.dtype(np.uint8), write=True)
        if self.watch is not None:
            self.watch.copies(taken, given)
        room[:] = data
        if self.record is not None:
            count = np.arange(size, dtype=np.int64)
            self.record.append(Access("source", False, *source, data[0], source[1] + count))
            self.record.append(Access("destination", True, *target, data[0], target[1] + count))

    def read(self, tensor: FeatureMap, shape: Shape) -> Values:
        """Return a tensor as (samples, height, width, depth); it may share the memory.

        Raises:
            Fault: it is not all inside its region.
        """
        self._check_room(tensor, shape)
        parts = list(_parts(tensor, shape))
        if len(parts) == 1 and not tensor.bricks:
            values = self.view(parts[0].area, tensor.dtype, write=False)
        else:
            count = len(self.regions.get(tensor.region, ()))
            values = np.empty((count, *shape), tensor.dtype)
            for part in parts:
                part.of(values)[...] = self.view(part.area, tensor.dtype, write=False)
        self._recorded(tensor, values, written=False)
        return values

    def _recorded(self, tensor: FeatureMap, values: Values, *, written: bool) -> None:
        if self.watch is not None:
            _, height, width, depth = values.shape
            self.watch.feature_map(tensor, (height, width, depth), written=written)
        if self.record is not None:
            _, height, width, depth = values.shape
            addresses = np.empty((1, height, width, depth), np.int64)
            for part in _parts(tensor, (height, width, depth)):
                part.of(addresses)[...] = part.area.places
            self.record.append(
                Access(
                    tensor.side,
                    written,
                    tensor.region,
                    tensor.bases[0],
                    values[0].copy(),
                    addresses[0],
                    tensor.bricks,
                )
            )

    def write(self, tensor: FeatureMap, values: Values) -> None:
        """Write a tensor of (samples, height, width, depth) in its own type.

        Raises:
            Fault: it is not all inside its region.
        """
        _, height, width, depth = values.shape
        self._check_room(tensor, (height, width, depth))
        for part in _parts(tensor, (height, width, depth)):
            self.view(part.area, tensor.dtype, write=True)[...] = part.of(values)
        self._recorded(tensor, values.astype(tensor.dtype), written=True)

    def _check_room(self, tensor: FeatureMap, shape: tuple[int, int, int]) -> None:
        if tensor.storage != TILES_2X2 and not _is_one_tile(tensor, shape):
            raise ModeFault(f"The {tensor.side} has a storage that is not known: {tensor.storage}.")
        self.demand_room(tensor, shape)

    def demand_room(self, tensor: FeatureMap, shape: tuple[int, int, int]) -> None:
        """Refuse a tensor that cannot be in its region, before anything of its size is made.

        Raises:
            AddressFault: it has more bytes than its region.
            LimitFault: computing it would take several times the memory limit.
        """
        room = self._limit if tensor.region == FAST_SCRATCH else 0
        if tensor.storage in {CHAINED, NO_STORAGE}:
            room = self._limit
        elif tensor.region in self.regions:
            room = max(room, self.size(tensor.region))
        elements = shape[0] * shape[1] * shape[2]
        if elements > self._most_elements:
            raise LimitFault(f"The {tensor.side} of {shape} elements is larger than a run may have.")
        if elements * tensor.dtype.itemsize > room:
            raise AddressFault(f"The {tensor.side} of {shape} elements is larger than its memory region.")

    def load_table(self, offset: int, data: Bytes) -> None:
        """Write into the table memory, which is the same for all samples."""
        self._demand_table(offset, data.size)
        self.tables[offset : offset + data.size] = data
        self.loaded[offset : offset + data.size] = True
        if self.watch is not None:
            self.watch.writes(Area(TABLES, offset, (data.size,), (1,), 1))

    def table(self, offset: int, size: int) -> Bytes:
        """Return a table that is loaded.

        Raises:
            Fault: it was never loaded, or something took its memory since.
        """
        self._demand_table(offset, size)
        if not self.loaded[offset : offset + size].all():
            raise TableFault(
                f"The table at {offset} of the table memory is not loaded.",
                "No DMA put it there, or an operation without a table took its memory since.",
            )
        if self.watch is not None:
            self.watch.reads(Area(TABLES, offset, (size,), (1,), 1))
        return self.tables[offset : offset + size]

    @staticmethod
    def _demand_table(offset: int, size: int) -> None:
        if offset < 0 or offset + size > TABLE_BYTES:
            raise TableFault(f"Bytes {offset} to {offset + size} are outside the table memory.")


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a tensor that has one base and one set of strides."""

    rows: slice
    columns: slice
    channels: slice
    area: Area

    def of(self, values: Values) -> Values:
        """Return the part of an array of all samples, in the shape of the area, not copied."""
        part = values[:, self.rows, self.columns, self.channels]
        return part.reshape(len(values), *self.area.shape)


def shared(rows: Bytes) -> Bytes:
    """Return what all samples have in common: the first of equal rows.

    Raises:
        SamplesDiffer: the rows are not equal.
    """
    if len(rows) > 1 and (rows[1:] != rows[:1]).any():
        raise SamplesDiffer
    row: Bytes = rows[0]
    return row


def areas_of(tensor: FeatureMap, shape: Shape, box: Box) -> Iterator[Area]:
    """Yield the areas of rows, columns and channels of a tensor of (height, width, depth)."""
    stride_y, stride_x, stride_c = tensor.strides
    item = tensor.dtype.itemsize
    rows, columns, channels = box
    for part in _parts(tensor, shape):
        y, x, c = (
            slice(max(one.start, other.start), min(one.stop, other.stop))
            for one, other in zip(
                (part.rows, part.columns, part.channels), (rows, columns, channels), strict=True
            )
        )
        if y.start >= y.stop or x.start >= x.stop:
            continue
        corner = part.area.base + (y.start - part.rows.start) * stride_y
        corner += (x.start - part.columns.start) * stride_x
        size, strides = (y.stop - y.start, x.stop - x.start), (stride_y, stride_x, item)
        step = _BRICK if tensor.bricks else shape[2]
        for first in range(part.channels.start, part.channels.stop, step):
            low, high = max(c.start, first), min(c.stop, first + step)
            if low < high:
                brick = (first - part.channels.start) // _BRICK
                base = corner + brick * stride_c + (low - first) * item
                yield Area(tensor.region, base, (*size, high - low), strides, item)


def _is_one_tile(tensor: FeatureMap, shape: tuple[int, int, int]) -> bool:
    return shape[0] <= tensor.height0 and shape[1] <= tensor.width0


def _parts(tensor: FeatureMap, shape: tuple[int, int, int]) -> Iterator[_Part]:
    height, width, depth = shape
    left = min(width, tensor.width0)
    columns = (
        (slice(0, left), tensor.height0, tensor.bases[0], tensor.bases[2]),
        (slice(left, width), tensor.height1, tensor.bases[1], tensor.bases[3]),
    )
    for across, split, upper, lower in columns:
        if across.start >= across.stop:
            continue
        for rows, base in ((slice(0, min(height, split)), upper), (slice(split, height), lower)):
            if rows.start < rows.stop:
                yield from _areas(tensor, rows, across, depth, base)


def _areas(tensor: FeatureMap, rows: slice, columns: slice, depth: int, base: int) -> Iterator[_Part]:
    stride_y, stride_x, stride_c = tensor.strides
    item = tensor.dtype.itemsize
    size = (rows.stop - rows.start, columns.stop - columns.start)
    whole = depth // _BRICK if tensor.bricks else 0
    if whole:
        area = Area(tensor.region, base, (*size, whole, _BRICK), (stride_y, stride_x, stride_c, item), item)
        yield _Part(rows, columns, slice(0, whole * _BRICK), area)
    if whole * _BRICK < depth:
        base += whole * stride_c
        rest = (*size, depth - whole * _BRICK)
        area = Area(tensor.region, base, rest, (stride_y, stride_x, item), item)
        yield _Part(rows, columns, slice(whole * _BRICK, depth), area)
