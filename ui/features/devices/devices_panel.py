"""The Devices panel: estimated cost on other devices and memory configurations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyqtgraph as pg
from pydantic import JsonValue
from PySide6.QtCore import QModelIndex, QPointF, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QComboBox, QLineEdit, QPushButton, QSplitter, QVBoxLayout, QWidget

from ui.features.devices.device_map import (
    DEVICE_COLUMNS,
    FIGURES,
    DeviceRow,
    HeatMap,
    HeatMapModel,
    describe_device,
    describe_point,
    device_rows,
    fastest,
)
from ui.features.devices.operator_support import OperatorSupportView
from ui.shared.chart import Chart, Scatter, wash
from ui.shared.empty_states import StudyNote
from ui.shared.labels import literal
from ui.shared.panel import Panel
from ui.shared.sortable_table import BarDelegate, FigureTableModel, FigureView, Role
from ui.shared.study_controller import StudyController
from ui.shared.tabs import Tabs
from ui.shared.theme import Theme
from ui.shared.wrapping_row import FlowRow
from workbench.deploy import boards
from workbench.errors import WorkbenchError
from workbench.project import edits
from workbench.project.model import TargetChoice
from workbench.studies.sweep import SweepPoint, SweepResult, points
from workbench.targets import target_of, why_unestimated

_NEAR_PX = 14.0
_SIZE_PX, _BEST_PX = 11, 15


@dataclass(frozen=True)
class DevicePoint:
    """Time [ms] and peak SRAM [KiB] of a point, both above 0."""

    time_ms: float
    sram_kib: float
    is_best: bool = False


class DevicePlot(Chart):
    """Plot of points. Pareto-optimal points differ in colour and shape.

    Signals:
        dot_chosen: index of a dot.
    """

    dot_chosen = Signal(int)

    def __init__(self, describe: Callable[[int], str], parent: QWidget | None = None) -> None:
        super().__init__("Time and SRAM of devices", "peak SRAM [KiB]", "time [ms]", parent, is_log=True)
        self.points: tuple[DevicePoint, ...] = ()
        self._describe = describe
        self._chosen: frozenset[int] = frozenset()
        self._theme: Theme | None = None
        self._places = np.zeros((0, 2))
        self.box.setMouseEnabled(x=False, y=False)
        self._dots = Scatter()
        self.plot.addItem(self._dots, ignoreBounds=True)
        self.tell = self._tell
        self.box.picked.connect(self._on_picked)

    def render_points(self, points: Sequence[DevicePoint]) -> None:
        """Show points."""
        self.points = tuple(points)
        self.set_empty(empty=not points)
        self._places = np.log10([[p.sram_kib, p.time_ms] for p in points] or np.ones((0, 2)))
        if points:
            low, high = self._places.min(axis=0), self._places.max(axis=0)
            air = np.maximum((high - low) * 0.08, 0.05)
            self.box.setXRange(low[0] - air[0], high[0] + air[0], padding=0)
            self.box.setYRange(low[1] - air[1], high[1] + air[1], padding=0)
        self._paint()

    def choose(self, indices: Iterable[int]) -> None:
        """Mark the selected point."""
        self._chosen = frozenset(indices)
        self._paint()

    def restyle(self, theme: Theme) -> None:
        self._theme = theme
        self._paint()

    def _paint(self) -> None:
        if self._theme is None:
            return
        theme = self._theme
        spots = [
            {
                "pos": position,
                "size": _BEST_PX if point.is_best else _SIZE_PX,
                "symbol": "d" if point.is_best else "o",
                "brush": wash(theme.good if point.is_best else theme.accent, 0.75),
                "pen": pg.mkPen(theme.text if n in self._chosen else theme.surface, width=2),
            }
            for n, (position, point) in enumerate(zip(self._places, self.points, strict=True))
        ]
        self._dots.setData(spots)

    def _nearest(self, point: QPointF) -> int | None:
        if not self.points:
            return None
        unit = np.asarray(self.box.viewPixelSize())
        away = (((self._places - [point.x(), point.y()]) / unit) ** 2).sum(axis=1)
        nearest = int(np.argmin(away))
        return nearest if away[nearest] <= _NEAR_PX**2 else None

    def _tell(self, point: QPointF) -> str:
        nearest = self._nearest(point)
        return self._describe(nearest) if nearest is not None else ""

    def _on_picked(self, x: float, y: float, _adds: bool) -> None:
        nearest = self._nearest(QPointF(x, y))
        if nearest is not None:
            self.dot_chosen.emit(nearest)


NOTHING = "Estimates every device and memory mode with Vela. The program is compiled once per device family."
NO_POINTS = "Press Estimate to compare cycles, time and memory of the devices."
_FAMILY, _ALL, _PRESENT = "Devices of this family", "All devices", "This device"
# Columns with bars, and the least width of table and plot side by side.
_BARS, _WIDE_PX = (2, 3), 760
_LIMITS_PX = 220


class DevicesPanel(Panel):
    """Shows estimated points as table, plot and heat map. A point can be set as target."""

    panel_id = "devices"

    def build(self) -> None:
        context = self.context
        self._plotted: list[int] = []
        self._chosen: SweepPoint | None = None
        self.study = StudyController(
            "sweep", SweepResult, context.document, context.runner, context.session.cache, self
        )
        self.study.changed.connect(lambda: self._mark("state"))
        self.model = FigureTableModel(DEVICE_COLUMNS, describe_device, self)
        self.table = FigureView("Devices", self.model, self, empty=NO_POINTS)
        self.table.rows_chosen.connect(self._on_rows_chosen)
        for column in _BARS:
            bars = BarDelegate(lambda: self.context.theme, Role.SHARE, self.table)
            self.table.setItemDelegateForColumn(column, bars)
        self.plot = DevicePlot(self._describe, self)
        self.plot.dot_chosen.connect(self._on_dot_chosen)
        self.heat = HeatMapModel(lambda: self.context.theme, self)
        titles = [f"{title}, estimated (Vela)" for title, _, _ in FIGURES]
        self.map = HeatMap(self.heat, titles, NO_POINTS, self)
        self.map.figure_chosen.connect(self.heat.show_figure)
        self.map.cell_chosen.connect(self._on_cell_chosen)
        self._make_head()
        self._split = split = QSplitter(Qt.Orientation.Horizontal, self)
        split.addWidget(self.table)
        split.addWidget(self.plot)
        split.setSizes([620, 380])
        self.views = Tabs(self)
        self.views.addTab(split, "Table and plot")
        self.views.addTab(self.map, "Heat map")
        self._make_pages()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Put the plot below the table where the panel is narrow."""
        super().resizeEvent(event)
        is_wide = self.width() >= _WIDE_PX
        self._split.setOrientation(Qt.Orientation.Horizontal if is_wide else Qt.Orientation.Vertical)

    def refresh(self) -> None:
        self.operator_support.refresh()
        self.study.options = self._options() or {}
        self.study.look()
        self._show_result()

    def set_theme(self, theme: Theme) -> None:
        self.plot.set_theme(theme)
        self._show_look()
        self.operator_support.refresh()

    def _make_pages(self) -> None:
        self.operator_support = OperatorSupportView(self.context, self)
        self.operator_support.modules_chosen.connect(
            lambda modules: self.context.selection.choose_modules(modules, self.panel_id)
        )
        cost = QWidget(self)
        above = QVBoxLayout(cost)
        above.setContentsMargins(0, 6, 0, 0)
        above.setSpacing(4)
        above.addWidget(self._head)
        above.addWidget(self.note)
        above.addWidget(self.views, 1)
        self.pages = Tabs(self)
        self.pages.addTab(cost, "Cost")
        self.pages.addTab(self.operator_support, "Operator support")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 2, 8, 4)
        layout.addWidget(self.pages)

    def _make_head(self) -> None:
        self.start = QPushButton("Estimate", self)
        self.start.setProperty("primary", True)
        self.start.clicked.connect(self._on_start)
        self.devices = _choices(self, "Devices", (_ALL, _FAMILY, _PRESENT))
        self.modes = _choices(self, "Memory modes", ("All memory modes", "This memory mode"))
        self.configs = _choices(
            self, "System configurations", ("Default system configuration", "All system configurations")
        )
        self.limits = QLineEdit(self)
        self.limits.setPlaceholderText("SRAM [KiB], e.g. 256 512")
        self.limits.setAccessibleName("SRAM limits in KiB")
        self.take = QPushButton("Use this target", self)
        self.take.clicked.connect(self._on_take)
        self.note = StudyNote(NOTHING, self)
        self.note.place_asked.connect(self.context.notices.place_asked)
        self.limits.setMinimumWidth(_LIMITS_PX)
        self._head = FlowRow(self)
        self._head.add(self.start, self.devices, self.configs, self.modes, self.limits, self.take)

    def _options(self) -> dict[str, JsonValue] | None:
        """Return the options of the study; None if the SRAM limits are invalid."""
        project = self.context.document.project
        if project is None:
            return {}
        present = project.target.id
        asked: dict[str, list[JsonValue]] = {
            _ALL: ["all"],
            _FAMILY: [present.rpartition("-")[0]],
            _PRESENT: [present],
        }
        axes: dict[str, JsonValue] = {}
        if self.configs.currentIndex() == 1:
            axes["system_config"] = ["all"]
        if self.modes.currentIndex() == 0:
            axes["memory_mode"] = ["all"]
        try:
            limits: list[JsonValue] = [
                round(1024 * float(w)) for w in self.limits.text().replace(",", " ").split()
            ]
        except ValueError:
            return None
        if limits:
            axes["arena_cache_bytes"] = limits
        return {"targets": asked[self.devices.currentText()], "axes": axes}

    def _show_result(self) -> None:
        result, job = self.study.result, self.study.job
        self.start.setText("Pause" if job else "Estimate")
        project = self.context.document.project
        why = why_unestimated(project.target.id) if project is not None else ""
        self.start.setEnabled(not why)
        self.start.setToolTip(literal(why))
        if why:
            self.note.show_text(why)
        else:
            self.note.render_study(self.study, _summary(result) if result is not None else "")
        rows = self._rows(result)
        self.model.set_rows(rows)
        self.heat.set_points([row.point for row in rows])
        self._plotted = [n for n, row in enumerate(rows) if _can_plot(row.point)]
        self.plot.render_points([_dot(rows[n]) for n in self._plotted])
        self.plot.setVisible(bool(self._plotted))
        self.plot.set_stale(result is not None and not self.study.is_current)
        self._show_look()
        if job is None and result is not None and self._chosen is None:
            best = fastest(rows)
            self._chosen = best.point if best is not None else None
        self._choose(self._chosen)

    def _rows(self, result: SweepResult | None) -> list[DeviceRow]:
        if result is None:
            return []
        return device_rows(result.points, result.front(), self._present(), self._board())

    def _board(self) -> boards.Board | None:
        """Return the project's board; None without one that can be read."""
        project = self.context.document.project
        try:
            name = project.board if project is not None else ""
            return boards.load(name, self.context.document.folder) if name else None
        except WorkbenchError:
            return None

    def _present(self) -> TargetChoice | None:
        """Return the project's complete target choice."""
        project = self.context.document.project
        if project is None:
            return None
        return target_of(project.target.id).complete(project.target, self.context.document.folder)

    def _show_look(self) -> None:
        stale = self.study.result is not None and not self.study.is_current
        self.table.set_look(self.context.theme, stale=stale)

    def _choose(self, point: SweepPoint | None) -> None:
        listed = list(self.study.result.points) if self.study.result else []
        targets = [p.target for p in listed]
        index = targets.index(point.target) if point and point.target in targets else None
        self._chosen = listed[index] if index is not None else None
        shown = [] if index is None else [self.model.shown_at(index)]
        self.table.choose_rows(shown, reveal=False)
        self.plot.choose([n for n, at in enumerate(self._plotted) if at == index])
        is_other = self._chosen is not None and self._chosen.target != self._present()
        can_take = self._chosen is not None and not self._chosen.problem and is_other
        self.take.setEnabled(can_take)
        self.take.setToolTip("" if can_take else "Select another device in the table or the plot")

    def _describe(self, dot: int) -> str:
        result = self.study.result
        return describe_point(result.points[self._plotted[dot]]) if result else ""

    def _on_dot_chosen(self, dot: int) -> None:
        self._on_point_chosen(self._plotted[dot])

    def _on_cell_chosen(self, index: QModelIndex) -> None:
        point = self.heat.point_at(index)
        if point is not None:
            self._on_point_chosen(point)

    def _on_point_chosen(self, index: int) -> None:
        if self.study.result:
            self._choose(self.study.result.points[index])
            self.table.choose_rows([self.model.shown_at(index)], reveal=True)

    def _on_rows_chosen(self, rows: list[int]) -> None:
        row = self.model.row_at(rows[0]) if rows else None
        self._choose(row.point if row else None)

    def _on_start(self) -> None:
        if self.study.job is not None:
            self.study.pause()
            return
        project, options = self.context.document.project, self._options()
        if project is None:
            return
        if options is None:
            self.context.notices.info("Invalid SRAM limits.", "Enter numbers in KiB, e.g. 256 512.")
            return
        try:
            target = target_of(project.target.id)
            asked, axes = options["targets"], options["axes"]
            folder = self.context.document.folder
            base = target.complete(project.target, folder)
            points(target, base, asked, axes, folder)  # type: ignore[arg-type]
        except WorkbenchError as error:
            self.context.notices.error(error)
            return
        self.study.options = options
        self.study.start()

    def _on_take(self) -> None:
        point = self._chosen
        if point is not None:
            self.context.document.apply(
                f"Set target to {point.target.id}", lambda project: edits.set_target(project, point.target)
            )


def _choices(parent: QWidget, name: str, words: tuple[str, ...]) -> QComboBox:
    box = QComboBox(parent)
    box.setAccessibleName(name)
    box.addItems(words)
    return box


def _can_plot(point: SweepPoint) -> bool:
    totals = point.totals
    return totals is not None and totals.inference_ms > 0 and totals.sram_bytes > 0


def _dot(row: DeviceRow) -> DevicePoint:
    totals = row.point.totals
    assert totals is not None
    return DevicePoint(totals.inference_ms, totals.sram_bytes / 1024, row.is_best)


def _summary(result: SweepResult) -> str:
    done = sum(1 for point in result.points if point.totals is not None or point.problem)
    left_out = sum(1 for point in result.points if point.problem)
    text = f"{done} of {result.total} points, estimated by {result.tool}"
    text += f"; {left_out} skipped, see Remark." if left_out else "."
    return f"{text} Diamonds: no other point is better in time, SRAM and constants."
