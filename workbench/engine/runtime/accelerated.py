"""The accelerations, switched on and off: the only module that imports their package.

They apply to proven versions only: with any other the toolchain is stock, as it is where the
package is not there.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING

from workbench.toolchain_versions import status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.engine.toolchain_patches.patching import Patch

_ACCELERATION = "workbench.engine.acceleration"


@contextmanager
def accelerated(
    enabled: bool = True, only: frozenset[str] | set[str] | None = None
) -> Iterator[frozenset[str]]:
    """Lower faster while the block runs, and give the stock toolchain back afterwards.

    Args:
        enabled: False changes nothing at all.
        only: Ids of the accelerations to switch on; None for all.

    Yields:
        The ids which are on: none if disabled or not proven for the installed versions.
    """
    if not enabled or not status().active:
        yield frozenset()
        return
    with applied(only) as ids:
        yield ids


@contextmanager
def applied(only: frozenset[str] | set[str] | None = None) -> Iterator[frozenset[str]]:
    """Switch accelerations on without asking whether they are proven; for proofs of them."""
    chosen = [row for row in accelerations()[0] if only is None or row.id in only]
    with ExitStack() as stack:
        for row in chosen:
            assert row.apply is not None
            stack.enter_context(row.apply())
        yield frozenset(row.id for row in chosen)


def acceleration(name: str) -> AbstractContextManager[None]:
    """Return a context manager that switches one acceleration on, by its id.

    It changes nothing where there is no such acceleration, or where its functions have other code.
    """
    rows = {row.id: row for group in accelerations() for row in group}
    apply = rows[name].apply if name in rows else None
    return nullcontext() if apply is None else apply()


def accelerations() -> tuple[tuple[Patch, ...], tuple[Patch, ...]]:
    """Return the accelerations of lowering, and the others; none if their package is not there."""
    try:
        from workbench.engine.acceleration.table import LOWERING, OTHERS
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith(_ACCELERATION):
            raise
        return (), ()
    return LOWERING, OTHERS
