"""The text form of picture preprocessing: ``size=224,mean=0.485/0.456/0.406,layout=rgb``."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from workbench.errors import ErrorInfo, Place, WorkbenchError, failure, invalid_values
from workbench.project.model import Preprocess

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLE = "size=224,mean=0.485/0.456/0.406,std=0.229/0.224/0.225,layout=rgb"


def _size(text: str) -> tuple[int, ...]:
    sizes = tuple(int(part) for part in text.lower().replace("/", "x").split("x"))
    return sizes * 2 if len(sizes) == 1 else sizes


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split("/"))


def _switch(text: str) -> bool:
    if text.lower() not in {"on", "off", "true", "false"}:
        raise ValueError(text)
    return text.lower() in {"on", "true"}


_READERS: dict[str, Callable[[str], Any]] = {
    "size": _size,
    "crop": _size,
    "letterbox": int,
    "mean": _numbers,
    "std": _numbers,
    "scale": float,
    "fold": _switch,
}
_NAMES = tuple(Preprocess.model_fields)


def preprocess_of(text: str, option: str = "preprocess") -> Preprocess:
    """Return the preprocessing that a text describes.

    Args:
        text: ``name=value`` pairs, separated by commas. Sizes are one number or height x width;
            several numbers are separated by slashes. Only ``size`` is required.
        option: The option that problems are located at.

    Raises:
        WorkbenchError: A name is unknown or given twice, or a value is invalid; all at once.
    """
    values: dict[str, Any] = {}
    problems: list[ErrorInfo] = []
    for part in (part.strip() for part in text.split(",") if part.strip()):
        name, is_set, value = (word.strip() for word in part.partition("="))
        reason = _fault(name, is_set, values)
        if not reason:
            try:
                values[name] = _READERS.get(name, str)(value)
            except ValueError:
                reason = f"{value!r} is not a value of {name}."
        if reason:
            problems.append(_problem(reason, option))
    if problems:
        raise WorkbenchError(problems)
    if "size" not in values:
        raise WorkbenchError([_problem("The size is missing.", option)])
    try:
        return Preprocess.model_validate(values)
    except ValidationError as error:
        raise WorkbenchError(
            _problem(f"{value.field}: {value.message}".removeprefix(": "), option)
            for value in invalid_values(error)
        ) from None


def preprocess_text(preprocess: Preprocess) -> str:
    """Return the text form: ``size``, then every value that is not the default."""
    fields = preprocess.model_dump(exclude_defaults=True)
    parts = {}
    for name, value in fields.items():
        if name in {"size", "crop"}:
            parts[name] = "x".join(map(str, value))
        elif isinstance(value, tuple):
            parts[name] = "/".join(f"{part:.9g}" for part in value)
        elif isinstance(value, bool):
            parts[name] = "on" if value else "off"
        else:
            parts[name] = f"{value:.9g}" if isinstance(value, float) else str(value)
    return ",".join(f"{name}={value}" for name, value in parts.items())


def _fault(name: str, is_set: str, values: dict[str, Any]) -> str:
    if not is_set:
        return f"{name!r} is not written as name=value."
    if name in values:
        return f"{name} is given twice."
    if name not in _NAMES:
        close = difflib.get_close_matches(name, _NAMES)
        meant = f" Did you mean {close[0]}?" if close else ""
        return f"{name!r} is not a setting of preprocess.{meant}"
    return ""


def _problem(message: str, option: str) -> ErrorInfo:
    hint = f"Example: {EXAMPLE}. Names: {', '.join(_NAMES)}."
    where = Place(kind="option", id=option)
    return failure(message, hint, where, code="preprocess-invalid").infos[0]
