"""Reading and writing of files whose folder, size or kind somebody else may have chosen.

A file appears whole or not at all: it is written beside its target, synced and renamed. A link at
the target is replaced, never followed. Only regular files are read.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import re
import secrets
import stat
import time
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.operating_system import (
    IS_WINDOWS,
    SAFE_FLAGS,
    device_number,
    is_foreign,
    is_own,
    lock,
    open_folder_to_lock,
)
from workbench.process_identity import has_ended, own_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_PART = re.compile(r"\..+\.(?P<process>\d+-[0-9a-f]{8})-[0-9a-f]{12}(-old)?\.part")
# Of processes elsewhere, and of earlier versions of the program.
_OLD_PART = re.compile(r"\..+\.\d+-([0-9a-f]{8}-)?[0-9a-f]{12}(-old)?\.part")
_OLD_S = 86_400
# The largest program or runner that is read as a whole [bytes].
MAX_PROGRAM_BYTES = 2 << 30
# The largest description, list or source that is read as a whole [bytes].
MAX_TEXT_BYTES = 16 << 20
# The largest Python source that is parsed: it becomes 500 times its size [bytes].
MAX_SOURCE_BYTES = 512 << 10
_LOCK_S, _LOCK_POLL_S = 15.0, 0.01
_BLOCK_BYTES = 1 << 18
# A file may have holes of this size, and of more where this part of it is stored.
_MAX_HOLES, _MOST_SPARSE = 4 << 30, 8
# File systems whose files are made when they are read.
_SYSTEM_FILES = {
    b"proc",
    b"sysfs",
    b"debugfs",
    b"tracefs",
    b"securityfs",
    b"cgroup",
    b"cgroup2",
    b"configfs",
    b"pstore",
    b"bpf",
    b"binfmt_misc",
    b"efivarfs",
    b"fusectl",
    b"devpts",
    b"devtmpfs",
    b"mqueue",
    b"selinuxfs",
    b"nsfs",
}
_MAX_MOUNTS = 4 << 20
# The longest name of a file on common file systems [bytes].
_MAX_NAME_BYTES = 255


# Size [bytes], time of the last change of the content and of the entry [ns], and inode: a file of
# other content has another of them, also one of equal size whose time was set back.
State = tuple[int, int, int, int]


def state_of(path: Path) -> State:
    """Return a value that changes when a file or folder changes.

    Raises:
        OSError: it cannot be read.
    """
    entry = path.stat()
    return (entry.st_size, entry.st_mtime_ns, entry.st_ctime_ns, entry.st_ino)


def open_regular(path: Path, *, follow: bool = True) -> io.BufferedReader:
    """Open a regular file to read; a link to one is followed unless ``follow`` is false.

    Raises:
        OSError: it cannot be read, or is a folder, a device, a pipe, a socket, a file of the
            operating system, or almost only holes.
    """
    try:
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)
        descriptor = os.open(path, flags | (0 if follow else getattr(os, "O_NOFOLLOW", 0)))
    except ValueError as error:
        raise OSError(errno.EINVAL, f"the path is invalid ({error})", str(path)) from error
    try:
        _refuse_endless(descriptor, path)
    except BaseException:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def is_text(name: str) -> bool:
    """Return whether a name is text; one that is not in the system's encoding has surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def open_to_append(path: Path) -> int:
    """Open a file of this user to append to it, or make it; return its descriptor.

    Raises:
        OSError: it cannot be written, is a link, a pipe or a device, or belongs to somebody else.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    flags |= SAFE_FLAGS
    descriptor = os.open(path, flags, 0o600)
    state = os.fstat(descriptor)
    is_shared = not IS_WINDOWS and state.st_nlink != 1
    if not stat.S_ISREG(state.st_mode) or not is_own(state) or is_shared:
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file of this user", str(path))
    return descriptor


def open_log(path: Path) -> io.FileIO:
    """Open a file to write a log from its beginning, unbuffered; a link is replaced.

    Raises:
        OSError: it cannot be written.
    """
    if path.is_symlink():
        path.unlink()
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
    return io.FileIO(os.open(path, flags, 0o666), "wb")


def read_limited(path: Path, limit: int, *, follow: bool = True) -> bytes:
    """Return the content of a regular file of at most ``limit`` bytes.

    A link to one is followed unless ``follow`` is false.

    Raises:
        OSError: it cannot be read, is not regular, or is larger.
    """
    with open_regular(path, follow=follow) as file:
        size = os.fstat(file.fileno()).st_size
        is_larger = size > limit
        # A buffer of the limit's size for each small file would leave holes in the heap.
        data = b"" if is_larger else file.read(size + 1)
        if len(data) > size:
            data += file.read(limit + 1 - len(data))
    if is_larger or len(data) > limit:
        raise OSError(errno.EFBIG, f"it is larger than {limit} bytes", str(path))
    return data


# Called while long files are read for their digests, see ``watching_digests``.
DigestWatch = Callable[[Path, int, int], None]
_digest_watch: ContextVar[DigestWatch | None] = ContextVar("digest watch", default=None)
# How many bytes are read between two calls.
_WATCHED_BYTES = 32 << 20


@contextlib.contextmanager
def watching_digests(watch: DigestWatch) -> Iterator[None]:
    """Call ``watch`` with file, bytes read and size while this thread digests large files.

    What it raises, e.g. ``Cancelled``, ends the digest.
    """
    token = _digest_watch.set(watch)
    try:
        yield
    finally:
        _digest_watch.reset(token)


def file_digest(path: Path, limit: int | None = None) -> str:
    """Return the sha256 of a regular file, in hex.

    Args:
        path: The file.
        limit: The most bytes that are read; None for no limit.

    Raises:
        OSError: the file cannot be read, or is larger.
    """
    with open_regular(path) as file:
        sha, total = hashlib.sha256(), 0
        buffer = memoryview(bytearray(_BLOCK_BYTES))
        watch, size_of_file = _digest_watch.get(), os.fstat(file.fileno()).st_size
        while size := file.readinto(buffer):
            if watch is not None and total // _WATCHED_BYTES != (total + size) // _WATCHED_BYTES:
                watch(path, total + size, size_of_file)
            total += size
            if limit is not None and total > limit:
                raise OSError(errno.EFBIG, f"it is larger than {limit} bytes", str(path))
            sha.update(buffer[:size])
        if watch is not None and total >= _WATCHED_BYTES:
            watch(path, total, total)
        return sha.hexdigest()


def make_private_folder(folder: Path) -> None:
    """Make a folder that only the user can read, with its parents; one that exists stays as it is.

    Raises:
        OSError: it cannot be made.
    """
    for missing in [p for p in (*reversed(folder.parents), folder) if not p.exists()]:
        missing.mkdir(mode=0o700, exist_ok=True)


def make_output_folder(folder: Path) -> None:
    """Make a folder for output, with its parents; one that exists stays as it is.

    Raises:
        OSError: it cannot be made, or is a link: files would be written elsewhere.
    """
    if folder.is_symlink():
        raise OSError(errno.ELOOP, f"{folder.name} is a link to another folder", str(folder))
    folder.mkdir(parents=True, exist_ok=True)


def is_open_to_others(path: Path) -> bool:
    """Return whether another user can change a file or the names in a folder.

    That is so if everybody may write to it, or if it belongs to another user than root. For root,
    the owner does not count.
    """
    if IS_WINDOWS:
        return False
    try:
        state = path.stat()
    except OSError:
        return False
    return is_foreign(state) or bool(state.st_mode & stat.S_IWOTH)


def write_file(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Write a file so that a crash or a full disk leaves the old file or the new one.

    Args:
        path: The target. A link is replaced by a file.
        data: The whole content.
        mode: Permissions; by default those of the old file, or those of a new file.

    Raises:
        OSError: it cannot be written; the old file is unchanged, and nothing is left behind.
    """
    try:
        old = path.lstat().st_mode
    except FileNotFoundError:
        old = None
    except ValueError as error:
        raise OSError(errno.EINVAL, f"the path is invalid ({error})", str(path)) from error
    if old is not None and stat.S_ISDIR(old):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    if mode is None and old is not None and stat.S_ISREG(old):
        mode = stat.S_IMODE(old)
    part = write_part(path, data, mode)
    try:
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_part(path: Path, data: bytes, mode: int | None) -> Path:
    """Write and sync the temporary file of a target; return its path, beside the target.

    ``mode`` are its permissions; None are those that the system gives to a new file.

    Raises:
        OSError: it cannot be written; nothing is left behind.
    """
    if len(path.name.encode(errors="surrogateescape")) > _MAX_NAME_BYTES:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), str(path))
    part = path.with_name(f".{path.name[:40]}.{own_name()}-{secrets.token_hex(6)}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(part, flags, 0o666 if mode is None else 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            part.chmod(mode)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return part


def write_together(contents: Mapping[Path, bytes], mode: int | None = None) -> None:
    """Write files of one folder so that all of them appear, or none; the last appears when the others have.

    Args:
        contents: The whole content of each; a link is replaced by a file.
        mode: Their permissions; by default those of a new file.

    Raises:
        OSError: one cannot be written; the old files are there, and nothing is left behind.
    """
    *_, last = contents
    parts: dict[Path, Path] = {}
    saved: dict[Path, Path] = {}
    placed: list[Path] = []
    try:
        for final, data in contents.items():
            if final.is_dir() and not final.is_symlink():
                raise IsADirectoryError(errno.EISDIR, "it is a folder", str(final))
            parts[final] = write_part(final, data, mode)
        for final, part in reversed(parts.items()):
            # First of all the old last file goes: what is half replaced has none.
            if final.exists() or final.is_symlink():
                saved[final] = part.with_name(f"{part.name.removesuffix('.part')}-old.part")
                final.rename(saved[final])
        # A loss of power may not reorder what becomes of the old last file, the others and the new.
        sync_folder(last.parent)
        for final, part in parts.items():
            if final == last:
                sync_folder(last.parent)
            part.rename(final)
            placed.append(final)
    except BaseException:
        _take_back(parts, saved, placed)
        raise
    for old in saved.values():
        with contextlib.suppress(OSError):
            old.unlink()
    sync_folder(last.parent)


def _take_back(parts: Mapping[Path, Path], saved: dict[Path, Path], placed: Sequence[Path]) -> None:
    """Remove the new files, and give the old ones their names again, the last one last."""
    for final in placed:
        final.unlink(missing_ok=True)
    for final, old in reversed(saved.items()):
        with contextlib.suppress(OSError):
            old.rename(final)
    for part in parts.values():
        part.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Sync a folder to disk, so that renames in it survive a loss of power."""
    if IS_WINDOWS:
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        # Some network file systems refuse to sync a folder; the file itself is synced.
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file's folder, so that processes change the file one after the other.

    A process that ends releases the lock. File systems without locks are not locked.

    Raises:
        OSError: another process holds the lock for a long time, or the folder does not exist.
    """
    descriptor = open_folder_to_lock(path.absolute().parent)
    try:
        deadline = time.monotonic() + _LOCK_S
        while True:
            try:
                lock(descriptor)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    held = "another process has kept the lock of the folder"
                    raise BlockingIOError(errno.EAGAIN, held, str(path)) from None
                time.sleep(_LOCK_POLL_S)
                continue
            except OSError as error:
                if error.errno not in {errno.ENOTSUP, errno.ENOLCK, errno.ENOSYS, errno.EINVAL}:
                    raise
            break
        yield
    finally:
        os.close(descriptor)


def remove_parts(folder: Path) -> None:
    """Remove temporary files of processes that have ended; errors are ignored."""
    for part in _parts(folder):
        with contextlib.suppress(OSError):
            part.unlink()


def _parts(folder: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            match = _PART.fullmatch(entry.name)
            if (match and has_ended(match["process"])) or (
                _OLD_PART.fullmatch(entry.name) and _is_old(entry)
            ):
                yield Path(entry.path)


def _is_old(entry: os.DirEntry[str]) -> bool:
    """Return whether nobody has written a file for a day; the clock may have been set back."""
    return abs(time.time() - entry.stat(follow_symlinks=False).st_mtime) > _OLD_S


def _refuse_endless(descriptor: int, path: Path) -> None:
    """Refuse a regular file that is none: one of the system's, or one that is almost only holes.

    Files of ``/proc`` and ``/sys`` take no blocks and may never end; a file of terabytes may take
    none either.

    Raises:
        OSError: it is such a file.
    """
    state = os.fstat(descriptor)
    if not stat.S_ISREG(state.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    held = getattr(state, "st_blocks", None)
    if held is None:
        return
    if held == 0 and state.st_dev in _system_devices():
        raise OSError(errno.EINVAL, "it is a file of the operating system", str(path))
    if state.st_size - held * 512 > _MAX_HOLES and state.st_size > _MOST_SPARSE * held * 512:
        text = f"it has {state.st_size >> 30} GiB, of which almost nothing is stored"
        raise OSError(errno.EINVAL, text, str(path))


def _system_devices() -> set[int]:
    """Return the devices of file systems that hold no files, such as that of /proc."""
    devices = set()
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            lines = file.read(_MAX_MOUNTS).split(b"\n")
    except OSError:
        return set()
    for line in lines:
        mount, _, source = line.partition(b" - ")
        fields = mount.split()
        if len(fields) > 2 and source.split()[:1] and source.split()[0] in _SYSTEM_FILES:
            major, _, minor = fields[2].partition(b":")
            devices.add(device_number(int(major), int(minor)))
    return devices
