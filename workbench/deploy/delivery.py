"""Copies the deliverables of a program to a folder, with both answers to it in them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from workbench.deploy.emulation.proofs import proofs_of_package
from workbench.deploy.firmware_files import digest
from workbench.errors import Place, failure, write_remedy
from workbench.escaping import in_markdown
from workbench.files import MAX_PROGRAM_BYTES, read_limited, remove_parts, write_together
from workbench.results import PackageResult, load_result

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from workbench.analysis.answers import Answers
    from workbench.deploy.emulation.proofs import KeptProof
    from workbench.results import Deliverable

_MANIFEST = "manifest.json"
NO_OUTCOME: Mapping[str, Any] = MappingProxyType({})


def deliver(
    source: Path, target: Path, answers: Answers, outcome: Mapping[str, Any] = NO_OUTCOME
) -> tuple[Deliverable, ...]:
    """Copy the deliverables, and only those; return them as they are in the folder.

    The manifest and the firmware note state both answers, and with which firmware this very program
    was proven on the emulated board; all other files are copied unchanged. All
    files are written before the first one appears, the manifest last: after a failure the folder
    is as it was, and a folder with a manifest is complete.

    Args:
        source: The result of the stage package.
        target: The folder that receives the files; it is made if it is missing.
        answers: Whether the program is compiled correctly, and accurate enough.
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
    proofs = proofs_of_package(files)
    changed, contents = _contents(source, files, answers, outcome, proofs)
    try:
        target.mkdir(parents=True, exist_ok=True)
        remove_parts(target)
        write_together({target / name: data for name, data in contents.items()}, 0o644)
    except OSError as error:
        raise failure(
            f"Cannot copy the deliverables: {error.strerror or error}.",
            f"They are kept in the cache. {write_remedy(error, 'Choose another folder.')}",
            Place(kind="file", id=str(target)),
            code="deliverables-not-copied",
        ) from error
    return tuple(changed.get(file.name, file) for file in files)


def stated_files(
    source: Path, answers: Answers, outcome: Mapping[str, Any] = NO_OUTCOME
) -> tuple[tuple[Deliverable, ...], dict[str, bytes]]:
    """Return the deliverables as ``deliver`` makes them, and the bytes of those it changes.

    The arguments and the errors are those of ``deliver``.
    """
    files = load_result(PackageResult, source).files
    changing = [file for file in files if _states(file.name)]
    changed, contents = _contents(source, changing, answers, outcome, proofs_of_package(files))
    return tuple(changed.get(file.name, file) for file in files), contents


def _states(name: str) -> bool:
    """Return whether a file states the answers."""
    return name == _MANIFEST or name.endswith((".md", ".html"))


def _contents(
    source: Path,
    files: Iterable[Deliverable],
    answers: Answers,
    outcome: Mapping[str, Any],
    proofs: Sequence[KeptProof],
) -> tuple[dict[str, Deliverable], dict[str, bytes]]:
    """Return the deliverables that state the verdict, and the bytes of all, the manifest last."""
    changed: dict[str, Deliverable] = {}
    contents: dict[str, bytes] = {}
    for file in sorted(files, key=lambda path: path.name == _MANIFEST):
        if Path(file.name).name != file.name:
            raise _damaged(file.name)
        try:
            data = read_limited(source / file.name, MAX_PROGRAM_BYTES)
        except OSError as error:
            raise _damaged(file.name) from error
        if digest(data) != file.sha256:
            raise _damaged(file.name)
        stated = _with_verdict(file.name, data, answers, proofs)
        if file.name == _MANIFEST:
            stated = _manifest_with_verdict(data, answers, outcome, changed, proofs)
        contents[file.name] = data if stated is None else stated
        if stated is not None:
            update = {"bytes": len(stated), "sha256": digest(stated)}
            changed[file.name] = file.model_copy(update=update)
    return changed, contents


def _with_verdict(name: str, data: bytes, answers: Answers, proofs: Sequence[KeptProof]) -> bytes | None:
    """Return a note with the verdict and the proofs; None for other files."""
    if name.endswith(".md"):
        return _markdown_with_verdict(data.decode(), answers, proofs).encode()
    if name.endswith(".html"):
        return _html_with_verdict(data.decode(), answers, proofs).encode()
    return None


def _manifest_with_verdict(
    data: bytes,
    answers: Answers,
    outcome: Mapping[str, Any],
    changed: Mapping[str, Deliverable],
    proofs: Sequence[KeptProof],
) -> bytes:
    """Return the manifest: answers first, the notes' digests, the run's outcome, and the proofs."""
    manifest = json.loads(data)
    for entry in manifest.get("files", ()):
        if (other := changed.get(entry["name"])) is not None:
            entry.update(other.model_dump())
    parts: dict[str, Any] = {"outcome": dict(outcome)} if outcome else {}
    parts["emulated_board"] = [proof.model_dump(mode="json") for proof in proofs]
    both = {
        "gate": answers.gate.model_dump(mode="json"),
        "accuracy": answers.accuracy.model_dump(mode="json"),
    }
    named = {**both, **manifest, **parts}
    return f"{json.dumps(named, indent=2)}\n".encode()


def _damaged(name: str) -> Exception:
    return failure(
        f"The result of the stage package is damaged: {name}.",
        "Run the stage again to recompute it.",
        Place(kind="file", id=name),
        code="result-damaged",
    )


def _markdown_with_verdict(markdown: str, answers: Answers, proofs: Sequence[KeptProof]) -> str:
    """Return a Markdown page with both answers: on its first lines if the program is refused."""
    lines = "\n\n".join(
        f"**{in_markdown(text)}**" if is_strong else in_markdown(text)
        for text, is_strong in _statements(answers, proofs)
    )
    if answers.refused:
        return f"{lines}\n\n{markdown}"
    heading, _, rest = markdown.partition("\n")
    return f"{heading}\n\n{lines}\n{rest}"


def _html_with_verdict(page: str, answers: Answers, proofs: Sequence[KeptProof]) -> str:
    lines = "\n".join(
        f"<p><strong>{escape(text)}</strong></p>" if is_strong else f"<p>{escape(text)}</p>"
        for text, is_strong in _statements(answers, proofs)
    )
    if answers.refused:
        return page.replace("<body>\n", f"<body>\n{lines}\n")
    return page.replace("</h1>\n", f"</h1>\n{lines}\n")


def _statements(answers: Answers, proofs: Sequence[KeptProof]) -> Iterator[tuple[str, bool]]:
    """Yield what a note says about the program, and whether it is one of the two answers.

    The answer that keeps the program from being delivered comes first.
    """
    gate, accuracy = answers.gate, answers.accuracy
    verification = (f"Verification: compiled program {gate.sentence}", True)
    measured = (f"Accuracy: {accuracy.sentence}", True)
    if accuracy.refused and gate.verdict != "differs":
        yield from (measured, verification)
    else:
        yield from (verification, measured)
    if gate.execution is not None:
        yield gate.execution.sentence, False
    for proof in proofs:
        yield proof.sentence, False
    for part in accuracy.parts:
        if part.sqnr_db is not None:
            yield (
                f"{part.name}: SQNR {part.sqnr_db:.1f} dB of the {part.program} against the float "
                f"model, {part.samples:,} sample{'' if part.samples == 1 else 's'}.",
                False,
            )
