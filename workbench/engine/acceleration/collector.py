"""The collector of cyclic garbage runs less often."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Against the stock (700, 10, 10). Not off altogether: a lowering leaves cycles worth collecting.
THRESHOLDS = (50_000, 20, 50)


@contextmanager
def quiet_collector() -> Iterator[None]:
    """Raise the collector's thresholds while the block runs.

    What the imports brought is not looked at any more (``collector_off``); nothing else is left
    out, so that programs which are dropped later can still be collected.
    """
    before = gc.get_threshold()
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
