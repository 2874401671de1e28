"""Verify: compare the compiled program with the quantized model on the reference model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.engine.fx.modules import with_origins
from workbench.engine.targets.base import compiler_of
from workbench.results import save_result

if TYPE_CHECKING:
    from workbench.engine.context import StageContext


def run(context: StageContext) -> None:
    """Write the number of equal output elements, and the differences in steps."""
    found = compiler_of(context).verify(context)
    told = with_origins(context, found.tensors)
    save_result(found.model_copy(update={"tensors": told}), context.out)
