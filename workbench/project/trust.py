"""Trust: which code the user has allowed to run, by folder and content."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from workbench.errors import ErrorInfo, Place, TrustRequiredError, failure, write_remedy
from workbench.files import locked, make_private_folder, read_limited, write_file
from workbench.installation import config_folder
from workbench.operating_system import IS_WINDOWS, is_own
from workbench.project.opened import OpenProject
from workbench.project.project_code import Code, CodeFolder, read_code

_VERSION = 2
_MAX_BYTES = 16 << 20
# The most files that a question lists as unreadable, for each folder.
_MAX_UNREAD = 10
# Files of a folder whose digests are kept with the permission, and characters of each.
_MAX_DIGESTS = 500
_DIGEST_LENGTH = 16


def default_store() -> Path:
    """Return the file that stores trust: per user, never inside a project."""
    return config_folder() / "trust.json"


@dataclass(frozen=True)
class Grant:
    """A permission: the digest of what may run, and the project it was given for.

    ``files`` are the digests of the files of a folder, to tell later which of them changed; none of
    a folder with many files, or of a permission that was stored without them.
    """

    digest: str
    description: str
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Changes:
    """Files that are not as they were when the code was allowed. Each is a path."""

    changed: tuple[Path, ...] = ()
    added: tuple[Path, ...] = ()
    removed: tuple[Path, ...] = ()


class TrustStore:
    """What the user has allowed: folders, programs and callables, each with one digest.

    The file belongs to the user and is readable by nobody else; a file that others can write
    counts as empty.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or default_store()

    def granted(self) -> dict[str, Grant]:
        """Return all permissions by place."""
        try:
            return self._read()
        except OSError:
            return {}

    def _read(self) -> dict[str, Grant]:
        """Return all permissions; none if the file is missing, foreign or damaged.

        Raises:
            OSError: the file cannot be read now. It must not be replaced.
        """
        try:
            if not self._is_own():
                return {}
            raw = json.loads(read_limited(self._path, _MAX_BYTES))
            if raw["version"] != _VERSION:
                return {}
            return {
                str(entry): Grant(
                    str(given["digest"]), str(given["description"]), dict(given.get("files", {}))
                )
                for entry, given in raw["trusted"].items()
            }
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return {}

    def allows(self, code: Code) -> bool:
        """Return whether the code may run: there is none, or exactly this was allowed before."""
        granted = self.granted()
        return all(
            entry in granted and granted[entry].digest == digest for entry, digest in code.places.items()
        )

    def changes(self, code: Code) -> Changes:
        """Return what became of the files of the code since it was allowed; nothing if it never was."""
        granted = self.granted()
        changed, added, removed = [], [], []
        for folder in code.folders:
            former = granted[str(folder.path)].files if str(folder.path) in granted else {}
            present = _short_digests(folder)
            if former and present:
                both = former.keys() & present.keys()
                changed += [folder.path / name for name in sorted(both) if former[name] != present[name]]
                added += [folder.path / name for name in sorted(present.keys() - former.keys())]
                removed += [folder.path / name for name in sorted(former.keys() - present.keys())]
        return Changes(tuple(changed), tuple(added), tuple(removed))

    def grant(self, code: Code, description: str) -> None:
        """Store the permission to run exactly this code.

        Raises:
            WorkbenchError: the file cannot be written.
        """
        files = {str(folder.path): _short_digests(folder) for folder in code.folders}
        new = {
            entry: Grant(digest, description, files.get(entry, {})) for entry, digest in code.places.items()
        }
        with self._changing() as granted:
            granted.update(new)

    def revoke(self, entry: str) -> None:
        """Remove one permission.

        Raises:
            WorkbenchError: the file cannot be written.
        """
        with self._changing() as granted:
            granted.pop(entry, None)

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Grant]]:
        try:
            make_private_folder(self._path.parent)
            with locked(self._path):
                granted = self._read()
                yield granted
                self._write(granted)
        except OSError as error:
            raise failure(
                f"The list of trusted code cannot be written: {error.strerror or error}.",
                write_remedy(error, f"Make {self._path.parent} writable."),
                Place(kind="file", id=str(self._path)),
                code="trust-not-saved",
            ) from error

    def _write(self, granted: Mapping[str, Grant]) -> None:
        trusted = {entry: asdict(given) for entry, given in granted.items()}
        text = json.dumps({"version": _VERSION, "trusted": trusted}, indent=1)
        write_file(self._path, text.encode(), mode=0o600)

    def _is_own(self) -> bool:
        """Return whether the file is a regular one that only the user can write."""
        state = self._path.lstat()
        is_closed = IS_WINDOWS or not state.st_mode & 0o022
        return stat.S_ISREG(state.st_mode) and is_own(state) and is_closed


def _short_digests(folder: CodeFolder) -> dict[str, str]:
    """Return the digests of a folder's files, shortened; none if there are many."""
    digests = folder.digests if len(folder.files) <= _MAX_DIGESTS else {}
    return {name: digest[:_DIGEST_LENGTH] for name, digest in digests.items()}


def demand(opened: OpenProject, store: TrustStore) -> Code:
    """Return the project's code, which may run; the engine runs exactly this.

    Raises:
        TrustRequiredError: the project refers to code that is not allowed; lists every piece, and
            carries the code, which is what the user is asked about.
        WorkbenchError: the code cannot be shown, because a file that the project names cannot be
            read, or because it is too large.
    """
    code = named_code(opened)
    if store.allows(code):
        return code
    infos = [
        ErrorInfo(
            message=f"Running this project {use.why}.",
            hint=use.instead or "Read the code, then allow it (command line: --trust).",
            where=Place(kind="option", id=use.option),
            code="trust-required",
        )
        for use in code.uses
    ]
    raise TrustRequiredError([*infos, *unread_files(code)], code)


def named_code(opened: OpenProject) -> Code:
    """Return the project's code with every file that the project names.

    Raises:
        WorkbenchError: one of these files cannot be read, or the code is too large.
    """
    code = read_code(opened)
    for read in code.folders:
        for name, reason in read.unread.items():
            if read.path / name in code.named:
                raise failure(
                    f"{name} cannot be read: {reason}.",
                    "Correct the path or restore the file.",
                    Place(kind="file", id=str(read.path / name)),
                    code="file-unreadable",
                )
    return code


def unread_files(code: Code) -> list[ErrorInfo]:
    """Return a note for each file beside the code that cannot be read, and so not be imported."""
    return [
        ErrorInfo(
            message=f"{name} cannot be imported: {reason}.",
            hint="The rest of the code is used without it.",
            where=Place(kind="file", id=str(folder.path / name)),
            code="code-unreadable",
        )
        for folder in code.folders
        for name, reason in list(folder.unread.items())[:_MAX_UNREAD]
    ]
