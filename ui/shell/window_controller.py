"""Updates title, status bar and menus of the window, and shows the places that messages name."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QInputDialog

from ui.shared.panel import PanelContext, PanelId
from ui.shared.tab_order import FocusOutline
from ui.shared.text_question import open_wide
from ui.shell.actions import OTHER_WORDS, Entry
from ui.shell.main_window import NAME, MainWindow
from ui.state.settings import LAST
from workbench.errors import Place, WorkbenchError
from workbench.pipeline.stages import STAGES
from workbench.project.project_code import Code
from workbench.project.trust import TrustStore, named_code
from workbench.text import whole_number

_STAGE_TITLES = {stage.title for stage in STAGES}


class WindowController(QObject):
    """Updates the title, the status bar and the menus of the window.

    Signals:
        cache_cleared: the user cleared the result cache.
    """

    cache_cleared = Signal()

    def __init__(
        self, context: PanelContext, trust: TrustStore, window: MainWindow, open_path: Callable[[Path], None]
    ) -> None:
        super().__init__(window)
        self._context, self._trust, self._window = context, trust, window
        self._open = open_path
        context.document.state_changed.connect(self.show_title)
        context.document.project_changed.connect(self.show_title)
        context.problems.modelReset.connect(self.show_problem_count)
        context.runner.engines_changed.connect(self.show_engines)
        # Not the submenu's own signal: it does not open while it is disabled.
        window.menus["&File"].aboutToShow.connect(self.show_recents)
        window.layouts.aboutToShow.connect(self.show_layouts)
        context.runner.job_changed.connect(lambda _job: self.show_jobs())
        self._outline = FocusOutline(self)
        self._errors = 0
        self.show_problem_count()
        self.show_jobs()

    def show_title(self) -> None:
        """Show the project's name in the title."""
        title = self._context.document.title
        note = " (read only)" if self._context.document.read_only else ""
        self._window.setWindowTitle(f"{title}{note}[*] \u2013 {NAME}" if title else NAME)
        self._window.setWindowModified(self._context.document.modified)

    def show_engines(self) -> None:
        """Show the engine's state in the status bar."""
        state = self._context.runner.engine_state("interactive")
        words = {"off": "", "starting": "Starting engine\u2026", "ready": "Engine ready"}
        self._window.engine_note.setText(words[state])

    def show_problem_count(self) -> None:
        """Show the number of problems in the status bar; open their list for a new error.

        The failure of a stage has a notice: the list would tell it once more.
        """
        count = self._context.problems.rowCount()
        text = "No problems" if not count else f"{count} problem{'s' if count > 1 else ''}"
        self._window.notes["problems"].setText(text)
        news = [problem for problem in self._context.problems.rows if problem.source not in _STAGE_TITLES]
        errors = sum(problem.severity == "error" for problem in news)
        if errors > self._errors and self._window.docks["problems"].isHidden():
            self._window.reveal("problems")
        self._errors = errors

    def show_jobs(self) -> None:
        """Show the running jobs in the status bar."""
        jobs = self._context.runner.running
        text = "No jobs"
        if jobs:
            share = next((j.progress for j in jobs if j.progress is not None), None)
            text = f"{len(jobs)} job{'s' if len(jobs) > 1 else ''}"
            text += f" {100 * share:.0f} %" if share is not None else ""
        self._window.notes["jobs"].setText(text)

    def show_recents(self) -> None:
        """List the recent projects in the menu and on the welcome page."""
        known = [path for path in self._context.settings.recents if os.path.exists(path)]
        self._window.welcome.render_recents(known)
        self._window.recents.clear()
        for path in known:
            action = self._window.recents.addAction(f"{path.stem}  {path.parent}")
            action.triggered.connect(partial(self._open, path))
        self._window.recents.setEnabled(bool(known))

    def show_layouts(self) -> None:
        """List the saved layouts in the menu."""
        menu = self._window.layouts
        menu.clear()
        names = [name for name in self._context.settings.layouts() if name != LAST]
        for name in names:
            parts = self._context.settings.layout(name)
            menu.addAction(name).triggered.connect(partial(self._window.apply_layout, parts))
        if not names:
            menu.addAction("No saved layouts").setEnabled(False)

    def ask_layout_name(self) -> None:
        """Ask for a name and save the present layout."""
        dialog = QInputDialog(self._window)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setWindowTitle("Save layout")
        dialog.setLabelText("Layout name")
        dialog.textValueSelected.connect(
            lambda name: self._context.settings.save_layout(name or "mine", self._window.layout_parts())
        )
        open_wide(dialog)

    def switch_theme(self) -> None:
        """Switch between the dark and the light theme."""
        name = "light" if self._context.theme.dark else "dark"
        self._context.settings.theme = name
        self._context.appearance.switch(name)

    def show_preferences(self) -> None:
        """Open the preferences."""
        from ui.shell.preferences import PreferencesDialog

        dialog = PreferencesDialog(
            self._context.settings,
            self._context.appearance,
            self._context.session.cache,
            self._trust,
            self._window,
        )
        dialog.cache_cleared.connect(self.cache_cleared)
        dialog.refused.connect(self._context.notices.error)
        dialog.open()

    def show_doctor(self) -> None:
        """Open the system check."""
        from ui.shell.preferences import DoctorDialog

        DoctorDialog(self._context.theme, self._window).open()


class Navigation(QObject):
    """Shows a place, e.g. a module or a node, in the panel for its kind.

    Signals:
        setting_asked: the key of a project setting.
        plugins_asked: the list of plug-ins is to be shown.
    """

    setting_asked = Signal(str)
    plugins_asked = Signal()

    def __init__(self, context: PanelContext, window: MainWindow) -> None:
        super().__init__(window)
        self._context, self._window = context, window
        context.notices.place_asked.connect(self._on_place_asked)

    def _on_place_asked(self, place: Place | None) -> None:
        if place is None:
            self._window.reveal("problems")
        else:
            self.go(place)

    def go(self, place: Place) -> None:
        """Show a place."""
        selection = self._context.selection
        match place.kind:
            case "module":
                self._window.reveal("modules")
                selection.choose_modules([place.id])
            case "node" | "tensor":
                panel = self._window.reveal("graph")
                if (show := getattr(panel, "show_node", None)) is not None:
                    show(place.id)
                selection.choose_nodes([place.id])
            case "rule":
                self._window.reveal("rules")
                selection.choose_rule(place.id)
            case "sample" if (number := whole_number(place.id)) is not None:
                panel = self._window.reveal("sample")
                if (look_at := getattr(panel, "look_at", None)) is not None:
                    look_at(number)
            case "file" | "line":
                self._show_file(place)
            case "option" | "project":
                self._go_to_option(place.id if place.kind == "option" else "name")
            case "stage" | "tool":
                self._window.reveal("simulator" if place.id in SIMULATORS else "log")
            case _:
                self._window.reveal("problems")

    def _show_file(self, place: Place) -> None:
        """Show the folder of a file, or a line of the project's code.

        The list of problems is shown if the line is in none of its files any more.
        """
        from ui.features.trust_dialog import CodeDialog

        if place.kind == "file":
            folder = (self._context.document.folder / Path(place.id)).parent
            QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))
            return
        file, number = place.file_and_line
        opened = self._context.document.opened_project
        try:
            code = named_code(opened) if opened is not None else Code()
        except WorkbenchError as error:
            self._context.notices.error(error)
            return
        if Path(file) not in code.files:
            self._window.reveal("problems")
            return
        dialog = CodeDialog(code, self._window)
        dialog.open()
        dialog.show_line(Path(file), number)

    def jump(self, place: Place) -> None:
        """Show a module or a node, and let its panel take the keys: a number gives a precision."""
        self.go(place)
        panel = self._window.reveal("modules" if place.kind == "module" else "graph")
        if panel is not None:
            panel.take_keys()

    def _go_to_option(self, key: str) -> None:
        """Show the field of a setting, or the panel in which an option is set."""
        first = re.split(r"[.\[]", key, maxsplit=1)[0]
        if first in SETTINGS:
            self.setting_asked.emit(key)
        elif first == "plugins":
            self.plugins_asked.emit()
        else:
            self._window.reveal(OPTION_PANELS.get(first, "problems"))

    def ask(self) -> None:
        """Open the command palette."""
        self._window.palette_box.ask(list(self._entries()))

    def _entries(self) -> Iterator[Entry]:
        named: set[str] = set()
        for name, action in self._window.actions_by_id.items():
            text = action.text().replace("&", "").rstrip("\u2026")
            # Two stages have an action with a shortcut besides the one of every stage.
            if action.isEnabled() and text not in named:
                named.add(text)
                kind = action.shortcut().toString() or "action"
                yield Entry(text, kind, action.trigger, OTHER_WORDS.get(name, ""))
        for module in self._context.model_index.modules:
            if module.path:
                place = Place(kind="module", id=module.path)
                name = module.type_name.rpartition(".")[2]
                yield Entry(module.path, name, partial(self.jump, place))
        snapshot = self._context.model_index.snapshot
        for node in snapshot.nodes if snapshot else ():
            if node.kind == "call":
                place = Place(kind="node", id=node.id)
                yield Entry(node.id, node.op, partial(self.jump, place))


# The parts of the project that the dialog Project settings edits.
SETTINGS = frozenset(
    {
        "name",
        "model",
        "calibration",
        "evaluation",
        "verification",
        "gate",
        "accuracy",
        "target",
        "board",
        "training_function",
        "trained_weights",
        "split_outputs",
        "output_factors",
        "notes",
        "toolchain",
        "toolchain_versions",
    }
)
# Where the options are set that are no settings, by the first part of their key.
_OF_RULES = (
    "rules",
    "config",
    "presets",
    "scheme",
    "width",
    "frac_width",
    "exponent_width",
    "block_size",
    "block_dim",
    "parallelism",
    "quantile_search",
    "round_mode",
    "means",
    "levels",
    "bias",
    "mase_compatible",
    "operation",
    "role",
    "pass_args",
)
OPTION_PANELS: Mapping[str, PanelId] = {
    **dict.fromkeys(_OF_RULES, "rules"),
    "ranges": "ranges",
    "range_methods": "ranges",
    "improvers": "weight_transforms",
    "improving": "weight_transforms",
    "compressions": "modules",
    "learning_rate": "training",
    "train": "search",
    "targets": "devices",
    "run": "runs",
    "flash": "simulator",
    "port": "simulator",
    "address": "simulator",
}
SIMULATORS = frozenset({"FVP", "board"})
