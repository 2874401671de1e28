"""The Runs panel: evaluated configurations as table and plot, and the comparison of runs."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QSplitter, QVBoxLayout, QWidget

from ui.features.runs.run_table import (
    CHANGE_COLUMN,
    RUN_COLUMNS,
    SQNR_COLUMN,
    TARGET_COLUMN,
    RunRow,
    comparison_columns,
    describe_compared,
    describe_run,
    describe_run_row,
)
from ui.shared.empty_states import StageNote, StaleBanner
from ui.shared.labels import Label
from ui.shared.number_format import DASH
from ui.shared.panel import Panel
from ui.shared.sortable_table import FigureTableModel, FigureView, JudgedDelegate
from ui.shared.tabs import Tabs
from ui.shared.theme import Theme
from ui.shared.tradeoff_plot import CPU_WORDS, Dot, TradeoffPlot
from workbench.history.comparison import (
    compared,
    estimate_warning,
    front_of,
    is_same_model,
    newest_accuracy,
    point_of,
    rules_line,
    run_title,
    settings_lines,
)
from workbench.history.runs import Run
from workbench.ids import StageId
from workbench.project.edits import DECIDED, restore_rules
from workbench.project.model import Project
from workbench.targets import why_unestimated

NO_RUNS = "No runs yet. Every evaluated or simulated configuration is listed here."
NO_PRESENT = "No run of the present configuration."
NO_RESTORE = "Select one run with other rules than the project"
NO_COST = "Compile to see accuracy over cycles."
# Below it the table, which would hide cycles and memory, is above the plot.
_WIDE_PX = 1700
# The parts of the height or of the width, and the largest and least width of the rules.
_HIGH_SIZES, _SIZES, _RULES_PX, _LEAST_RULES_PX = (240, 320), (1180, 430), 260, 210
# The page of the comparison.
_COMPARISON = 1
NO_PAIR = "Select two or more runs to compare them."


class RunsPanel(Panel):
    """Shows the runs with a trade-off plot, and the differences of selected runs."""

    panel_id = "runs"

    def build(self) -> None:
        self._runs: tuple[Run, ...] = ()
        self._dots: tuple[int, ...] = ()
        self.note = _hint("", self)
        self.none = StageNote(NO_RUNS, self)
        self.none.set_absent(NO_RUNS)
        self.none.follow(self.context.session, "evaluate")
        self.banner = StaleBanner(NO_PRESENT, self)
        for part in (self.none, self.banner):
            part.run_asked.connect(self.context.run_to)
            part.place_asked.connect(self.context.notices.place_asked)
        self.context.session.stage_changed.connect(self._on_stage_changed)
        self.restore = QPushButton("Restore rules", self)
        self.restore.clicked.connect(self._on_restore)
        self.model = FigureTableModel(RUN_COLUMNS, describe_run_row, self)
        self.table = FigureView(
            "Runs", self.model, self, widest_px=_RULES_PX, least_px=_LEAST_RULES_PX, empty=NO_RUNS
        )
        self.table.rows_chosen.connect(self._on_rows_chosen)
        self.plot = TradeoffPlot("Accuracy over cycles", self._describe, self)
        self.plot.dot_chosen.connect(self._on_dot_chosen)
        self.context.document.opened.connect(self.plot.release_limits)
        self.plot_note = _hint(NO_COST, self)
        self.compare = QPushButton("Compare", self)
        self.compare.clicked.connect(lambda: self.pages.setCurrentIndex(_COMPARISON))
        self.changes = FigureTableModel(comparison_columns(()), describe_compared, self)
        self.change_table = FigureView("Run comparison", self.changes, self, empty=NO_PAIR)
        self.change_table.setItemDelegateForColumn(
            CHANGE_COLUMN, JudgedDelegate(lambda: self.context.theme, lambda row: row.is_better, self)
        )
        self.change_note = _hint("", self)
        self._lay_out()
        self.context.history.changed.connect(self._on_changed)

    def refresh(self) -> None:
        self._show_runs()

    def set_theme(self, theme: Theme) -> None:
        self.plot.set_theme(theme)
        for table in (self.table, self.change_table):
            table.set_look(theme, stale=False)

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.addWidget(self.note, 1)
        head.addWidget(self.compare)
        head.addWidget(self.restore)
        left = _stack(self, head, self.banner, self.none, self.table)
        right = self._side = _stack(self, self.plot_note, self.plot)
        split = self._split = QSplitter(Qt.Orientation.Horizontal, self)
        for part in (left, right):
            split.addWidget(part)
            split.setCollapsible(split.count() - 1, False)
        split.setSizes([*_SIZES])
        self.pages = pages = Tabs(self)
        self.context.document.opened.connect(lambda: pages.setCurrentIndex(0))
        self.pages.add_pages(
            ("Runs", split), ("Comparison", _stack(self, self.change_note, self.change_table))
        )
        layout = QVBoxLayout(self)
        layout.setContentsMargins(1, 1, 1, 1)
        layout.addWidget(self.pages)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Put the table above the plot where there is too little room beside it."""
        super().resizeEvent(event)
        wide, high = Qt.Orientation.Horizontal, Qt.Orientation.Vertical
        is_wide = self.width() >= _WIDE_PX
        if self._split.orientation() != (wide if is_wide else high):
            self._split.setOrientation(wide if is_wide else high)
            self._split.setSizes([*_SIZES] if is_wide else [*_HIGH_SIZES])

    def _on_changed(self) -> None:
        self._mark("state")

    def _on_stage_changed(self, stage: StageId) -> None:
        if stage == "evaluate":
            self._show_state()

    def _show_state(self) -> None:
        """Show whether there is a run of the present configuration."""
        session = self.context.session
        view = session.stage("evaluate")
        self.banner.render_stage(view)
        is_outdated = session.planned and view.state != "cached"
        self.banner.setVisible(bool(self._runs) and is_outdated)
        self.none.setVisible(not self._runs)
        self.table.setVisible(bool(self._runs))

    def _show_runs(self) -> None:
        runs = self.context.history.runs
        if runs != self._runs or not runs:
            chosen = {run.number for run in self._chosen()}
            self._runs = runs
            best = front_of(runs)
            self.model.set_rows(
                RunRow(run, run.number in best, not is_same_model(run, runs[-1]), settings)
                for run, settings in zip(runs, settings_lines(runs), strict=True)
            )
            for column in range(len(RUN_COLUMNS)):
                # Columns without a figure, e.g. a measured one, are hidden.
                texts = self.model.texts(column, range(self.model.rowCount()))
                self.table.setColumnHidden(column, texts <= {"", DASH})
            # Without labels and a metric the accuracy is the SQNR.
            if all(run.accuracy_name == "SQNR" for run in runs):
                self.table.setColumnHidden(SQNR_COLUMN, True)
            # The bar at the top shows the target of all.
            if len({run.target.id for run in runs}) == 1:
                self.table.setColumnHidden(TARGET_COLUMN, True)
            self._show_dots(best)
            indices = [i for i, run in enumerate(runs) if run.number in chosen]
            self.table.choose_rows([self.model.shown_at(i) for i in indices], reveal=False)
        total = len(runs)
        self.note.setText(f"{total} run{'s' if total != 1 else ''}" if runs else "")
        self._show_state()
        self._show_chosen()

    def _show_dots(self, best: set[int]) -> None:
        name = newest_accuracy(self._runs)
        points = [point_of(run) if run.accuracy_name == name else None for run in self._runs]
        self._dots = tuple(i for i, point in enumerate(points) if point is not None)
        fewest = min((run.cost.cpu_nodes for run in self._runs if run.cost), default=0)
        dots = [
            Dot(
                *point,
                on_front=run.number in best,
                has_more_cpu=run.cost is not None and run.cost.cpu_nodes > fewest,
            )
            for run, point in zip(self._runs, points, strict=True)
            if point is not None
        ]
        unit = f"{name} [dB]" if name == "SQNR" else name
        self.plot.render_dots(dots, f"{unit}, measured in PyTorch")
        self.plot.setVisible(bool(dots))
        text = f"Dot size: SRAM. Line: Pareto front. {CPU_WORDS} Drag the dashed lines to filter."
        project = self.context.document.project
        why = why_unestimated(project.target.id) if project is not None else ""
        # A target without estimates has no plot, and its table gets the room.
        self._side.setVisible(not why)
        self.plot_note.setText(text if dots else NO_COST)

    def _chosen(self) -> list[Run]:
        rows = [self.model.row_at(row) for row in self.table.chosen_rows()]
        runs = [row.run for row in rows if row is not None]
        return sorted(runs, key=lambda run: run.number)

    def _show_chosen(self) -> None:
        chosen = self._chosen()
        numbers = {run.number for run in chosen}
        self.plot.choose(d for d, i in enumerate(self._dots) if self._runs[i].number in numbers)
        project = self.context.document.project
        can = len(chosen) == 1 and project is not None and _differs(chosen[0], project)
        self.restore.setEnabled(can)
        self.restore.setToolTip("" if can else NO_RESTORE)
        is_several = len(chosen) > 1
        self.compare.setEnabled(is_several)
        self.compare.setToolTip("" if is_several else NO_PAIR)
        self.change_note.setVisible(is_several)
        if not is_several:
            self.changes.set_columns(comparison_columns(()))
            return
        first, *others = chosen
        titles = [run_title(run, first) for run in chosen]
        warnings = dict.fromkeys(filter(None, (estimate_warning(first, run) for run in others)))
        self.change_note.setText("  ".join([f"Compared with {titles[0]} ({rules_line(first)}).", *warnings]))
        self.changes.set_columns(comparison_columns(titles))
        self.changes.set_rows(compared(chosen, self.context.session.cache, equal_figures=True))

    def _describe(self, dot: int) -> str:
        return describe_run(self._runs[self._dots[dot]])

    def _on_rows_chosen(self, _rows: Sequence[int]) -> None:
        self._show_chosen()

    def _on_dot_chosen(self, dot: int, adds: bool) -> None:
        row = self.model.shown_at(self._dots[dot])
        rows = {row} ^ set(self.table.chosen_rows()) if adds else {row}
        self.table.choose_rows(rows, reveal=True)
        self._show_chosen()

    def _on_restore(self) -> None:
        (run,) = self._chosen()
        self.context.document.apply(
            f"Restore rules of run {run.number}", lambda project: restore_rules(project, run)
        )


def _differs(run: Run, project: Project) -> bool:
    return any(getattr(run, name) != getattr(project, name) for name in DECIDED)


def _hint(text: str, parent: QWidget) -> Label:
    label = Label(text, parent)
    label.setObjectName("Hint")
    label.setWordWrap(True)
    return label


def _stack(parent: QWidget, head: QWidget | QHBoxLayout, *bodies: QWidget) -> QWidget:
    page = QWidget(parent)
    layout = QVBoxLayout(page)
    layout.setContentsMargins(8, 6, 8, 4)
    layout.setSpacing(4)
    if isinstance(head, QWidget):
        layout.addWidget(head)
    else:
        layout.addLayout(head)
    for body in bodies:
        layout.addWidget(body, 0 if isinstance(body, StaleBanner) else 1)
    layout.addStretch(0)
    return page
