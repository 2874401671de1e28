"""Opening, saving and leaving projects, with every question that this may raise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import (
    QFileDialog,
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from ui.features.program_viewer.program_windows import SUFFIXES as PROGRAM_SUFFIXES
from ui.features.program_viewer.program_windows import Programs
from ui.state.document import ChangedOnDiskError, Document
from ui.state.notices import Action, Notices
from ui.state.project_files import ProjectInUseError, Recovery, left_behind
from ui.state.relocate import relative_to
from ui.state.settings import Settings
from workbench.errors import Place, WorkbenchError, failure
from workbench.installation import resources
from workbench.project import edits
from workbench.project.model import PROJECT_SUFFIX, Project
from workbench.project.sources import ARRAY_SUFFIXES, TEXT_SUFFIX

SAMPLE = resources() / "samples" / "digits" / "digits.qwb"
FILTER = f"Projects (*{PROJECT_SUFFIX})"
_PROGRAMS = " ".join(f"*{suffix}" for suffix in PROGRAM_SUFFIXES)
OPEN_FILTERS = (
    f"Projects and programs (*{PROJECT_SUFFIX} {_PROGRAMS})", FILTER, f"Programs ({_PROGRAMS})",
    "All files (*)",
)  # fmt: skip
Then = Callable[[], None]


class FileVerbs(QObject):
    """What the File menu and dropped files do."""

    def __init__(
        self, document: Document, notices: Notices, settings: Settings, programs: Programs,
        window: QWidget,
    ) -> None:  # fmt: skip
        super().__init__(window)
        self._document, self._notices = document, notices
        self._programs = programs
        self._settings, self._window = settings, window
        document.recovery_found.connect(self._on_recovery_found)
        document.changed_on_disk.connect(self._on_changed_on_disk)

    def open_path(self, path: Path) -> None:
        """Open a project, after asking about unsaved work; a program in a window of its own."""
        if path.suffix.lower() in PROGRAM_SUFFIXES:
            self._programs.open(path)
        else:
            self.leave(lambda: self._open(path))

    def open_sample(self) -> None:
        """Open the sample project."""
        self.open_path(SAMPLE)

    def ask_open(self) -> None:
        """Let the user choose a project or a program."""
        dialog = self._dialog("Open a project or a program", QFileDialog.AcceptMode.AcceptOpen)
        dialog.setNameFilters(OPEN_FILTERS)
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.fileSelected.connect(lambda name: self.open_path(Path(name)))
        dialog.open()

    def ask_new(self, model: str = "") -> None:
        """Let the user make a project, with a model given already perhaps."""
        from ui.features.project.new_project import NewProjectDialog

        dialog = NewProjectDialog(model, self._window)
        dialog.made.connect(lambda p, folder: self.leave(lambda: self._document.new(p, folder)))
        dialog.open()

    def ask_recipe(self) -> None:
        """Let the user begin with a recipe, and open the project."""
        from ui.features.project.recipe import RecipeDialog

        dialog = RecipeDialog(self._window)
        dialog.made.connect(self.open_path)
        dialog.open()

    def ask_take_over(self) -> None:
        """Let the user paste a command line, and open the project it becomes."""
        from ui.features.project.import_command import TakeCommandDialog

        dialog = TakeCommandDialog(self._window)
        dialog.made.connect(self.open_path)
        dialog.open()

    def save(self, then: Then | None = None, *, overwrite: bool = False) -> None:
        """Save; ask for a name where there is none or it may not be used."""
        if self._document.project is None:
            return
        if self._document.path is None or self._document.read_only:
            self.ask_save_as(then)
            return
        try:
            self._document.save(overwrite=overwrite)
        except ChangedOnDiskError as error:
            info = error.infos[0]
            self._notices.question(
                info.message, info.hint,
                [
                    Action("Save as\u2026", lambda: self.ask_save_as(then)),
                    Action("Overwrite", lambda: self.save(then, overwrite=True), destructive=True),
                ],
            )  # fmt: skip
        except WorkbenchError as error:
            self._notices.error(error, [Action("Save as\u2026", lambda: self.ask_save_as(then))])
        else:
            self._saved(then)

    def ask_save_as(self, then: Then | None = None) -> None:
        """Let the user choose where to save."""
        project = self._document.project
        if project is None:
            return
        dialog = self._dialog("Save the project", QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix(PROJECT_SUFFIX[1:])
        dialog.selectFile(f"{project.name}{PROJECT_SUFFIX}")
        dialog.fileSelected.connect(lambda name: self.save_as(Path(name), then))
        dialog.open()

    def save_as(self, path: Path, then: Then | None = None) -> None:
        """Save under another name."""
        try:
            self._document.save_as(path)
        except WorkbenchError as error:
            self._notices.error(error, [Action("Save as\u2026", lambda: self.ask_save_as(then))])
        else:
            self._saved(then)

    def leave(self, then: Then) -> None:
        """Do something that gives up the open project; ask first if work would be lost."""
        if not self._document.modified:
            then()
            return
        self._notices.question(
            f"Save the changes to {self._document.title}?",
            "Otherwise they are lost.",
            [
                Action("Save", lambda: self.save(then)),
                Action("Do not save", then, destructive=True),
                Action("Cancel", lambda: None),
            ],
            blocking=True,
        )

    def close_project(self) -> None:
        """Go back to the first page."""
        self.leave(self._document.close)

    def take_dropped(self, paths: list[Path]) -> None:
        """Do what a dropped file is for."""
        path = paths[0]
        if path.suffix.lower() in {PROJECT_SUFFIX, *PROGRAM_SUFFIXES}:
            self.open_path(path)
        elif path.suffix in {".pt2", ".py"}:
            self.ask_new(str(path))
        elif path.is_dir() or path.suffix in {*ARRAY_SUFFIXES, TEXT_SUFFIX}:
            self._take_data(path)
        else:
            hint = (
                "Drop a project (.qwb), a program (.pte, .bpte), a model (.pt2, .py) or data "
                "(.npz, .npy, .pt, .txt, a folder)."
            )
            where = Place(kind="file", id=str(path))
            self._notices.error(
                failure(
                    f"{path.name} is nothing to open here.", hint, where, code="file-not-supported"
                )
            )

    def offer_left_behind(self) -> None:
        """Offer unsaved projects of windows that are gone."""
        for recovery in left_behind(self._settings.folder / "recovery"):
            self._on_recovery_found(recovery)

    def _open(self, path: Path, *, read_only: bool = False, take_over: bool = False) -> None:
        try:
            self._document.open(path, read_only=read_only, take_over=take_over)
        except ProjectInUseError as error:
            info = error.infos[0]
            self._notices.question(
                info.message, info.hint,
                [
                    Action("Open to read", lambda: self._open(path, read_only=True)),
                    Action(
                        "Open here anyway",
                        lambda: self._open(path, take_over=True),
                        destructive=True,
                    ),
                ],
            )  # fmt: skip
        except WorkbenchError as error:
            self._settings.forget_recent(path)
            self._notices.error(_unopened(path, error))
        else:
            self._settings.remember_recent(path.absolute())

    def _saved(self, then: Then | None) -> None:
        if self._document.path is not None:
            self._settings.remember_recent(self._document.path)
        if then is not None:
            then()

    def _take_data(self, path: Path) -> None:
        if self._document.project is None:
            self._notices.info(
                "Open a project first.", "Then drop the data again to calibrate with it."
            )
            return
        spec = relative_to(path, self._document.folder)
        data = edits.data_at(self._document.project, spec)

        def evaluate(project: Project) -> Project:
            return edits.set_evaluation(project, data, project.evaluation.metric)

        self._notices.question(
            f"What is {path.name} for?", "",
            [
                Action("Calibration", lambda: self._edit(
                    f"Calibrate on {path.name}", lambda p: edits.set_calibration(p, data)
                )),
                Action("Evaluation", lambda: self._edit(f"Evaluate on {path.name}", evaluate)),
                Action("Cancel", lambda: None),
            ],
        )  # fmt: skip

    def _edit(self, text: str, edit: Callable[[Project], Project]) -> None:
        self._document.apply(text, edit)

    def _on_recovery_found(self, recovery: Recovery) -> None:
        self._notices.question(
            f"{recovery.project.name} has changes from {recovery.when} that were never saved.",
            "The window that made them ended without saving.",
            [
                Action("Recover", lambda: self._document.recover(recovery)),
                Action("Throw away", recovery.discard, destructive=True),
            ],
        )

    def _on_changed_on_disk(self) -> None:
        name = self._document.title
        self._notices.question(
            f"{name} was changed by another program.",
            "Taking its content is one step that can be undone.",
            [
                Action("Take its content", self._reload),
                Action("Keep what is here", self._document.keep_ours),
            ],
        )

    def _reload(self) -> None:
        try:
            self._document.reload()
        except WorkbenchError as error:
            self._notices.error(error)

    def _dialog(self, title: str, mode: QFileDialog.AcceptMode) -> QFileDialog:
        dialog = QFileDialog(self._window, title, str(self._document.folder))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setAcceptMode(mode)
        dialog.setNameFilter(FILTER)
        return dialog


def _unopened(path: Path, error: WorkbenchError) -> WorkbenchError:
    """Return what is wrong with a file, under its name and without places: nothing is open."""
    lines = []
    for info in error.infos:
        is_field = info.where is not None and info.where.kind == "option"
        place = f"{info.where.id}: " if is_field and info.where is not None else ""
        lines.append(f"{place}{info.message} {info.hint}".strip())
    return failure(f"{path.name} cannot be opened.", "\n".join(lines), code="file-not-opened")


class WelcomePage(QWidget):
    """What a person sees before there is a project.

    Signals:
        new_asked, open_asked, sample_asked, recipe_asked: what the user wants.
        recent_asked: the path of a recent project.
    """

    new_asked = Signal()
    open_asked = Signal()
    sample_asked = Signal()
    recipe_asked = Signal()
    recent_asked = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("Welcome")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        column = QVBoxLayout()
        column.setSpacing(10)
        heading = QLabel("Quantization Workbench", self)
        heading.setObjectName("Heading")
        words = QLabel(
            "See, decide and verify the precision of every module of a PyTorch model,\n"
            "down to a program for an Arm Ethos-U.",
            self,
        )
        words.setObjectName("Hint")
        column.addWidget(heading)
        column.addWidget(words)
        column.addSpacing(12)
        column.addLayout(self._buttons())
        column.addSpacing(6)
        drop = QLabel("or drop a project, a .pt2 or a .py file here", self)
        drop.setObjectName("DropHint")
        drop.setAlignment(Qt.AlignmentFlag.AlignCenter)
        drop.setMinimumHeight(72)
        column.addWidget(drop)
        column.addSpacing(12)
        column.addWidget(self._recent_card())
        inner = QWidget(self)
        inner.setFixedWidth(560)
        inner.setLayout(column)
        outer = QVBoxLayout(self)
        outer.addStretch(1)
        outer.addWidget(inner, 0, Qt.AlignmentFlag.AlignHCenter)
        outer.addStretch(2)

    def render_recents(self, paths: Sequence[Path]) -> None:
        """Show the projects opened lately."""
        while (item := self._recents.takeAt(1)) is not None:
            if (widget := item.widget()) is not None:
                widget.deleteLater()
        self._card.setVisible(bool(paths))
        for path in paths[:6]:
            button = QPushButton(f"{path.stem}   {path.parent}", self._card)
            button.setProperty("link", True)
            button.setCursor(Qt.CursorShape.PointingHandCursor)
            button.clicked.connect(partial(self._on_recent_clicked, path))
            self._recents.addWidget(button)

    def _buttons(self) -> QHBoxLayout:
        row = QHBoxLayout()
        for title, signal, primary in (
            ("Open the sample", self.sample_asked, True),
            ("New project\u2026", self.new_asked, False),
            ("From a recipe\u2026", self.recipe_asked, False),
            ("Open\u2026", self.open_asked, False),
        ):
            button = QPushButton(title, self)
            button.setProperty("primary", primary)
            button.setMinimumHeight(30)
            button.clicked.connect(signal)
            row.addWidget(button, 1)
        return row

    def _recent_card(self) -> QFrame:
        self._card = QFrame(self)
        self._card.setObjectName("Card")
        self._recents = QVBoxLayout(self._card)
        self._recents.setContentsMargins(14, 12, 14, 12)
        self._recents.setSpacing(2)
        title = QLabel("Recent projects", self._card)
        title.setObjectName("Subheading")
        self._recents.addWidget(title)
        return self._card

    def _on_recent_clicked(self, path: Path) -> None:
        self.recent_asked.emit(path)
