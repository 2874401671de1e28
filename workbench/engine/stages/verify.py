"""Compare the compiled program with the quantized model on the target's reference model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.results import save_result

if TYPE_CHECKING:
    from workbench.engine.context import StageContext


def run(context: StageContext) -> None:
    """Leave how many output elements agree, and by how many steps the others differ."""
    save_result(context.toolchain().verify(context), context.out)
