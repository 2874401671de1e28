"""The command stream of a delegate, as commands and as operations.

The stream is embedded in a list of driver actions. Source of the actions and of the configuration
word: Vela 5.1.0, ``ethosu/vela/driver_actions.py`` and ``config_r`` in ``ethos_u55_regs``.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from workbench.pte.flat import damaged
from workbench.pte.vela_stream import Port

WITH_PAYLOAD = 0x4000

_OPERATIONS = {
    0x000: "STOP",
    0x001: "IRQ",
    0x002: "CONV",
    0x003: "DEPTHWISE",
    0x005: "POOL",
    0x006: "ELEMENTWISE",
    0x007: "RESIZE",
    0x010: "DMA_START",
    0x011: "DMA_WAIT",
    0x012: "KERNEL_WAIT",
    0x013: "PMU_MASK",
}
_SETTINGS = {
    0x100: "IFM_PAD_TOP",
    0x101: "IFM_PAD_LEFT",
    0x102: "IFM_PAD_RIGHT",
    0x103: "IFM_PAD_BOTTOM",
    0x104: "IFM_DEPTH_M1",
    0x105: "IFM_PRECISION",
    0x107: "IFM_UPSCALE",
    0x108: "IFM_BROADCAST",
    0x109: "IFM_ZERO_POINT",
    0x10A: "IFM_WIDTH0_M1",
    0x10B: "IFM_HEIGHT0_M1",
    0x10C: "IFM_HEIGHT1_M1",
    0x10D: "IFM_IB_END",
    0x10F: "IFM_REGION",
    0x111: "OFM_WIDTH_M1",
    0x112: "OFM_HEIGHT_M1",
    0x113: "OFM_DEPTH_M1",
    0x114: "OFM_PRECISION",
    0x115: "OFM_BLK_WIDTH_M1",
    0x116: "OFM_BLK_HEIGHT_M1",
    0x117: "OFM_BLK_DEPTH_M1",
    0x118: "OFM_ZERO_POINT",
    0x11A: "OFM_WIDTH0_M1",
    0x11B: "OFM_HEIGHT0_M1",
    0x11C: "OFM_HEIGHT1_M1",
    0x11F: "OFM_REGION",
    0x120: "KERNEL_WIDTH_M1",
    0x121: "KERNEL_HEIGHT_M1",
    0x122: "KERNEL_STRIDE",
    0x123: "PARALLEL_MODE",
    0x124: "ACC_FORMAT",
    0x125: "ACTIVATION",
    0x126: "ACTIVATION_MIN",
    0x127: "ACTIVATION_MAX",
    0x128: "WEIGHT_REGION",
    0x129: "SCALE_REGION",
    0x12D: "AB_START",
    0x12E: "WEIGHT_FORMAT",
    0x12F: "BLOCKDEP",
    0x130: "DMA0_SRC_REGION",
    0x131: "DMA0_DST_REGION",
    0x132: "DMA0_SIZE0",
    0x133: "DMA0_SIZE1",
    0x180: "IFM2_BROADCAST",
    0x181: "IFM2_SCALAR",
    0x185: "IFM2_PRECISION",
    0x189: "IFM2_ZERO_POINT",
    0x18A: "IFM2_WIDTH0_M1",
    0x18B: "IFM2_HEIGHT0_M1",
    0x18C: "IFM2_HEIGHT1_M1",
    0x18D: "IFM2_IB_START",
    0x18F: "IFM2_REGION",
    0x4000: "IFM_BASE0",
    0x4001: "IFM_BASE1",
    0x4002: "IFM_BASE2",
    0x4003: "IFM_BASE3",
    0x4004: "IFM_STRIDE_X",
    0x4005: "IFM_STRIDE_Y",
    0x4006: "IFM_STRIDE_C",
    0x4010: "OFM_BASE0",
    0x4011: "OFM_BASE1",
    0x4012: "OFM_BASE2",
    0x4013: "OFM_BASE3",
    0x4014: "OFM_STRIDE_X",
    0x4015: "OFM_STRIDE_Y",
    0x4016: "OFM_STRIDE_C",
    0x4020: "WEIGHT_BASE",
    0x4021: "WEIGHT_LENGTH",
    0x4022: "SCALE_BASE",
    0x4023: "SCALE_LENGTH",
    0x4024: "OFM_SCALE",
    0x4025: "OPA_SCALE",
    0x4026: "OPB_SCALE",
    0x4030: "DMA0_SRC",
    0x4031: "DMA0_DST",
    0x4032: "DMA0_LEN",
    0x4033: "DMA0_SKIP0",
    0x4034: "DMA0_SKIP1",
    0x4080: "IFM2_BASE0",
    0x4081: "IFM2_BASE1",
    0x4082: "IFM2_BASE2",
    0x4083: "IFM2_BASE3",
    0x4084: "IFM2_STRIDE_X",
    0x4085: "IFM2_STRIDE_Y",
    0x4086: "IFM2_STRIDE_C",
    0x4090: "WEIGHT1_BASE",
    0x4091: "WEIGHT1_LENGTH",
    0x4092: "SCALE1_BASE",
    0x4093: "SCALE1_LENGTH",
}
_U85 = {
    0x12A: "RESIZE_X_SCALE_N_M1",
    0x12B: "RESIZE_Y_SCALE_N_M1",
    0x12C: "RESIZE_X_OFFSET",
    0x12D: "RESIZE_Y_OFFSET",
    0x134: "DMA0_IDX_REGION",
    0x4025: "IFM_SCALE",
    0x4026: "IFM2_SCALE",
    0x4027: "OP_SCALAR",
    0x4033: "DMA0_SRC_STRIDE0",
    0x4035: "DMA0_DST_STRIDE0",
    0x4037: "DMA0_IDX",
    0x4038: "DMA0_IDX_MAX",
    0x4096: "RESIZE_X_STEP",
    0x4097: "RESIZE_Y_STEP",
    0x4034: "DMA0_SRC_STRIDE1",
    0x4036: "DMA0_DST_STRIDE1",
    0x4039: "DMA0_IDX_SKIP1",
    0x4092: "WEIGHT2_BASE",
    0x4093: "WEIGHT2_LENGTH",
    0x4094: "WEIGHT3_BASE",
    0x4095: "WEIGHT3_LENGTH",
}
_BRANCH = 0x4100
# Codes that mean something else on the Ethos-U85, or nothing.
_NOT_ON_U85 = {0x10D, 0x18D, 0x181, 0x123}


def name_of(code: int, *, u85: bool) -> str:
    """Return a command's name as in Arm's tools, or its code if unknown."""
    if code in _OPERATIONS:
        return f"NPU_OP_{_OPERATIONS[code]}"
    if u85 and code == _BRANCH:
        return "NPU_OP_BRANCH"
    setting = _U85.get(code) if u85 else None
    if setting is None and not (u85 and code in _NOT_ON_U85):
        setting = _SETTINGS.get(code)
    return f"NPU_SET_{setting}" if setting else f"command 0x{code:04x}"


_KINDS = {
    "CONV": "convolution",
    "DEPTHWISE": "depthwise convolution",
    "POOL": "pooling",
    "ELEMENTWISE": "elementwise",
    "RESIZE": "resize",
    "DMA_START": "copy",
}
_WEIGHTED = {"convolution", "depthwise convolution"}
# Base address of each region: ExecuTorch 1.5.1, EthosUBackend.cpp.
REGIONS = {0: "constants", 1: "scratch", 2: "fast scratch"}


@dataclass(frozen=True)
class Area:
    """An address range in one of the memory regions of the NPU [bytes].

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
    """One NPU operation. Shapes are (height, width, channels); ``bytes`` is the size of a copy."""

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
    """Return the purpose of a region."""
    return REGIONS.get(region, f"region {region}")


def operations(commands: Iterable[Command]) -> Iterator[Operation]:
    """Yield the operations that commands start, in order."""
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
        role, state.get(f"{name}_REGION", 0) & 7, state.get(f"{name}_BASE", 0), state.get(f"{name}_LENGTH", 0)
    )


_MARKS = (b"COP1", b"COP2")
_CONFIGURE, _STREAM = 1, 2
_WORDS_OF_CONFIGURE = 2
_FAMILIES = {0: "ethos-u55", 1: "ethos-u65", 2: "ethos-u85"}


# Ends of the names of commands whose 16-bit parameter is a value of a tensor.
_OF_VALUES = ("ZERO_POINT", "ACTIVATION_MIN", "ACTIVATION_MAX")


@dataclass(frozen=True)
class Command:
    """One command: offset in its stream [bytes], name, parameter and payload."""

    offset: int
    name: str
    parameter: int
    payload: int | None = None

    @property
    def value(self) -> int:
        """The value: a 32-bit payload with the parameter above it, or the parameter."""
        return self.parameter if self.payload is None else self.parameter << 32 | self.payload

    @property
    def text(self) -> str:
        """The formatted value: addresses and 32-bit sizes in hexadecimal, values of tensors with sign."""
        if self.payload is not None:
            return f"{self.value:#x}"
        is_negative = self.parameter >= 1 << 15 and self.name.endswith(_OF_VALUES)
        return str(self.parameter - (1 << 16 if is_negative else 0))


_PRECISION = re.compile(r"NPU_SET_(IFM2?|OFM)_PRECISION")
_IN_BYTES = re.compile(r"NPU_SET_((IFM2?|OFM)_STRIDE_[XYC]|(WEIGHT|SCALE)\d?_LENGTH|DMA0_LEN)")


def meaning(command: Command) -> str:
    """Return what the value of a register setting stands for; "" if it stands for itself.

    Encodings: Arm, Ethos-U55, U65 and U85 NPU technical reference manuals, command stream.
    """
    if match := _PRECISION.fullmatch(command.name):
        bits = 8 << (command.value >> (1 if match[1] == "OFM" else 2) & 3)
        layout = {0: ", NHWC", 1: ", NHCWB16"}.get(command.value >> 6 & 3, "")
        return f"{'' if command.value & 1 else 'u'}int{bits}{layout}"
    if command.name.endswith("_REGION"):
        return region_name(command.value & 7)
    if command.name.endswith("_M1"):
        return f"{command.value + 1:,}"
    unit = "byte" if command.value == 1 else "bytes"
    return f"{command.value:,} {unit}" if _IN_BYTES.fullmatch(command.name) else ""


@dataclass(frozen=True)
class CommandStream:
    """The decoded ``cmd_data``. ``macs`` is 0 if the configuration is missing."""

    format: str
    family: str
    macs: int
    commands: tuple[Command, ...]
    operations: tuple[Operation, ...] = field(default=())


# Of the largest networks a stream has a few hundred KiB; a decoded command takes 200 bytes.
_MOST_BYTES = 4 << 20


def decode(data: memoryview | bytes) -> CommandStream:
    """Return the commands in a delegate's ``cmd_data``.

    Raises:
        WorkbenchError: the header is invalid, or the stream is truncated.
    """
    mark = bytes(data[:4])
    if mark not in _MARKS or len(data) % 4:
        raise damaged("an Ethos-U command stream does not begin with COP1 or COP2")
    if len(data) > _MOST_BYTES:
        raise damaged(f"an Ethos-U command stream is larger than {_MOST_BYTES >> 20} MiB")
    family, macs, commands = "", 0, list[Command]()
    for action, words in _actions(data):
        if action == _CONFIGURE:
            family, macs = _configuration(words[0])
        else:
            commands += _commands(words, u85=family == "ethos-u85")
    listed = tuple(commands)
    return CommandStream(mark.decode(), family, macs, listed, tuple(operations(listed)))


def stream_bytes(data: memoryview | bytes) -> bytes:
    """Return what the NPU reads of a delegate's ``cmd_data``: the commands without their header.

    Raises:
        WorkbenchError: the header is invalid, or the stream is truncated.
    """
    streams = [words for action, words in _actions(data) if action == _STREAM]
    return b"".join(struct.pack(f"<{len(words)}I", *words) for words in streams)


def _actions(data: memoryview | bytes) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield the driver's actions that matter here, each with its words."""
    words, at = struct.unpack(f"<{len(data) // 4}I", data[: len(data) // 4 * 4]), 1
    while at < len(words):
        action, length = words[at] & 0xFF, words[at] >> 16 | (words[at] >> 8 & 0xFF) << 16
        at += 1
        if action == _CONFIGURE:
            if at >= len(words):
                raise damaged("an Ethos-U command stream ends within its configuration")
            yield action, words[at : at + 1]
            at += _WORDS_OF_CONFIGURE
        elif action == _STREAM:
            if at + length > len(words):
                raise damaged("an Ethos-U command stream is longer than its block")
            yield action, words[at : at + length]
            at += length


def target_of_commands(data: memoryview | bytes) -> tuple[str, int]:
    """Return family and MACs of the NPU that the commands are for, from the header only.

    Family is "" and MACs 0 if the configuration is not first.

    Raises:
        WorkbenchError: the header is invalid.
    """
    if len(data) < 12 or bytes(data[:4]) not in _MARKS:
        raise damaged("an Ethos-U command stream does not begin with COP1 or COP2")
    action, word = struct.unpack_from("<2I", data, 4)
    return _configuration(word) if action & 0xFF == _CONFIGURE else ("", 0)


def listing(stream: CommandStream) -> Iterator[str]:
    """Yield a line per command: offset [bytes], name, value; then a line per operation."""
    operations = {operation.offset: operation for operation in stream.operations}
    for command in stream.commands:
        line = f"{command.offset:#08x}  {command.name:<30} {command.text}"
        if command.offset in operations:
            line += f"  {operations[command.offset]}"
        yield line.rstrip()


def _configuration(word: int) -> tuple[str, int]:
    return _FAMILIES.get(word >> 28, ""), 1 << (word & 0xF)


def _commands(words: tuple[int, ...], *, u85: bool) -> Iterator[Command]:
    at = 0
    while at < len(words):
        code, parameter, offset = words[at] & 0xFFFF, words[at] >> 16, 4 * at
        at += 1
        payload = None
        if code & WITH_PAYLOAD:
            if at >= len(words):
                raise damaged("an Ethos-U command lacks its payload")
            payload = words[at]
            at += 1
        yield Command(offset, name_of(code, u85=u85), parameter, payload)


# A malicious file may use the same range without limit.
_MOST_USES = 1000


@dataclass(frozen=True)
class NpuTensor:
    """An address range, its role, and the offsets [bytes] of operations that write and read it."""

    name: str
    area: Area
    shape: tuple[int, ...] = ()
    written: tuple[int, ...] = ()
    read: tuple[int, ...] = ()

    @property
    def uses(self) -> tuple[int, ...]:
        """Offsets of all operations that use it, ascending."""
        return tuple(sorted({*self.written, *self.read}))

    @property
    def address_text(self) -> str:
        """Region and address."""
        return f"{region_name(self.area.region)} {self.area.address:#x}"


def tensors(stream: CommandStream, inputs: Sequence[Port], outputs: Sequence[Port]) -> list[NpuTensor]:
    """Return inputs and outputs of the delegate, then all other ranges the NPU uses.

    Operations on a part of an input or output count as using it.
    """
    written, read = _uses(stream, writes=True), _uses(stream, writes=False)
    starts = {
        region: sorted({area.address for area in (*written, *read) if area.region == region})
        for region in {area.region for area in (*written, *read)}
    }
    by_address = _by_address(written), _by_address(read)
    tensor_list, taken = [], set()
    for word, ports in (("input", inputs), ("output", outputs)):
        for number, port in enumerate(ports):
            area = Area("feature map", port.region, port.offset, port.bytes)
            inside = _inside(starts.get(port.region, []), port)
            addresses = [(port.region, address) for address in inside]
            taken.update(addresses)
            uses = (
                tuple(o for start in addresses for o in side.get(start, ()))[:_MOST_USES]
                for side in by_address
            )
            tensor_list.append(NpuTensor(f"{word} {number}", area, port.shape, *uses))
    for area in dict.fromkeys((*written, *read)):
        if area.role != "feature map" or (area.region, area.address) not in taken:
            uses = (tuple(side.get(area, ())[:_MOST_USES]) for side in (written, read))
            tensor_list.append(NpuTensor(area.role, area, (), *uses))
    return tensor_list


def _uses(stream: CommandStream, *, writes: bool) -> dict[Area, list[int]]:
    uses: dict[Area, list[int]] = {}
    for operation in stream.operations:
        for area in operation.writes if writes else operation.reads:
            uses.setdefault(area, []).append(operation.offset)
    return uses


def _by_address(uses: dict[Area, list[int]]) -> dict[tuple[int, int], list[int]]:
    tensor_by_address: dict[tuple[int, int], list[int]] = {}
    for area, offsets in uses.items():
        if area.role == "feature map":
            tensor_by_address.setdefault((area.region, area.address), []).extend(offsets)
    return tensor_by_address


def _inside(starts: list[int], port: Port) -> list[int]:
    first = bisect_left(starts, port.offset)
    last = bisect_left(starts, port.offset + max(port.bytes, 1))
    return starts[first : min(last, first + _MOST_USES)]
