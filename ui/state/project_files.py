"""The files around an open project: its lock, its autosaved copy, and what others do to it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QFileSystemWatcher, QLockFile, QObject, QTimer, Signal

from workbench.errors import Place, WorkbenchError, failure
from workbench.project import store
from workbench.project.model import Project

AUTOSAVE_SUFFIX = ".autosave"
_KEPT_SUFFIX = ".recovery"


@dataclass(frozen=True)
class Recovery:
    """Work that a former window left unsaved: the file that keeps it, and when it was written."""

    project: Project
    file: Path
    written: float
    folder: Path

    @property
    def when(self) -> str:
        """Local time of the last change, in words."""
        return time.strftime("%d %B, %H:%M", time.localtime(self.written))

    def discard(self) -> None:
        """Forget it."""
        with contextlib.suppress(OSError):
            self.file.unlink(missing_ok=True)


def text_of(path: Path) -> bytes | None:
    """Return what is on the disk; None when it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def beside(path: Path, recovery: Path, suffix: str) -> Path:
    """Return where a companion of ``path`` goes: beside it, or in the user's own folder."""
    if os.access(path.parent, os.W_OK):
        return path.parent / f".{path.name}{suffix}"
    digest = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]
    return recovery / f"{digest}-{path.name}{suffix}"


class Sidecar:
    """The autosaved copy of one document.

    What a former window left is set aside under another name, so that the present one cannot
    write over it before the user has decided.
    """

    def __init__(self, file: Path, folder: Path) -> None:
        self.file = file
        self._folder = folder

    def write(self, project: Project) -> bool:
        """Keep the project's present value; return whether that was possible."""
        text = f"{self._folder}\n{store.dump(project)}"
        partial = self.file.with_name(f"{self.file.name}.part")
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            partial.write_text(text, encoding="utf-8")
            partial.replace(self.file)
        except OSError:
            return False
        return True

    def remove(self) -> None:
        """Forget the copy: the work is saved, or given up on purpose."""
        with contextlib.suppress(OSError):
            self.file.unlink(missing_ok=True)

    def left_over(self, saved: Project) -> Recovery | None:
        """Return what a former window left unsaved, if it differs from what is ``saved``."""
        aside = self.file.with_name(self.file.name.removesuffix(AUTOSAVE_SUFFIX) + _KEPT_SUFFIX)
        with contextlib.suppress(OSError):
            self.file.replace(aside)
        found = recovered(aside)
        if found is not None and found.project != saved:
            return found
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
        return None


def recovered(file: Path) -> Recovery | None:
    """Return the work that an autosaved copy holds; None when there is none that can be read."""
    try:
        folder, _, text = file.read_bytes().partition(b"\n")
        project = store.parse(text, file.name)
        return Recovery(project, file, file.stat().st_mtime, Path(folder.decode()))
    except (OSError, UnicodeDecodeError, WorkbenchError):
        return None


def left_behind(folder: Path) -> list[Recovery]:
    """Return unsaved work of windows that are gone and whose projects never had a file."""
    found = (recovered(f) for f in sorted(folder.glob(f"unsaved-*{AUTOSAVE_SUFFIX}")))
    return [r for r in found if r is not None and not _alive(r.file)]


def _alive(file: Path) -> bool:
    """Return whether the window that writes this copy still runs."""
    number = file.name.removeprefix("unsaved-").removesuffix(AUTOSAVE_SUFFIX)
    if not number.isdecimal():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


class ProjectInUseError(WorkbenchError):
    """Another window has the project open."""


class ProjectLock:
    """One window per project file; a window that died leaves no lock behind."""

    def __init__(self, path: Path, recovery: Path) -> None:
        self._path = path
        self._file = beside(path, recovery, ".lock")
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._lock = QLockFile(str(self._file))
        self._lock.setStaleLockTime(0)

    def take(self, *, by_force: bool = False) -> None:
        """Take the lock, where the disk allows locks at all.

        Raises:
            ProjectInUseError: another living window has it, and it is not taken by force.
        """
        if self._lock.isLocked():
            return
        if by_force:
            self._file.unlink(missing_ok=True)
        if self._lock.tryLock(0) or self._lock.error() != QLockFile.LockError.LockFailedError:
            return
        pid, host, _program = self._lock.getLockInfo()
        raise ProjectInUseError(
            failure(
                f"{self._path.name} is open in another window (process {pid} on {host}).",
                "Two windows on one file overwrite each other's work.",
                Place(kind="file", id=str(self._path)),
                code="project-locked",
            ).infos
        )

    def release(self) -> None:
        """Give the lock back."""
        self._lock.unlock()


class DiskWatch(QObject):
    """Tells when a file is no longer what it was when we read or wrote it.

    Signals:
        changed: somebody else wrote the file.
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
        """Watch ``path``, whose content is ``known``; None watches nothing."""
        if watched := self._watcher.files():
            self._watcher.removePaths(watched)
        self._settle.stop()
        self._path, self._known = path, known
        self._watch_again()

    def differs(self) -> bool:
        """Return whether the file holds something we have not seen."""
        if self._path is None:
            return False
        now = text_of(self._path)
        return now is not None and now != self._known

    def accept(self) -> None:
        """Take what is on the disk now as seen."""
        if self._path is not None:
            self._known = text_of(self._path)

    def check(self) -> None:
        """Look now, and tell if the file differs."""
        self._watch_again()
        if self.differs():
            self.changed.emit()

    def _watch_again(self) -> None:
        if self._path is not None and self._path.exists() and not self._watcher.files():
            self._watcher.addPath(str(self._path))

    def _on_file_changed(self) -> None:
        self._settle.start()
