"""The files of an open project: its lock, its autosave file, and a watch for changes on disk."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QFileSystemWatcher, QLockFile, QObject, QTimer, Signal

from workbench.errors import Place, WorkbenchError, failure, reason_of, write_remedy
from workbench.files import MAX_TEXT_BYTES, make_private_folder, read_limited, write_file
from workbench.operating_system import is_running
from workbench.process_identity import has_ended, is_locked, lock_file, own_name, remove_if_free, unlock_file
from workbench.project import store
from workbench.project.model import Project
from workbench.text import whole_number

AUTOSAVE_SUFFIX = ".autosave"
_RECOVERY_SUFFIX = ".recovery"
_UNSAVED = "unsaved-"
# A lock holds a number and four names [bytes].
_MAX_LOCK_BYTES = 4096
# Crashes in a row whose changes are all kept.
_MAX_RECOVERIES = 9


@dataclass(frozen=True)
class Recovery:
    """Unsaved changes of a former window: the autosave file and its modification time."""

    project: Project
    file: Path
    written: float
    folder: Path

    @property
    def when(self) -> str:
        """Local time of the last change, e.g. ``03 May, 14:20``."""
        return time.strftime("%d %B, %H:%M", time.localtime(self.written))

    def discard(self) -> None:
        """Delete the autosave file."""
        with contextlib.suppress(OSError):
            self.file.unlink(missing_ok=True)
            if self.file.name.startswith(_UNSAVED):
                _mark(self.file).unlink(missing_ok=True)


def text_of(path: Path) -> bytes | None:
    """Return the text of a file; None if it cannot be read."""
    try:
        return read_limited(path, MAX_TEXT_BYTES)
    except OSError:
        return None


def beside(path: Path, recovery: Path, suffix: str) -> Path:
    """Return the path of a companion file of ``path``: beside it, or in the user's folder."""
    if os.access(path.parent, os.W_OK):
        return path.parent / f".{path.name}{suffix}"
    digest = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]
    return recovery / f"{digest}-{path.name}{suffix}"


class Sidecar:
    """The autosave file of one document.

    A file of a former window is renamed, so that the present window cannot overwrite it before
    the user has decided.
    """

    def __init__(self, file: Path, folder: Path) -> None:
        self.file = file
        self._folder = folder
        # Of a project without a file, other windows look whether the writer still runs.
        self._mark = _mark(file) if file.name.startswith(_UNSAVED) else None

    def write(self, project: Project) -> None:
        """Write the project's present value.

        Raises:
            WorkbenchError: it cannot be written; the former value is there.
        """
        text = f"{self._folder}\n{store.dump(project)}"
        try:
            make_private_folder(self.file.parent)
            if self._mark is not None:
                lock_file(self._mark)
            write_file(self.file, os.fsencode(text), mode=0o600)
        except OSError as error:
            raise failure(
                f"Unsaved changes are not kept: {self.file} cannot be written: {reason_of(error)}.",
                write_remedy(error, "Save the project in another folder."),
                Place(kind="file", id=str(self.file)),
                code="autosave-not-written",
            ) from error

    def remove(self) -> None:
        """Delete the autosave file: the changes are saved or discarded."""
        with contextlib.suppress(OSError):
            self.file.unlink(missing_ok=True)
        if self._mark is not None:
            unlock_file(self._mark)

    def left_over(self, saved: Project) -> list[Recovery]:
        """Return the unsaved changes of former windows that differ from ``saved``, newest last.

        Changes of an earlier window stay until the user has decided about them.
        """
        stem = self.file.name.removesuffix(AUTOSAVE_SUFFIX) + _RECOVERY_SUFFIX
        asides = [self.file.with_name(stem)]
        asides += [self.file.with_name(f"{stem}-{number}") for number in range(2, _MAX_RECOVERIES + 1)]
        free = next((aside for aside in asides if not os.path.lexists(aside)), asides[-1])
        with contextlib.suppress(OSError):
            self.file.rename(free)
        files = []
        for aside in asides:
            recovery = recovered(aside)
            if recovery is not None and recovery.project != saved:
                files.append(recovery)
            else:
                with contextlib.suppress(OSError):
                    aside.unlink(missing_ok=True)
        return sorted(files, key=lambda recovery: recovery.written)


def recovered(file: Path) -> Recovery | None:
    """Return the unsaved changes in an autosave file; None for a link or an unreadable file."""
    try:
        if file.is_symlink():
            return None
        folder, _, text = read_limited(file, store.MAX_BYTES).partition(b"\n")
        project = store.parse(text, file.name)
        return Recovery(project, file, file.stat().st_mtime, Path(os.fsdecode(folder)))
    except (OSError, ValueError, WorkbenchError):
        return None


def left_behind(folder: Path) -> list[Recovery]:
    """Return unsaved changes of ended windows whose projects were never saved."""
    files = (recovered(f) for f in sorted(folder.glob(f"{_UNSAVED}*{AUTOSAVE_SUFFIX}")))
    return [r for r in files if r is not None and not _alive(r.file)]


def _alive(file: Path) -> bool:
    """Return whether the window that writes this autosave file still runs."""
    if (held := is_locked(_mark(file))) is not None:
        return held
    # Of an earlier version, or of a folder without locks.
    name = file.name.removeprefix(_UNSAVED).removesuffix(AUTOSAVE_SUFFIX)
    number = whole_number(name)
    return not has_ended(name) if number is None else is_running(number)


def unsaved_file(folder: Path) -> Path:
    """Return the autosave file of this window for a project that was never saved."""
    return folder / f"{_UNSAVED}{own_name()}{AUTOSAVE_SUFFIX}"


def _mark(file: Path) -> Path:
    """Return the file that the writer of an autosave file holds while it runs."""
    return file.with_suffix(".held")


class ProjectInUseError(WorkbenchError):
    """Another window has the project open."""


class ProjectLock:
    """Lock of a project file for one window.

    The lock of a window that was ended is taken over, also where another process has its number
    now: Qt holds the file for the system as long as the window runs.
    """

    def __init__(self, path: Path, recovery: Path) -> None:
        self._path = path
        self._file = beside(path, recovery, ".lock")
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._lock = QLockFile(str(self._file))
        self._lock.setStaleLockTime(0)

    def take(self, *, by_force: bool = False) -> None:
        """Take the lock, if the file system supports locks.

        Raises:
            ProjectInUseError: another running window has the lock, and it is not forced.
            WorkbenchError: what is in the place of the lock was not written by a window.
        """
        if self._lock.isLocked():
            return
        self._refuse_foreign()
        if by_force:
            self._file.unlink(missing_ok=True)
        for attempt in range(2):
            if self._lock.tryLock(0) or self._lock.error() != QLockFile.LockError.LockFailedError:
                return
            if attempt or not remove_if_free(self._file):
                break
        pid, host, _program = self._lock.getLockInfo()
        raise ProjectInUseError(
            failure(
                f"{self._path.name} is open in another window (process {pid} on {host}).",
                "Two windows would overwrite each other's changes.",
                Place(kind="file", id=str(self._path)),
                code="project-locked",
            ).infos
        )

    def _refuse_foreign(self) -> None:
        """Refuse what Qt would wait for or read without end: a pipe, a link to a device, a huge file."""
        try:
            state = self._file.lstat()
        except OSError:
            return
        if stat.S_ISREG(state.st_mode) and state.st_size <= _MAX_LOCK_BYTES:
            return
        raise failure(
            f"{self._file.name} beside the project is not the lock of a window.",
            "Remove it, then open the project again.",
            Place(kind="file", id=str(self._file)),
            code="project-lock-foreign",
        )

    def release(self) -> None:
        """Release the lock."""
        self._lock.unlock()


class DiskWatch(QObject):
    """Reports when a file differs from what the window last read or wrote.

    Signals:
        changed: another program wrote the file.
    """

    changed = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._path: Path | None = None
        self._known: bytes | None = None
        self._watcher = QFileSystemWatcher(self)
        self._watcher.fileChanged.connect(self._on_file_changed)
        self._settle = QTimer(self, interval=150, singleShot=True)
        self._settle.timeout.connect(self.check)

    def follow(self, path: Path | None, known: bytes | None) -> None:
        """Watch ``path``, whose text is ``known``; None stops watching."""
        if watched := self._watcher.files():
            self._watcher.removePaths(watched)
        self._settle.stop()
        self._path, self._known = path, known
        self._watch_again()

    def differs(self) -> bool:
        """Return whether the file differs from the known text."""
        if self._path is None:
            return False
        now = text_of(self._path)
        return now is not None and now != self._known

    def accept(self) -> None:
        """Take the present text of the file as known."""
        if self._path is not None:
            self._known = text_of(self._path)

    def check(self) -> None:
        """Check the file now, and emit ``changed`` if it differs."""
        self._watch_again()
        if self.differs():
            self.changed.emit()

    def _watch_again(self) -> None:
        if self._path is not None and self._path.exists() and not self._watcher.files():
            self._watcher.addPath(str(self._path))

    def _on_file_changed(self) -> None:
        self._settle.start()
