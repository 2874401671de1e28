"""Regular expressions of a project, matched in time that its author does not choose.

RE2 matches in linear time and bounded memory (github.com/google/re2). It knows no look-around and
no backreferences; a short pattern with these is matched by Python, where nothing is repeated but
single characters, so that the work is bounded by a power of the name's length.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import re2

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_LENGTH, _MAX_PYTHON_LENGTH = 2_000, 200
# The longest name that Python's matcher gets, and the most repeats of a pattern for it.
_MAX_NAME, _MAX_REPEATS = 200, 3
# The memory of one pattern [bytes]; 100 times what a usual one takes.
_MAX_MEMORY = 1 << 16
_MAX_CACHED = 2_048
_REPEATS = {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}
_SINGLE = {"LITERAL", "NOT_LITERAL", "ANY", "IN"}


class PatternError(ValueError):
    """A pattern is no regular expression, or may take too long."""


class _Compiled(Protocol):
    def fullmatch(self, text: str) -> object: ...


def fits(pattern: str, name: str) -> bool:
    """Return whether a regular expression matches a full name; an invalid one matches nothing."""
    try:
        compiled = _compiled(pattern)
    except PatternError:
        return False
    if isinstance(compiled, re.Pattern) and len(name) > _MAX_NAME:
        return False
    return compiled.fullmatch(name) is not None


def fault(pattern: str) -> str:
    """Return why a pattern matches nothing, as a sentence; "" for a valid one."""
    try:
        _compiled(pattern)
    except PatternError as error:
        return str(error)
    return ""


@lru_cache(_MAX_CACHED)
def _compiled(pattern: str) -> _Compiled:
    """Return a pattern to match.

    Raises:
        PatternError: it is none, or may take too long.
    """
    if len(pattern) > _MAX_LENGTH:
        raise PatternError(f"It has more than {_MAX_LENGTH} characters.")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    try:
        compiled: _Compiled = re2.compile(pattern, options)
    except re2.error as error:
        return _by_python(pattern, error)
    except UnicodeError as error:
        raise PatternError("It holds a character that no text may have.") from error
    return compiled


def _by_python(pattern: str, refusal: Exception) -> _Compiled:
    """Return a short pattern for Python's matcher, which knows more than RE2.

    Raises:
        PatternError: it is none, or may take too long.
    """
    if len(pattern) > _MAX_PYTHON_LENGTH:
        text = refusal.args[0] if refusal.args else ""
        reason = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
        raise PatternError(f"It cannot be used: {reason}.")
    try:
        compiled = re.compile(pattern)
        tree = re._parser.parse(pattern)  # type: ignore[attr-defined]  # noqa: SLF001
    except (re.error, RecursionError, OverflowError) as error:
        raise PatternError(f"It is no regular expression: {error}.") from error
    repeats = list(_repeats(tree))
    if not all(repeats) or len(repeats) > _MAX_REPEATS:
        raise PatternError(
            "With look-around or backreferences only single characters may be repeated, in at "
            f"most {_MAX_REPEATS} places."
        )
    return compiled


def _repeats(tree: Any) -> Iterator[bool]:
    """Yield for each repeat of a parsed pattern whether it repeats a single character."""
    for operation, argument in tree:
        if str(operation) in _REPEATS:
            yield len(argument[2]) == 1 and str(argument[2][0][0]) in _SINGLE
            yield from _repeats(argument[2])
            continue
        for part in argument if isinstance(argument, tuple) else (argument,):
            if isinstance(part, re._parser.SubPattern):  # type: ignore[attr-defined]  # noqa: SLF001
                yield from _repeats(part)
            elif isinstance(part, list):
                for branch in part:
                    if isinstance(branch, re._parser.SubPattern):  # type: ignore[attr-defined]  # noqa: SLF001
                        yield from _repeats(branch)
