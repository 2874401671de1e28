"""Errors as data: every problem with its place and a hint, all of them at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from collections.abc import Iterable

PlaceKind = Literal[
    "project", "file", "module", "node", "tensor", "rule", "stage", "option", "sample", "tool"
]


class Place(BaseModel):
    """Where a problem is, so that the window can go there."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: PlaceKind
    id: str

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"


class ErrorInfo(BaseModel):
    """One problem: what happened, what to do about it, and where."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    message: str
    hint: str = ""
    where: Place | None = None
    details: str = ""

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        hint = f"\n  {self.hint}" if self.hint else ""
        return f"{place}{self.message}{hint}"


class WorkbenchError(Exception):
    """One or more problems that stop what was asked for."""

    def __init__(self, infos: Iterable[ErrorInfo]) -> None:
        self.infos: tuple[ErrorInfo, ...] = tuple(infos)
        super().__init__("\n".join(str(info) for info in self.infos))


class TrustRequiredError(WorkbenchError):
    """The project names code to run and nobody has said yet that it may."""


class Cancelled(Exception):
    """Somebody asked the running work to stop."""


def failure(
    message: str, hint: str = "", where: Place | None = None, details: str = ""
) -> WorkbenchError:
    """Return a WorkbenchError with a single problem, ready to be raised."""
    return WorkbenchError([ErrorInfo(message=message, hint=hint, where=where, details=details)])
