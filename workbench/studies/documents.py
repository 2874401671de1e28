"""Storage of study results: one document per study, written atomically."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, TypeVar

from pydantic import ValidationError

from workbench.errors import not_written
from workbench.files import is_open_to_others, read_limited, remove_parts, write_file
from workbench.ids import StudyId
from workbench.pipeline.plan import Plan, part_inputs, plan
from workbench.project.frozen import Frozen
from workbench.project.model import RuleKind
from workbench.project.opened import OpenProject
from workbench.studies import STUDIES_BY_ID

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pydantic import JsonValue

    from workbench.pipeline.cache import Cache


DOCUMENT_FILE = "study.json"
_MAX_BYTES = 32 << 20
Document = TypeVar("Document", bound=Frozen)


def study_key(
    study_id: StudyId,
    opened: OpenProject,
    cache: Cache,
    options: Mapping[str, JsonValue],
    planned: Plan | None = None,
) -> str:
    """Return the key under which a study's findings are kept.

    ``planned`` is the project's plan where it is known; else it is made.

    Options that only say how far to go, such as a number of trials, are no part of it.

    Raises:
        WorkbenchError: a file of the project is missing.
    """
    study = STUDIES_BY_ID[study_id]
    planned = planned or plan(opened, cache)
    content = {
        "study": study.id,
        "version": study.version,
        "after": planned.key(study.needs),
        "reads": {name: part_inputs(opened, cache, name) for name in study.reads},
        "options": {name: options[name] for name in sorted(options) if name not in FAR},
        "tools": dict(planned.tools),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


FAR = frozenset(
    {
        "samples",
        "trials",
        "workers",
        "accuracy",
        "cycles",
        "sram",
        "cpu",
        "targets",
        "axes",
        "scheduler",
        "epochs",
        "patience",
    }
)


def study_folder(cache: Cache, key: str) -> Path:
    """Return the folder of a study."""
    return cache.study_folder(key)


def is_foreign(folder: Path) -> bool:
    """Return whether other users can change the folder of a study, that of all studies, or the cache."""
    return any(map(is_open_to_others, (folder, folder.parent, folder.parent.parent)))


def load_study(kind: type[Document], folder: Path) -> Document | None:
    """Return the results of a study so far.

    None if there are none, they are unreadable, or other users can change them.
    """
    if is_foreign(folder):
        return None
    try:
        return kind.model_validate_json(read_limited(folder / DOCUMENT_FILE, _MAX_BYTES))
    except (OSError, ValidationError):
        return None


def save_study(document: Frozen, folder: Path) -> None:
    """Write the results of a study atomically.

    Raises:
        WorkbenchError: they cannot be written; those that were written before are there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        remove_parts(folder)
        write_file(folder / DOCUMENT_FILE, document.model_dump_json().encode())
    except OSError as error:
        otherwise = "Make the folder writable. What was written before is kept."
        raise not_written(folder / DOCUMENT_FILE, error, otherwise, "study-not-written") from error


class Culprit(Frozen):
    """A module or node that the compiler rejects; a rule can keep it off the NPU."""

    kind: RuleKind
    match: str


class Blame(Frozen):
    """The result of blame; ``reason`` is the compiler's first error, "" if it succeeds.

    ``culprits`` is complete when ``is_done``; ``compilations`` counts the attempts.
    """

    reason: str
    culprits: tuple[Culprit, ...] = ()
    compilations: int = 0
    is_done: bool = False
