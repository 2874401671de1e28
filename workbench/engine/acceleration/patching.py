"""Put something else in the place of an attribute, and the original back."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Give ``owner`` the attribute ``value`` under ``name`` while the block runs.

    The original is taken from the owner itself, so that a ``staticmethod`` comes back as one and
    an inherited attribute is uncovered again.
    """
    inherited = object()
    original = vars(owner).get(name, inherited)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if original is inherited:
            delattr(owner, name)
        else:
            setattr(owner, name, original)
