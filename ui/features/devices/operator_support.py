"""Operator support by kind of device, determined without compiling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from ui.shared.empty_states import StudyNote
from ui.shared.figure_cards import Card, FigureCards
from ui.shared.panel import PanelContext
from ui.shared.sortable_table import Column, FigureTableModel, FigureView
from ui.shared.study_controller import StudyController
from workbench.errors import WorkbenchError
from workbench.graph.labels import operator_name
from workbench.results import CpuNode
from workbench.studies.matrix import DevicePlacement, Placement, one_of_each_kind


@dataclass(frozen=True)
class CpuOperatorRow:
    """One operator that a kind of device does not support."""

    kind: str
    node: CpuNode


LEFT_COLUMNS: tuple[Column[CpuOperatorRow], ...] = (
    Column("Device", lambda row: row.kind),
    Column("Operator", lambda row: operator_name(row.node.op)),
    Column("Module", lambda row: row.node.module or "(model)"),
    Column("Reason", lambda row: row.node.reason),
)


def cpu_rows(placement: Placement) -> list[CpuOperatorRow]:
    """Return the unsupported operators of all devices."""
    return [CpuOperatorRow(device.kind, node) for device in placement.devices for node in device.cpu]


def _reason(row: CpuOperatorRow) -> str:
    return row.node.reason


NOTHING = (
    "Checks with ExecuTorch's partitioner which operators each kind of device supports. Takes "
    "seconds and compiles nothing. Operators that only Vela rejects are not found."
)
_ORIGIN = "predicted (partitioner)"
_UNCHECKED = "Press Check support to see which operators would run on the CPU."
_ALL_SUPPORTED = "No operator would run on the CPU."


class OperatorSupportView(QWidget):
    """Shows a card per kind of device and a table of unsupported operators.

    Signals:
        modules_chosen: the modules of the selected rows.
    """

    modules_chosen = Signal(object)

    def __init__(self, context: PanelContext, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.context = context
        self.study = StudyController(
            "placement", Placement, context.document, context.runner, context.session.cache, self
        )
        self.study.changed.connect(self.refresh)
        self.start = QPushButton("Check support", self)
        self.start.clicked.connect(self._on_start)
        self.note = StudyNote(NOTHING, self)
        self.note.place_asked.connect(context.notices.place_asked)
        self.cards = FigureCards(self)
        self.model = FigureTableModel(LEFT_COLUMNS, _reason, self)
        self.table = FigureView("CPU operators", self.model, self, empty=_UNCHECKED)
        self.table.rows_chosen.connect(self._on_rows_chosen)
        head = QHBoxLayout()
        head.addWidget(self.start)
        head.addWidget(self.note, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 6, 0, 0)
        layout.setSpacing(6)
        layout.addLayout(head)
        layout.addWidget(self.cards)
        layout.addWidget(self.table, 1)

    def refresh(self) -> None:
        """Show the result, current or outdated."""
        self.study.look()
        result, job, theme = self.study.result, self.study.job, self.context.theme
        stale = result is not None and not self.study.is_current
        self.start.setText("Stop" if job else "Check support")
        self.start.setEnabled(self.context.document.project is not None)
        self.note.render_study(self.study, _summary(result) if result is not None else "")
        devices = result.devices if result is not None else ()
        self.cards.render_cards([_card(device) for device in devices], theme, stale=stale)
        self.model.set_rows(cpu_rows(result) if result is not None else [])
        self.table.empty = _UNCHECKED if result is None else _ALL_SUPPORTED
        self.table.set_look(theme, stale=stale)

    def _on_start(self) -> None:
        project = self.context.document.project
        if self.study.job is not None:
            self.study.pause()
        elif project is not None:
            try:
                one_of_each_kind(project.target)
            except WorkbenchError as error:
                self.context.notices.error(error)
                return
            self.study.start()

    def _on_rows_chosen(self, shown: Sequence[int]) -> None:
        rows = [row for row in map(self.model.row_at, shown) if row is not None]
        modules = [row.node.module for row in rows if row.node.module]
        self.modules_chosen.emit(modules)


def _summary(placement: Placement) -> str:
    problems = (f"{d.kind}: {d.problem}" for d in placement.devices if d.problem)
    return " ".join(problems) or "Not compiled. Operators that only Vela rejects are not found."


def _card(device: DevicePlacement) -> Card:
    if device.problem:
        return Card(device.kind, "not possible", _ORIGIN, device.problem)
    text = f"{device.npu} NPU, {len(device.cpu)} CPU"
    return Card(device.kind, text, _ORIGIN, "Operators on the NPU and on the CPU")
