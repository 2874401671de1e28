"""The tensors that an NPU works on, and the commands that touch them.

The stream names places, not tensors: a place that is written again later holds another tensor
then, and the stream does not say which. So a tensor here is a place with all that touches it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from workbench.pte.npu_commands import CommandStream
from workbench.pte.npu_operations import Area, region_name
from workbench.pte.vela_stream import Port

# A hostile file may name the same place without end.
_MOST_USES = 1000


@dataclass(frozen=True)
class NpuTensor:
    """A place, what it is for, and the offsets [bytes] of operations that write and read it."""

    name: str
    area: Area
    shape: tuple[int, ...] = ()
    written: tuple[int, ...] = ()
    read: tuple[int, ...] = ()

    @property
    def uses(self) -> tuple[int, ...]:
        """Offsets of all operations that touch it, ascending."""
        return tuple(sorted({*self.written, *self.read}))

    @property
    def place(self) -> str:
        """Region and address."""
        return f"{region_name(self.area.region)} {self.area.address:#x}"


def tensors(
    stream: CommandStream, inputs: Sequence[Port], outputs: Sequence[Port]
) -> list[NpuTensor]:
    """Return inputs and outputs of the delegate, then every other place the NPU touches.

    Operations on a part of an input or output count as touching it.
    """
    written, read = _uses(stream, writes=True), _uses(stream, writes=False)
    starts = {
        region: sorted({area.address for area in (*written, *read) if area.region == region})
        for region in {area.region for area in (*written, *read)}
    }
    by_place = _by_place(written), _by_place(read)
    made, taken = [], set()
    for word, ports in (("input", inputs), ("output", outputs)):
        for number, port in enumerate(ports):
            area = Area("feature map", port.region, port.offset, port.bytes)
            inside = _inside(starts.get(port.region, []), port)
            places = [(port.region, address) for address in inside]
            taken.update(places)
            uses = (
                tuple(o for place in places for o in side.get(place, ()))[:_MOST_USES]
                for side in by_place
            )
            made.append(NpuTensor(f"{word} {number}", area, port.shape, *uses))
    for area in dict.fromkeys((*written, *read)):
        if area.role != "feature map" or (area.region, area.address) not in taken:
            uses = (tuple(side.get(area, ())[:_MOST_USES]) for side in (written, read))
            made.append(NpuTensor(area.role, area, (), *uses))
    return made


def _uses(stream: CommandStream, *, writes: bool) -> dict[Area, list[int]]:
    found: dict[Area, list[int]] = {}
    for operation in stream.operations:
        for area in operation.writes if writes else operation.reads:
            found.setdefault(area, []).append(operation.offset)
    return found


def _by_place(uses: dict[Area, list[int]]) -> dict[tuple[int, int], list[int]]:
    found: dict[tuple[int, int], list[int]] = {}
    for area, offsets in uses.items():
        if area.role == "feature map":
            found.setdefault((area.region, area.address), []).extend(offsets)
    return found


def _inside(starts: list[int], port: Port) -> list[int]:
    first = bisect_left(starts, port.offset)
    last = bisect_left(starts, port.offset + max(port.bytes, 1))
    return starts[first : min(last, first + _MOST_USES)]
