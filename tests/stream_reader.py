"""A second reader of NPU command streams: how far each stream reaches into each memory region.

It shares no code with the product. Commands and registers are those that the Linux kernel's driver
for U65 and U85 walks before it runs a stream (``drivers/accel/ethosu``; facts only). Where the
driver is content with less than the exact reach, this reader computes more, and ``as_driver`` gives
what the driver would compute:

- the driver takes every element as one byte at its end, and channels of NHWC as bytes,
- it ignores an upscaled input, exchanged axes of an output, the weights and scales of further
  cores, and resizing on U85,
- it takes strides of reversed axes as positive, and the axes of the second matrix exchanged,
- it counts the padding of scales on U85,
- it adds the stride of a copy to the length of each of its rows.
"""

import struct
from collections import defaultdict

_LONG, _PAYLOAD = 0x4000, 0xFF0000
OPERATIONS = {2: "conv", 3: "depthwise", 5: "pool", 6: "elementwise", 7: "resize", 0x10: "dma"}
_IFM, _OFM, _IFM2 = 0x100, 0x110, 0x180
# What the registers of a feature map have after the base of its numbers.
_DEPTH_PRECISION, _WIDTH0, _HEIGHT0, _HEIGHT1, _REGION = 5, 0xA, 0xB, 0xC, 0xF
_STREAM_ACTION = 2
_CHAINED = 2
_GLOBAL_SCALE, _WEIGHTS_ARE_IFM2, _NO_INPUT = 0x100, 1, 4
_UNARY = (5, 6, 7, 0x24)
_SCALAR = 8
_ON_CHIP = 0x100
# Bias, multiplier and shift of a channel [bytes].
_SCALE = 10
# Rows, columns and channels in memory, as axes of the computed height, width and depth.
_ORDERS = {0: (0, 1, 2), 1: (1, 0, 2), 2: (0, 2, 1), 3: (1, 2, 0), 6: (2, 0, 1), 7: (2, 1, 0)}


def words_of(payload):
    """Return the words of the stream in what a driver is given, which begins with COP1."""
    words = struct.unpack_from(f"<{len(payload) // 4}I", payload)
    assert words[0] == int.from_bytes(b"COP1", "little")
    at = 1
    while words[at] & 0xFF != _STREAM_ACTION:
        at += 3 if words[at] & 0xFF == 1 else 1
    length = words[at] >> 16 | (words[at] & 0xFF00) << 8
    return words[at + 1 : at + 1 + length]


class Reader:
    """Walks a stream; ``reach`` is the end of what is touched in each region [bytes]."""

    def __init__(self, words, family, *, as_driver=False):
        self._u85, self._as_driver = family == "ethos-u85", as_driver
        self._registers = {}
        self.reach, self.written = defaultdict(int), set()
        self.skipped = defaultdict(int)
        at = 0
        while at < len(words):
            command, parameter = words[at] & 0xFFFF, words[at] >> 16
            at += 1
            if command & _LONG:
                self._registers[command] = (parameter & 0xFF) << 32 | words[at]
                at += 1
            elif command in OPERATIONS:
                getattr(self, f"_{OPERATIONS[command]}")(parameter)
            else:
                self._registers[command] = parameter

    def _get(self, number):
        return self._registers.get(number, 0)

    def _touch(self, region, end):
        self.reach[region] = max(self.reach[region], end)

    def _map(self, side, rows, columns, channels):
        """Note the last element of a feature map with so many rows, columns and channels."""
        registers, long = side, _LONG + {_IFM: 0, _OFM: 0x10, _IFM2: 0x80}[side]
        precision = self._get(registers + (4 if side == _OFM else _DEPTH_PRECISION))
        # On U55 and U65 these bits are the rounding of an operation, which the driver takes for storage.
        has_storage = self._u85 or self._as_driver
        storage, is_bricks = precision >> 14 if has_storage else 0, precision >> 6 & 3 == 1
        if storage >= _CHAINED:
            self.skipped["chained"] += 1
            return
        bits = precision >> (1 if side == _OFM or self._as_driver else 2) & 3
        item, region = 1 << bits, self._get(registers + _REGION) & 7
        heights = [self._get(registers + n) + 1 for n in (_HEIGHT0, _HEIGHT1)]
        if self._as_driver:
            strides = [self._get(long + n) for n in (4, 5, 6)]
        else:
            strides = [_signed(self._get(long + n)) for n in (4, 5, 6)]
        stride_x, stride_y, stride_c = strides
        last = channels - 1
        inside = 1 if self._as_driver else item
        depth = last // 16 * stride_c + last % 16 * item if is_bricks else last * inside
        step = 16 * item if is_bricks else stride_x
        for tile, row, column in self._ends(rows, columns, heights, registers, storage):
            reach = row * stride_y, column * step, depth
            # A reversed axis has a negative stride: its first element is the last one in memory.
            ends = reach if self._as_driver else [max(0, one) for one in reach]
            self._touch(region, self._get(long + tile) + sum(ends) + inside)
        if side == _OFM:
            self.written.add(region)

    def _ends(self, rows, columns, heights, registers, storage):
        """Yield tile, row and column of the last element of each tile that is reached."""
        width = self._get(registers + _WIDTH0) + 1
        if storage == 1:
            starts = [0, heights[0], heights[0] + heights[1]]
            lasts = [(n, start) for n, start in enumerate(starts) if start < rows]
            for n, start in lasts:
                end = min(rows, starts[n + 1]) if n < 2 else rows
                if not self._as_driver or n == len(lasts) - 1:
                    yield n, end - 1 - start, columns - 1
            return
        reached = []
        for right in (0, 1) if columns > width else (0,):
            height = heights[right]
            size = (columns - width if right else min(columns, width)) - 1
            reached.append((right, min(rows, height) - 1, size))
            if rows > height:
                reached.append((2 + right, rows - height - 1, size))
        yield from reached[-1:] if self._as_driver else reached

    def _output(self):
        """Return height, width and depth as they are computed."""
        return [self._get(number) + 1 for number in (0x112, 0x111, 0x113)]

    def _write_output(self):
        """Note the output as it is stored: U85 may exchange its axes."""
        order = _ORDERS[self._get(0x114) >> 11 & 7] if self._u85 and not self._as_driver else (0, 1, 2)
        sizes = self._output()
        self._map(_OFM, *(sizes[axis] for axis in order))

    def _conv(self, parameter):
        uses_ifm2 = self._u85 and bool(parameter & _WEIGHTS_ARE_IFM2)
        self._input()
        if uses_ifm2:
            sizes = self._get(0x104) + 1, self._get(0x113) + 1
            self._map(_IFM2, 1, *(sizes if self._as_driver else reversed(sizes)))
        else:
            self._weights()
        self._scales()
        self._write_output()

    _depthwise = _conv

    def _pool(self, parameter):
        if parameter != _NO_INPUT:
            self._input()
        self._scales()
        self._write_output()

    def _input(self):
        strides = self._get(0x122)
        stride_y = (strides >> 8 & 2) + (strides >> 1 & 1) + 1
        stride_x = (strides >> 5 & 2) + (strides & 1) + 1
        rows, columns, _ = self._output()
        rows = (
            (rows - 1) * stride_y
            + self._get(0x121)
            + 1
            - (self._get(0x100) & 0x7F)
            - (self._get(0x103) & 0xFF)
        )
        columns = (columns - 1) * stride_x + self._get(0x120) + 1
        columns -= (self._get(0x101) & 0x7F) + (self._get(0x102) & 0xFF)
        if self._get(0x107) and not self._as_driver:
            rows, columns = (rows + 1) // 2, (columns + 1) // 2
        self._map(_IFM, rows, columns, self._get(0x104) + 1)

    def _weights(self):
        region = self._get(0x128) & 7
        bases = [(0x4020, 0x4021)]
        if not self._as_driver:
            bases += [(0x4090, 0x4091)] + ([(0x4092, 0x4093), (0x4094, 0x4095)] if self._u85 else [])
        for base, length in bases:
            if self._get(length):
                self._touch(region, self._get(base) + self._get(length))

    def _scales(self):
        if self._get(0x114) & _GLOBAL_SCALE:
            return
        region = self._get(0x129) & 7
        bases = [(0x4022, 0x4023)]
        if not self._as_driver and not self._u85:
            bases += [(0x4092, 0x4093)]
        for base, length in bases:
            size = self._get(length)
            if self._u85 and not self._as_driver:
                # U85's scales are padded to 16 channels, of which those of the output are read.
                size = min(size, _SCALE * self._output()[2])
            if size:
                self._touch(region, self._get(base) + size)

    def _elementwise(self, parameter):
        is_scalar = [self._broadcast(side) == _SCALAR for side in (_IFM, _IFM2)]
        if not is_scalar[0]:
            self._map(_IFM, *self._broadcasted(_IFM))
        if not (is_scalar[1] or parameter in _UNARY):
            self._map(_IFM2, *self._broadcasted(_IFM2))
        self._write_output()

    def _broadcast(self, side):
        """Return the modes of an input: bits for height, width and depth, or 8 for a scalar."""
        if self._u85:
            return self._get(0x108 if side == _IFM else 0x180) & 0xF
        mode = self._get(0x180) if side == _IFM2 else 0
        return _SCALAR if mode & 0x80 else mode & 7

    def _broadcasted(self, side):
        mode = self._broadcast(side)
        return [1 if mode >> n & 1 else size for n, size in enumerate(self._output())]

    def _resize(self, _parameter):
        if not self._as_driver:
            # Nothing but its tile says how large the input is.
            self._map(_IFM, self._get(0x10B) + 1, self._get(0x10A) + 1, self._get(0x104) + 1)
            self._write_output()

    def _dma(self, _parameter):
        mode = self._get(0x130) >> 9 & 3
        length, sizes = self._get(0x4032), [self._get(0x132), self._get(0x133)]
        for selected, address, strides in ((0x130, 0x4030, 0x4033), (0x131, 0x4031, 0x4035)):
            if self._get(selected) & _ON_CHIP:
                continue
            reach = length
            for n in range(mode):
                stride = _signed(self._get(strides + n))
                reach = (reach + stride) * sizes[n] if self._as_driver else (sizes[n] - 1) * stride + reach
            region = self._get(selected) & 7
            self._touch(region, self._get(address) + reach)
            if selected == 0x131:
                self.written.add(region)


def _signed(value):
    """Return a number of 40 bits as a signed one."""
    return value - (1 << 40) if value >> 39 else value


def reaches(payload, family, *, as_driver=False):
    """Return the end of what a stream touches in each region [bytes], and the regions it writes.

    Args:
        payload: What a driver is given, from COP1 on.
        family: E.g. ``ethos-u85``.
        as_driver: Compute what the Linux driver computes.
    """
    reader = Reader(words_of(payload), family, as_driver=as_driver)
    return dict(reader.reach), reader.written
