"""Number and list formatting for messages, and TOML of others."""

from __future__ import annotations

import re
import tomllib
from typing import Any

# The reader takes quadratic time for names of many parts, as in a.a.a.a = 1.
_LONG_NAME = re.compile(r"""(?:[\w"'-]+[ \t]*\.[ \t]*){40}""")


def read_toml(text: str) -> dict[str, Any]:
    """Return the content of a TOML text.

    Raises:
        ValueError: it is no TOML, or a name in it has more than 40 parts.
        RecursionError: it is nested too deeply.
    """
    if _LONG_NAME.search(text):
        raise tomllib.TOMLDecodeError("a name has more than 40 parts")
    return tomllib.loads(text)


def plural(number: int, noun: str) -> str:
    """Return a number with its noun, e.g. ``1 sample`` or ``2,000 operators``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(names: list[str], most: int = 4) -> str:
    """Return some names separated by commas, and the number of further ones."""
    distinct = list(dict.fromkeys(names))
    more = len(distinct) - most
    return ", ".join(distinct[:most]) + (f" and {more} more" if more > 0 else "")
