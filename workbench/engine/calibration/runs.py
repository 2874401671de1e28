"""Calibration of prepared modules, accelerated where the results stay bit-exact."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from workbench.engine.calibration import statistics
from workbench.engine.calibration.quick_observers import RangeMemory, quick_calibration, remembered_ranges
from workbench.engine.calibration.statistics_cache import memory_of
from workbench.engine.runtime.accelerated import acceleration

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from workbench.engine.calibration.sample_extrema import SampleExtrema
    from workbench.engine.calibration.statistics_cache import StatisticsMemory
    from workbench.engine.runtime.context import StageContext

_MEMORY = "range memory"


class Calibration:
    """One calibration of a prepared module, using cached statistics.

    ``is_answered`` means that no data is needed; the sample extrema are then complete.
    """

    def __init__(self, context: StageContext, prepared: torch.fx.GraphModule, extrema: SampleExtrema) -> None:
        self.module = prepared
        self.extrema = extrema
        self.is_answered = False
        self._keys: dict[str, str] = {}
        self._memory: StatisticsMemory | None = None
        self._quick = context.is_accelerated
        hashes = statistics.hashes_of_prepared(context, prepared) if self._quick else None
        keys = statistics.statistics_keys(prepared, hashes) if hashes is not None else None
        if keys is None:
            return
        self._keys, self._memory = keys, memory_of(context)
        known = self._memory.known
        unanswered = statistics.unanswered(prepared, keys, known)
        statistics.replay(prepared, known, keys)
        for name, key in keys.items():
            if key in known:
                extrema.recall(name, known[key])
        self.is_answered = bool(self._memory.samples) and not unanswered
        if self.is_answered:
            extrema.samples = list(self._memory.samples)

    @contextmanager
    def observing(self) -> Iterator[None]:
        """Run observers without statistics on the data of the block, accelerated."""
        if not self._quick:
            yield
            return
        known = self._memory.known if self._memory is not None else {}
        with quick_calibration(self.module), statistics.only_missing(self.module, self._keys, known):
            yield

    def remember(self) -> None:
        """Store the observers' statistics for later configurations."""
        if self._memory is None:
            return
        missing = [name for name, key in self._keys.items() if key not in self._memory.known]
        entry = {
            self._keys[name]: {**statistics.statistics(self.module, name), **self.extrema.account(name)}
            for name in missing
        }
        if entry:
            self._memory.add(entry, self.extrema.samples)


@contextmanager
def searching_ranges(context: StageContext) -> Iterator[None]:
    """Search ranges faster, and once for all edits that do not change a tensor's histogram."""
    if not context.is_accelerated:
        yield
        return
    memory = context.store.get(_MEMORY, "")
    if memory is None:
        memory = RangeMemory()
        context.store.keep(_MEMORY, "", memory)
    with remembered_ranges(memory), acceleration("quick-search"):
        yield
