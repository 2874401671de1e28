"""Passes over data, faster where that changes no bit."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from workbench.engine.acceleration import gate
from workbench.engine.acceleration.calibration import quick_calibration
from workbench.engine.acceleration.convert import RangeMemory, remembered_ranges
from workbench.engine.acceleration.evaluation import fast_quantized_module

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from workbench.engine.context import StageContext

_MEMORY = "range memory"


def _allowed(context: StageContext) -> bool:
    return context.accelerate and gate.approve(context.log)


def quantized_module(context: StageContext) -> torch.fx.GraphModule:
    """Return the converted module, or the equal one that runs faster."""
    converted: torch.fx.GraphModule = context.hot("convert").module
    return fast_quantized_module(converted) if _allowed(context) else converted


@contextmanager
def calibrating(context: StageContext, prepared: torch.fx.GraphModule) -> Iterator[None]:
    """Observe samples in less time: constant weights once, histograms with fewer copies."""
    with quick_calibration(prepared) if _allowed(context) else nullcontext():
        yield


@contextmanager
def searching_ranges(context: StageContext) -> Iterator[None]:
    """Remember searches for a grid over all edits that keep a tensor's histogram."""
    if not _allowed(context):
        yield
        return
    memory = context.store.get(_MEMORY, "")
    if memory is None:
        memory = RangeMemory()
        context.store.keep(_MEMORY, "", memory)
    with remembered_ranges(memory):
        yield
