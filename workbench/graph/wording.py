"""Names as a drawing writes them: short, elided, with their width estimated without fonts."""

from __future__ import annotations

import unicodedata

_OVERLOADS = frozenset({"default", "Tensor", "Scalar", "out", "int", "dim", "self", "dim_IntList"})
LONGEST = 34
ELLIPSIS = "…"


def operator_name(op: str) -> str:
    """Return ``conv2d`` for ``aten.conv2d.default``; other names as they are."""
    parts = op.split(".")
    return parts[1] if len(parts) >= 3 or (len(parts) == 2 and parts[1] not in _OVERLOADS) else op


def type_label(type_name: str) -> str:
    """Return ``Conv2d`` for ``torch.nn.modules.conv.Conv2d``."""
    return type_name.rpartition(".")[2]


def dtype_label(dtype: str) -> str:
    """Return ``f32`` for ``float32`` and ``i8`` for ``int8``."""
    for name, short in (("bfloat", "bf"), ("float", "f"), ("uint", "u"), ("int", "i")):
        if dtype.startswith(name):
            return short + dtype[len(name) :]
    return dtype


def elide(text: str, longest: int = LONGEST) -> str:
    """Shorten a long name in its middle, where names differ least."""
    text = " ".join(text[: 4 * longest].split()) if len(text) > longest else text
    if len(text) <= longest:
        return text
    head = longest // 2
    return text[:head] + ELLIPSIS + text[head - longest + 1 :]


def text_width(text: str, size: float = 12.0) -> float:
    """Estimate the width of a text [px] in a proportional font of ``size`` px.

    The same on every machine, so that a layout is the same too; views elide what does not fit.
    """
    if text.isascii():
        return len(text) * size * 0.58
    wide = sum(1 for char in text if unicodedata.east_asian_width(char) in "WF")
    return (len(text) - wide) * size * 0.58 + wide * size * 1.05
