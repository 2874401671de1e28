"""What a run counts for each operation. No time can be derived from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass
class Counters:
    """One operation. Bytes of feature maps count each element once, however often it is read.

    Attributes:
        offset: Where the command starts in its stream [bytes].
        macs: Multiplications with weights, or with a second feature map; windows of pools.
        read_bytes: All that is read: feature maps, encoded weights, scales, sources of copies.
        written_bytes: All that is written.
        weight_bytes: Encoded weights.
        scale_bytes: Biases and scales of channels.
        copied_bytes: What a DMA copies.
        weights: Decoded weights without filling.
        zero_weights: How many of them are zero.
        saturated: Outputs that the clamp changed; counted only on demand.
        accumulator_peak: The largest magnitude in an accumulator; counted only on demand.
        accumulator_bits: Width of the accumulator; 0 where there is none.
        table_bytes: The table that was used.
    """

    offset: int
    command: str
    module: str = ""
    delegate: int = 0
    ofm: tuple[int, ...] = ()
    macs: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    weight_bytes: int = 0
    scale_bytes: int = 0
    copied_bytes: int = 0
    weights: int = 0
    zero_weights: int = 0
    saturated: int = 0
    accumulator_peak: int = 0
    accumulator_bits: int = 0
    table_bytes: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the counters by name."""
        return asdict(self)


_SUMS = (
    "macs",
    "read_bytes",
    "written_bytes",
    "weight_bytes",
    "scale_bytes",
    "copied_bytes",
    "weights",
    "zero_weights",
    "saturated",
)


def totals(counted: Iterable[Counters]) -> dict[str, int]:
    """Return the sums over all operations, and how many there are."""
    sums = dict.fromkeys(_SUMS, 0)
    operations = 0
    for one in counted:
        operations += 1
        for name in _SUMS:
            sums[name] += getattr(one, name)
    return {"operations": operations, **sums}
