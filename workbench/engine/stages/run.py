"""Run the program on the target's simulator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.errors import Place, failure
from workbench.pipeline.plan import NO_SIMULATOR

if TYPE_CHECKING:
    from workbench.engine.context import StageContext


def run(context: StageContext) -> None:
    """Refuse: the plan offers this stage only where a simulator has been set up."""
    raise failure(
        NO_SIMULATOR,
        "Everything up to the package works without one.",
        Place(kind="stage", id=context.stage),
    )
