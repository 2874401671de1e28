"""torch's reader of tensors without code, with bounded work for what it refuses."""

from __future__ import annotations

import pickle
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch import _weights_only_unpickler

from workbench.engine.toolchain_patches.patching import replaced

_LONGEST_MESSAGE = 1000


class _ShortError(pickle.UnpicklingError):
    """An error whose message is cut.

    Messages contain names and texts of the file, and ``torch.load`` searches in them with patterns
    that take quadratic time: a name of 70,000 letters takes 100 s (torch 2.13,
    ``torch/serialization.py``, ``_get_wo_message``).
    """

    def __init__(self, *arguments: object) -> None:
        super().__init__("".join(map(str, arguments))[:_LONGEST_MESSAGE])


_ENCODINGS = {"latin1", "latin-1", "utf-8", "utf8", "ascii"}


def _encoded(text: str, encoding: str = "utf-8", *_errors: str) -> bytes:
    """Return a text's bytes; some encodings take quadratic time."""
    if not isinstance(text, str) or encoding not in _ENCODINGS:
        raise pickle.UnpicklingError("it has a text in an unusual encoding")
    return text.encode(encoding)


def _byte_array(content: bytes | str = b"", encoding: str = "latin-1") -> bytearray:
    """Return bytes that the pickle contains; a number would be a size of any length."""
    if not isinstance(content, bytes | str):
        raise pickle.UnpicklingError("it has a size in the place of bytes")
    return bytearray(content if isinstance(content, bytes) else _encoded(content, encoding))


def _of_containers(kind: Callable[..., Any]) -> Callable[..., Any]:
    """Return a maker of a container from others; a tensor would give it any number of elements."""

    def make(*items: Any) -> Any:
        for item in items:
            if isinstance(item, torch.Tensor | range | bytes | bytearray | str | int):
                raise pickle.UnpicklingError("it has a container of something else than a list")
        return kind(*items)

    return make


# What pickles of other values than tensors call, in forms that need no more memory than the pickle.
BOUNDED: dict[str, Callable[..., Any]] = {
    "_codecs.encode": _encoded,
    "builtins.bytearray": _byte_array,
    "builtins.set": _of_containers(set),
    "builtins.frozenset": _of_containers(frozenset),
    "collections.Counter": _of_containers(Counter),
    "collections.OrderedDict": _of_containers(OrderedDict),
    "collections.defaultdict": _of_containers(defaultdict),
    "torch.Size": _of_containers(torch.Size),
}


def load_plain(source: Any, *, mmap: bool = False) -> Any:
    """Return the tensors, numbers, texts and containers that ``torch.save`` has written.

    Args:
        source: A path or a binary file.
        mmap: Whether to read the tensors when they are used.

    Raises:
        Exception: the file holds something else, or is damaged; torch raises of every kind.
    """
    allowed = dict(_original_allowed())
    allowed.update({name: kind for name, kind in BOUNDED.items() if name in allowed})
    with (
        replaced(_weights_only_unpickler, "UnpicklingError", _ShortError),
        replaced(_weights_only_unpickler, "_get_allowed_globals", lambda: allowed),
    ):
        return torch.load(source, map_location="cpu", weights_only=True, mmap=mmap)


# The table as it is without the bounded forms.
_original_allowed = _weights_only_unpickler._get_allowed_globals  # noqa: SLF001 - it has no public name
