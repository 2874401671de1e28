"""What a project says, read with the content of the files that it names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.pipeline.digests import Digests
from workbench.project import sources

if TYPE_CHECKING:
    from pydantic import JsonValue

    from workbench.project.model import DataSource, Project


@dataclass(frozen=True)
class Reading:
    """A project, where its relative paths start, and the memory of its files' digests."""

    project: Project
    folder: Path
    digests: Digests

    def reference(self, option: str, reference: sources.Reference) -> JsonValue:
        """Return what a reference means: kind, names, and every file by its content."""
        del option
        files = [p for p in sources.files_of(reference) if p.exists() or p == reference.path]
        return {
            "kind": reference.kind,
            "module": reference.module,
            "attribute": reference.attribute,
            "files": [[p.name, self.digests.of(p)] for p in files],
        }

    def code(self, spec: str | None, option: str) -> JsonValue:
        """Return what a callable means; None where none is named."""
        found = sources.callable_reference(spec, self.folder, option) if spec else None
        return self.reference(option, found) if found else None

    def data(self, data: DataSource | None, option: str) -> JsonValue:
        """Return what samples mean; None where none are named."""
        if data is None:
            return None
        named = sources.data_references(data, self.folder, option)
        found = {name: self.reference(name, ref) for name, ref in named}
        rest = data.model_dump(mode="json", exclude={"spec", "labels"})
        return {**rest, "references": list(found.values())}
