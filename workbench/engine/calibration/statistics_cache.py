"""Cache of calibration statistics, reused across edits of the rules."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from workbench.files import MAX_TEXT_BYTES, read_limited, write_file
from workbench.pipeline.plan import part_inputs
from workbench.results import ARRAYS_FILE, load_arrays
from workbench.toolchains.versions import tool_versions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from workbench.engine.calibration.statistics import State
    from workbench.engine.runtime.context import StageContext
    from workbench.pipeline.cache import Cache

_MAX_BYTES = 512 << 20
# Raised when the stored statistics of a tensor change.
_VERSION = 2
_NAME = "statistics memory"


@dataclass
class StatisticsMemory:
    """Statistics of one data set in one order, by key; backed by the cache on disk.

    ``samples`` are the numbers of the samples in the data set; empty if unknown.
    """

    cache: Cache
    data: str
    known: dict[str, State] = field(default_factory=dict)
    samples: list[int] = field(default_factory=list)
    _read: set[str] = field(default_factory=set)

    def look_up(self) -> None:
        """Read new entries written by any engine."""
        try:
            index = json.loads(read_limited(self._index, MAX_TEXT_BYTES))
            self.samples = [int(number) for number in index["samples"]]
            names = [str(name) for name in index["results"]]
            os.utime(self._index)
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return
        for name in names:
            if name not in self._read and self.cache.verify(name):
                self._read.add(name)
                with suppress(OSError, ValueError, KeyError):
                    self._take(load_arrays(self.cache.folder(name)))

    def add(self, states: Mapping[str, State], samples: list[int]) -> None:
        """Store new statistics."""
        self.samples = list(samples)
        self._make_room()
        self.known.update(states)
        text = " ".join(sorted(states))
        name = hashlib.sha256(f"statistics {self.data} {text}".encode()).hexdigest()
        arrays = {
            f"{key}/{field}": value.numpy() for key, state in states.items() for field, value in state.items()
        }
        with self.cache.writing(name) as folder:
            np.savez(folder / ARRAYS_FILE, **arrays)
        self._read.add(name)
        names = sorted(n for n in self._read if self.cache.has(n))
        self._index.parent.mkdir(parents=True, exist_ok=True)
        with suppress(OSError):
            write_file(self._index, json.dumps({"samples": samples, "results": names}).encode())

    @property
    def _index(self) -> Path:
        return self.cache.statistics_index(self.data)

    def _take(self, arrays: Mapping[str, np.ndarray]) -> None:  # type: ignore[type-arg]
        for name, values in arrays.items():
            key, _, part = name.partition("/")
            self.known.setdefault(key, {})[part] = torch.from_numpy(values)

    def _make_room(self) -> None:
        """Clear the memory before it grows too large; the entries stay on disk."""
        total = sum(v.nbytes for state in self.known.values() for v in state.values())
        if total > _MAX_BYTES:
            self.known.clear()
            self._read.clear()


def memory_of(context: StageContext) -> StatisticsMemory:
    """Return the statistics of the project's calibration data, as this engine would process it."""
    data = _data_key(context)
    memory: StatisticsMemory | None = context.store.get(_NAME, data)
    if memory is None:
        memory = StatisticsMemory(context.cache, data)
        context.store.keep(_NAME, data, memory)
    memory.look_up()
    return memory


def _data_key(context: StageContext) -> str:
    """Return the key of the statistics apart from the graph: data, order, machine and versions."""
    calibration = part_inputs(context.opened, context.cache, "calibration")
    parts = {
        "data": calibration or context.plan.key("import_model"),
        "batch": 1,
        "version": _VERSION,
        "threads": torch.get_num_threads(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "machine": os.uname().machine if hasattr(os, "uname") else sys.platform,
        "tools": tool_versions(),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
