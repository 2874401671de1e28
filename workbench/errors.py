"""Errors as data: every problem has a message, a hint, a location and a code."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, field_validator

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from pydantic import ValidationError

PlaceKind = Literal[
    "project", "file", "module", "node", "tensor", "rule", "stage", "option", "sample", "tool", "line"
]


def reason_of(error: BaseException) -> str:
    """Return what an error says, without the number and the path that an error of the system has.

    The remedy of Python for numbers of too many digits is one for programmers.
    """
    text = error.strerror if isinstance(error, OSError) else None
    return (text or str(error) or type(error).__name__).partition("; use sys.set_int_max_str_digits")[0]


class Place(BaseModel):
    """The location of a problem; the window navigates to it.

    The ``id`` of a "line" is a file and the number of a line of it: ``/folder/net.py:12``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: PlaceKind
    id: str

    @field_validator("id", mode="before")
    @classmethod
    def _is_text(cls, name: object) -> object:
        # The name of a file may hold bytes that are no text.
        return name.encode(errors="backslashreplace").decode() if isinstance(name, str) else name

    @property
    def file_and_line(self) -> tuple[str, int]:
        """The file and the number of a "line"."""
        file, _, number = self.id.rpartition(":")
        return file, int(number)

    def __str__(self) -> str:
        return self.id if self.kind == "line" else f"{self.kind} {self.id}"


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

    @field_validator("message", "hint", "details", mode="before")
    @classmethod
    def _is_text(cls, text: object) -> object:
        return text.encode(errors="backslashreplace").decode() if isinstance(text, str) else text

    def __str__(self) -> str:
        prefix = f"{self.where}: " if self.where else ""
        hint = f"\n{self.hint}" if self.hint else ""
        # Names of files may have line ends: no line of a name looks like a message of its own.
        return f"{prefix}{self.message}{hint}".replace("\n", "\n  ")


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


# What helps where the system refuses, by the number of its error.
SYSTEM_REMEDIES = {
    errno.EMFILE: "Raise the number of open files (ulimit -n).",
    errno.ENFILE: "Too many files are open on this system.",
    errno.ENOMEM: "Close other programs, or raise the limit of memory (ulimit -v).",
    errno.EAGAIN: "Raise the number of processes (ulimit -u), or the limit of memory.",
    errno.ENOSPC: "Free some space on the disk.",
    errno.EDQUOT: "Free some space in your quota.",
    errno.EFBIG: "Raise the largest size of a file (ulimit -f).",
}


def write_remedy(error: Exception, otherwise: str) -> str:
    """Return what helps where a file could not be locked or written: ``otherwise`` without a known cause."""
    if isinstance(error, BlockingIOError):
        return "Wait for the other process or end it, in this system or a container; then try again."
    return SYSTEM_REMEDIES.get(error.errno or 0, otherwise) if isinstance(error, OSError) else otherwise


# How Python says that it can write into none of the folders for temporary files.
_NO_TEMPORARY = "No usable temporary directory"


def refused_by_system(error: BaseException) -> ErrorInfo | None:
    """Return the problem where the system refuses for want of something; None for other errors."""
    if isinstance(error, FileNotFoundError) and _NO_TEMPORARY in reason_of(error):
        return ErrorInfo(
            message="No folder for temporary files can be written.",
            hint="Free some space on its disk, or set TMPDIR to another folder.",
            code="temporary-folder-missing",
        )
    if not isinstance(error, OSError) or error.errno not in SYSTEM_REMEDIES:
        return None
    where = Place(kind="file", id=error.filename) if isinstance(error.filename, str) else None
    return ErrorInfo(
        message=f"The system refuses: {error.strerror}.",
        hint=SYSTEM_REMEDIES[error.errno],
        where=where,
        code="system-limit",
    )


def not_written(
    path: Path, error: OSError, otherwise: str = "Choose another folder.", code: str = "file-not-writable"
) -> WorkbenchError:
    """Return the problem of a file or folder that cannot be written; ``otherwise`` as ``write_remedy``."""
    return failure(
        f"{path} cannot be written: {reason_of(error)}.",
        write_remedy(error, otherwise),
        Place(kind="file", id=str(path)),
        code=code,
    )


class InvalidValue(NamedTuple):
    """A value that a data class does not take.

    Attributes:
        field: Where it is, e.g. ``rules[2].match``; "" for the whole value.
        message: What is wrong, as a sentence that does not repeat the field.
        kind: Pydantic's type of the error, e.g. ``missing``.
    """

    field: str
    message: str
    kind: str


_OBJECT, _LIST, _WHOLE = "an object", "a list", "a whole number"
_NUMBER, _TRUTH = "a number", "true or false"
# What a value must be, by pydantic's type of the error.
_ASKED = {
    "dict_type": _OBJECT,
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    "list_type": _LIST,
    "tuple_type": _LIST,
    "frozen_set_type": _LIST,
    "set_type": _LIST,
    "string_type": "text",
    "bool_type": _TRUTH,
    "bool_parsing": _TRUTH,
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_from_float": _WHOLE,
    "int_parsing_size": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": "a finite number",
}
_LONGEST_VALUE = 40


def invalid_values(error: ValidationError) -> Iterator[InvalidValue]:
    """Yield the values that pydantic refused, each with a sentence for the user."""
    for fault in error.errors(include_url=False):
        parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in fault["loc"]]
        message = _sentence(fault["type"], fault["msg"], fault["input"])
        yield InvalidValue("".join(parts).lstrip("."), message, fault["type"])


def _sentence(kind: str, message: str, value: object) -> str:
    if kind == "missing":
        return "The value is missing."
    if kind == "extra_forbidden":
        return "There is no such field."
    if kind in _ASKED:
        message = f"must be {_ASKED[kind]}"
    elif message.startswith("Input should be "):
        message = f"must be {message.removeprefix('Input should be ')}"
    else:
        own = message.removeprefix("Value error, ").rstrip(".")
        return f"{own[:1].upper()}{own[1:]}."
    given = repr(value) if isinstance(value, str | int | float) else ""
    is_short = 0 < len(given) <= _LONGEST_VALUE
    return f"{given if is_short else 'The value'} {message}."
