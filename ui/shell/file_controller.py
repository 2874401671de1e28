"""Opens, saves and closes projects, and asks the questions that this requires."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, QSize, Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QScrollArea, QSizePolicy, QVBoxLayout, QWidget

from ui.features.program_viewer.program_windows import SUFFIXES as PROGRAM_SUFFIXES
from ui.features.program_viewer.program_windows import Programs
from ui.features.project.gallery import GalleryDialog, SampleGallery, documents
from ui.shared.appearance import theme_named
from ui.shared.file_dialogs import ask_for_output_folder, ask_to_open, ask_to_save
from ui.shared.labels import Label
from ui.shared.theme import Theme
from ui.state.document import ChangedOnDiskError, Document
from ui.state.notices import Action, Notices
from ui.state.project_files import ProjectInUseError, Recovery, left_behind
from ui.state.relocate import relative_to
from ui.state.settings import Settings
from workbench.errors import Place, WorkbenchError, failure
from workbench.project import edits
from workbench.project.model import PROJECT_SUFFIX, Project
from workbench.project.opened import OpenProject
from workbench.project.sources import ARRAY_SUFFIXES, MODEL_SUFFIXES, TEXT_SUFFIX
from workbench.samples import Sample, copy_sample

FILTER = f"Projects (*{PROJECT_SUFFIX})"
_MODELS = (".py", *MODEL_SUFFIXES)
_PROGRAMS = " ".join(f"*{suffix}" for suffix in PROGRAM_SUFFIXES)
OPEN_FILTERS = (
    f"Projects and programs (*{PROJECT_SUFFIX} {_PROGRAMS})",
    FILTER,
    f"Programs ({_PROGRAMS})",
    "All files (*)",
)
Then = Callable[[], None]


class FileController(QObject):
    """Implements the File menu and file drops.

    Signals:
        created: a new project is open.
        run_asked: it is to be run.
        draft_asked: the dialog New project is about to open.
    """

    created = Signal()
    run_asked = Signal()
    draft_asked = Signal(object)

    def __init__(
        self, document: Document, notices: Notices, settings: Settings, programs: Programs, window: QWidget
    ) -> None:
        super().__init__(window)
        self._document, self._notices = document, notices
        self._programs = programs
        self._settings, self._window = settings, window
        document.recovery_found.connect(self._offer_recovery)
        document.changed_on_disk.connect(self._on_changed_on_disk)

    def open_path(self, path: Path) -> None:
        """Open a project after asking about unsaved changes, a program, or a form for a model."""
        if path.suffix.lower() in PROGRAM_SUFFIXES:
            self._programs.open(path)
        elif path.suffix in _MODELS:
            self.ask_new(str(path))
        else:
            self.leave(lambda: self._open(path))

    def ask_sample(self) -> None:
        """Open the gallery of samples."""
        dialog = GalleryDialog(lambda: theme_named(self._settings.theme), self._window)
        dialog.chosen.connect(self.ask_copy)
        dialog.open()

    def ask_copy(self, sample: Sample) -> None:
        """Ask where to copy a sample, then copy and open it."""
        ask_for_output_folder(
            self._window,
            f"Copy the sample {sample.title} to",
            lambda name: self.copy_sample(sample, Path(name)),
            "",
            start=documents(),
        )

    def copy_sample(self, sample: Sample, folder: Path) -> None:
        """Copy a sample into a new folder below ``folder`` and open it."""
        try:
            path = copy_sample(sample, folder)
        except WorkbenchError as error:
            self._notices.error(error)
            return
        self.open_path(path)

    def ask_open(self) -> None:
        """Ask for a project or a program to open."""
        ask_to_open(
            self._window,
            "Open project or program",
            lambda name: self.open_path(Path(name)),
            start=self._document.folder,
            filters=OPEN_FILTERS,
        )

    def ask_new(self, model: str = "") -> None:
        """Ask for the settings of a new project; ``model`` fills in its field."""
        from ui.features.project.new_project import NewProjectDialog

        dialog = NewProjectDialog(model, self._window)

        def create(opened: OpenProject) -> None:
            runs = dialog.run.isChecked()
            self.leave(lambda: self._create(opened, runs=runs))

        dialog.made.connect(create)
        self.draft_asked.emit(dialog)
        dialog.open()

    def _create(self, opened: OpenProject, *, runs: bool) -> None:
        self._document.new(opened)
        self.created.emit()
        if runs:
            self.run_asked.emit()

    def ask_recipe(self) -> None:
        """Ask for a recipe, create its project and open it."""
        from ui.features.project.recipe import RecipeDialog

        dialog = RecipeDialog(self._window)
        dialog.made.connect(self.open_path)
        dialog.open()

    def ask_import_command(self) -> None:
        """Ask for an aot_arm_compiler command, create its project and open it."""
        from ui.features.project.import_command import ImportCommandDialog

        dialog = ImportCommandDialog(self._window)
        dialog.made.connect(self.open_path)
        dialog.open()

    def save(self, then: Then | None = None, *, overwrite: bool = False) -> None:
        """Save. Asks for a name if there is none or it cannot be used."""
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
                info.message,
                info.hint,
                [
                    Action("Save as\u2026", lambda: self.ask_save_as(then)),
                    Action("Overwrite", lambda: self.save(then, overwrite=True), destructive=True),
                ],
            )
        except WorkbenchError as error:
            self._notices.error(error, [Action("Save as\u2026", lambda: self.ask_save_as(then))])
        else:
            self._saved(then)

    def ask_save_as(self, then: Then | None = None) -> None:
        """Ask where to save."""
        project = self._document.project
        if project is None:
            return
        dialog = ask_to_save(
            self._window,
            "Save project",
            lambda name: self.save_as(Path(name), then),
            f"{project.name}{PROJECT_SUFFIX}",
            filters=[FILTER],
        )
        # The paths of the project are relative to this folder.
        dialog.setDirectory(str(self._document.folder))

    def save_as(self, path: Path, then: Then | None = None) -> None:
        """Save under another name; tell where the files of the project stay if its folder is another."""
        before, folder = self._document.project, self._document.folder
        try:
            self._document.save_as(path)
        except WorkbenchError as error:
            self._notices.error(error, [Action("Save as\u2026", lambda: self.ask_save_as(then))])
        else:
            if self._document.project != before:
                self._notices.info(
                    f"Saved in {self._document.folder}. Model and data stay in {folder}.",
                    "The project names them relative to its new place. They were not copied.",
                )
            self._saved(then)

    def _question(self) -> str:
        if self._document.path is None:
            return "Save this new project?"
        return f"Save changes to {self._document.title}?"

    def leave(self, then: Then) -> None:
        """Run an action that closes the project, after asking about unsaved changes."""
        if not self._document.modified:
            then()
            return
        self._notices.question(
            self._question(),
            "Changes that are not saved are lost.",
            [
                Action("Save", lambda: self.save(then)),
                Action("Don't save", then, destructive=True),
                Action("Cancel", lambda: None),
            ],
            blocking=True,
        )

    def close_project(self) -> None:
        """Close the project and show the welcome page."""
        self.leave(self._document.close)

    def take_dropped(self, paths: list[Path]) -> None:
        """Open or import a dropped file."""
        path = paths[0]
        if path.suffix.lower() in {PROJECT_SUFFIX, *PROGRAM_SUFFIXES, *_MODELS}:
            self.open_path(path)
        elif os.path.isdir(path) or path.suffix in {*ARRAY_SUFFIXES, TEXT_SUFFIX}:
            self._take_data(path)
        else:
            hint = (
                "Drop a project (.qwb), a program (.pte, .bpte, .tflite), a model (.pt2, .onnx, "
                ".py) or data (.npz, .npy, .pt, .txt, a folder)."
            )
            where = Place(kind="file", id=str(path))
            self._notices.error(
                failure(f"{path.name} cannot be opened.", hint, where, code="file-not-supported")
            )

    def offer_left_behind(self) -> None:
        """Offer to recover unsaved projects of windows that ended."""
        for recovery in left_behind(self._settings.folder / "recovery"):
            self._offer_recovery(recovery)

    def _open(self, path: Path, *, read_only: bool = False, take_over: bool = False) -> None:
        try:
            self._document.open(path, read_only=read_only, take_over=take_over)
        except ProjectInUseError as error:
            info = error.infos[0]
            self._notices.question(
                info.message,
                info.hint,
                [
                    Action("Open read-only", lambda: self._open(path, read_only=True)),
                    Action("Open anyway", lambda: self._open(path, take_over=True), destructive=True),
                ],
            )
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
            self._notices.info("Open a project first.", "Then drop the data again.")
            return
        spec = relative_to(path, self._document.folder)
        data = edits.data_at(self._document.project, spec)

        def evaluate(project: Project) -> Project:
            return edits.set_evaluation(project, data, project.evaluation.metric)

        self._notices.question(
            f"Use {path.name} as which data?",
            "",
            [
                Action(
                    "Calibration",
                    lambda: self._edit(
                        f"Set calibration data to {path.name}", lambda p: edits.set_calibration(p, data)
                    ),
                ),
                Action("Evaluation", lambda: self._edit(f"Set evaluation data to {path.name}", evaluate)),
                Action("Cancel", lambda: None),
            ],
        )

    def _edit(self, text: str, edit: Callable[[Project], Project]) -> None:
        self._document.apply(text, edit)

    def _offer_recovery(self, recovery: Recovery) -> None:
        self._notices.question(
            f"{recovery.project.name} has unsaved changes from {recovery.when}.",
            "The window that had the project open ended without saving.",
            [
                Action("Recover", lambda: self._document.recover(recovery)),
                Action("Discard", recovery.discard, destructive=True),
            ],
        )

    def _on_changed_on_disk(self) -> None:
        name = self._document.title
        self._notices.question(
            f"Another program changed {name}.",
            "Reloading is one undo step.",
            [Action("Reload", self._reload), Action("Keep my version", self._document.keep_ours)],
        )

    def _reload(self) -> None:
        try:
            self._document.reload()
        except WorkbenchError as error:
            self._notices.error(error)


def _unopened(path: Path, error: WorkbenchError) -> WorkbenchError:
    """Return the problems of a file that could not be opened, without places to go to."""
    lines = []
    for info in error.infos:
        is_field = info.where is not None and info.where.kind == "option"
        prefix = f"{info.where.id}: " if is_field and info.where is not None else ""
        lines.append(f"{prefix}{info.message} {info.hint}".strip())
    return failure(f"{path.name} cannot be opened.", "\n".join(lines), code="file-not-opened")


_WIDTH_PX = 680


class WelcomePage(QScrollArea):
    """The page shown while no project is open.

    Signals:
        new_asked, open_asked, recipe_asked: a button was clicked.
        sample_asked: the ``Sample`` to copy and open.
        recent_asked: the path of a recent project.
    """

    new_asked = Signal()
    open_asked = Signal()
    sample_asked = Signal(object)
    recipe_asked = Signal()
    recent_asked = Signal(object)

    def __init__(self, theme: Callable[[], Theme], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("Welcome")
        self.setFrameShape(QFrame.Shape.NoFrame)
        # It scrolls to the button that has the focus.
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.gallery = SampleGallery(theme, self)
        self.gallery.chosen.connect(self.sample_asked)
        column = QVBoxLayout()
        column.setSpacing(8)
        column.addWidget(_label("Quantization Workbench", "Heading", self))
        words = "Set and verify the precision of every module of a PyTorch model, and compile it "
        column.addWidget(_label(f"{words}for an Arm Ethos-U NPU.", "Hint", self))
        column.addSpacing(8)
        column.addLayout(self._buttons())
        drop = _label("or drop a project, or a model (.pt2, .onnx, .py) here", "DropHint", self)
        drop.setAlignment(Qt.AlignmentFlag.AlignCenter)
        drop.setMinimumHeight(64)
        column.addWidget(drop)
        column.addWidget(self._recent_card())
        column.addSpacing(6)
        column.addWidget(_label("Samples", "Subheading", self))
        column.addWidget(self.gallery)
        inner = QWidget(self)
        inner.setMaximumWidth(_WIDTH_PX)
        inner.setLayout(column)
        page = QWidget(self)
        page.setObjectName("WelcomePage")
        across = QHBoxLayout()
        across.addStretch(1)
        across.addWidget(inner, 20)
        across.addStretch(1)
        outer = QVBoxLayout(page)
        outer.addStretch(1)
        outer.addLayout(across)
        outer.addStretch(2)
        self.setWidget(page)

    def minimumSizeHint(self) -> QSize:
        return QSize(0, 0)

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of a theme."""
        self.gallery.set_theme(theme)

    def render_recents(self, paths: Sequence[Path]) -> None:
        """Show the recent projects."""
        while (item := self._recents.takeAt(1)) is not None:
            if (widget := item.widget()) is not None:
                # Outside the layout it would stand in the corner until it is deleted.
                widget.hide()
                widget.deleteLater()
        self._card.setVisible(bool(paths))
        for path in paths[:6]:
            button = QPushButton(f"{path.stem}   {path.parent}", self._card)
            button.setProperty("link", True)
            button.setCursor(Qt.CursorShape.PointingHandCursor)
            button.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
            button.clicked.connect(partial(self._on_recent_clicked, path))
            self._recents.addWidget(button)

    def _buttons(self) -> QHBoxLayout:
        row = QHBoxLayout()
        for title, signal, primary in (
            ("New project\u2026", self.new_asked, True),
            ("New from recipe\u2026", self.recipe_asked, False),
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
        self._recents.addWidget(_label("Recent projects", "Subheading", self._card))
        return self._card

    def _on_recent_clicked(self, path: Path) -> None:
        self.recent_asked.emit(path)


def _label(text: str, name: str, parent: QWidget) -> Label:
    label = Label(text, parent)
    label.setObjectName(name)
    label.setWordWrap(True)
    return label
