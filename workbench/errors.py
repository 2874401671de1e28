"""Errors as data: every problem has a message, a hint, a location and a code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from collections.abc import Iterable

PlaceKind = Literal[
    "project", "file", "module", "node", "tensor", "rule", "stage", "option", "sample", "tool"
]


class Place(BaseModel):
    """The location of a problem; the window navigates to it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: PlaceKind
    id: str

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"


class ErrorInfo(BaseModel):
    """One problem with its hint and location.

    ``code`` names the kind of problem for programs and tests, in kebab case
    (``model-file-missing``). It stays the same when the wording of ``message`` changes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    message: str
    hint: str = ""
    where: Place | None = None
    details: str = ""
    code: str = ""

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        hint = f"\n  {self.hint}" if self.hint else ""
        return f"{place}{self.message}{hint}"


class WorkbenchError(Exception):
    """One or more problems that prevent an operation."""

    def __init__(self, infos: Iterable[ErrorInfo]) -> None:
        self.infos: tuple[ErrorInfo, ...] = tuple(infos)
        super().__init__("\n".join(str(info) for info in self.infos))

    @property
    def codes(self) -> tuple[str, ...]:
        """The code of every problem, in order."""
        return tuple(info.code for info in self.infos)


class TrustRequiredError(WorkbenchError):
    """The project refers to user code that has not been allowed to run.

    ``code`` is that code (``workbench.project.project_code.Code``): what the user is asked about.
    """

    def __init__(self, infos: Iterable[ErrorInfo], code: Any) -> None:
        super().__init__(infos)
        self.code = code


class Cancelled(Exception):
    """The user cancelled the running work."""


def failure(
    message: str, hint: str = "", where: Place | None = None, details: str = "", code: str = ""
) -> WorkbenchError:
    """Return a WorkbenchError with a single problem, ready to be raised."""
    info = ErrorInfo(message=message, hint=hint, where=where, details=details, code=code)
    return WorkbenchError([info])
