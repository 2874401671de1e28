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
from workbench.pte.npu_operations import Operation, operations

_MARKS = (b"COP1", b"COP2")
_CONFIGURE, _STREAM = 1, 2
_WORDS_OF_CONFIGURE = 2
_FAMILIES = {0: "ethos-u55", 1: "ethos-u65", 2: "ethos-u85"}


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

    @property
    def text(self) -> str:
        """The value as it is read best: addresses and sizes of 32 bits in hexadecimal digits."""
        return str(self.parameter) if self.payload is None else f"{self.value:#x}"


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
            family, macs = _configuration(words[at])
            at += _WORDS_OF_CONFIGURE
        elif action == _STREAM:
            if at + length > len(words):
                raise damaged("an Ethos-U command stream is longer than its block")
            commands += _commands(words[at : at + length], u85=family == "ethos-u85")
            at += length
    listed = tuple(commands)
    return CommandStream(mark.decode(), family, macs, listed, tuple(operations(listed)))


def made_for(data: memoryview | bytes) -> tuple[str, int]:
    """Return family and MACs of the NPU that commands are for, without reading them all.

    Family is "" and MACs 0 where the configuration does not come first.

    Raises:
        WorkbenchError: it does not begin as a command stream does.
    """
    if len(data) < 12 or bytes(data[:4]) not in _MARKS:
        raise damaged("an Ethos-U command stream does not begin with COP1 or COP2")
    action, word = struct.unpack_from("<2I", data, 4)
    return _configuration(word) if action & 0xFF == _CONFIGURE else ("", 0)


def listing(stream: CommandStream) -> Iterator[str]:
    """Yield a line for each command: offset [bytes], name, value; operations in words."""
    told = {operation.offset: operation for operation in stream.operations}
    for command in stream.commands:
        line = f"{command.offset:#08x}  {command.name:<30} {command.text}"
        if command.offset in told:
            line += f"  {told[command.offset]}"
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
