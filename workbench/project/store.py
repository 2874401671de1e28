"""Project files on disk: versioned JSON, atomic, all problems reported at once."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from workbench.errors import (
    ErrorInfo,
    Place,
    WorkbenchError,
    failure,
    invalid_values,
    not_written,
    reason_of,
    write_remedy,
)
from workbench.files import is_text, locked, read_limited, remove_parts, write_file, write_together
from workbench.project.configs import PRESETS_BY_ID, is_reference, without_origins
from workbench.project.model import PROJECT_VERSION, Project

Raw = dict[str, Any]


def _from_0(raw: Raw) -> Raw:
    """Version 0 stores the device flat; version 1 gives every target its own options."""
    raw = dict(raw)
    if isinstance(target := raw.get("target"), str):
        options = {name: raw.pop(name) for name in ("system_config", "memory_mode") if name in raw}
        raw["target"] = {"id": target, "options": options}
    return raw


def _from_1(raw: Raw) -> Raw:
    """Version 1 stores a range method as its result; version 2 stores the method."""
    return without_origins(raw)


def _from_2(raw: Raw) -> Raw:
    """Version 2 has no boards; projects without a board are unchanged."""
    return raw


def _from_3(raw: Raw) -> Raw:
    """Version 3 has no number formats and patterns; projects without them are unchanged."""
    return raw


def _from_4(raw: Raw) -> Raw:
    """Version 4 has no training; projects without it are unchanged."""
    return raw


def _from_5(raw: Raw) -> Raw:
    """Version 5 has no plug-ins; projects without them are unchanged."""
    return raw


def _from_6(raw: Raw) -> Raw:
    """Version 6 has no text data; projects without it are unchanged."""
    return raw


def _from_7(raw: Raw) -> Raw:
    """Version 7 has no gate; projects without one have the default limits."""
    return raw


def _from_8(raw: Raw) -> Raw:
    """Version 8 has only size, mean and std of pictures; the other settings have defaults."""
    return raw


def _from_9(raw: Raw) -> Raw:
    """Version 9 has no compression; projects without it are unchanged."""
    return raw


MIGRATIONS: dict[int, Callable[[Raw], Raw]] = {
    0: _from_0,
    1: _from_1,
    2: _from_2,
    3: _from_3,
    4: _from_4,
    5: _from_5,
    6: _from_6,
    7: _from_7,
    8: _from_8,
    9: _from_9,
}


def migrate(raw: Raw) -> Raw:
    """Return ``raw`` in the current version; newer and invalid versions are returned unchanged."""
    version = raw.get("version", 0)
    while isinstance(version, int) and version in MIGRATIONS:
        raw = {**MIGRATIONS[version](raw), "version": version + 1}
        version += 1
    return raw


MAX_BYTES = 16 << 20
# Ten thousand rules have half of it; each wrong value takes 2.5 kB until it is told.
_MAX_VALUES = 150_000
_SURROGATE = re.compile("[\ud800-\udfff]")


def load(path: Path) -> Project:
    """Return the project stored at ``path``.

    Raises:
        WorkbenchError: the file is missing, unreadable, broken, too large or from a newer
            version; lists every problem of an invalid file with its location.
    """
    refuse_undecodable(path)
    return parse(_read(path), str(path))


def refuse_undecodable(path: Path) -> None:
    """Refuse a path that is not text: it cannot be sent to an engine or kept in a project.

    Raises:
        WorkbenchError: it holds bytes that are not of the file system's encoding.
    """
    whole = os.path.abspath(path)
    if not is_text(whole):
        shown = whole.encode(errors="backslashreplace").decode()
        raise failure(
            f"{shown} is not a path in {sys.getfilesystemencoding()}.",
            "Rename the folder or file.",
            Place(kind="file", id=shown),
            code="path-not-text",
        )


def parse(text: bytes, origin: str) -> Project:
    """Return the project in ``text``; ``origin`` is its name in messages."""
    place = Place(kind="file", id=origin)
    raw = _decode(text, place)
    version = raw.get("version", 0)
    if not isinstance(version, int) or isinstance(version, bool) or version < 0:
        raise failure(
            f"The version {version!r} is not a whole number from 0.",
            "Restore the file from version control.",
            where=place,
            code="project-version-invalid",
        )
    if version > PROJECT_VERSION:
        raise failure(
            f"The project was written by a newer program (file version {version}; this "
            f"program reads up to {PROJECT_VERSION}).",
            "Update the Quantization Workbench to open it.",
            place,
            code="project-version-newer",
        )
    try:
        project = Project.model_validate(migrate(raw))
    except ValidationError as error:
        raise WorkbenchError(_translate(error)) from None
    if problems := list(_rule_problems(project)):
        raise WorkbenchError(problems)
    return project


def dump(project: Project) -> str:
    """Return the text of a project file, with one value per line for readable diffs."""
    data = project.model_dump(mode="json", exclude_defaults=True)
    return json.dumps({"version": project.version, **data}, indent=2, ensure_ascii=False) + "\n"


def require_folder(path: Path) -> None:
    """Check that there is the folder in which a file is to be written.

    Raises:
        WorkbenchError: there is none; the hint creates it.
    """
    if not os.path.isdir(path.absolute().parent):
        raise failure(
            f"There is no folder {path.parent}.",
            f"Create it first: mkdir -p {shlex.quote(str(path.parent))}",
            Place(kind="file", id=str(path)),
            code="folder-missing",
        )


def save(project: Project, path: Path) -> None:
    """Write the project to ``path`` atomically and sync it to disk.

    Raises:
        WorkbenchError: no permission, no space, no such folder; the old file is unchanged.
    """
    _refuse_read_only(path)
    require_folder(path)
    try:
        write_file(path, dump(project).encode())
    except OSError as error:
        raise failure(
            f"The project could not be saved: {error.strerror or error}.",
            write_remedy(error, "Save it in another folder."),
            Place(kind="file", id=str(path)),
            code="project-not-saved",
        ) from error


def _refuse_read_only(path: Path) -> None:
    if os.path.exists(path) and not is_writable(path):
        raise failure(
            f"{path.name} is read-only.",
            "Save under another name or make the file writable.",
            Place(kind="file", id=str(path)),
            code="project-read-only",
        )


def save_new(project: Project, path: Path, files: Mapping[Path, bytes], *, overwrite: bool = False) -> None:
    """Write a project with the files that it names: all of them, or none.

    Args:
        project: The project.
        path: Its file.
        files: The other files, beside it.
        overwrite: Whether existing files may be replaced.

    Raises:
        WorkbenchError: a file exists or cannot be written.
    """
    there = [file for file in (path, *files) if os.path.exists(file)]
    if there and not overwrite:
        raise failure(
            f"Already exists: {', '.join(file.name for file in there)}.",
            "Choose another name or folder.",
            Place(kind="file", id=str(path)),
            code="file-exists",
        )
    _refuse_read_only(path)
    try:
        write_together({**files, path: dump(project).encode()})
    except OSError as error:
        raise not_written(path.parent, error, code="folder-not-writable") from error


@contextmanager
def editing(path: Path) -> Iterator[None]:
    """Let no other process of the program change a project file until the block ends.

    Raises:
        WorkbenchError: another process is changing it for a long time, or there is no such folder.
    """
    remove_parts(path.absolute().parent)
    with ExitStack() as held:
        try:
            held.enter_context(locked(path))
        except FileNotFoundError:
            # Reading the project reports it.
            pass
        except OSError as error:
            raise failure(
                f"The project cannot be changed: {error.strerror or error}.",
                write_remedy(error, "Another process may be changing it. Try again."),
                Place(kind="file", id=str(path)),
                code="project-busy",
            ) from error
        yield


def edit(path: Path, change: Callable[[Project], Project]) -> Project:
    """Read a project file, change the project and write it, with no other change in between.

    Raises:
        WorkbenchError: the file cannot be read or written, or the change is refused.
    """
    with editing(path):
        project = change(load(path))
        save(project, path)
    return project


def is_writable(path: Path) -> bool:
    """Return whether a file may be changed: by its mode, also for root, and by access."""
    return bool(path.stat().st_mode & 0o222) and os.access(path, os.W_OK)


def _read(path: Path) -> bytes:
    place = Place(kind="file", id=str(path))
    try:
        if os.path.isdir(path):
            raise failure(
                "This is a folder, not a project file.",
                "Choose a .qwb file in it.",
                where=place,
                code="project-is-folder",
            )
        data = read_limited(path, MAX_BYTES)
    except FileNotFoundError:
        raise failure(
            "The project file does not exist.",
            "Correct the path, or create a project (New project, or workbench new).",
            where=place,
            code="project-missing",
        ) from None
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise failure(
                f"The file is larger than {MAX_BYTES >> 20} MiB; a project has a few KiB.",
                "Choose a .qwb file. To start a new project, drop a model file.",
                place,
                code="project-too-large",
            ) from error
        raise failure(
            f"Cannot be read: {error.strerror or error}.",
            "Set the file's permissions, or choose another file.",
            where=place,
            code="project-unreadable",
        ) from error
    return data


def _refuse_many_values(text: bytes, place: Place) -> None:
    if text.count(b",") > _MAX_VALUES:
        raise failure(
            f"The project file has more than {_MAX_VALUES:,} values.",
            "Check that it is a project file.",
            place,
            code="project-too-large",
        )


def _decode(text: bytes, place: Place) -> dict[str, Any]:
    if not text.strip():
        raise failure(
            "The project file is empty.", "Restore it from version control.", place, code="project-empty"
        )
    _refuse_many_values(text, place)
    try:
        raw = json.loads(text.decode())
    except (UnicodeDecodeError, RecursionError):
        raise failure(
            "The file is not JSON text.", "Check that it is a project file.", place, code="project-not-json"
        ) from None
    except json.JSONDecodeError as error:
        raise failure(
            f"Invalid JSON at line {error.lineno}, column {error.colno}: {error.msg}.",
            "The file may be truncated or badly merged.",
            place,
            code="project-json-broken",
        ) from None
    except ValueError as error:
        raise failure(
            f"The file holds a number that is too long: {reason_of(error)}."[:200],
            "Correct the number.",
            place,
            code="project-json-broken",
        ) from None
    if not isinstance(raw, dict):
        raise failure(
            "The JSON file is not a project.", "Choose a .qwb file.", where=place, code="project-not-object"
        )
    if bad := _bad_text(raw):
        raise failure(
            f"The text {bad!r} holds a character that no text may have."[:200],
            "Remove it.",
            place,
            code="project-text-invalid",
        )
    return raw


def _bad_text(value: Any) -> str:
    """Return a text with a null character or a lone surrogate; "" if there is none."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            stack += [*item.keys(), *item.values()]
        elif isinstance(item, list):
            stack += item
        elif isinstance(item, str) and ("\0" in item or _SURROGATE.search(item)):
            return item
    return ""


def _translate(error: ValidationError) -> Iterator[ErrorInfo]:
    for field, message, kind in invalid_values(error):
        where = Place(kind="option", id=field or "project")
        hint = ""
        if kind == "extra_forbidden":
            hint = "Remove the field, or update the program if a newer version wrote it."
        yield ErrorInfo(message=message, hint=hint, where=where, code="project-field-invalid")


def _rule_problems(project: Project) -> Iterator[ErrorInfo]:
    for name, value in project.target.options.items():
        if isinstance(value, dict | list):
            yield ErrorInfo(
                message=f"The option {name[:60]} takes one value, not {type(value).__name__}.",
                hint="Give one value.",
                where=Place(kind="option", id=f"target.options.{name[:60]}"),
                code="target-option-invalid",
            )
    seen: set[str] = set()
    known = {*PRESETS_BY_ID, *project.presets}
    for index, rule in enumerate(project.rules):
        where = Place(kind="option", id=f"rules[{index}]")
        if rule.id in seen:
            yield ErrorInfo(
                message=f"The rule id {rule.id} is used twice.",
                hint="Give each rule an id of its own, or remove one of them.",
                where=where,
                code="rule-id-duplicate",
            )
        seen.add(rule.id)
        named = rule.config if isinstance(rule.config, str) else None
        if named is not None and named not in known and not is_reference(named):
            yield ErrorInfo(
                message=f"Unknown config {rule.config!r}.",
                hint=f"Known: {', '.join(sorted(known))}.",
                where=where,
                code="config-unknown",
            )
        if rule.kind not in {"global", "io", "quantizer"} and not rule.match:
            yield ErrorInfo(
                message=f"A {rule.kind} rule needs a match.",
                hint="Name what it matches, or remove the rule.",
                where=where,
                code="rule-match-missing",
            )
