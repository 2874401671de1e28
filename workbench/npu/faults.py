"""Why a command cannot be carried out, and what a run remarks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning"]


class Fault(Exception):
    """A command cannot be carried out. The machine adds which command it was.

    ``code`` becomes the code of the problem that is reported.
    """

    code = "npu-command"

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


class ModeFault(Fault):
    """A mode, format or function that does not exist, or that is not public."""

    code = "npu-mode"


class AddressFault(Fault):
    """Memory outside of what the NPU is given."""

    code = "npu-address"


class TableFault(Fault):
    """A table that is not in the table memory."""

    code = "npu-table"


class WeightFault(Fault):
    """A weight stream that is damaged, or that does not fit its operation."""

    code = "npu-weights"


class LimitFault(Fault):
    """More commands, memory or computation than a run may take."""

    code = "npu-limit"


class StreamFault(Fault):
    """A command that is not known, or a stream without an end."""

    code = "npu-stream"


@dataclass(frozen=True)
class Finding:
    """A remark on one command of a run that went on.

    Attributes:
        severity: "error" where the program's values are not reliable on a device.
        code: What kind of remark, for programs; e.g. "uninitialised-read".
        message: The remark.
        offset: Where the command starts in its stream [bytes].
        command: The command's name.
        module: The module that the command was compiled from; "" where unknown.
        delegate: Index of the delegate in the program.
    """

    severity: Severity
    code: str
    message: str
    offset: int
    command: str
    module: str = ""
    delegate: int = 0

    def __str__(self) -> str:
        of = f" of {self.module}" if self.module else ""
        return f"{self.command} at {self.offset:#x}{of}: {self.message}"


class SamplesDiffer(Exception):
    """Samples that run together go different ways: each must run by itself."""
