"""Put something else in the place of an attribute, and check what it was written for.

Patches that copy the work of a private function pin the digest of its source: where the function
has another source, the patch is not applied.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import logging
import textwrap
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOGGER = logging.getLogger(__name__)

_DIGEST_CHARACTERS = 16


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


def digest(path: str) -> str:
    """Return the digest of the source of a function; "none" if it does not exist.

    Args:
        path: ``module:Class.function``.
    """
    module, _, names = path.partition(":")
    try:
        owner: Any = importlib.import_module(module)
        for name in names.split("."):
            owner = inspect.getattr_static(owner, name)
        owner = owner.fget if isinstance(owner, property) else getattr(owner, "__func__", owner)
        source = textwrap.dedent(inspect.getsource(inspect.unwrap(owner)))
    except (ImportError, AttributeError, OSError, TypeError):
        return "none"
    return hashlib.sha256(source.encode()).hexdigest()[:_DIGEST_CHARACTERS]


@cache
def changed(pins: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """Return the paths among ``pins`` whose source no longer has the pinned digest."""
    return tuple(path for path, expected in pins if digest(path) != expected)


def hold(title: str, pins: tuple[tuple[str, str], ...]) -> bool:
    """Return whether every pinned function has its source; log one line if one has not.

    Args:
        title: What is left out if they do not hold, for the line in the log.
        pins: Pairs of a function's path and the digest of its source.
    """
    different = changed(pins)
    if different:
        _LOGGER.warning("%s is off: other source in %s.", title, ", ".join(different))
    return not different
