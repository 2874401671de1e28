"""What the NPU does, operation by operation, read from the settings before each.

A setting holds until it is set again. The size of a feature map is what its lines or its columns
span, as the settings give their number and their distance. Source of the settings' meaning:
Vela 5.1.0, ``ethosu/vela/ethos_u55_regs`` and ``register_command_stream_generator``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.pte.npu_commands import Command

_KINDS = {
    "CONV": "convolution", "DEPTHWISE": "depthwise convolution", "POOL": "pooling",
    "ELEMENTWISE": "elementwise", "RESIZE": "resize", "DMA_START": "copy",
}  # fmt: skip
_WEIGHTED = {"convolution", "depthwise convolution"}
# Bases the driver is given for each region: ExecuTorch 1.5.1, EthosUBackend.cpp.
REGIONS = {0: "constants", 1: "scratch", 2: "fast scratch"}


@dataclass(frozen=True)
class Area:
    """A place in one of the memory regions that the driver gives the NPU [bytes].

    ``role`` is "feature map", "weights", "scales" or "copy".
    """

    role: str
    region: int
    address: int
    bytes: int

    def __str__(self) -> str:
        return f"{self.role} in {region_name(self.region)} at {self.address:#x}"


@dataclass(frozen=True)
class Operation:
    """What the NPU does at once. Shapes are (height, width, channels); ``bytes`` those copied."""

    offset: int
    kind: str
    ifm: tuple[int, ...] = ()
    ofm: tuple[int, ...] = ()
    kernel: tuple[int, ...] = ()
    weight_bytes: int = 0
    copied_bytes: int = 0
    reads: tuple[Area, ...] = ()
    writes: tuple[Area, ...] = ()

    def __str__(self) -> str:
        if self.kind == "copy":
            return f"copy of {self.copied_bytes:,} bytes"
        by = "x".join(map(str, self.kernel))
        parts = [f"{by} {self.kind}" if by else self.kind, f"{self.ifm} to {self.ofm}"]
        if self.weight_bytes:
            parts.append(f"{self.weight_bytes:,} bytes of weights")
        return ", ".join(parts)


def region_name(region: int) -> str:
    """Return what a region is for."""
    return REGIONS.get(region, f"region {region}")


def operations(commands: Iterable[Command]) -> Iterator[Operation]:
    """Yield the operations that commands start, in their order."""
    state: dict[str, int] = {}
    for command in commands:
        kind = _KINDS.get(command.name.removeprefix("NPU_OP_"))
        if not command.name.startswith("NPU_OP_"):
            state[command.name.removeprefix("NPU_SET_")] = command.value
        elif kind == "copy":
            yield _copying(command.offset, state)
        elif kind is not None:
            yield _computing(command.offset, kind, state)


def _copying(offset: int, state: dict[str, int]) -> Operation:
    length = state.get("DMA0_LEN", 0)
    source, target = (
        Area("copy", state.get(f"DMA0_{side}_REGION", 0) & 7, state.get(f"DMA0_{side}", 0), length)
        for side in ("SRC", "DST")
    )
    return Operation(offset, "copy", copied_bytes=length, reads=(source,), writes=(target,))


def _computing(offset: int, kind: str, state: dict[str, int]) -> Operation:
    def size(*names: str) -> tuple[int, ...]:
        return tuple(state.get(f"{name}_M1", -1) + 1 for name in names)

    weighted = kind in _WEIGHTED
    reads = [_feature_map("IFM", "IFM_HEIGHT0", "IFM_WIDTH0", state)]
    if kind == "elementwise" and "IFM2_BASE0" in state:
        reads.append(_feature_map("IFM2", "IFM2_HEIGHT0", "IFM2_WIDTH0", state))
    if weighted:
        reads += _encoded("WEIGHT", "weights", state), _encoded("SCALE", "scales", state)
    return Operation(
        offset=offset,
        kind=kind,
        ifm=size("IFM_HEIGHT0", "IFM_WIDTH0", "IFM_DEPTH"),
        ofm=size("OFM_HEIGHT", "OFM_WIDTH", "OFM_DEPTH"),
        kernel=size("KERNEL_HEIGHT", "KERNEL_WIDTH") if weighted or kind == "pooling" else (),
        weight_bytes=state.get("WEIGHT_LENGTH", 0) if weighted else 0,
        reads=tuple(reads),
        writes=(_feature_map("OFM", "OFM_HEIGHT", "OFM_WIDTH", state),),
    )


def _feature_map(side: str, height: str, width: str, state: dict[str, int]) -> Area:
    lines = (state.get(f"{height}_M1", -1) + 1) * state.get(f"{side}_STRIDE_Y", 0)
    columns = (state.get(f"{width}_M1", -1) + 1) * state.get(f"{side}_STRIDE_X", 0)
    region = state.get(f"{side}_REGION", 0) & 7
    return Area("feature map", region, state.get(f"{side}_BASE0", 0), max(lines, columns))


def _encoded(name: str, role: str, state: dict[str, int]) -> Area:
    return Area(
        role,
        state.get(f"{name}_REGION", 0) & 7,
        state.get(f"{name}_BASE", 0),
        state.get(f"{name}_LENGTH", 0),
    )
