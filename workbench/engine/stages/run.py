"""Run the program on the target's simulator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.results import save_result

if TYPE_CHECKING:
    from workbench.engine.context import StageContext


def run(context: StageContext) -> None:
    """Leave outputs compared, cycles and counters, and everything the simulator printed."""
    save_result(context.device().simulate(context), context.out)
