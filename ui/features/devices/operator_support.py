"""What each kind of device would take of the program, before anything is compiled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from ui.shared.figure_cards import Card, FigureCards
from ui.shared.figure_table import Column, FigureTableModel, FigureView
from ui.shared.panel import PanelContext
from ui.shared.study_controller import StudyDesk
from workbench.errors import WorkbenchError
from workbench.graph.labels import operator_name
from workbench.results import CpuNode
from workbench.studies.matrix import DevicePlacement, Placement, one_of_each_kind


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


NOTHING = (
    "ExecuTorch's partitioner says for each kind of device which operators it would take, and why "
    "not the rest. Nothing is compiled, so that it takes seconds; what Vela itself refuses is not "
    "foreseen."
)
_ORIGIN = "foreseen (partitioner)"


class ForeseenView(QWidget):
    """A card for each kind of device, and all that would stay on the CPU.

    Signals:
        modules_chosen: the modules of the rows that a person chose.
    """

    modules_chosen = Signal(object)

    def __init__(self, context: PanelContext, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.context = context
        self.desk = StudyDesk(
            "placement", Placement, context.document, context.runner, context.session.cache, self
        )
        self.desk.changed.connect(self.refresh)
        self.start = QPushButton("Foresee", self)
        self.start.clicked.connect(self._on_start)
        self.note = QLabel(self)
        self.note.setObjectName("Hint")
        self.note.setWordWrap(True)
        self.cards = FigureCards(self)
        self.model = PlacementTableModel(self)
        self.table = FigureView("Operators left on the CPU", self.model, self)
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
        """Show what is known for the present configuration, or for a former one."""
        self.desk.look()
        found, job, theme = self.desk.found, self.desk.job, self.context.theme
        stale = found is not None and not self.desk.is_current
        self.start.setText("Stop" if job else "Foresee")
        self.start.setEnabled(self.context.document.project is not None)
        self.note.setText(self._sentence(found))
        devices = found.devices if found is not None else ()
        self.cards.render_cards([_card(device) for device in devices], theme, stale=stale)
        self.model.set_rows(left_rows(found) if found is not None else [])
        self.table.set_look(theme, stale=stale)

    def _sentence(self, found: Placement | None) -> str:
        job = self.desk.job
        if job is not None:
            return f"{job.stage_title or 'Preparing'}\u2026 {job.message}".strip()
        if found is None:
            return NOTHING
        said = [f"{d.kind}: {d.problem}" for d in found.devices if d.problem]
        if not self.desk.is_current:
            said.insert(0, "For a former configuration.")
        return " ".join(said) or "Nothing was compiled; what Vela itself refuses is not foreseen."

    def _on_start(self) -> None:
        project = self.context.document.project
        if self.desk.job is not None:
            self.desk.pause()
        elif project is not None:
            try:
                one_of_each_kind(project.target)
            except WorkbenchError as error:
                self.context.notices.error(error)
                return
            self.desk.start()

    def _on_rows_chosen(self, shown: Sequence[int]) -> None:
        rows = [row for row in map(self.model.row_at, shown) if row is not None]
        modules = [row.node.module for row in rows if row.node.module]
        self.modules_chosen.emit(modules)


def _card(device: DevicePlacement) -> Card:
    if device.problem:
        return Card(device.kind, "not possible", _ORIGIN, device.problem)
    said = f"{device.npu} NPU, {len(device.cpu)} CPU"
    return Card(device.kind, said, _ORIGIN, "Where the operators of the program would run")
