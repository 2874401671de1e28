"""Lists of numbers as one word of a file: a long list holds up whoever reads it, and all others."""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence
from typing import Any

_BYTES = 8


def packed(kind: str, values: Sequence[float]) -> str:
    """Return numbers as a word; ``kind`` is "d" for float64 or "q" for int64."""
    return base64.b64encode(struct.pack(f"<{len(values)}{kind}", *values)).decode()


def unpacked(kind: str, text: str) -> tuple[Any, ...]:
    """Return the numbers in a word, bit for bit.

    Raises:
        ValueError: it was not made by ``packed``.
    """
    data = base64.b64decode(text, validate=True)
    if len(data) % _BYTES:
        raise ValueError("a list of numbers is cut short")
    return struct.unpack(f"<{len(data) // _BYTES}{kind}", data)
