"""Contents of an Ethos-U delegate: named blocks, and its inputs and outputs.

Source: ExecuTorch 1.5.1, ``backends/arm/arm_vela.py``: a block is a name of 16 bytes, its size as
uint32, one byte that marks external data, 11 reserved bytes, then its data padded to a multiple
of 16 bytes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.pte.flat import damaged

ETHOS_U = "EthosUBackend"
HEADER, FOOTER = "vela_bin_stream", "vela_end_stream"
_BLOCK, _ALIGNMENT = struct.Struct("<16sIB11x"), 16
_PORT = struct.Struct("<9i")
_SIZES = 6


@dataclass(frozen=True)
class Block:
    """One block. An ``external`` block contains only a key; its data is outside the program."""

    name: str
    data: memoryview
    external: bool

    @property
    def key(self) -> str:
        """The key of an external block's data; empty for other blocks."""
        return str(self.data, "ascii", "replace") if self.external else ""


@dataclass(frozen=True)
class Port:
    """An input or output of a delegate and its address in a memory region [bytes]."""

    shape: tuple[int, ...]
    item_bytes: int
    offset: int
    region: int

    @property
    def bytes(self) -> int:
        """Its size [bytes]; 0 if the file contains an invalid size."""
        size = max(self.item_bytes, 0)
        for length in self.shape:
            size *= max(length, 0)
        return size


def blocks(blob: memoryview | bytes) -> dict[str, Block]:
    """Return the blocks of an Ethos-U delegate by name, in order.

    Raises:
        WorkbenchError: the delegate is damaged.
    """
    view, by_name, at = memoryview(blob), dict[str, Block](), 0
    while FOOTER not in by_name:
        if at + _BLOCK.size > len(view):
            raise damaged("the last block of an Ethos-U delegate is missing")
        raw, size, external = _BLOCK.unpack_from(view, at)
        start = at + _BLOCK.size
        if start + size > len(view):
            raise damaged("a block is longer than the Ethos-U delegate it is in")
        name = raw.split(b"\0")[0].decode("ascii", "replace")
        if not by_name and name != HEADER:
            raise damaged("an Ethos-U delegate does not begin with vela_bin_stream")
        by_name[name] = Block(name, view[start : start + size], bool(external))
        # An empty block has no data; other sizes are padded.
        at = start + -(-size // _ALIGNMENT) * _ALIGNMENT
    return by_name


def packed(parts: Mapping[str, bytes | memoryview | Sequence[Port]]) -> bytes:
    """Return a delegate with these blocks; ports are written with six sizes each."""
    stream = bytearray()
    for name, part in parts.items():
        data = part if isinstance(part, bytes | memoryview) else _packed_ports(part)
        stream += _BLOCK.pack(name.encode(), len(data), 0) + bytes(data)
        stream += bytes(-len(data) % _ALIGNMENT)
    return bytes(stream)


def _packed_ports(listed: Sequence[Port]) -> bytes:
    rows = []
    for port in listed:
        first, last = port.shape[: -_SIZES + 1], port.shape[-_SIZES + 1 :]
        sizes = (*(1,) * (_SIZES - 1 - len(last)), math.prod(first), *last)
        rows.append(_PORT.pack(*sizes, port.item_bytes, port.offset, port.region))
    return struct.pack("<i", len(rows)) + b"".join(rows)


def commands(by_name: dict[str, Block]) -> memoryview | None:
    """Return the NPU commands; None if there are none, or they are external."""
    block = by_name.get("cmd_data")
    return None if block is None or block.external else block.data


def scratch_bytes(by_name: dict[str, Block]) -> int:
    """Return the SRAM that a delegate needs as scratch [bytes]."""
    block = by_name.get("scratch_size")
    if block is None or len(block.data) < 4:
        return 0
    return int(struct.unpack_from("<I", block.data)[0])


def ports(by_name: dict[str, Block], side: str) -> list[Port]:
    """Return the tensors of "inputs" or "outputs"."""
    block = by_name.get(side)
    if block is None or len(block.data) < 4:
        return []
    (count,) = struct.unpack_from("<i", block.data)
    if count < 0 or 4 + count * _PORT.size > len(block.data):
        raise damaged(f"an Ethos-U delegate names more {side} than it describes")
    port_list = []
    for index in range(count):
        *shape, item_bytes, offset, region = _PORT.unpack_from(block.data, 4 + index * _PORT.size)
        port_list.append(Port(tuple(shape), item_bytes, offset, region))
    return port_list
