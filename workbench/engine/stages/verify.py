"""Compare the compiled program with the quantized model on the target's reference model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.engine.fx.modules import with_origins
from workbench.results import save_result

if TYPE_CHECKING:
    from workbench.engine.context import StageContext


def run(context: StageContext) -> None:
    """Leave how many output elements agree, and by how many steps the others differ."""
    found = context.compiler().verify(context)
    told = with_origins(context, found.tensors)
    save_result(found.model_copy(update={"tensors": told}), context.out)
