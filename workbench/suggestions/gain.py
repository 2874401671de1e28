"""What a change has gained: the compiled program before and after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.results import LowerResult


@dataclass(frozen=True)
class Gain:
    """Two compiled programs of one model, for one device."""

    before: LowerResult
    after: LowerResult

    @property
    def sentence(self) -> str:
        """Say what changed on the CPU, counted, and on the NPU, estimated."""
        cpu = f"On the CPU: {len(self.before.cpu_nodes)} \u2192 {len(self.after.cpu_nodes)} counted"
        delegates = f"delegates {self.before.delegates} \u2192 {self.after.delegates}"
        old, new = (_cycles(each) for each in (self.before, self.after))
        change = f" ({100 * (new - old) / old:+.1f} %)" if old else ""
        cycles = f"NPU cycles {old:,} \u2192 {new:,}{change}, estimated ({self._vela()})"
        return f"{cpu}; {delegates}; {cycles}. What the CPU took and takes no cycle counts."

    def _vela(self) -> str:
        versions = dict.fromkeys((self.before.vela_version, self.after.vela_version))
        return f"Vela {' and '.join(versions)}"


def _cycles(lowered: LowerResult) -> int:
    return sum(report.cycles_total for report in lowered.vela)
