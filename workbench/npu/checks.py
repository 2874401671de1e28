"""Checks of the order and the memory of a program, which its values cannot show.

The NPU carries out a transfer beside its kernels. Commands that wait put them in order. The
simulator runs one command after the other, so a missing wait changes nothing here, but may on a
device. Source of how many can be under way: Vela 5.1.0, ``MaxOutstandingDMAOps`` and
``MaxOutstandingKernelOps``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from workbench.npu.block_dependency import KernelAccess, too_early
from workbench.npu.memory import CONSTANTS, TABLE_BYTES, TABLES, Area, Shape
from workbench.npu.registers import CHAINED, NO_STORAGE, Device, FeatureMap
from workbench.npu.state import State

Kind = Literal["kernel", "transfer"]

_TRANSFERS = {"ethos-u55": 1, "ethos-u65": 2, "ethos-u85": 4}
_KERNELS = 2
_OTHER: dict[Kind, Kind] = {"kernel": "transfer", "transfer": "kernel"}


@dataclass
class _Command:
    """A command under way and what it touches."""

    offset: int
    name: str
    reads: list[Area] = field(default_factory=list)
    writes: list[Area] = field(default_factory=list)


class Checker:
    """Follows which bytes hold something, and which commands may still be under way."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._written: dict[int, npt.NDArray[np.bool_]] = {}
        self._running: dict[Kind, deque[_Command]] = {
            "transfer": deque(maxlen=_TRANSFERS[state.device.family]),
            "kernel": deque(maxlen=_KERNELS),
        }
        self._now = _Command(0, "")
        self._unused: list[tuple[Area, _Command]] = []
        self._chain_tables: list[_Command] = []
        self._kernel, self._kernel_before = KernelAccess(), KernelAccess()
        self._before = self._now

    def begins(self, offset: int, name: str) -> None:
        """Take note that a command begins."""
        self._now = _Command(offset, name)
        self._kernel = KernelAccess(name)

    def ends(self, kind: Kind) -> None:
        """Compare the command with those that may be under way, and count it among them."""
        others: list[_Command] = list(self._running[_OTHER[kind]])
        if kind == "transfer":
            others += self._running["transfer"]
        for other in others:
            self._compare(other)
        self._running[kind].append(self._now)
        if kind == "kernel":
            self._compare_jobs()
            if self._state.device.u85:
                self._follow_chain()

    def _compare_jobs(self) -> None:
        """Report a kernel whose block dependency lets it begin too early."""
        now, registers = self._kernel, self._state.registers
        now.uses_table = bool(self._state.counters.table_bytes)
        now.conclude(registers)
        if early := too_early(self._kernel_before, now, registers):
            other = self._before
            self._state.remark(
                "error" if early.is_sure else "warning",
                "missing-block-dependency",
                f"It {early.what}: {other.name} at {other.offset:#x} may not be done, because "
                f"BLOCKDEP is {registers.get('BLOCKDEP')}.",
            )
        self._kernel_before, self._before = now, self._now

    def _follow_chain(self) -> None:
        """Report a chain that uses the whole table memory more than once.

        Vela 5.1.0 loads all tables of a chain before it. Where two of its operations want
        different tables of 2 KiB, the second load removes the first; the stream does not say
        which table an operation wants.
        """
        if self._state.counters.table_bytes == TABLE_BYTES:
            self._chain_tables.append(self._now)
        if self._state.registers["OFM_PRECISION"] >> 14 & 3 == CHAINED:
            return
        if len(self._chain_tables) > 1:
            first = self._chain_tables[0]
            self._state.remark(
                "warning",
                "tables-in-chain",
                f"It ends a chain in which {first.name} at {first.offset:#x} and another operation "
                "use the one table that table memory holds. If they are different functions, one "
                "of them computes with the wrong table.",
            )
        self._chain_tables.clear()

    def waits(self, kind: Kind, left: int) -> None:
        """Take note that at most so many of one kind are under way."""
        running = self._running[kind]
        while len(running) > left:
            running.popleft()

    def note_filled(self, area: Area) -> None:
        """Take note of bytes that are filled before the run."""
        self._mask(area)[...] = True

    def reads(self, area: Area) -> None:
        """Report bytes that nothing wrote."""
        self._now.reads.append(area)
        if area.region == TABLES:
            self._unused = [entry for entry in self._unused if not _overlap(entry[0], area)]
            return
        if area.region == CONSTANTS:
            return
        mask = self._mask(area)
        if not mask.all():
            self._state.remark(
                "error",
                "uninitialised-read",
                f"{int(mask.size - np.count_nonzero(mask)):,} of {mask.size:,} bytes from "
                f"{area.first:#x} in region {area.region} are read, but nothing wrote them.",
            )

    def writes(self, area: Area) -> None:
        """Keep which bytes hold something; report a table that is lost before it was used."""
        self._now.writes.append(area)
        if area.region != TABLES:
            self._mask(area)[...] = True
            return
        for lost, by in self._unused:
            if _overlap(lost, area):
                self._state.remark(
                    "error",
                    "table-evicted",
                    f"The table that {by.name} at {by.offset:#x} loaded to {lost.first} of the "
                    "table memory is overwritten before any operation used it.",
                )
        self._unused = [entry for entry in self._unused if not _overlap(entry[0], area)]
        self._unused.append((area, self._now))

    def copies(self, source: Area, target: Area) -> None:
        """Keep for the copy which of its bytes hold something."""
        self._now.reads.append(source)
        self._now.writes.append(target)
        is_constant = source.region == CONSTANTS
        self._mask(target)[...] = True if is_constant else self._mask(source).copy()

    def feature_map(self, tensor: FeatureMap, shape: Shape, *, written: bool) -> None:
        """Keep the tensors of a kernel that lie in memory."""
        if tensor.storage in {CHAINED, NO_STORAGE}:
            return
        if written:
            self._kernel.writes = tensor, shape
        else:
            self._kernel.reads.append((tensor, shape))

    def _mask(self, area: Area) -> npt.NDArray[np.bool_]:
        """Return which bytes of an area hold something; not copied."""
        size = self._state.memory.size(area.region)
        mask = self._written.get(area.region)
        if mask is None or mask.size < size:
            larger = np.zeros(size, np.bool_)
            if mask is not None:
                larger[: mask.size] = mask
            mask = self._written[area.region] = larger
        return np.ndarray((*area.shape, area.item), np.bool_, mask.data, area.base, (*area.strides, 1))

    def _compare(self, other: _Command) -> None:
        now = self._now
        clash = (
            _first_overlap(now.reads, other.writes)
            or _first_overlap(now.writes, other.reads)
            or _first_overlap(now.writes, other.writes)
        )
        if clash is None:
            return
        where = "the table memory" if clash.region == TABLES else f"region {clash.region}"
        self._state.remark(
            "error",
            "missing-wait",
            f"It touches {clash.first:#x} to {clash.end:#x} of {where} while {other.name} at "
            f"{other.offset:#x} may still use them: no wait orders the two.",
        )


def _first_overlap(these: Iterable[Area], those: list[Area]) -> Area | None:
    for one in these:
        for other in those:
            if _overlap(one, other):
                return one
    return None


def _overlap(one: Area, other: Area) -> bool:
    return one.region == other.region and one.first < other.end and other.first < one.end


def overwrites_table(target: Device, *, uses_table: bool) -> bool:
    """Return whether an operation takes the memory of the tables (U55-32 and U55-64)."""
    return target.table_is_shared and not uses_table
