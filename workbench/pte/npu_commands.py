"""The command stream of a delegate, as commands and as operations in words.

The stream of commands stands inside a list of actions for the driver. Source of the actions and
of the configuration word: Vela 5.1.0, ``ethosu/vela/driver_actions.py`` and ``config_r`` in
``ethos_u55_regs``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from workbench.pte.flat import damaged
from workbench.pte.npu_opcodes import WITH_PAYLOAD, name_of

_MARKS = (b"COP1", b"COP2")
_CONFIGURE, _STREAM = 1, 2
_WORDS_OF_CONFIGURE = 2
_FAMILIES = {0: "ethos-u55", 1: "ethos-u65", 2: "ethos-u85"}
_KINDS = {
    "CONV": "convolution", "DEPTHWISE": "depthwise convolution", "POOL": "pooling",
    "ELEMENTWISE": "elementwise", "RESIZE": "resize", "DMA_START": "copy",
}  # fmt: skip


@dataclass(frozen=True)
class Command:
    """One command: where it starts in its stream [bytes], its name, parameter and payload."""

    offset: int
    name: str
    parameter: int
    payload: int | None = None

    @property
    def value(self) -> int:
        """The whole value: a payload of 32 bits with the parameter above it, or the parameter."""
        return self.parameter if self.payload is None else self.parameter << 32 | self.payload


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

    def __str__(self) -> str:
        if self.kind == "copy":
            return f"copy of {self.copied_bytes:,} bytes"
        by = "x".join(map(str, self.kernel))
        parts = [f"{by} {self.kind}" if by else self.kind, f"{self.ifm} to {self.ofm}"]
        if self.weight_bytes:
            parts.append(f"{self.weight_bytes:,} bytes of weights")
        return ", ".join(parts)


@dataclass(frozen=True)
class CommandStream:
    """All of ``cmd_data``. ``macs`` is 0 where the configuration is missing."""

    format: str
    family: str
    macs: int
    commands: tuple[Command, ...]
    operations: tuple[Operation, ...] = field(default=())


def decode(data: memoryview | bytes) -> CommandStream:
    """Return the commands in a delegate's ``cmd_data``.

    Raises:
        WorkbenchError: it does not begin as a command stream does, or ends too early.
    """
    mark = bytes(data[:4])
    if mark not in _MARKS or len(data) % 4:
        raise damaged("an Ethos-U command stream does not begin with COP1 or COP2")
    words = struct.unpack(f"<{len(data) // 4}I", data)
    family, macs, commands = "", 0, list[Command]()
    at = 1
    while at < len(words):
        action, length = words[at] & 0xFF, words[at] >> 16 | (words[at] >> 8 & 0xFF) << 16
        at += 1
        if action == _CONFIGURE:
            if at >= len(words):
                raise damaged("an Ethos-U command stream ends within its configuration")
            family = _FAMILIES.get(words[at] >> 28, "")
            macs = 1 << (words[at] & 0xF)
            at += _WORDS_OF_CONFIGURE
        elif action == _STREAM:
            if at + length > len(words):
                raise damaged("an Ethos-U command stream is longer than its block")
            commands += _commands(words[at : at + length], u85=family == "ethos-u85")
            at += length
    listed = tuple(commands)
    return CommandStream(mark.decode(), family, macs, listed, tuple(_operations(listed)))


def listing(stream: CommandStream) -> Iterator[str]:
    """Yield a line for each command: offset [bytes], name, value; operations in words."""
    operations = {operation.offset: operation for operation in stream.operations}
    for command in stream.commands:
        line = f"{command.offset:#08x}  {command.name:<30} {_in_words(command)}"
        if command.offset in operations:
            line += f"  {operations[command.offset]}"
        yield line.rstrip()


def _in_words(command: Command) -> str:
    if command.payload is not None:
        return f"{command.value:#x}"
    return str(command.parameter)


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


def _operations(commands: tuple[Command, ...]) -> Iterator[Operation]:
    state: dict[str, int] = {}
    for command in commands:
        kind = _KINDS.get(command.name.removeprefix("NPU_OP_"))
        if not command.name.startswith("NPU_OP_"):
            state[command.name.removeprefix("NPU_SET_")] = command.value
        elif kind == "copy":
            yield Operation(command.offset, kind, copied_bytes=state.get("DMA0_LEN", 0))
        elif kind is not None:
            yield _computing(command.offset, kind, state)


def _computing(offset: int, kind: str, state: dict[str, int]) -> Operation:
    def size(*names: str) -> tuple[int, ...]:
        return tuple(state.get(f"{name}_M1", -1) + 1 for name in names)

    weighted = kind in {"convolution", "depthwise convolution"}
    windowed = weighted or kind == "pooling"
    return Operation(
        offset=offset,
        kind=kind,
        ifm=size("IFM_HEIGHT0", "IFM_WIDTH0", "IFM_DEPTH"),
        ofm=size("OFM_HEIGHT", "OFM_WIDTH", "OFM_DEPTH"),
        kernel=size("KERNEL_HEIGHT", "KERNEL_WIDTH") if windowed else (),
        weight_bytes=state.get("WEIGHT_LENGTH", 0) if weighted else 0,
    )
