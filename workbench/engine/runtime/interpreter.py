"""Settings of the interpreter for the jobs of an engine: a large stack and a rare collector."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

P = ParamSpec("P")
R = TypeVar("R")

# Slots of 8 bytes: one chunk of 2.4 MB holds every frame of the deepest call of the toolchain.
_STACK_SLOTS = 300_000


def _call(fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    return fn(*args, **kwargs)


_call.__code__ = _call.__code__.replace(co_stacksize=_STACK_SLOTS)


def run_with_big_stack(fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return ``fn(*args, **kwargs)``, run so that the interpreter's stack need not grow below it.

    Exact because only the memory that holds the frames changes. Use it for every job of the
    engine, once per thread.

    Source: CPython 3.11 ``Python/pystate.c``, ``push_chunk``: a frame that does not fit starts a
    new chunk, large enough for its ``co_stacksize``, which is freed when that frame returns.
    """
    return _call(fn, *args, **kwargs)


@contextmanager
def collector_off() -> Iterator[None]:
    """Turn the collector off, and let it never look at what the block made."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()
