"""The Modules panel: the module tree with the effective config of each module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QItemSelection, QItemSelectionModel, QSortFilterProxyModel, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QKeyEvent, QKeySequence, QResizeEvent, QShortcut
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QLineEdit,
    QMenu,
    QPushButton,
    QStackedLayout,
    QTreeView,
    QVBoxLayout,
    QWidget,
)

from ui.shared.chip import ChipDelegate, chip_width
from ui.shared.empty_states import StageNote, StaleBanner
from ui.shared.explanations import QuantizerReport, applied_to_modules, differences, of_operations, why
from ui.shared.module_tree import Chips, Column, ModuleTreeModel, Role
from ui.shared.panel import Panel
from ui.shared.precision_menu import PrecisionMenu
from ui.shared.theme import Theme
from ui.state.selection import Selected
from workbench.ids import StageId

if TYPE_CHECKING:
    from workbench.results import NodeAnnotation

EMPTY_TEXT = "Load the model to see its modules."
_LEAST_PX = {Column.MODULE: 104, Column.CONFIG: 58, Column.TYPE: 0, Column.PARAMETERS: 58}
# A narrower column shows too few letters.
_NARROWEST_TYPE_PX = 48
_PAD_PX, _WIDEST_PX, _NAMES_PX, _INDENT_PX = 12, 170, 120, 14


class ModuleTree(QTreeView):
    """A tree view with the preset keys 1 to 9.

    Signals:
        preset_key_pressed: a number from 1 to 9.
        menu_asked: a context menu is requested at a global position.
    """

    preset_key_pressed = Signal(int)
    menu_asked = Signal(object)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._content_widths: dict[Column, int] = {}

    def keyPressEvent(self, event: QKeyEvent) -> None:
        digit = event.key() - Qt.Key.Key_0
        if 1 <= digit <= 9 and event.modifiers() in {
            Qt.KeyboardModifier.NoModifier,
            Qt.KeyboardModifier.KeypadModifier,
        }:
            self.preset_key_pressed.emit(digit)
        else:
            super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        self.menu_asked.emit(event.globalPos())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._share_width()

    def set_widths(self, widths: Mapping[Column, float]) -> None:
        """Set the widths of the column texts [px]."""
        self._content_widths = {column: int(width) + _PAD_PX for column, width in widths.items()}
        self._share_width()

    def _share_width(self) -> None:
        """Fit columns to their texts. If space is short, elide types, then names, then configs."""
        widths = {c: min(max(w, _LEAST_PX[c]), _WIDEST_PX) for c, w in self._content_widths.items()}
        if Column.PARAMETERS in widths:
            # It is never narrowed, so that it has room for its title in every font.
            title = self.header().sectionSizeHint(Column.PARAMETERS)
            widths[Column.PARAMETERS] = max(widths[Column.PARAMETERS], title)
        room = self.viewport().width()
        for column in (Column.TYPE, Column.MODULE, Column.CONFIG) if widths else ():
            over = sum(widths.values()) - room
            widths[column] = max(_LEAST_PX[column], widths[column] - max(over, 0))
            if column == Column.TYPE and over > 0 and widths[column] < _NARROWEST_TYPE_PX:
                widths[column] = 0
        self.setColumnHidden(Column.TYPE, widths.get(Column.TYPE, 1) == 0)
        for column, width in widths.items():
            rest = max(room - sum(widths.values()), 0) if column == Column.MODULE else 0
            self.header().resizeSection(column, width + rest)


class ModulesPanel(Panel):
    """Shows the tree, a filter and the button Set precision."""

    panel_id = "modules"

    def build(self) -> None:
        self.model = ModuleTreeModel(self)
        self.proxy = QSortFilterProxyModel(self)
        self.proxy.setSourceModel(self.model)
        self.proxy.setRecursiveFilteringEnabled(True)
        self.proxy.setAutoAcceptChildRows(True)
        self.proxy.setFilterRole(Role.PATH)
        self.proxy.setFilterCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        self.filter = QLineEdit(self)
        self.filter.setPlaceholderText("Filter modules")
        self.filter.setAccessibleName("Filter modules")
        self.filter.setClearButtonEnabled(True)
        self.filter.textEdited.connect(self._on_filter_edited)
        down = QShortcut(QKeySequence(Qt.Key.Key_Down), self.filter)
        down.setContext(Qt.ShortcutContext.WidgetShortcut)
        down.activated.connect(self._go_down)
        self._precisions = PrecisionMenu(self.context, self)
        self._build_tree()
        self._empty = StageNote(EMPTY_TEXT, self)
        self._empty.follow(self.context.session, "export")
        self._banner = StaleBanner("Modules: outdated.", self)
        for part in (self._empty, self._banner):
            part.run_asked.connect(self.context.run_to)
            part.place_asked.connect(self.context.notices.place_asked)
        self.context.session.stage_changed.connect(self._on_stage_changed)
        self.assign = QPushButton("Set precision", self)
        self.assign.setAccessibleName("Set precision of the selected modules")
        self.assign.setToolTip("Shortcut: 1 to 9 in the tree")
        self.assign.setMenu(QMenu(self.assign))
        self.assign.menu().aboutToShow.connect(lambda: self._fill_menu(self.assign.menu()))
        self._arrange()
        self._shown: tuple[object, ...] = ()
        self._widths = dict.fromkeys(Column, 0.0)
        self._annotations: Sequence[NodeAnnotation] = ()
        self._report = QuantizerReport()
        self._chip_sources: tuple[object, ...] = (None, None, None)
        self._known_chips: Chips = ({}, {}, {}, {})
        self._fitted: Chips | None = None

    def refresh(self) -> None:
        modules = self.context.model_index.modules
        if self._shown != modules:
            self._shown = modules
            self.model.set_modules(modules, self._chips())
            self._measure_modules()
            self._fitted = None
            self.tree.expandToDepth(1)
        self.pages.setCurrentIndex(1 if modules else 0)
        self._show_state()
        self._show_configs()

    def _on_stage_changed(self, stage: StageId) -> None:
        if stage == "export":
            self._show_state()

    def _show_state(self) -> None:
        """Show whether the modules are those of the present model."""
        session = self.context.session
        view = session.with_cause("export")
        is_outdated = bool(self._shown) and session.planned and view.state != "cached"
        self._banner.render_stage(view)
        self._banner.setVisible(is_outdated)

    def take_keys(self) -> None:
        self.tree.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _go_down(self) -> None:
        """Go from the filter to the tree, where keys set a precision."""
        self.take_keys()
        if not self.tree.selectionModel().hasSelection():
            self.tree.setCurrentIndex(self.proxy.index(0, 0))

    def render_selection(self, selected: Selected) -> None:
        paths = selected.modules or self.context.model_index.modules_of(selected.nodes)
        self.assign.setEnabled(bool(paths))
        if selected.origin == self.panel_id:
            return
        items = QItemSelection()
        first = None
        for path in sorted(paths):
            index = self.proxy.mapFromSource(self.model.index_of(path))
            if index.isValid():
                items.select(index, index)
                first = first or index
        flag = QItemSelectionModel.SelectionFlag
        chooser = self.tree.selectionModel()
        chooser.selectionChanged.disconnect(self._on_selection_changed)
        chooser.select(items, flag.ClearAndSelect | flag.Rows)
        chooser.selectionChanged.connect(self._on_selection_changed)
        if first is not None:
            self.tree.scrollTo(first)

    def set_theme(self, theme: Theme) -> None:
        del theme
        self.tree.viewport().update()

    def chosen(self) -> list[str]:
        """Return the selected modules."""
        selected = self.context.selection.value
        return sorted(selected.modules or self.context.model_index.modules_of(selected.nodes))

    def _build_tree(self) -> None:
        self.tree = ModuleTree(self)
        self.tree.setModel(self.proxy)
        self.tree.setAccessibleName("Modules")
        self.tree.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.tree.setUniformRowHeights(True)
        self.tree.setIndentation(_INDENT_PX)
        self.tree.setItemDelegateForColumn(Column.CONFIG, ChipDelegate(lambda: self.context.theme, self.tree))
        header = self.tree.header()
        header.setStretchLastSection(False)
        header.setMinimumSectionSize(_NARROWEST_TYPE_PX)
        self.tree.selectionModel().selectionChanged.connect(self._on_selection_changed)
        self.tree.preset_key_pressed.connect(self._on_preset_key)
        self.tree.menu_asked.connect(self._on_menu_asked)

    def _arrange(self) -> None:
        body = QWidget(self)
        self.pages = QStackedLayout(body)
        self.pages.addWidget(self._empty)
        self.pages.addWidget(self.tree)
        row = QHBoxLayout()
        row.setContentsMargins(6, 6, 6, 6)
        row.setSpacing(6)
        row.addWidget(self.filter, 1)
        row.addWidget(self.assign)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(1, 1, 1, 1)
        layout.setSpacing(0)
        layout.addWidget(self._banner)
        layout.addLayout(row)
        layout.addWidget(body, 1)

    def annotate(self) -> None:
        from workbench.results import PrepareResult

        prepared = self.context.load(PrepareResult, "prepare")
        nodes = self.context.model_index.resolution.nodes
        self._report.update(prepared, nodes)
        self._annotations = prepared.annotations if prepared else ()
        self._show_configs()

    def _show_configs(self) -> None:
        chips = self._chips()
        if chips is not self._fitted:
            self.model.set_configs(*chips)
            self._fit_columns()
            self._fitted = chips

    def _chips(self) -> Chips:
        """Return what the tree shows beside the modules."""
        project = self.context.document.project
        resolution = self.context.model_index.resolution
        rules = project.rules if project else ()
        # Results of other stages change nothing here, and each of them refreshes the panel.
        sources = (rules, resolution, self._annotations)
        if any(new is not old for new, old in zip(sources, self._chip_sources, strict=True)):
            notes = self._report.notes(resolution.nodes)
            own, several = of_operations(self.context.model_index.operations(), resolution.modules)
            fused = {group.members for group in self.context.model_index.groups.values()}
            configs = applied_to_modules(notes, resolution.nodes, own, fused)
            reasons = {path: why(e, rules, path) for path, e in configs.items()}
            # The report may be there before the graph that the rules are resolved on.
            marks = differences(self._annotations, resolution.nodes)
            self._chip_sources, self._known_chips = sources, (configs, reasons, marks, several)
        return self._known_chips

    def _measure_modules(self) -> None:
        """Measure the columns that do not depend on configs."""
        advance = self.tree.fontMetrics().horizontalAdvance
        self._widths = dict.fromkeys(Column, 0.0)
        for column in (Column.MODULE, Column.TYPE, Column.PARAMETERS):
            step = _INDENT_PX if column == Column.MODULE else 0
            # Each text is measured once; modules of a block share names and types.
            wide = (advance(t) + step * (depth + 2) for t, depth in self.model.texts(column).items())
            self._widths[column] = float(max(wide, default=0))

    def _fit_columns(self) -> None:
        """Fit the columns, with the present chips."""
        wide = (chip_width(chip, self.tree.font(), wish) for chip, wish in self.model.chips())
        # Names below collapsed parents do not count.
        names = min(self._widths[Column.MODULE], _NAMES_PX)
        config = max(wide, default=0.0)
        self.tree.set_widths({**self._widths, Column.MODULE: names, Column.CONFIG: config})

    def _on_filter_edited(self, text: str) -> None:
        self.proxy.setFilterFixedString(text)
        if text:
            self.tree.expandAll()

    def _on_selection_changed(self) -> None:
        rows = self.tree.selectionModel().selectedRows()
        paths = [self.model.path_of(self.proxy.mapToSource(row)) for row in rows]
        self.context.selection.choose_modules([p for p in paths if p is not None], self.panel_id)

    def _on_preset_key(self, number: int) -> None:
        chosen = frozenset(self.chosen())
        self.context.assigner.by_key(number, Selected(modules=chosen))

    def _on_menu_asked(self, position: object) -> None:
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._fill_menu(menu)
        menu.popup(position)  # type: ignore[arg-type]

    def _fill_menu(self, menu: QMenu) -> None:
        menu.clear()
        paths = self.chosen()
        if self.context.document.project is None or not paths:
            menu.addAction("Select modules first").setEnabled(False)
            return
        self._precisions.fill(menu, Selected(modules=frozenset(paths)))
        if len(paths) == 1:
            self._fill_single(menu, paths[0])

    def _fill_single(self, menu: QMenu, path: str) -> None:
        group = self.context.model_index.groups.get(path)
        if group is not None:
            menu.addSeparator()
            choose = menu.addAction(f"Select fused group {group.name}")
            choose.triggered.connect(lambda: self.context.selection.choose_modules(group.matches))
        module = next((m for m in self.context.model_index.modules if m.path == path), None)
        if module is None:
            return
        menu.addSeparator()
        name = module.type_name.rpartition(".")[2]
        self._precisions.fill_type(menu.addMenu(f"Set all {name}"), module.type_name)
