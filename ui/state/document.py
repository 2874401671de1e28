"""The open project: its value, its path and its undo stack. All changes go through the stack."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError
from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtGui import QUndoCommand, QUndoStack

from ui.state.project_files import (
    AUTOSAVE_SUFFIX,
    DiskWatch,
    ProjectLock,
    Recovery,
    Sidecar,
    beside,
    text_of,
    unsaved_file,
)
from ui.state.relocate import relocate
from workbench.errors import ErrorInfo, Place, WorkbenchError, failure, invalid_values
from workbench.files import remove_parts
from workbench.project import store
from workbench.project.model import PROJECT_SUFFIX, Project
from workbench.project.opened import OpenProject

# The longest time without an autosave while the user edits.
LATEST_AUTOSAVE_MS = 5000


class ReplaceProject(QUndoCommand):
    """Replaces the project's value. Never fails, because both values are valid."""

    def __init__(self, text: str, before: Project, after: Project, put: Callable[[Project], None]) -> None:
        super().__init__(text)
        self._before, self._after, self._put = before, after, put

    def redo(self) -> None:
        self._put(self._after)

    def undo(self) -> None:
        self._put(self._before)


def translated(error: ValidationError) -> WorkbenchError:
    """Return validation errors as ``ErrorInfo`` with message and place."""
    return WorkbenchError(
        ErrorInfo(
            message=value.message,
            where=Place(kind="option", id=value.field or "project"),
            code="edit-invalid",
        )
        for value in invalid_values(error)
    )


Edit = Callable[[Project], Project]


class ChangedOnDiskError(WorkbenchError):
    """Another program changed the file since the window read or wrote it."""


class Document(QObject):
    """The project of the window, or none.

    Signals:
        opened: another project was opened or created; ``project_changed`` follows.
        project_changed: the new ``Project``, or None if no project is open.
        edit_refused: the ``WorkbenchError`` of a rejected edit.
        autosave_refused: the ``WorkbenchError`` of the first autosave that failed since one succeeded.
        state_changed: the path, the read-only state or the modified state changed.
        changed_on_disk: another program changed the file.
        recovery_found: a ``Recovery`` with unsaved changes of a former window.
    """

    opened = Signal()
    project_changed = Signal(object)
    edit_refused = Signal(object)
    autosave_refused = Signal(object)
    state_changed = Signal()
    changed_on_disk = Signal()
    recovery_found = Signal(object)

    def __init__(self, recovery_folder: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._recovery = recovery_folder
        self._project: Project | None = None
        self._path: Path | None = None
        self._folder = Path.cwd()
        self._read_only = False
        self._lock: ProjectLock | None = None
        self._sidecar: Sidecar | None = None
        self._is_unkept = False
        self.undo_stack = QUndoStack(self)
        self._watch = DiskWatch(self)
        self._watch.changed.connect(self.changed_on_disk)
        self._autosave = QTimer(self, interval=1000, singleShot=True)
        self._autosave.timeout.connect(self.autosave)
        # Steady edits restart the timer above; this one makes sure that it ends.
        self._latest_autosave = QTimer(self, interval=LATEST_AUTOSAVE_MS, singleShot=True)
        self._latest_autosave.timeout.connect(self.autosave)
        self.undo_stack.cleanChanged.connect(lambda _clean: self.state_changed.emit())

    @property
    def project(self) -> Project | None:
        """The present project; None if none is open."""
        return self._project

    @property
    def opened_project(self) -> OpenProject | None:
        """The present project with its folder and its file; None if none is open."""
        return OpenProject(self._project, self._folder, self._path) if self._project is not None else None

    @property
    def path(self) -> Path | None:
        """Path of the project file; None before the first save."""
        return self._path

    @property
    def folder(self) -> Path:
        """The folder that the project's paths are relative to."""
        return self._folder

    @property
    def read_only(self) -> bool:
        """Whether the file cannot be written: it is open elsewhere or not writable."""
        return self._read_only

    @property
    def modified(self) -> bool:
        """Whether there are unsaved changes."""
        return self._project is not None and not self.undo_stack.isClean()

    @property
    def title(self) -> str:
        """The file's name, or the project's name before the first save."""
        if self._path is not None:
            return self._path.name
        return f"{self._project.name} (not saved)" if self._project else ""

    def apply(self, text: str, edit: Edit) -> bool:
        """Apply an edit as one named undo step; return whether the project changed.

        The edit is validated before it is pushed. A rejected edit changes nothing.
        """
        before = self._project
        if before is None:
            return False
        try:
            after = edit(before)
        except WorkbenchError as error:
            self.edit_refused.emit(error)
            return False
        except ValidationError as error:
            self.edit_refused.emit(translated(error))
            return False
        if after == before:
            return False
        self.undo_stack.push(ReplaceProject(text, before, after, self._put))
        return True

    def open(self, path: Path, *, read_only: bool = False, take_over: bool = False) -> None:
        """Open a project file.

        Raises:
            ProjectInUseError: another window has it open.
            WorkbenchError: the file cannot be read. The former project stays open.
        """
        path = path.absolute()
        known = text_of(path)
        project = store.load(path)
        lock = self._lock_for(path)
        if not read_only:
            lock.take(by_force=take_over)
        self._leave(keep=lock)
        self._lock = None if read_only else lock
        self._read_only = read_only or not store.is_writable(path)
        remove_parts(path.parent)
        self._become(OpenProject(project, path.parent, path))
        self._watch.follow(path, known)
        self._offer_recovery()

    def new(self, opened: OpenProject) -> None:
        """Open a project without a file."""
        self._leave()
        self._read_only = False
        self._become(OpenProject(opened.project, opened.folder.absolute()))
        self.undo_stack.resetClean()
        self._autosave.start()

    def close(self) -> None:
        """Close the project and discard unsaved changes."""
        self._leave()
        self.undo_stack.clear()
        self._project, self._path = None, None
        self.opened.emit()
        self.project_changed.emit(None)
        self.state_changed.emit()

    def leave_behind(self) -> None:
        """Write unsaved changes for the next start, which offers them, and give the lock back."""
        self.autosave()
        self._sidecar = None
        self._leave()

    def save(self, *, overwrite: bool = False) -> None:
        """Write the project to its file.

        Raises:
            ChangedOnDiskError: another program changed the file, and ``overwrite`` is False.
            WorkbenchError: the file cannot be written. The open project keeps its changes.
        """
        assert self._project is not None
        assert self._path is not None
        if not overwrite and self._watch.differs():
            raise ChangedOnDiskError(
                failure(
                    f"{self._path.name} was changed by another program after it was opened.",
                    "Overwrite it, or save under another name to keep both.",
                    Place(kind="file", id=str(self._path)),
                    code="project-changed-on-disk",
                ).infos
            )
        store.save(self._project, self._path)
        self._saved()

    def save_as(self, path: Path) -> None:
        """Write the project to another file and use that file from now on.

        Raises:
            ProjectInUseError: another window has that file open.
            WorkbenchError: it cannot be written.
        """
        assert self._project is not None
        path = path.absolute()
        if path.suffix != PROJECT_SUFFIX:
            path = path.with_name(path.name + PROJECT_SUFFIX)
        moved = relocate(OpenProject(self._project, self._folder), path.parent)
        lock = self._lock_for(path)
        lock.take()
        try:
            store.save(moved, path)
        except WorkbenchError:
            if lock is not self._lock:
                lock.release()
            raise
        self._leave(keep=lock)
        self._lock, self._path, self._folder = lock, path, path.parent
        self._sidecar = Sidecar(self._sidecar_file(), path.parent)
        if moved != self._project:
            self.undo_stack.clear()
            self._put(moved)
        self._saved()

    def reload(self) -> None:
        """Reload the file as one undo step.

        Raises:
            WorkbenchError: the file cannot be read. The open project stays unchanged.
        """
        if self._path is None:
            return
        fresh = store.load(self._path)
        self._watch.accept()
        self.apply(f"Reload {self._path.name}", lambda _: fresh)
        self.undo_stack.setClean()

    def keep_ours(self) -> None:
        """Keep the window's version although the file differs."""
        self._watch.accept()
        self.undo_stack.resetClean()

    def recover(self, recovery: Recovery) -> None:
        """Restore unsaved changes; if the same file is open, as one undo step."""
        if self._project is not None and self._path is not None:
            self.apply("Recover unsaved changes", lambda _: recovery.project)
        else:
            self.new(OpenProject(recovery.project, recovery.folder))
        self.autosave()
        recovery.discard()

    def autosave(self) -> None:
        """Write unsaved changes to the autosave file beside the project."""
        self._autosave.stop()
        self._latest_autosave.stop()
        if self._sidecar is None or self._project is None:
            return
        if not self.modified:
            self._sidecar.remove()
            return
        try:
            self._sidecar.write(self._project)
        except WorkbenchError as error:
            if not self._is_unkept:
                self._is_unkept = True
                self.autosave_refused.emit(error)
        else:
            self._is_unkept = False

    def _put(self, project: Project) -> None:
        self._project = project
        self._autosave.start()
        if not self._latest_autosave.isActive():
            self._latest_autosave.start()
        self.project_changed.emit(project)

    def _become(self, opened: OpenProject) -> None:
        # Cleared first: it may tell a changed state, which is that of the former project.
        self.undo_stack.clear()
        self._project, self._path, self._folder = opened.project, opened.path, opened.folder
        self._sidecar = Sidecar(self._sidecar_file(), opened.folder)
        self.opened.emit()
        self.project_changed.emit(opened.project)
        self.state_changed.emit()

    def _sidecar_file(self) -> Path:
        if self._path is not None:
            return beside(self._path, self._recovery, AUTOSAVE_SUFFIX)
        return unsaved_file(self._recovery)

    def _lock_for(self, path: Path) -> ProjectLock:
        if path == self._path and self._lock is not None:
            return self._lock
        return ProjectLock(path, self._recovery)

    def _saved(self) -> None:
        self._read_only = False
        self.undo_stack.setClean()
        self._autosave.stop()
        self._latest_autosave.stop()
        if self._sidecar is not None:
            self._sidecar.remove()
        if self._path is not None:
            self._watch.follow(self._path, text_of(self._path))
        self.state_changed.emit()

    def _leave(self, keep: ProjectLock | None = None) -> None:
        self._autosave.stop()
        self._latest_autosave.stop()
        self._watch.follow(None, None)
        if self._sidecar is not None:
            self._sidecar.remove()
            self._sidecar = None
        if self._lock is not None and self._lock is not keep:
            self._lock.release()
        self._lock = None

    def _offer_recovery(self) -> None:
        if self._read_only or self._sidecar is None or self._project is None:
            return
        for recovery in self._sidecar.left_over(self._project):
            self.recovery_found.emit(recovery)
