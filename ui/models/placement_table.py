"""What devices would leave on the CPU, a row for each operator and kind of device."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QObject

from ui.models.figure_table import Column, FigureTableModel
from workbench.graph.labels import operator_name
from workbench.results import CpuNode
from workbench.studies.matrix import Placement


@dataclass(frozen=True)
class LeftRow:
    """One operator that a kind of device would not take."""

    kind: str
    node: CpuNode


LEFT_COLUMNS: tuple[Column[LeftRow], ...] = (
    Column("Device", lambda row: row.kind),
    Column("Operator", lambda row: operator_name(row.node.op)),
    Column("Module", lambda row: row.node.module or "(model)"),
    Column("Why it would stay on the CPU", lambda row: row.node.reason),
)


def left_rows(found: Placement) -> list[LeftRow]:
    """Return all that would stay on the CPU, device by device."""
    return [LeftRow(device.kind, node) for device in found.devices for node in device.cpu]


class PlacementTableModel(FigureTableModel[LeftRow]):
    """All that would stay on the CPU."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(LEFT_COLUMNS, lambda row: row.node.reason, parent)
