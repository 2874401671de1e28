"""Trust: which code a project would run, and whether somebody has allowed exactly that code."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from workbench.errors import ErrorInfo, Place, TrustRequiredError, WorkbenchError
from workbench.project import sources
from workbench.project.program_archive import archive_risks
from workbench.project.store import write_atomically

if TYPE_CHECKING:
    from workbench.project.model import Project

# The program's own samples are a part of the program; copies of them are asked for like any code.
SAMPLES = Path(__file__).parents[2] / "resources" / "samples"
CONFIG_VARIABLE = "QUANTIZATION_WORKBENCH_CONFIG"


@dataclass(frozen=True)
class CodeUse:
    """One piece of code that the project runs: the option that names it, its files, and why."""

    option: str
    files: tuple[Path, ...]
    why: str


def code_used(project: Project, folder: Path) -> list[CodeUse]:
    """Return all code that a run would execute, but for the program's own samples."""
    uses = []
    for option, reference in sources.references(project, folder):
        files = tuple(p for p in sources.files_of(reference) if p.is_file())
        if files and all(p.resolve().is_relative_to(SAMPLES) for p in files):
            continue
        if reference.runs_code:
            name = reference.module or (reference.path.name if reference.path else "")
            uses.append(CodeUse(option, files, f"runs {name}:{reference.attribute}"))
        elif reference.kind == "program" and reference.path and reference.path.is_file():
            uses.extend(
                CodeUse(option, files, f"{reference.path.name} {risk}")
                for risk in archive_risks(reference.path)
            )
    return uses


def trust_digest(uses: list[CodeUse]) -> str:
    """Return one digest over exactly this code; any change of a file changes it."""
    sha = hashlib.sha256()
    for use in uses:
        sha.update(use.why.encode() + b"\0")
        for path in use.files:
            sha.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return sha.hexdigest()


def config_folder() -> Path:
    """Return the folder of what this user has set; it need not exist."""
    given = os.environ.get(CONFIG_VARIABLE)
    return Path(given) if given else Path(platformdirs.user_config_dir("quantization-workbench"))


def default_store() -> Path:
    """Return where trust is remembered: per user, never inside a project."""
    return config_folder() / "trust.json"


class TrustStore:
    """The digests a user has allowed, each with the project it was asked for."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or default_store()

    def granted(self) -> dict[str, str]:
        """Return all that is trusted: digest to a description."""
        try:
            raw = json.loads(self._path.read_bytes())
            return {str(k): str(v) for k, v in raw.items()}
        except (OSError, ValueError, AttributeError):
            return {}

    def allows(self, uses: list[CodeUse]) -> bool:
        """Return whether nothing has to be asked: no code, or code allowed before."""
        return not uses or trust_digest(uses) in self.granted()

    def grant(self, uses: list[CodeUse], description: str) -> None:
        """Remember that this code may run."""
        self._write({**self.granted(), trust_digest(uses): description})

    def revoke(self, digest: str) -> None:
        """Forget one permission."""
        self._write({k: v for k, v in self.granted().items() if k != digest})

    def _write(self, granted: dict[str, str]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self._path, json.dumps(granted, indent=1).encode())


def demand(project: Project, folder: Path, store: TrustStore) -> None:
    """Return if the project may run.

    Raises:
        TrustRequiredError: it names code that nobody has allowed; every piece is listed.
    """
    try:
        uses = code_used(project, folder)
        allowed = store.allows(uses)
    except WorkbenchError:
        # A spec that means nothing runs nothing; the run itself reports it.
        return
    if allowed:
        return
    raise TrustRequiredError(
        ErrorInfo(
            message=f"Running this project {use.why}.",
            hint="Read the code, then allow it (on the command line: --trust).",
            where=Place(kind="option", id=use.option),
        )
        for use in uses
    )
