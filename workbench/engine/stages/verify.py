"""Verify: compare the compiled program with the quantized model on the reference model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.engine.fx.modules import with_origins
from workbench.engine.targets import compiler_of
from workbench.results import save_result

if TYPE_CHECKING:
    from workbench.engine.runtime.context import StageContext


def run(context: StageContext) -> None:
    """Write the number of equal output elements, and the differences in steps."""
    result = compiler_of(context).verify(context)
    located = with_origins(context, result.tensors)
    save_result(result.model_copy(update={"tensors": located}), context.out)
