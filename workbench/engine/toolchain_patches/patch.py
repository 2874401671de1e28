"""What a change to a third-party library is made of."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Literal

from workbench.toolchain_versions import PROVEN

# acceleration: the same result in less time. correction: another result than stock, where stock
# has a defect. interception: reads what the toolchain computes and does not return.
# interpreter: a setting of Python itself.
Kind = Literal["acceleration", "correction", "interception", "interpreter"]

# What happens with other versions than the proven ones. stock: the patch is not applied.
# refused: it is applied while its attributes exist; the program ends with a sentence if not.
Otherwise = Literal["stock", "refused"]

Apply = Callable[[], AbstractContextManager[None]]


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
        otherwise: See ``Otherwise``.
        proven: Versions it was proven with, by package.
        apply: Switches it on for lowering; None for a patch with a function of its own.
        pins: The functions it was written for, each with the digest of its source; with another
            source it is not applied.
    """

    id: str
    title: str
    kind: Kind
    patches: tuple[str, ...]
    what: str
    why_safe: str
    otherwise: Otherwise = "stock"
    proven: dict[str, str] = field(default_factory=lambda: PROVEN[0])
    apply: Apply | None = None
    pins: tuple[tuple[str, str], ...] = ()
