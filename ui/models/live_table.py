"""Tensors in a memory, one row each."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QObject

from ui.figures import size
from ui.models.figure_table import Column, FigureTableModel
from workbench.results import LiveRange

_USAGES = {
    "OpLocal": "activation", "OpBuffering": "weights, copied ahead", "GraphInput": "input",
    "GraphOutput": "output", "Constant": "constant",
}  # fmt: skip


@dataclass(frozen=True)
class LiveRow:
    """A tensor, its part of the largest one, and whether it is there when most is taken."""

    tensor: LiveRange
    share: float
    at_peak: bool


def usage(tensor: LiveRange) -> str:
    """Return what a tensor is for, in words."""
    return _USAGES.get(tensor.usage, tensor.usage)


def describe_tensor(tensor: LiveRange) -> str:
    """Return a tensor in lines."""
    where = f"in {tensor.module}" if tensor.module else "of no module"
    return "\n".join((
        tensor.name, f"{usage(tensor)}, {where}", f"{size(tensor.bytes)} at {tensor.address:#x}",
        f"steps {tensor.start} to {tensor.end}",
    ))  # fmt: skip


LIVE_COLUMNS: tuple[Column[LiveRow], ...] = (
    Column("At peak", lambda r: "\u25cf" if r.at_peak else "", None,
           "There while most of the memory is taken"),
    Column("Size", lambda r: size(r.tensor.bytes), lambda r: r.tensor.bytes,
           "Estimated by Vela", lambda r: r.share),
    Column("Tensor", lambda r: r.tensor.name),
    Column("Module", lambda r: r.tensor.module),
    Column("For", lambda r: usage(r.tensor)),
    Column("From step", lambda r: str(r.tensor.start), lambda r: r.tensor.start),
    Column("To step", lambda r: str(r.tensor.end), lambda r: r.tensor.end),
    Column("Address", lambda r: f"{r.tensor.address:#x}", lambda r: r.tensor.address),
)  # fmt: skip


class LiveTableModel(FigureTableModel[LiveRow]):
    """All tensors of one memory."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(LIVE_COLUMNS, lambda row: describe_tensor(row.tensor), parent)
