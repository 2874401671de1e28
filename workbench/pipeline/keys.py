"""Content digests of input files, cached by path, size and modification time."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.errors import Place, failure
from workbench.files import file_digest, make_private_folder, write_file
from workbench.ids import StageId
from workbench.project import sources

if TYPE_CHECKING:
    from pydantic import JsonValue

    from workbench.project.model import DataSource, Project


class Digests:
    """File digests, cached on disk; unchanged size and mtime reuse the stored digest."""

    def __init__(self, memory: Path | None = None) -> None:
        self._memory = memory
        self._known: dict[str, tuple[int, int, str]] = {}
        self._changed = False
        if memory is not None and memory.exists():
            try:
                raw = json.loads(memory.read_bytes())
                self._known = {k: (int(s), int(m), str(d)) for k, (s, m, d) in raw.items()}
            except (ValueError, TypeError, AttributeError, OSError):
                self._known = {}

    def of(self, path: Path) -> str:
        """Return the digest of a file.

        Raises:
            WorkbenchError: the file does not exist or cannot be read.
        """
        name = str(path.absolute())
        try:
            stat = path.stat()
            size, mtime = stat.st_size, stat.st_mtime_ns
            known = self._known.get(name)
            if known and known[:2] == (size, mtime):
                return known[2]
            digest = file_digest(path)
        except OSError as error:
            raise failure(
                f"{path.name} cannot be read: {error.strerror or error}.",
                "Correct the path or restore the file.",
                Place(kind="file", id=path.name),
                code="file-unreadable",
            ) from error
        self._known[name] = (size, mtime, digest)
        self._changed = True
        return digest

    def state(self, path: Path) -> tuple[int, int]:
        """Return the size and the time of a file when its digest was taken."""
        return self._known[str(path.absolute())][:2]

    def remember(self) -> None:
        """Write new digests to disk; write errors are ignored."""
        if self._memory is None or not self._changed:
            return
        try:
            make_private_folder(self._memory.parent)
            write_file(self._memory, json.dumps(self._known).encode())
            self._changed = False
        except OSError:
            return


@dataclass(frozen=True)
class InputFile:
    """A file or folder that decides a result, as it was when the plan was made.

    ``stages`` are those that read it; ``size`` is in bytes, ``mtime_ns`` the time of its last
    change.
    """

    path: str
    size: int
    mtime_ns: int
    stages: tuple[StageId, ...]

    @property
    def is_unchanged(self) -> bool:
        """Whether size and time are still those of the plan."""
        try:
            stat = Path(self.path).stat()
        except OSError:
            return False
        return (stat.st_size, stat.st_mtime_ns) == (self.size, self.mtime_ns)


@dataclass(frozen=True)
class Reading:
    """A project, where its relative paths start, and the memory of its files' digests.

    ``seen`` gets the size and the time of every file and folder that was read, by path.
    """

    project: Project
    folder: Path
    digests: Digests
    seen: dict[str, tuple[int, int]] = field(default_factory=dict)

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
        files = [p for p in sources.files_of(reference) if p.exists() or p == reference.path]
        if reference.kind == "pictures" and reference.path is not None:
            # A picture that comes or goes changes the time of its folder.
            for folder in {reference.path, *(p.parent for p in files)}:
                stat = folder.stat()
                self.seen[str(folder.absolute())] = (stat.st_size, stat.st_mtime_ns)
        return {
            "kind": reference.kind,
            "module": reference.module,
            "attribute": reference.attribute,
            "files": [[p.name, self.digest(p)] for p in files],
        }

    def code(self, spec: str | None, option: str) -> JsonValue:
        """Return the key of a callable; None if no callable is given."""
        found = sources.callable_reference(spec, self.folder, option) if spec else None
        return self.reference(option, found) if found else None

    def data(self, data: DataSource | None, option: str) -> JsonValue:
        """Return the key of a data source; None if none is given."""
        if data is None:
            return None
        named = sources.data_references(data, self.folder, option)
        found = {name: self.reference(name, ref) for name, ref in named}
        rest = data.model_dump(mode="json", exclude={"spec", "labels"})
        return {**rest, "references": list(found.values())}
