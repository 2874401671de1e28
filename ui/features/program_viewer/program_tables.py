"""Tables of the program viewer: commands, tensors, instructions, constants and kernels."""

from __future__ import annotations

from dataclasses import dataclass

from ui.shared.number_format import DASH, count, size
from ui.shared.sortable_table import Column
from workbench.pte.description import Constant, Instruction, Planned
from workbench.pte.npu_commands import Command, NpuTensor, Operation, meaning

_USES_SHOWN = 6


@dataclass(frozen=True)
class CommandRow:
    """A command, and the operation it starts; None for a register setting."""

    command: Command
    operation: Operation | None

    @property
    def words(self) -> str:
        """The operation that the command starts, or what its value stands for, if that is known."""
        return str(self.operation) if self.operation is not None else meaning(self.command)

    def says(self, text: str) -> bool:
        """Return whether the row contains a lower-case text."""
        line = f"{self.command.offset:#08x} {self.command.name} {self.command.text} {self.words}"
        return text in line.casefold()


@dataclass(frozen=True)
class KernelRow:
    """A kernel and its number of calls."""

    name: str
    calls: int


def describe_command(row: CommandRow) -> str:
    """Return a command, one fact per line."""
    lines = [row.command.name, f"at {row.command.offset:#x}, value {row.command.value:#x}"]
    lines += filter(None, [row.words])
    if row.operation is not None:
        lines += [f"reads {area}, {size(area.bytes)}" for area in row.operation.reads]
        lines += [f"writes {area}, {size(area.bytes)}" for area in row.operation.writes]
    return "\n".join(lines)


def describe_tensor(tensor: NpuTensor) -> str:
    """Return an NPU tensor, one fact per line."""
    return "\n".join(
        (
            tensor.name,
            f"{size(tensor.area.bytes)} in {tensor.address_text}",
            f"written by {_offsets(tensor.written)}",
            f"read by {_offsets(tensor.read)}",
            "The command stream has only addresses; a later write to this address is another tensor.",
        )
    )


def _offsets(offsets: tuple[int, ...]) -> str:
    shown = ", ".join(f"{offset:#x}" for offset in offsets[:_USES_SHOWN])
    more = f" and {len(offsets) - _USES_SHOWN} more" if len(offsets) > _USES_SHOWN else ""
    return f"{shown}{more}" if offsets else "nothing here"


def shape_text(shape: tuple[int, ...]) -> str:
    """Return a shape, ``1 x 8 x 8`` without spaces."""
    return "\u00d7".join(map(str, shape)) if shape else DASH


COMMAND_COLUMNS: tuple[Column[CommandRow], ...] = (
    Column(
        "Offset",
        lambda r: f"{r.command.offset:#08x}",
        lambda r: r.command.offset,
        "Offset in the command stream [bytes]",
    ),
    Column("Command", lambda r: r.command.name),
    Column("Value", lambda r: r.command.text, lambda r: r.command.value),
    Column("Description", lambda r: r.words),
)
NPU_TENSOR_COLUMNS: tuple[Column[NpuTensor], ...] = (
    Column("Tensor", lambda r: r.name),
    Column("Address", lambda r: r.address_text),
    Column(
        "Size [B]",
        lambda r: count(r.area.bytes),
        lambda r: r.area.bytes,
        "Exact for inputs and outputs; for others the span of their rows or columns",
    ),
    Column("Written", lambda r: count(len(r.written)), lambda r: len(r.written), "Operations that write it"),
    Column("Read", lambda r: count(len(r.read)), lambda r: len(r.read), "Operations that read it"),
)
INSTRUCTION_COLUMNS: tuple[Column[Instruction], ...] = (
    Column("#", lambda r: str(r.number), lambda r: r.number, "Execution order"),
    Column("Kind", lambda r: r.kind),
    Column("Name", lambda r: r.name or DASH),
    Column("Values", lambda r: ";  ".join(r.values)),
)
PLAN_COLUMNS: tuple[Column[Planned], ...] = (
    Column("Value", lambda r: str(r.index), lambda r: r.index, "Value index"),
    Column("Role", lambda r: r.role),
    Column("Type", lambda r: r.dtype),
    Column("Shape", lambda r: shape_text(r.shape)),
    Column("Size [B]", lambda r: count(r.bytes), lambda r: r.bytes),
    Column("Memory", lambda r: str(r.memory), lambda r: r.memory),
    Column("Address", lambda r: f"{r.address:#x}", lambda r: r.address),
    Column("From", lambda r: str(r.first), lambda r: r.first, "First instruction that accesses it"),
    Column("To", lambda r: str(r.last), lambda r: r.last, "Last instruction that accesses it"),
)
CONSTANT_COLUMNS: tuple[Column[Constant], ...] = (
    Column("Buffer", lambda r: str(r.index), lambda r: r.index),
    Column("Size [B]", lambda r: count(r.bytes), lambda r: r.bytes),
    Column("Type", lambda r: r.dtype or DASH),
    Column("Shape", lambda r: shape_text(r.shape)),
)
KERNEL_COLUMNS: tuple[Column[KernelRow], ...] = (
    Column("Required kernel", lambda r: r.name),
    Column("Calls", lambda r: count(r.calls), lambda r: r.calls, "Number of calling instructions"),
)
