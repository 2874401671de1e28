"""How two compiled programs differ, module by module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.errors import WorkbenchError
from workbench.history.comparison import Change
from workbench.results import LowerResult, load_result

if TYPE_CHECKING:
    from workbench.history.runs import Run
    from workbench.pipeline.cache import Cache

_NO_MODULE = "(no module)"


@dataclass
class _Spent:
    """What a module takes: estimated cycles, the most SRAM in use [bytes], and where it runs."""

    cycles: int = 0
    sram_bytes: int = 0
    on_npu: int = 0
    on_cpu: int = 0

    def __str__(self) -> str:
        parts = []
        if self.on_npu:
            parts.append(f"{self.cycles:,} cycles, {self.sram_bytes / 1024:,.1f} KiB of SRAM")
        if self.on_cpu:
            parts.append(f"{self.on_cpu} on the CPU")
        return ", ".join(parts)


def lowered_of(run: Run, cache: Cache) -> LowerResult | None:
    """Return the compiled program of a run; None when the cache has it no more."""
    key = run.digests.get("lower", "")
    if not key or not cache.has(key):
        return None
    try:
        return load_result(LowerResult, cache.folder(key))
    except WorkbenchError:
        return None


def module_changes(a: LowerResult, b: LowerResult) -> list[Change]:
    """Return the modules whose cost or place differs, the most changed cycles first.

    Cycles and SRAM are Vela's estimates; SRAM is the most in use during one of the operations.
    """
    before, after = _spent(a), _spent(b)
    changed = []
    for module in [*before, *(name for name in after if name not in before)]:
        old, new = before.get(module, _Spent()), after.get(module, _Spent())
        if old != new:
            change = Change(module or _NO_MODULE, str(old), str(new))
            changed.append((abs(new.cycles - old.cycles), change))
    return [change for _, change in sorted(changed, key=lambda each: -each[0])]


def estimate_warning(a: Run, b: Run) -> str:
    """Return what to know when the estimates of two runs come from different versions of Vela."""
    if a.cost is None or b.cost is None or a.cost.vela_version == b.cost.vela_version:
        return ""
    return (
        f"Estimated by Vela {a.cost.vela_version} and {b.cost.vela_version}: versions differ by up "
        "to seven times on a single layer, so compile both with one of them before you compare."
    )


def _spent(lowered: LowerResult) -> dict[str, _Spent]:
    found: dict[str, _Spent] = {}
    for report in lowered.vela:
        for operation in report.operations:
            spent = found.setdefault(operation.module, _Spent())
            spent.cycles += operation.cycles
            spent.sram_bytes = max(spent.sram_bytes, operation.staging_bytes)
            spent.on_npu += 1
    for node in lowered.cpu_nodes:
        found.setdefault(node.module, _Spent()).on_cpu += 1
    return found
