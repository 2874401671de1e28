"""Number and list formatting for messages, and TOML and Python of others."""

from __future__ import annotations

import ast
import threading
import tomllib
from typing import Any

import re2

_LONG_NAME = r"""(?:[\pL\pN_"'-]+[ \t]*\.[ \t]*){40}"""

_MAX_VALUES = 100_000


def sentence(text: str) -> str:
    """Return a text with a full stop at its end, unless it has another end of a sentence."""
    text = text.rstrip()
    return text if text.endswith((".", "!", "?", "\u2026")) else f"{text}."


def read_toml(text: str) -> dict[str, Any]:
    """Return the content of a TOML text.

    Raises:
        ValueError: it is no TOML, has more than 100,000 values, or a name of more than 40 parts.
        RecursionError: it is nested too deeply.
    """
    # The reader takes quadratic time for names of many parts, as in a.a.a.a = 1. RE2 searches in
    # linear time, also within one long word.
    if re2.search(_LONG_NAME, text):
        raise tomllib.TOMLDecodeError("a name has more than 40 parts")
    if text.count(",") + text.count("\n") > _MAX_VALUES:
        raise tomllib.TOMLDecodeError(f"it has more than {_MAX_VALUES} values")
    return tomllib.loads(text)


# Python up to 3.11.4 counts the depth of a tree for all threads together: trees that two threads
# make at once end in SystemError (github.com/python/cpython/issues/106905).
_PARSING = threading.Lock()


def parse_python(source: str | bytes) -> ast.Module:
    """Return the tree of a Python file, made by one thread at a time; raises as ``ast.parse``."""
    with _PARSING:
        return ast.parse(source)


def parse_expression(text: str) -> ast.Expression:
    """Return the tree of a Python expression, made by one thread at a time; as ``ast.parse``."""
    with _PARSING:
        return ast.parse(text, mode="eval")


def signed(value: float, digits: int) -> str:
    """Return a change with its sign, e.g. ``+0.35``; 0 has none."""
    text = f"{value:+,.{digits}f}"
    return text.replace("-", "\u2212") if text.strip("+-0.") else text[1:]


def plural(number: int, noun: str) -> str:
    """Return a number with its noun, e.g. ``1 sample`` or ``2,000 operators``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(names: list[str], most: int = 4) -> str:
    """Return some names separated by commas, and the number of further ones."""
    distinct = list(dict.fromkeys(names))
    more = len(distinct) - most
    return ", ".join(distinct[:most]) + (f" and {more} more" if more > 0 else "")


# More digits than any whole number that is asked for; Python refuses more than 4,300.
_MOST_DIGITS = 18


def whole_number(text: str) -> int | None:
    """Return a whole number from 0 in decimal digits; None for other texts and for longer ones."""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None
