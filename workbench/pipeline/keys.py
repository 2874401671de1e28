"""Content digests of input files, cached by path, size, times and inode."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.errors import Place, failure
from workbench.files import (
    State,
    file_digest,
    is_open_to_others,
    make_private_folder,
    read_limited,
    state_of,
    write_file,
)
from workbench.ids import StageId
from workbench.project import sources

if TYPE_CHECKING:
    from pydantic import JsonValue

    from workbench.project.model import DataSource, Project


# A file that changed so recently may change again without another time [ns].
_RECENT_NS = 2_000_000_000
_MAX_MEMORY_BYTES = 64 << 20


class Digests:
    """File digests, cached on disk; a file in an unchanged state reuses the stored digest."""

    def __init__(self, memory: Path | None = None) -> None:
        self._memory = memory
        self._known: dict[str, tuple[State, str]] = {}
        self._changed = False
        if memory is not None and memory.exists() and not _is_foreign(memory):
            try:
                raw = json.loads(read_limited(memory, _MAX_MEMORY_BYTES))
                self._known = {
                    name: ((int(a), int(b), int(c), int(d)), str(digest))
                    for name, ((a, b, c, d), digest) in raw.items()
                }
            except (ValueError, TypeError, AttributeError, OSError, RecursionError, OverflowError):
                self._known = {}

    def of(self, path: Path) -> str:
        """Return the digest of a file.

        Raises:
            WorkbenchError: the file does not exist or cannot be read.
        """
        name = str(path.absolute())
        try:
            state = state_of(path)
            known = self._known.get(name)
            if known and known[0] == state and time.time_ns() - state[2] > _RECENT_NS:
                return known[1]
            digest = file_digest(path)
        except (OSError, ValueError) as error:
            raise failure(
                f"{path.name} cannot be read: {getattr(error, 'strerror', None) or error}.",
                "Correct the path or restore the file.",
                Place(kind="file", id=path.name),
                code="file-unreadable",
            ) from error
        self._changed = self._changed or known != (state, digest)
        self._known[name] = (state, digest)
        return digest

    def state(self, path: Path) -> State:
        """Return the state of a file when its digest was taken."""
        return self._known[str(path.absolute())][0]

    def remember(self) -> None:
        """Write new digests to disk, unless other users can change the folder; write errors are ignored."""
        if self._memory is None or not self._changed or _is_foreign(self._memory):
            return
        try:
            make_private_folder(self._memory.parent)
            write_file(self._memory, json.dumps(self._known).encode(), mode=0o600)
            self._changed = False
        except OSError:
            return


def _is_foreign(memory: Path) -> bool:
    return is_open_to_others(memory) or is_open_to_others(memory.parent)


@dataclass(frozen=True)
class InputFile:
    """A file or folder that decides a result, as it was when the plan was made.

    ``stages`` are those that read it; ``state`` is that of ``state_of``.
    """

    path: str
    state: State
    stages: tuple[StageId, ...]

    @property
    def is_unchanged(self) -> bool:
        """Whether its state is still that of the plan."""
        try:
            return state_of(Path(self.path)) == self.state
        except (OSError, ValueError):
            return False


def _name_in(reference: sources.Reference, path: Path) -> str:
    """Return a file's name; of pictures and labels with its folders, which may be a class."""
    if reference.kind in {"pictures", "labels"} and reference.path is not None:
        return path.relative_to(reference.path).as_posix()
    return path.name


@dataclass(frozen=True)
class Reading:
    """A project, where its relative paths start, and the memory of its files' digests.

    ``seen`` gets the state of every file and folder that was read, by path.
    """

    project: Project
    folder: Path
    digests: Digests
    seen: dict[str, State] = field(default_factory=dict)

    def digest(self, path: Path) -> str:
        """Return the digest of a file.

        Raises:
            WorkbenchError: the file is not there or cannot be read.
        """
        digest = self.digests.of(path)
        self.seen[str(path.absolute())] = self.digests.state(path)
        return digest

    def reference(self, option: str, reference: sources.Reference) -> JsonValue:
        """Return the key of a reference: kind, names, and the digest of every file."""
        del option
        files = [p for p in sources.files_of(reference) if os.path.exists(p) or p == reference.path]
        if reference.kind in {"pictures", "labels"} and reference.path is not None:
            # A file that comes or goes changes the time of its folder.
            for folder in {reference.path, *(p.parent for p in files)}:
                self.seen[str(folder.absolute())] = state_of(folder)
        return {
            "kind": reference.kind,
            "module": reference.module,
            "attribute": reference.attribute,
            "files": [[_name_in(reference, p), self.digest(p)] for p in files],
        }

    def code(self, spec: str | None, option: str) -> JsonValue:
        """Return the key of a callable; None if no callable is given."""
        reference = sources.callable_reference(spec, self.folder, option) if spec else None
        return self.reference(option, reference) if reference else None

    def data(self, data: DataSource | None, option: str) -> JsonValue:
        """Return the key of a data source; None if none is given."""
        if data is None:
            return None
        named = sources.data_references(data, self.folder, option)
        references = {name: self.reference(name, ref) for name, ref in named}
        rest = data.model_dump(mode="json", exclude={"spec", "labels"})
        if data.labels == sources.LABELS_OF_FOLDERS:
            rest["labels"] = data.labels
        return {**rest, "references": list(references.values())}
