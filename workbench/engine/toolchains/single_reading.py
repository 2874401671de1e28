"""For targets whose arithmetic is read in one way."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.engine.context import StageContext
    from workbench.engine.readings import ReadingTally


def readings(context: StageContext) -> list[ReadingTally]:
    """Return none to put side by side."""
    del context
    return []
