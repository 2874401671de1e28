"""Copies the deliverables of a program to a folder, with the verdict on the program in them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from workbench.deploy.firmware_files import digest
from workbench.errors import Place, failure
from workbench.escaping import in_markdown
from workbench.files import remove_parts, sync_folder, write_part
from workbench.results import PackageResult, load_result

if TYPE_CHECKING:
    from collections.abc import Iterable

    from workbench.analysis.gate import GateResult
    from workbench.results import Deliverable

_MANIFEST = "manifest.json"
NO_OUTCOME: Mapping[str, Any] = MappingProxyType({})


def deliver(
    source: Path, target: Path, gate: GateResult, outcome: Mapping[str, Any] = NO_OUTCOME
) -> tuple[Deliverable, ...]:
    """Copy the deliverables, and only those; return them as they are in the folder.

    The manifest and the firmware note state the verdict; all other files are copied unchanged. All
    files are written before the first one appears, the manifest last: after a failure the folder
    is as it was, and a folder with a manifest is complete.

    Args:
        source: The result of the stage package.
        target: The folder that receives the files; it is made if it is missing.
        gate: The verdict on the program.
        outcome: The figures of the run (``workbench.history.outcomes``), for the manifest.

    Raises:
        WorkbenchError: A file cannot be written, the folder is a link, or the result is damaged.
    """
    files = load_result(PackageResult, source).files
    if target.is_symlink():
        raise failure(
            f"{target.name} is a link to another folder.",
            "Give the folder that it leads to.",
            Place(kind="file", id=str(target)),
            code="deliverables-folder-linked",
        )
    changed, contents = _contents(source, files, gate, outcome)
    try:
        target.mkdir(parents=True, exist_ok=True)
        remove_parts(target)
        _write_together(target, contents)
    except OSError as error:
        raise failure(
            f"Cannot copy the deliverables: {error.strerror or error}.",
            "They are kept in the cache. Choose another folder.",
            Place(kind="file", id=str(target)),
            code="deliverables-not-copied",
        ) from error
    return tuple(changed.get(file.name, file) for file in files)


def _contents(
    source: Path, files: Iterable[Deliverable], gate: GateResult, outcome: Mapping[str, Any]
) -> tuple[dict[str, Deliverable], dict[str, bytes]]:
    """Return the deliverables that state the verdict, and the bytes of all, the manifest last."""
    changed: dict[str, Deliverable] = {}
    contents: dict[str, bytes] = {}
    for file in sorted(files, key=lambda path: path.name == _MANIFEST):
        try:
            data = (source / file.name).read_bytes()
        except OSError as error:
            raise _damaged(file.name) from error
        if Path(file.name).name != file.name or digest(data) != file.sha256:
            raise _damaged(file.name)
        stated = _with_verdict(file.name, data, gate)
        if file.name == _MANIFEST:
            stated = _manifest_with_verdict(data, gate, outcome, changed)
        contents[file.name] = data if stated is None else stated
        if stated is not None:
            update = {"bytes": len(stated), "sha256": digest(stated)}
            changed[file.name] = file.model_copy(update=update)
    return changed, contents


def _with_verdict(name: str, data: bytes, gate: GateResult) -> bytes | None:
    """Return a note with the verdict; None for other files."""
    if name.endswith(".md"):
        return with_verdict(data.decode(), gate).encode()
    if name.endswith(".html"):
        return _html_with_verdict(data.decode(), gate).encode()
    return None


def _manifest_with_verdict(
    data: bytes, gate: GateResult, outcome: Mapping[str, Any], changed: Mapping[str, Deliverable]
) -> bytes:
    """Return the manifest: the verdict first, the notes' digests, and the run's outcome."""
    manifest = json.loads(data)
    for entry in manifest.get("files", ()):
        if (other := changed.get(entry["name"])) is not None:
            entry.update(other.model_dump())
    parts = {"outcome": dict(outcome)} if outcome else {}
    named = {"gate": gate.model_dump(mode="json"), **manifest, **parts}
    return f"{json.dumps(named, indent=2)}\n".encode()


def _write_together(target: Path, contents: Mapping[str, bytes]) -> None:
    """Write files so that all of them appear, or none."""
    parts: dict[Path, Path] = {}
    saved: dict[Path, Path] = {}
    placed: list[Path] = []
    try:
        for name, data in contents.items():
            parts[target / name] = write_part(target / name, data, 0o644)
        for final, part in reversed(parts.items()):
            # First of all the old manifest goes: what is half replaced has none.
            if final.exists() or final.is_symlink():
                saved[final] = part.with_name(f"{part.name.removesuffix('.part')}-old.part")
                final.rename(saved[final])
        # A loss of power may not reorder what becomes of the old manifest, the files and the new.
        sync_folder(target)
        _place(target, parts, placed)
    except BaseException:
        for final in placed:
            final.unlink(missing_ok=True)
        for final, old in reversed(saved.items()):
            with contextlib.suppress(OSError):
                old.rename(final)
        for part in parts.values():
            part.unlink(missing_ok=True)
        raise
    for old in saved.values():
        with contextlib.suppress(OSError):
            old.unlink()
    sync_folder(target)


def _place(target: Path, parts: Mapping[Path, Path], placed: list[Path]) -> None:
    """Give the files their names, the manifest last; list those that have them."""
    for final, part in parts.items():
        if final.name == _MANIFEST:
            sync_folder(target)
        part.rename(final)
        placed.append(final)


def _damaged(name: str) -> Exception:
    return failure(
        f"The result of the stage package is damaged: {name}.",
        "Run the stage again to recompute it.",
        Place(kind="file", id=name),
        code="result-damaged",
    )


def with_verdict(markdown: str, gate: GateResult) -> str:
    """Return a Markdown page with the verdict: on its first line if the program differs."""
    line = f"**Verification: {in_markdown(gate.sentence)}**"
    if gate.execution is not None:
        line += f"\n\n{in_markdown(gate.execution.sentence)}"
    if gate.verdict == "differs":
        return f"{line}\n\n{markdown}"
    heading, _, rest = markdown.partition("\n")
    return f"{heading}\n\n{line}\n{rest}"


def _html_with_verdict(page: str, gate: GateResult) -> str:
    line = f"<p><strong>Verification: {escape(gate.sentence)}</strong></p>"
    if gate.execution is not None:
        line += f"\n<p>{escape(gate.execution.sentence)}</p>"
    if gate.verdict == "differs":
        return page.replace("<body>\n", f"<body>\n{line}\n")
    return page.replace("</h1>\n", f"</h1>\n{line}\n")
