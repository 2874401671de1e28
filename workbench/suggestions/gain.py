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
        before, after = (len(each.cpu_nodes) for each in (self.before, self.after))
        cpu = f"Operators on the CPU {before} \u2192 {after}, counted"
        delegates = f"delegates {self.before.delegates} \u2192 {self.after.delegates}"
        old, new = (_cycles(each) for each in (self.before, self.after))
        change = f" ({100 * (new - old) / old:+.1f} %)" if old else ""
        cycles = f"NPU cycles {old:,} \u2192 {new:,}{change}, estimated ({self._vela()})"
        return f"{cpu}; {delegates}; {cycles}. These cycles leave out the CPU."

    def _vela(self) -> str:
        versions = dict.fromkeys((self.before.vela_version, self.after.vela_version))
        return f"Vela {' and '.join(versions)}"


def _cycles(lowered: LowerResult) -> int:
    return sum(report.cycles_total for report in lowered.vela)
