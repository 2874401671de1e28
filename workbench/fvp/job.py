"""What is to be run on what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from workbench.fvp.finding import Installed
    from workbench.fvp.fit import Program
    from workbench.fvp.runner_elf import RunnerElf
    from workbench.fvp.simulators import Device

Array = np.ndarray[Any, Any]
Sample = tuple[Array, ...]


@dataclass(frozen=True)
class Job:
    """One program on one runner and simulator, with its samples.

    ``trace`` asks for the cycles of each operation; a functional run (``fast``) has none.
    """

    installed: Installed
    runner: RunnerElf
    program: Program
    device: Device
    samples: Sequence[Sample]
    fast: bool = False
    trace: bool = False
    timeout_s: float = 600.0
    address: int | None = None

    @property
    def reads_files(self) -> bool:
        """Whether the runner reads inputs from files and writes outputs to files."""
        return self.runner.placement != "bare" and self.address is None

    @property
    def serves(self) -> bool:
        """Whether all samples are computed in one start.

        A simulator that has served is ended from outside, which would cut its trace and the
        runner's events.
        """
        many = len(self.samples) > 1 and self.reads_files
        return self.runner.serves and many and not self.traces and not self.runner.records

    @property
    def traces(self) -> bool:
        """Whether the cycles of each operation are traced."""
        return self.trace and not self.fast
