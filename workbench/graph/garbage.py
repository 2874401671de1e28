"""Building many objects at once without the cyclic collector walking over all of them again."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Objects made in one go that a pass of the collector takes milliseconds to walk over.
MUCH = 20_000


@contextmanager
def collection_paused() -> Iterator[None]:
    """Keep the cyclic garbage collector off while hundreds of thousands of objects are made.

    Each of its full passes stops every thread for tens of milliseconds and finds nothing, since
    none of what is built can be garbage yet. Nor is it later on: it holds no cycles and goes when
    its last user does. So if it is much, the collector is told to pass it over for good.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            if gc.get_count()[0] > MUCH:
                gc.freeze()
            gc.enable()
