"""The program as a graph, at every level it exists: float, prepared, quantized, edge."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QKeySequence, QShortcut
from PySide6.QtWidgets import QFileDialog, QLabel, QStackedLayout, QVBoxLayout, QWidget

from ui.graph.levels import Levels
from ui.graph.marking import chips, reasons
from ui.graph.measures import Measure, cost, operations, owners, quality
from ui.graph.view import GraphView
from ui.panel import Panel
from ui.selection import Selected
from ui.theme import Theme
from ui.widgets.graph_bar import GraphBar
from ui.widgets.graph_note import GraphNote
from ui.widgets.lineage_rail import LineageRail
from ui.widgets.lineage_stops import SOURCE, CompiledRow, stops
from ui.wording import why
from workbench.errors import WorkbenchError
from workbench.graph.snapshot import GraphSnapshot

EMPTY_TEXT = "The graph appears here once the model has been exported.\nPress Export above."
LEVELS = (
    ("export", "Float", "as exported"),
    ("prepare", "Prepared", "with observers"),
    ("convert", "Quantized", "with quantize and dequantize"),
    ("lower", "Edge", "what goes to the device"),
)
STAGES = [stage for stage, _, _ in LEVELS]


class GraphPanel(Panel):
    """Levels, search and overlay above the view, the lineage of what is chosen below it."""

    panel_id = "graph"

    def build(self) -> None:
        context = self.context
        self._shown: GraphSnapshot | None = None
        self._chosen: tuple[str, frozenset[str]] = (STAGES[0], frozenset())
        self._measures: dict[str, Measure] = {}
        self._rows: list[CompiledRow] | None = None
        self._levels = Levels(
            STAGES, context.session.former, lambda: context.outline.snapshot,
            context.notices.error,
        )  # fmt: skip
        self.view = GraphView(context.theme, self)
        self.bar = GraphBar(LEVELS, self)
        self.tabs, self.search, self.overlay = self.bar.tabs, self.bar.search, self.bar.overlay
        self.rail = LineageRail(self)
        self._note = GraphNote(self)
        self._arrange()
        self._connect()

    def _arrange(self) -> None:
        layout = QVBoxLayout(self)
        layout.setContentsMargins(1, 1, 1, 1)
        layout.setSpacing(0)
        layout.addWidget(self.bar)
        layout.addWidget(self._note)
        empty = QLabel(EMPTY_TEXT, self)
        empty.setObjectName("Hint")
        empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        body = QWidget(self)
        self._pages = QStackedLayout(body)
        self._pages.addWidget(empty)
        self._pages.addWidget(self.view)
        layout.addWidget(body, 1)
        layout.addWidget(self.rail)

    def _connect(self) -> None:
        self.view.selection_changed.connect(self._on_nodes_chosen)
        self.view.group_selected.connect(self._on_group_chosen)
        self.view.preset_key_pressed.connect(self._on_preset_key)
        self.view.search_requested.connect(self.search.ask)
        self.view.isolation_changed.connect(self._note.show_isolation)
        self._note.whole_asked.connect(self.view.show_all)
        self.tabs.tabBarClicked.connect(self._on_tab_clicked)
        self.tabs.currentChanged.connect(self._on_level_changed)
        self.search.chosen.connect(self._on_found)
        self.search.left.connect(self.view.setFocus)
        self.overlay.changed.connect(self._show_overlay)
        self.rail.asked.connect(self._on_stop_asked)
        for name, act in (
            ("back", self.view.go_back), ("forward", self.view.go_forward),
            ("fit", self.view.fit), ("expand", self.view.expand_all),
            ("collapse", self.view.collapse_all),
        ):  # fmt: skip
            self.bar.tools[name].clicked.connect(act)
        self.bar.picture_asked.connect(self._ask_file)
        for keys, act in (
            (QKeySequence(QKeySequence.StandardKey.Find), self.search.ask),
            (QKeySequence("F3"), lambda: self.search.step(1)),
            (QKeySequence("Shift+F3"), lambda: self.search.step(-1)),
        ):
            shortcut = QShortcut(keys, self)
            shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            shortcut.activated.connect(act)

    @property
    def level(self) -> str:
        """The stage whose graph shows."""
        return STAGES[self.tabs.currentIndex()]

    def refresh(self) -> None:
        session = self.context.session
        for number, stage in enumerate(STAGES):
            self.tabs.setTabEnabled(number, session.former(stage) is not None)
        if not self.tabs.isTabEnabled(self.tabs.currentIndex()):
            self.tabs.setCurrentIndex(0)
        self._show_level()

    def render_selection(self, selected: Selected) -> None:
        if selected.origin == self.panel_id:
            return
        nodes = selected.nodes or self.context.outline.nodes_of(selected.modules - {""})
        level: str | None = STAGES[0]
        if selected.nodes and not (self._shown and nodes & self._shown.nodes_by_id.keys()):
            level = self._levels.lineage().level_of(nodes, self.level)
        elif selected.nodes:
            level = self.level
        self._chosen = (level or self.level, nodes)
        self._show_chosen()

    def set_theme(self, theme: Theme) -> None:
        self.view.set_theme(theme)
        self.bar.set_theme(theme)

    def stop(self) -> None:
        self.view.stop()

    def show_level(self, stage: str) -> bool:
        """Show the graph that a stage leaves; return whether there is one."""
        if stage in STAGES and self.tabs.isTabEnabled(STAGES.index(stage)):
            self.tabs.setCurrentIndex(STAGES.index(stage))
            return True
        return False

    def show_node(self, node_id: str) -> None:
        """Show a level that has this node, the present one if it does."""
        level = self._levels.lineage().level_of([node_id], self.level)
        if level is not None:
            self.show_level(level)

    def annotate(self) -> None:
        from workbench.results import EvaluateResult, LowerResult, PrepareResult

        load, lineage = self.context.load, self._levels.lineage()
        lowered, evaluated = load(LowerResult, "lower"), load(EvaluateResult, "evaluate")
        told = reasons(
            load(PrepareResult, "prepare"), lowered, lineage, self.level,
            self.context.outline.resolution.nodes,
        )  # fmt: skip
        self.view.set_reasons(told)
        rows = operations(lowered)
        of = owners(rows, lineage)
        self._rows = None
        if lowered is not None:
            self._rows = [
                CompiledRow(row.operator, row.cycles, owner)
                for row, owner in zip(rows, of, strict=True)
            ]
        level = lineage.first
        found = quality(evaluated, lineage) if evaluated else []
        self._measures = {m.id: m for m in (*found, *cost(rows, of, level))}
        self.overlay.offer([(m.id, m.title, m.how, m.log) for m in self._measures.values()])
        self._show_marks()
        self._show_overlay()
        self._show_rail()

    def _show_level(self) -> None:
        snapshot = self._levels.snapshot(self.level)
        if snapshot is not self._shown:
            self._shown = snapshot
            self.view.render_snapshot(snapshot)
        self._pages.setCurrentIndex(0 if snapshot is None else 1)
        folder = self.context.session.former(self.level)
        current = folder is None or folder == self.context.result(self.level)
        title = LEVELS[self.tabs.currentIndex()][1]
        self._note.show_former("" if current else title)
        if self.level == STAGES[0]:
            self._show_marks()

    def _show_marks(self) -> None:
        project, snapshot = self.context.document.project, self._shown
        if project is None or snapshot is None:
            return
        resolved = self.context.outline.resolution.nodes
        if self.level == STAGES[0]:
            mine = {
                n.id: resolved[n.id]
                for n in snapshot.nodes
                if n.kind == "call" and n.id in resolved
            }
        else:
            mine = chips(self._levels.lineage(), self.level, resolved)
        self.view.set_chips({i: e.label for i, e in mine.items()})
        nodes = snapshot.nodes_by_id
        self.view.set_tooltips(
            {i: why(e, project.rules, nodes[i].module) for i, e in mine.items() if i in nodes}
        )

    def _show_overlay(self) -> None:
        lineage = self._levels.lineage()
        numbers = {name: m.at(self.level, lineage) for name, m in self._measures.items()}
        self.search.set_ground(self._shown, numbers)
        measure = self._measures.get(self.overlay.chosen)
        if measure is None:
            self.view.set_overlay(None)
        else:
            values, is_log = numbers[measure.id], self.overlay.is_log
            self.view.set_overlay(values, measure.legend, is_log, measure.merge)

    def _show_chosen(self) -> None:
        level, nodes = self._chosen
        if nodes and level != self.level:
            nodes = self._levels.lineage().translate(level, nodes, self.level)
        self.view.select(nodes, reveal=True)
        self._show_rail()

    def _show_rail(self) -> None:
        level, nodes = self._chosen
        if not nodes:
            self.rail.show_stops(())
            return
        titles = [(stage, title) for stage, title, _ in LEVELS]
        lineage = self._levels.lineage()
        self.rail.show_stops(stops(lineage, level, nodes, titles, self._rows, self.level))

    def _on_tab_clicked(self, number: int) -> None:
        if number >= 0 and not self.tabs.isTabEnabled(number):
            title = LEVELS[number][1].lower()
            self.context.notices.info(f"There is no {title} graph yet.", "Run that far.")

    def _on_level_changed(self) -> None:
        self._show_level()
        self.annotate()
        self._show_chosen()

    def _on_nodes_chosen(self, nodes: frozenset[str]) -> None:
        """Tell everybody, by the float program's names if it has them: rules speak of those."""
        self._chosen = (self.level, nodes)
        lineage = self._levels.lineage()
        known = lineage.translate(self.level, nodes, STAGES[0]) if lineage.levels else nodes
        self.context.selection.choose_nodes(known or nodes, self.panel_id)
        self._show_rail()

    def _on_found(self, nodes: frozenset[str]) -> None:
        self.view.select(nodes, reveal=True)
        self._on_nodes_chosen(nodes)

    def _on_group_chosen(self, module: str) -> None:
        if module:
            self.context.selection.choose_modules([module], self.panel_id)

    def _on_preset_key(self, number: int) -> None:
        selected = self.context.selection.value
        self.context.assigner.by_key(number, selected.modules, selected.nodes)

    def _on_stop_asked(self, target: str) -> None:
        kind, _, place = target.partition(":")
        if kind == SOURCE:
            QGuiApplication.clipboard().setText(place)
            self.context.notices.info(f"Copied {place}.")
        elif target == self.level:
            self._show_chosen()
        else:
            self.show_level(target)

    def _ask_file(self, suffix: str) -> None:
        project = self.context.document.project
        dialog = QFileDialog(self, "Save the picture", str(self.context.document.folder))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix(suffix)
        dialog.selectFile(f"{project.name if project else 'graph'}.{suffix}")
        dialog.fileSelected.connect(lambda name: self._save_picture(Path(name)))
        dialog.open()

    def _save_picture(self, path: Path) -> None:
        export = self.view.export_svg if path.suffix.lower() == ".svg" else self.view.export_png
        try:
            export(path)
        except WorkbenchError as error:
            self.context.notices.error(error)
