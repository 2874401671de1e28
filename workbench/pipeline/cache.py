"""Content-addressed result cache: one folder per key, complete or absent, with a size limit."""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from workbench import system_limits
from workbench.errors import Place, failure
from workbench.files import (
    MAX_TEXT_BYTES,
    file_digest,
    is_open_to_others,
    make_private_folder,
    read_limited,
    write_file,
)
from workbench.installation import CACHE_VARIABLE, cache_folder
from workbench.results import MANIFEST_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_LIMIT_BYTES = 20 << 30
# Study results written within this time [s] may still grow and are not pruned.
_BUSY_S = 600
# Temporary folders of this age [s] have no writer any more.
_STALE_S = 86_400


def default_root() -> Path:
    """Return the cache folder: the environment variable's, or the user's cache folder."""
    return cache_folder()


# What a failing write raises, often without the name of the file.
_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS}


@dataclass(frozen=True)
class Cache:
    """Content-addressed result folders below ``root``."""

    root: Path
    limit_bytes: int = DEFAULT_LIMIT_BYTES

    def folder(self, key: str) -> Path:
        """Return the folder for the result of ``key``, whether it exists or not."""
        return self.root / "results" / key[:2] / key

    def has(self, key: str) -> bool:
        """Return whether a complete result exists: a manifest, and files of the recorded sizes.

        There are none in a folder that other users can change: programs in it run code when they
        are loaded.
        """
        manifest = self._manifest(key)
        if manifest is None or is_open_to_others(self.root):
            return False
        folder = self.folder(key)
        try:
            return all((folder / n).stat().st_size == e["bytes"] for n, e in manifest.items())
        except (OSError, ValueError):  # A name that is no text, or holds a zero byte.
            return False

    def verify(self, key: str) -> bool:
        """Return whether every file matches the digest stored with it.

        A damaged result is removed, so that it is recomputed.
        """
        if is_open_to_others(self.root):
            return False
        manifest = self._manifest(key)
        folder = self.folder(key)
        try:
            if manifest is not None and all(
                file_digest(folder / name) == entry["sha256"] for name, entry in manifest.items()
            ):
                os.utime(folder / MANIFEST_FILE)
                return True
        except (OSError, ValueError):
            pass
        self.remove(key)
        return False

    def remove(self, key: str) -> None:
        """Delete one result."""
        shutil.rmtree(self.folder(key), ignore_errors=True)

    @contextmanager
    def writing(self, key: str) -> Iterator[Path]:
        """Yield a temporary folder; on success it becomes the result of ``key``.

        Raises:
            WorkbenchError: the disk is full or not writable, or other users can change the folder.
        """
        self.refuse_foreign()
        try:
            temporary = self._temporary()
        except OSError as error:
            raise _no_room(self.root, error) from error
        try:
            yield temporary
            self._seal(temporary, key)
        except OSError as error:
            inside = Path(str(error.filename or "")).is_relative_to(temporary)
            if inside or error.errno in _DISK_ERRORS:
                raise _no_room(self.root, error) from error
            raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def refuse_foreign(self) -> None:
        """Refuse to write into a folder that other users can change.

        Raises:
            WorkbenchError: they can.
        """
        if is_open_to_others(self.root):
            raise _open_to_others(self.root)

    def study_folder(self, key: str) -> Path:
        """Return the folder for the results of a study, whether it exists or not."""
        return self.root / "studies" / key

    def statistics_index(self, data: str) -> Path:
        """Return the file that lists the results with statistics of some calibration data."""
        return self.root / "statistics" / f"{data}.json"

    def prune(self) -> int:
        """Remove the least recently used entries until the limit holds; return the remaining bytes.

        The limit covers results, study results and statistics indices. Recent study results are
        kept. Temporary folders of interrupted writers are removed after a day. Times that are ahead
        of the clock were written before it was set back: they count as old.

        Nothing is removed from a folder that other users can change: a link there may lead anywhere.
        """
        if is_open_to_others(self.root):
            return 0
        for stale in (self.root / "partial").glob("*"):
            with suppress(OSError):
                if abs(time.time() - stale.stat().st_mtime) > _STALE_S:
                    shutil.rmtree(stale, ignore_errors=True)
        entries = list(self._entries())
        total = sum(size for _, size, _ in entries)
        for used, size, path in sorted(entries):
            if total <= self.limit_bytes:
                break
            if path.parent.name == "studies" and abs(time.time() - used) < _BUSY_S:
                continue
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
            total -= size
        return total

    def _entries(self) -> Iterator[tuple[float, int, Path]]:
        """Yield the time of last use, size [bytes] and path of every removable entry.

        The time is 0 if it is ahead of the clock.
        """
        latest = time.time() + _BUSY_S
        for used, size, path in self._sizes():
            yield (used if used < latest else 0.0), size, path

    def _sizes(self) -> Iterator[tuple[float, int, Path]]:
        for manifest in (self.root / "results").glob(f"*/*/{MANIFEST_FILE}"):
            with suppress(OSError):
                size = sum(f.stat().st_size for f in manifest.parent.iterdir())
                yield manifest.stat().st_mtime, size, manifest.parent
        for folder in (self.root / "studies").glob("*/"):
            with suppress(OSError):
                files = [file.stat() for file in folder.iterdir()]
                used = max(f.st_mtime for f in (folder.stat(), *files))
                yield used, sum(f.st_size for f in files), folder
        for index in (self.root / "statistics").glob("*.json"):
            with suppress(OSError):
                yield index.stat().st_mtime, index.stat().st_size, index

    def _manifest(self, key: str) -> dict[str, dict[str, int | str]] | None:
        try:
            content = read_limited(self.folder(key) / MANIFEST_FILE, MAX_TEXT_BYTES)
            manifest = json.loads(content)
            return {str(n): {"bytes": e["bytes"], "sha256": e["sha256"]} for n, e in manifest.items()}
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None

    def _temporary(self) -> Path:
        partial = self.root / "partial"
        make_private_folder(partial)
        return Path(tempfile.mkdtemp(dir=partial))

    def _seal(self, temporary: Path, key: str) -> None:
        manifest = {
            file.name: {"bytes": file.stat().st_size, "sha256": file_digest(file)}
            for file in sorted(temporary.iterdir())
        }
        write_file(temporary / MANIFEST_FILE, json.dumps(manifest, indent=1).encode())
        target = self.folder(key)
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and not self.has(key):
            self.remove(key)
        if not target.exists():
            try:
                temporary.rename(target)
            except OSError:
                # Another engine finished the same work first; the results are equal.
                if not self.has(key):
                    raise


def _open_to_others(root: Path) -> Exception:
    return failure(
        f"Other users can change the cache folder {root}.",
        f"Make it yours alone (chmod go-w), or set {CACHE_VARIABLE} to another folder.",
        Place(kind="file", id=str(root)),
        code="cache-open-to-others",
    )


def _no_room(root: Path, error: OSError) -> Exception:
    return failure(
        f"A result could not be written to the cache: {error.strerror or error}.",
        system_limits.remedy(
            f"Free space in {root.name}, or set {CACHE_VARIABLE} to another folder. "
            "Finished stages stay in the cache."
        ),
        code="cache-not-writable",
    )
