"""A program is saved without the making of its canonical form, which torch drops."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from workbench.engine.toolchain_patches.patching import replaced, sources_match

if TYPE_CHECKING:
    from collections.abc import Iterator

_SERIALIZE = "torch._export.serde.serialize"
CANONICALIZE = f"{_SERIALIZE}:canonicalize"
PINS = ((f"{_SERIALIZE}:ExportedProgramSerializer.serialize", "369f804c7be982f8"),)


@contextmanager
def plain_saving() -> Iterator[None]:
    """Make no canonical form of a program that is saved while the block runs.

    Source: torch 2.13 ``_export/serde/serialize.py``: ``ExportedProgramSerializer.serialize`` calls
    ``canonicalize``, which copies the whole program, only to see that it raises nothing.
    """
    if not sources_match("Plain saving of programs", PINS):
        yield
        return
    from torch._export.serde import serialize

    def same(program: Any, _constants: set[str] | None = None) -> Any:
        return program

    with replaced(serialize, "canonicalize", same):
        yield
