"""Simulate: run the program on the target's simulator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.engine.targets import device_of
from workbench.results import save_result

if TYPE_CHECKING:
    from workbench.engine.runtime.context import StageContext


def run(context: StageContext) -> None:
    """Write the output comparison, cycles and counters, and the simulator's output."""
    save_result(device_of(context).simulate(context), context.out)
