"""Sets the target, its options, the board and the plug-ins of the project."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, QSize, Qt, Signal
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QLineEdit,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from ui.shared.file_dialogs import ask_to_open
from ui.shared.forms import TallForm, make_primary, resize_on_screen
from ui.shared.labels import Label
from ui.shared.panel import PanelContext
from ui.shared.target_form import TargetForm, board_title
from ui.shell.main_window import MainWindow
from ui.state.document import Document
from ui.state.notices import Action
from ui.state.relocate import relative_to
from workbench.deploy import boards
from workbench.errors import WorkbenchError
from workbench.project import edits
from workbench.project.model import Project, TargetChoice
from workbench.project.plugins import installed, items_of
from workbench.targets import convert_rules, target_of
from workbench.toolchains.registry import OWN_TITLE, title_of, tools_of


class TargetController(QObject):
    """Sets the target and the plug-ins of the project. Every change is one undo step."""

    def __init__(self, context: PanelContext, window: MainWindow) -> None:
        super().__init__(window)
        self._document, self._window = context.document, window
        self._notices, self._appearance = context.notices, context.appearance

    def ask(self) -> None:
        """Open the dialog with all target options."""
        project = self._document.project
        if project is None:
            return
        dialog = TargetDialog(project.target, self._document.folder, self._window)
        dialog.chosen.connect(self.choose)
        dialog.open()

    def ask_settings(self, field: str = "") -> None:
        """Open the project settings, with the focus in a field if one is named."""
        from ui.features.project.project_settings import ProjectSettingsDialog

        if self._document.project is not None:
            ProjectSettingsDialog(self._document, self._window, field).open()

    def ask_plugins(self) -> None:
        """Open the list of plug-ins."""
        if self._document.project is not None:
            PluginsDialog(self._document, self._window).open()

    def ask_toolchains(self) -> None:
        """Open the list of toolchains."""
        from ui.shell.toolchains_dialog import ToolchainsDialog

        project = self._document.project
        used = project.toolchain if project is not None else None
        saved = self._document.path if self._document.undo_stack.isClean() else None
        dialog = ToolchainsDialog(used, self._appearance.theme, self._window, saved)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.chosen.connect(self._choose_toolchain)
        dialog.open()

    def _choose_toolchain(self, name: str) -> None:
        try:
            versions = title_of(tools_of(name)) if name else ""
        except WorkbenchError as error:
            self._notices.error(error)
            return
        self._document.apply(
            f"Set toolchain to {name or OWN_TITLE}",
            lambda project: edits.set_toolchain(project, name, versions),
        )

    def choose_board(self, board: str) -> None:
        """Set the board, which sets device, system configuration, memory mode and limits."""
        opened = self._document.opened_project
        if opened is not None:
            what = f"Set board to {board_title(board, opened.folder)}" if board else "Remove board"
            self._document.apply(what, lambda _project: boards.put(opened, board))

    def choose(self, choice: TargetChoice) -> None:
        """Set the target."""
        opened = self._document.opened_project
        if opened is None or opened.project.target == choice:
            return
        project, before = opened.project, opened.project.target
        changed = [k for k, v in choice.options.items() if before.options.get(k) != v]
        what = choice.id if choice.id != before.id or not changed else choice.options[changed[0]]
        title = f"Set target to {what}"
        _, conversions = convert_rules(project, choice)
        if not conversions or target_of(choice.id) is target_of(before.id):
            self._set(title, choice)
            return
        lines = [f"\u2022 {c.name}: {c.before} \u2192 {c.after}" for c in conversions[:_LISTED]]
        more = len(conversions) - _LISTED
        lines += [f"and {more} more"] if more > 0 else []
        count = len(conversions)
        # The form shows the present target until the question is answered.
        self._window.pipeline.render_project(opened)
        self._notices.question(
            f"{count} rule{'' if count == 1 else 's'} cannot be used for {target_of(choice.id).title}.",
            "\n".join(("Converted, in one undo step:", *lines)),
            [
                Action("Convert the rules", partial(self._convert, title, choice)),
                Action("Keep the rules", partial(self._set, title, choice)),
                Action("Cancel", lambda: None),
            ],
            blocking=True,
        )

    def _set(self, title: str, choice: TargetChoice) -> None:
        self._document.apply(title, lambda p: edits.set_target(p, choice))

    def _convert(self, title: str, choice: TargetChoice) -> None:
        self._document.apply(title, lambda p: convert_rules(p, choice)[0])


_WIDTH_PX = 560
# Conversions of rules that a question lists.
_LISTED = 8


class TargetDialog(QDialog):
    """Edits every target option and shows errors at once.

    Signals:
        chosen: the complete ``TargetChoice``; emitted when the dialog is accepted.
    """

    chosen = Signal(object)

    def __init__(self, choice: TargetChoice, folder: Path, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Target")
        self._folder = folder
        self.target = TargetForm(self)
        self.target.chosen.connect(self._check)
        self.search = QLineEdit(self, placeholderText="Find an option", clearButtonEnabled=True)
        self.search.setAccessibleName("Find an option")
        self.search.textChanged.connect(self.target.find_options)
        self.problems = Label(self)
        self.problems.setObjectName("Reason")
        self.problems.setWordWrap(True)
        self.problems.setMinimumHeight(44)
        self.problems.setAlignment(Qt.AlignmentFlag.AlignTop)
        kinds = QDialogButtonBox.StandardButton
        self.buttons = QDialogButtonBox(kinds.Ok | kinds.Cancel, self)
        make_primary(self.buttons.button(kinds.Ok))
        self.buttons.accepted.connect(self._on_accepted)
        self.buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(18, 16, 18, 14)
        layout.setSpacing(10)
        layout.addWidget(self.search)
        layout.addWidget(TallForm(self.target, self))
        layout.addWidget(self.problems)
        layout.addWidget(self.buttons)
        self.target.render_choice(choice, folder)
        self._check(choice)
        # A minimum width of the dialog would hide that of its form.
        self.resize(self.sizeHint().expandedTo(QSize(_WIDTH_PX, 0)))

    def _check(self, choice: TargetChoice) -> None:
        try:
            infos = target_of(choice.id).check(choice, self._folder)
        except WorkbenchError as error:
            infos = list(error.infos)
        self.problems.setText("\n".join(" ".join((p.message, p.hint)).strip() for p in infos))
        self.buttons.button(QDialogButtonBox.StandardButton.Ok).setEnabled(not infos)

    def _on_accepted(self) -> None:
        if self.target.choice is not None:
            self.chosen.emit(self.target.choice)
        self.accept()


_INTRODUCTION = (
    "A plug-in adds configs, observers, node matchers and quantizers. Adding a file does not "
    "execute it; a run that uses it asks for trust first."
)
_SIZE_PX = (760, 400)


class PluginsDialog(QDialog):
    """Lists, adds and removes plug-ins. Every change is one undo step."""

    def __init__(self, document: Document, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Plug-ins")
        self._document = document
        introduction = Label(_INTRODUCTION, self)
        introduction.setWordWrap(True)
        self.tree = QTreeWidget(self)
        self.tree.setAccessibleName("Plug-ins and their contents")
        self.tree.setHeaderLabels(["Name", "Kind", "Description"])
        self.tree.currentItemChanged.connect(self._show_ready)
        self.none = Label("No plug-ins yet.", self)
        self.none.setObjectName("Hint")
        self.none.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.problem = Label(self)
        self.problem.setObjectName("Reason")
        self.problem.setWordWrap(True)
        kinds = QDialogButtonBox
        buttons = QDialogButtonBox(kinds.StandardButton.Close, self)
        self.add = buttons.addButton("Add\u2026", kinds.ButtonRole.ActionRole)
        self.remove = buttons.addButton("Remove", kinds.ButtonRole.ActionRole)
        self.add.clicked.connect(self._ask)
        self.remove.clicked.connect(self._remove)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(18, 16, 18, 14)
        layout.setSpacing(10)
        for widget, stretch in (
            (introduction, 0), (self.tree, 1), (self.none, 1), (self.problem, 0), (buttons, 0)
        ):  # fmt: skip
            layout.addWidget(widget, stretch)
        resize_on_screen(self, *_SIZE_PX)
        document.project_changed.connect(self._render)
        self._render(document.project)

    def take(self, path: Path) -> None:
        """Add a file if it is a plug-in; show an error otherwise."""
        plugin = relative_to(path, self._document.folder)
        try:
            items_of(plugin, self._document.folder)
        except WorkbenchError as error:
            self._say(error)
            return
        self._say(None)
        self._document.apply(f"Add plug-in {path.name}", lambda p: edits.offer_plugin(p, plugin))

    def _render(self, project: Project | None) -> None:
        self.tree.clear()
        own = project.plugins if project else ()
        for plugin in (*own, *installed()):
            kind = "project plug-in" if plugin in own else "installed"
            top = QTreeWidgetItem([plugin, kind, ""])
            self.tree.addTopLevelItem(top)
            try:
                items = items_of(plugin, self._document.folder)
            except WorkbenchError as error:
                top.setText(2, error.infos[0].message)
                continue
            for item in items:
                top.addChild(QTreeWidgetItem([item.name, item.role, item.title]))
        self.tree.expandAll()
        self.tree.setVisible(self.tree.topLevelItemCount() > 0)
        self.none.setVisible(self.tree.topLevelItemCount() == 0)
        for column in (0, 1):
            self.tree.resizeColumnToContents(column)
        self._show_ready()

    def _show_ready(self) -> None:
        item, project = self.tree.currentItem(), self._document.project
        own = project.plugins if project else ()
        self.remove.setEnabled(item is not None and item.text(0) in own)

    def _ask(self) -> None:
        ask_to_open(
            self,
            "Add plug-in",
            lambda name: self.take(Path(name)),
            start=self._document.folder,
            filters=["Python (*.py)"],
        )

    def _remove(self) -> None:
        item = self.tree.currentItem()
        if item is None:
            return
        plugin = item.text(0)
        self._document.apply(
            f"Remove plug-in {Path(plugin).name}", lambda p: edits.withdraw_plugin(p, plugin)
        )

    def _say(self, error: WorkbenchError | None) -> None:
        info = error.infos[0] if error else None
        self.problem.setText(f"{info.message} {info.hint}".strip() if info else "")
