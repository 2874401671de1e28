"""What the NPU holds between commands, and the limits of a run."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from workbench.npu.counters import Counters
from workbench.npu.faults import Fault, Finding, LimitFault, Severity
from workbench.npu.registers import CHAINED, NO_STORAGE, FeatureMap

if TYPE_CHECKING:
    from workbench.npu.memory import Memory
    from workbench.npu.registers import Device, Registers


@dataclass(frozen=True)
class Limits:
    """What a program may take; a program that asks for more is refused.

    Attributes:
        steps: Commands, those that are passed again in loops included.
        memory_bytes: All memory regions of one delegate [bytes]; a tensor may have a sixteenth as
            many elements.
        work: Multiplications and output elements of one run of a delegate.
    """

    steps: int = 2_000_000
    memory_bytes: int = 1 << 30
    work: int = 2 * 10**11


@dataclass(frozen=True)
class Options:
    """How a program is run.

    Attributes:
        counters: Also count what takes time to count: saturated outputs, accumulator peaks.
        check: Report reads of memory that nothing wrote, tables that are lost, and transfers that
            no wait orders. Memory that nothing wrote holds a pattern instead of zeros.
        limits: What a program may take.
        modules: Names of modules by delegate and offset of the command [bytes], for messages.
        record: Delegate and offset [bytes] of operations whose tensors are kept.
    """

    counters: bool = False
    check: bool = False
    limits: Limits = field(default_factory=Limits)
    modules: Mapping[int, Mapping[int, str]] = field(default_factory=dict)
    record: frozenset[tuple[int, int]] = frozenset()


class WeightCache:
    """Decoded weights by the content of their streams, the least recently used ones dropped."""

    def __init__(self, limit: int = 512 << 20) -> None:
        self._limit, self._size = limit, 0
        # Samples may be run by several threads.
        self._lock = Lock()
        self._entries: OrderedDict[Any, tuple[Any, int]] = OrderedDict()

    def get(self, key: Any) -> Any:
        """Return what is kept under a key, or None."""
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key][0]

    def put(self, key: Any, value: Any, size: int) -> None:
        """Keep a value of so many bytes."""
        with self._lock:
            if key in self._entries:
                return
            self._entries[key] = (value, size)
            self._size += size
            while self._size > self._limit and len(self._entries) > 1:
                _, (_, dropped) = self._entries.popitem(last=False)
                self._size -= dropped


@dataclass
class State:
    """Everything that one run of one delegate has.

    Attributes:
        chains: Tensors in the chain buffers by their number (U85).
        accumulators: What the last operation left in the accumulators (U85); None before.
        keep_accumulators: Whether an operation of the program asks for them.
        last_elements: The last element that was written, of each sample; a branch asks whether it
            is zero (U85).
        counters: Of the operation that runs.
    """

    device: Device
    registers: Registers
    memory: Memory
    options: Options
    weights: WeightCache
    keep_accumulators: bool = False
    chains: dict[int, npt.NDArray[Any]] = field(default_factory=dict)
    accumulators: npt.NDArray[np.int64] | None = None
    last_elements: npt.NDArray[Any] = field(default_factory=lambda: np.zeros(1, np.int64))
    counters: Counters = field(default_factory=lambda: Counters(0, ""))
    findings: list[Finding] = field(default_factory=list)
    work: int = 0
    delegate: int = 0

    @property
    def counts_all(self) -> bool:
        """Whether saturations and accumulator peaks are wanted."""
        return self.options.counters or self.options.check

    def spend(self, work: int) -> None:
        """Take work off what the run may do.

        Raises:
            Fault: it is more than that.
        """
        self.work += work
        if self.work > self.options.limits.work:
            raise LimitFault(
                f"The program computes more than the {self.options.limits.work:,} multiplications "
                "and elements that one run may.",
                "Raise the limit if the program is meant to be that large.",
            )

    def tensor(self, source: FeatureMap, shape: tuple[int, int, int]) -> npt.NDArray[Any]:
        """Return a tensor as (samples, *shape), from memory or from a chain buffer.

        It may share the memory.

        Raises:
            Fault: it is outside of its region, or the chain buffer holds nothing of this shape.
        """
        if source.storage == NO_STORAGE:
            raise Fault(f"The {source.side} has no storage and is read.")
        if source.storage != CHAINED:
            return self.memory.read(source, shape)
        held = self.chains.get(source.region)
        if held is None or held.shape[1:] != shape:
            raise Fault(
                f"Chain buffer {source.region} holds nothing of {shape} elements for the {source.side}."
            )
        return held

    def remark(self, severity: Severity, code: str, message: str) -> None:
        """Report something about the command that runs, once."""
        now = self.counters
        finding = Finding(severity, code, message, now.offset, now.command, now.module, self.delegate)
        if finding not in self.findings[-8:]:
            self.findings.append(finding)
