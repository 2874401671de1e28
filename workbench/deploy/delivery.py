"""Copies the deliverables of a program to a folder, with the verdict on the program in them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from workbench.deploy.firmware_files import digest
from workbench.errors import Place, failure
from workbench.results import PackageResult, load_result

if TYPE_CHECKING:
    from pathlib import Path

    from workbench.analysis.gate import GateResult
    from workbench.results import Deliverable

_MANIFEST = "manifest.json"
NO_OUTCOME: Mapping[str, Any] = MappingProxyType({})


@dataclass
class _Copies:
    """The files of one delivery; ``changed`` are those that state the verdict."""

    source: Path
    target: Path
    gate: GateResult
    outcome: Mapping[str, Any]
    changed: dict[str, Deliverable]

    def copy(self, file: Deliverable) -> None:
        """Copy a file; a note gets the verdict."""
        if not file.name.endswith((".md", ".html")):
            shutil.copyfile(self.source / file.name, self.target / file.name)
            return
        write = with_verdict if file.name.endswith(".md") else _html_with_verdict
        text = (self.source / file.name).read_text(encoding="utf-8")
        self._write(file, write(text, self.gate).encode())

    def copy_manifest(self, file: Deliverable) -> None:
        """Write the manifest: the verdict first, the notes' digests, and the run's outcome."""
        manifest = json.loads((self.source / file.name).read_bytes())
        for entry in manifest.get("files", ()):
            if (changed := self.changed.get(entry["name"])) is not None:
                entry.update(changed.model_dump())
        outcome = {"outcome": self.outcome} if self.outcome else {}
        named = {"gate": self.gate.model_dump(mode="json"), **manifest, **outcome}
        self._write(file, f"{json.dumps(named, indent=2)}\n".encode())

    def _write(self, file: Deliverable, data: bytes) -> None:
        (self.target / file.name).write_bytes(data)
        update = {"bytes": len(data), "sha256": digest(data)}
        self.changed[file.name] = file.model_copy(update=update)


def deliver(
    source: Path, target: Path, gate: GateResult, outcome: Mapping[str, Any] = NO_OUTCOME
) -> tuple[Deliverable, ...]:
    """Copy the deliverables, and only those; return them as they are in the folder.

    The manifest and the firmware note state the verdict; all other files are copied unchanged.

    Args:
        source: The result of the stage package.
        target: The folder that receives the files; it is made if it is missing.
        gate: The verdict on the program.
        outcome: The figures of the run (``workbench.history.outcomes``), for the manifest.

    Raises:
        WorkbenchError: A file cannot be written, or the result is damaged.
    """
    files = load_result(PackageResult, source).files
    copies = _Copies(source, target, gate, outcome, {})
    try:
        target.mkdir(parents=True, exist_ok=True)
        for file in files:
            if file.name != _MANIFEST:
                copies.copy(file)
        for file in files:
            if file.name == _MANIFEST:
                copies.copy_manifest(file)
    except OSError as error:
        raise failure(
            f"Cannot copy the deliverables: {error.strerror or error}.",
            "They are kept in the cache. Choose another folder.",
            Place(kind="file", id=str(target)),
            code="deliverables-not-copied",
        ) from error
    return tuple(copies.changed.get(file.name, file) for file in files)


def with_verdict(markdown: str, gate: GateResult) -> str:
    """Return a Markdown page with the verdict: on its first line if the program differs."""
    line = f"**Verification: {gate.sentence}**"
    if gate.verdict == "differs":
        return f"{line}\n\n{markdown}"
    heading, _, rest = markdown.partition("\n")
    return f"{heading}\n\n{line}\n{rest}"


def _html_with_verdict(page: str, gate: GateResult) -> str:
    line = f"<p><strong>Verification: {escape(gate.sentence)}</strong></p>"
    if gate.verdict == "differs":
        return page.replace("<body>\n", f"<body>\n{line}\n", 1)
    return page.replace("</h1>\n", f"</h1>\n{line}\n", 1)
