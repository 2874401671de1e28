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
    """One program on one runner and simulator, with its samples."""

    installed: Installed
    runner: RunnerElf
    program: Program
    device: Device
    samples: Sequence[Sample]
    fast: bool = False
    timeout_s: float = 600.0
    address: int | None = None

    @property
    def reads_files(self) -> bool:
        """Whether the runner reads inputs from files and writes outputs to files."""
        return self.runner.placement != "bare" and self.address is None

    @property
    def serves(self) -> bool:
        """Whether all samples are computed in one start."""
        return self.runner.serves and len(self.samples) > 1 and self.reads_files
