"""The program as a graph, at every level it exists: float, prepared, quantized, edge."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QFileDialog,
    QFrame,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QMenu,
    QStackedLayout,
    QTabBar,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from ui.graph.view import GraphView
from ui.icons import icon
from ui.panel import Panel
from ui.selection import Selected
from ui.theme import Theme
from ui.wording import why
from workbench.errors import WorkbenchError
from workbench.graph.snapshot import GraphSnapshot, Node

GRAPH_FILE = "graph.json"
EMPTY_TEXT = "The graph appears here once the model has been exported.\nPress Export above."
LEVELS = (
    ("export", "Float", "as exported"),
    ("prepare", "Prepared", "with observers"),
    ("convert", "Quantized", "with quantize and dequantize"),
    ("lower", "Edge", "what goes to the device"),
)


class GraphPanel(Panel):
    """Tabs for the levels, the view, a search field."""

    panel_id = "graph"

    def build(self) -> None:
        self._folder: Path | None = None
        self._snapshot: GraphSnapshot | None = None
        self._found: list[str] = []
        self.view = GraphView(self.context.theme, self)
        self.view.selection_changed.connect(self._on_nodes_chosen)
        self.view.group_selected.connect(self._on_group_chosen)
        self.view.preset_key_pressed.connect(self._on_preset_key)
        self.view.search_requested.connect(self._on_search_asked)
        self.tabs = QTabBar(self)
        self.tabs.setAccessibleName("Level of the graph")
        self.tabs.setExpanding(False)
        self.tabs.setDrawBase(False)
        self.tabs.setUsesScrollButtons(False)
        for _, title, words in LEVELS:
            self.tabs.addTab(title)
            self.tabs.setTabToolTip(self.tabs.count() - 1, f"The program {words}")
        self.tabs.tabBarClicked.connect(self._on_tab_clicked)
        self.tabs.currentChanged.connect(self._on_level_changed)
        self._build_search()
        self._arrange()

    def refresh(self) -> None:
        session = self.context.session
        for number, (stage, _, _) in enumerate(LEVELS):
            self.tabs.setTabEnabled(number, session.former(stage) is not None)
        if not self.tabs.isTabEnabled(self.tabs.currentIndex()):
            self.tabs.setCurrentIndex(0)
        self._show_level()

    def render_selection(self, selected: Selected) -> None:
        nodes = selected.nodes or self._nodes_inside(selected.modules)
        if selected.origin != self.panel_id:
            self.view.select(nodes, reveal=True)

    def set_theme(self, theme: Theme) -> None:
        self.view.set_theme(theme)
        for name, button in self._tools.items():
            button.setIcon(icon(name, theme.text))

    def stop(self) -> None:
        self.view.stop()

    def show_level(self, stage: str) -> bool:
        """Show the graph that a stage leaves; return whether there is one."""
        stages = [s for s, _, _ in LEVELS]
        if stage in stages and self.tabs.isTabEnabled(stages.index(stage)):
            self.tabs.setCurrentIndex(stages.index(stage))
            return True
        return False

    def show_node(self, node_id: str) -> None:
        """Show a level that has this node, the present one if it does."""
        if self._snapshot is not None and node_id in self._snapshot.nodes_by_id:
            return
        for stage, _, _ in LEVELS:
            snapshot = self._load(stage, self.context.session.former(stage))
            if snapshot is not None and node_id in snapshot.nodes_by_id:
                self.show_level(stage)
                return

    def _build_search(self) -> None:
        self.search = QLineEdit(self)
        self.search.setPlaceholderText("Find a node, operator or module")
        self.search.setAccessibleName("Find in the graph")
        self.search.setClearButtonEnabled(True)
        self.search.setMinimumWidth(110)
        self.search.setMaximumWidth(230)
        self.search.textEdited.connect(self._on_search_edited)
        self.search.returnPressed.connect(self._on_search_next)
        self._count = QLabel(self)
        self._count.setObjectName("Hint")
        find = QShortcut(QKeySequence.StandardKey.Find, self)
        find.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        find.activated.connect(self._on_search_asked)

    def _arrange(self) -> None:
        row = QHBoxLayout()
        row.setContentsMargins(6, 2, 6, 2)
        row.setSpacing(4)
        row.addWidget(self.tabs)
        row.addStretch(1)
        row.addWidget(self._count)
        row.addWidget(self.search, 4)
        self._tools: dict[str, QToolButton] = {}
        for name, words, act in (
            ("fit", "Show everything (F)", self.view.fit),
            ("expand", "Open all groups", self.view.expand_all),
            ("collapse", "Close all groups", self.view.collapse_all),
        ):
            button = QToolButton(self)
            button.setToolTip(words)
            button.setAccessibleName(words)
            button.clicked.connect(act)
            self._tools[name] = button
            row.addWidget(button)
        row.addWidget(self._export_button())
        self._banner = QFrame(self)
        self._banner.setObjectName("Banner")
        note = QHBoxLayout(self._banner)
        note.setContentsMargins(10, 4, 10, 4)
        self._note = QLabel(self._banner)
        note.addWidget(self._note)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(1, 1, 1, 1)
        layout.setSpacing(0)
        layout.addLayout(row)
        layout.addWidget(self._banner)
        empty = QLabel(EMPTY_TEXT, self)
        empty.setObjectName("Hint")
        empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        body = QWidget(self)
        self._pages = QStackedLayout(body)
        self._pages.addWidget(empty)
        self._pages.addWidget(self.view)
        layout.addWidget(body, 1)

    def _export_button(self) -> QToolButton:
        button = QToolButton(self)
        button.setToolTip("Save the picture")
        button.setAccessibleName("Save the picture")
        menu = QMenu(button)
        menu.addAction("Save as PNG\u2026").triggered.connect(lambda: self._ask_file("png"))
        menu.addAction("Save as SVG\u2026").triggered.connect(lambda: self._ask_file("svg"))
        button.setMenu(menu)
        button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self._tools["save"] = button
        return button

    def _show_level(self) -> None:
        stage, title, _ = LEVELS[self.tabs.currentIndex()]
        folder = self.context.session.former(stage)
        if folder != self._folder:
            self._folder = folder
            self._snapshot = self._load(stage, folder)
            self.view.render_snapshot(self._snapshot)
        self._pages.setCurrentIndex(0 if self._snapshot is None else 1)
        current = folder is None or folder == self.context.result(stage)
        self._banner.setVisible(not current)
        self._note.setText(
            f"{title} graph of a former configuration. Run again to see the present one."
        )
        self._show_marks()

    def _load(self, stage: str, folder: Path | None) -> GraphSnapshot | None:
        if folder is None:
            return None
        if stage == "export":
            return self.context.outline.snapshot
        try:
            return GraphSnapshot.load(folder / GRAPH_FILE)
        except WorkbenchError as error:
            self.context.notices.error(error)
            return None

    def _show_marks(self) -> None:
        project = self.context.document.project
        snapshot = self._snapshot
        if project is None or snapshot is None:
            return
        nodes = self.context.outline.resolution.nodes
        mine = {n.id: nodes[n.id] for n in snapshot.nodes if n.id in nodes and n.kind == "call"}
        stage = LEVELS[self.tabs.currentIndex()][0]
        chips = {i: e.label for i, e in mine.items()} if stage != "lower" else {}
        self.view.set_chips(chips)
        modules = {node.id: node.module for node in snapshot.nodes}
        self.view.set_tooltips({i: why(e, project.rules, modules[i]) for i, e in mine.items()})

    def annotate(self) -> None:
        if self._snapshot is not None:
            self.view.set_reasons(self._reasons(LEVELS[self.tabs.currentIndex()][0]))

    def _reasons(self, stage: str) -> dict[str, str]:
        """Return why nodes are not as they were wanted: not quantized, or left on the CPU."""
        from workbench.results import LowerResult, PrepareResult

        lowered = self.context.load(LowerResult, "lower")
        if stage == "lower":
            return {n.node: f"On the CPU: {n.reason}" for n in lowered.cpu_nodes} if lowered else {}
        prepared = self.context.load(PrepareResult, "prepare")
        if prepared is None:
            return {}
        nodes = self.context.outline.resolution.nodes
        return {
            note.node: note.reason
            for note in prepared.annotations
            if note.reason and not note.quantized
            and note.node in nodes and nodes[note.node].label != "float"
        }  # fmt: skip

    def _nodes_inside(self, modules: frozenset[str]) -> frozenset[str]:
        if self._snapshot is None or not modules or "" in modules:
            return frozenset()
        prefixes = tuple(f"{m}." for m in modules)
        return frozenset(
            n.id
            for n in self._snapshot.nodes
            if n.module in modules or n.module.startswith(prefixes)
        )

    def _on_tab_clicked(self, number: int) -> None:
        if number >= 0 and not self.tabs.isTabEnabled(number):
            stage, title, _ = LEVELS[number]
            del stage
            self.context.notices.info(f"There is no {title.lower()} graph yet.", "Run that far.")

    def _on_level_changed(self) -> None:
        self._show_level()
        self.annotate()
        self.render_selection(self.context.selection.value)

    def _on_nodes_chosen(self, nodes: frozenset[str]) -> None:
        self.context.selection.choose_nodes(nodes, self.panel_id)

    def _on_group_chosen(self, module: str) -> None:
        self.context.selection.choose_modules([module], self.panel_id)

    def _on_preset_key(self, number: int) -> None:
        selected = self.context.selection.value
        self.context.assigner.by_key(number, selected.modules, selected.nodes)

    def _on_search_asked(self) -> None:
        self.search.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.search.selectAll()

    def _on_search_edited(self, text: str) -> None:
        wanted = text.strip().lower()
        nodes = self._snapshot.nodes if self._snapshot and wanted else ()
        self._found = [node.id for node in nodes if _matches(node, wanted)]
        self._count.setText(f"{len(self._found)} found" if wanted else "")

    def _on_search_next(self) -> None:
        if self._found:
            first = self._found.pop(0)
            self._found.append(first)
            self.context.selection.choose_nodes([first])

    def _ask_file(self, suffix: str) -> None:
        project = self.context.document.project
        dialog = QFileDialog(self, "Save the picture", str(self.context.document.folder))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix(suffix)
        dialog.selectFile(f"{project.name if project else 'graph'}.{suffix}")
        export = self.view.export_png if suffix == "png" else self.view.export_svg
        dialog.fileSelected.connect(lambda name: export(Path(name)))
        dialog.open()


def _matches(node: Node, wanted: str) -> bool:
    return any(wanted in text.lower() for text in (node.id, node.op, node.module))
