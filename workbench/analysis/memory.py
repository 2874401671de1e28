"""Memory use over time, from the addresses and live ranges of tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workbench.results import LiveRange


def taken_at(tensors: Sequence[LiveRange], step: int) -> int:
    """Return the bytes in use at a step of the schedule.

    Overlapping addresses, e.g. of an input that is overwritten in place, count once.
    """
    alive = sorted((t.address, t.address + t.bytes) for t in tensors if t.start <= step <= t.end)
    taken = reach = 0
    for start, end in alive:
        taken += max(0, end - max(start, reach))
        reach = max(reach, end)
    return taken


def fullest_step(tensors: Sequence[LiveRange]) -> int:
    """Return the first step with the highest use; 0 if there are no tensors."""
    if not tensors:
        return 0
    change = np.zeros(max(t.end for t in tensors) + 2, np.int64)
    for tensor in tensors:
        change[tensor.start] += tensor.bytes
        change[tensor.end + 1] -= tensor.bytes
    # The sum counts shared addresses twice, so it is an upper bound.
    bounds = np.cumsum(change)[:-1]
    best, most = 0, -1
    for step in np.argsort(-bounds, kind="stable"):
        if bounds[step] < most:
            break
        taken = taken_at(tensors, int(step))
        if taken > most or (taken == most and step < best):
            best, most = int(step), taken
    return best
