"""What a patch is made of, how it replaces an attribute, and what source it was written for.

Patches that copy the work of a private function pin the digest of its code: where the function
has other code, the patch is not applied.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import logging
import textwrap
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from workbench.toolchain_versions import PROVEN

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOGGER = logging.getLogger(__name__)

_DIGEST_CHARACTERS = 16


# acceleration: the same result in less time. correction: another result than stock, where stock
# has a defect. interception: reads what the toolchain computes and does not return.
# interpreter: a setting of Python itself.
Kind = Literal["acceleration", "correction", "interception", "interpreter"]

# What happens with other versions than the proven ones. stock: the patch is not applied.
# error: it is applied while its attributes exist; the program ends with a sentence if not.
OnMismatch = Literal["stock", "error"]

Apply = Callable[[], AbstractContextManager[None]]
# Paths of functions, ``module:Class.function``, or classes, each with the digest of its code.
Pins = tuple[tuple[str, str], ...]
# In place of a digest: the function has to exist. A patch that calls it as it is, and only chooses
# when, or mends what it gives, depends on nothing inside of it.
ANY_CODE = "any"
_NO_SUCH_CODE = "none"


@dataclass(frozen=True)
class Patch:
    """One change to a third-party library.

    Attributes:
        id: What it is called in code and logs.
        title: What it does, in a few words.
        kind: See ``Kind``.
        patches: Attributes it replaces, as ``module:Class.attribute``.
        what: One sentence that says what is different.
        why_safe: One sentence that says why results are right nevertheless.
        on_mismatch: See ``OnMismatch``.
        proven: Versions it was proven with, by package.
        apply: Switches it on for lowering; None for a patch with a function of its own.
    """

    id: str
    title: str
    kind: Kind
    patches: tuple[str, ...]
    what: str
    why_safe: str
    on_mismatch: OnMismatch = "stock"
    proven: dict[str, str] = field(default_factory=lambda: PROVEN[0])
    apply: Apply | None = None


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
    """Return the digest of the code of a function; "none" if it does not exist.

    It is that of the syntax tree: layout, comments and docstrings do not count.

    Args:
        path: ``module:Class.function``.
    """
    module, _, names = path.partition(":")
    try:
        owner: Any = importlib.import_module(module)
        for name in names.split("."):
            owner = inspect.getattr_static(owner, name)
        owner = owner.fget if isinstance(owner, property) else getattr(owner, "__func__", owner)
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(owner))))
    except (ImportError, AttributeError, OSError, TypeError, SyntaxError):
        return _NO_SUCH_CODE
    return hashlib.sha256(_code_of(tree).encode()).hexdigest()[:_DIGEST_CHARACTERS]


# Fields of a syntax tree that not every version of Python has, and that say nothing of the code.
_NO_CODE = frozenset({"type_params", "type_comment", "type_ignores", "kind", "ctx"})


def _code_of(part: Any) -> str:
    """Return a part of a syntax tree as text that is the same in every version of Python."""
    if isinstance(part, list):
        return f"[{','.join(_code_of(item) for item in _without_docstring(part))}]"
    if not isinstance(part, ast.AST):
        return repr(part)
    fields = ((name, value) for name, value in ast.iter_fields(part) if name not in _NO_CODE)
    inner = ",".join(f"{name}={_code_of(value)}" for name, value in fields)
    return f"{type(part).__name__}({inner})"


def _without_docstring(body: list[Any]) -> list[Any]:
    first = body[0] if body else None
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return body[1:] if is_text else body


@cache
def changed(pins: Pins) -> tuple[str, ...]:
    """Return the paths among ``pins`` whose code does not have the pinned digest, or is gone."""
    return tuple(path for path, expected in pins if not _is_as_pinned(digest(path), expected))


def _is_as_pinned(now: str, expected: str) -> bool:
    return now == expected if expected != ANY_CODE else now != _NO_SUCH_CODE


def sources_match(title: str, pins: Pins) -> bool:
    """Return whether every pinned function has its source; log one line if one has not.

    Args:
        title: What is left out if they do not hold, for the line in the log.
        pins: Pairs of a function's path and the digest of its source.
    """
    different = changed(pins)
    if different:
        _LOGGER.warning("%s is off: other source in %s.", title, ", ".join(different))
    return not different
