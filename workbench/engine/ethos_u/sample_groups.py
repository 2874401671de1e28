"""Work on many samples, in groups that two threads share and moderate memory holds."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from threadpoolctl import ThreadpoolController

if TYPE_CHECKING:
    from collections.abc import Callable

Value = TypeVar("Value")
# How many samples a stage hands on together: its memory grows with them.
SAMPLES_AT_ONCE = 16
# Products inside a group are small: a second thread for them costs more than it gives.
_THREADS = 2
_GROUP, _GROUP_BYTES = 8, 24 << 20


def in_groups(work: Callable[[slice], Value], samples: int, sample_bytes: int = 1) -> list[Value]:
    """Return what some work gives for groups of samples, in their order.

    Args:
        work: Computes the samples of a slice; it is called by two threads.
        samples: How many there are.
        sample_bytes: What one takes in memory [bytes].
    """
    threads = min(_THREADS, os.cpu_count() or 1)
    size = max(1, min(_GROUP, _GROUP_BYTES // max(1, sample_bytes), -(-samples // threads)))
    slices = [slice(first, min(first + size, samples)) for first in range(0, samples, size)]
    with ThreadpoolController().limit(limits=1, user_api="blas"):
        if len(slices) == 1 or threads == 1:
            return [work(one) for one in slices]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(work, slices))
