"""Feed the calibration samples through the prepared graph and keep what the observers saw."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from workbench.engine import ranges
from workbench.engine.running import calibrating, searching_ranges
from workbench.engine.samples import calibration_samples
from workbench.engine.witness import Witnesses
from workbench.errors import Place, failure
from workbench.results import (
    ARRAYS_FILE,
    EXAMPLE_ONLY,
    CalibrateResult,
    load_arrays,
    save_result,
)

if TYPE_CHECKING:
    from workbench.engine.context import StageContext

_STATE = "state/"


def run(context: StageContext) -> None:
    """Leave the range of every observed tensor, and the observers' state."""
    prepared = context.hot("prepare")
    samples = calibration_samples(context)
    witnesses = Witnesses(ranges.activations(prepared.module))
    with torch.inference_mode(), calibrating(context, prepared.module), witnesses.watching():
        for seen, sample in enumerate(samples):
            context.progress(seen, samples.count, f"sample {seen + 1}")
            witnesses.begin(sample.index)
            prepared.module(*sample.inputs)
    if not witnesses.samples:
        raise failure(
            f"{samples.name} gave no samples.",
            "Calibration needs at least one.",
            Place(kind="option", id="calibration.spec"),
        )
    with searching_ranges(context):
        found, arrays = ranges.collect(prepared.module, witnesses)
    result = CalibrateResult(
        samples=len(witnesses.samples),
        calibrated_on=samples.name if context.project.calibration else EXAMPLE_ONLY,
        ranges=tuple(found),
    )
    np.savez(context.out / ARRAYS_FILE, **arrays, **_state(prepared.module))
    save_result(result, context.out)
    if not context.project.calibration:
        context.log("Calibrated on the example input only: ranges mean little.", "warning")
    context.keep(prepared)


def load(context: StageContext) -> Any:
    """Give a prepared graph the observers' state of a finished calibration."""
    prepared = context.hot("prepare")
    arrays = load_arrays(context.path("calibrate"))
    for name, observer in ranges.observers(prepared.module):
        for field in list(observer._buffers):  # noqa: SLF001 - sizes change, so no state dict
            key = f"{_STATE}{name}/{field}"
            if key in arrays:
                observer._buffers[field] = torch.from_numpy(arrays[key])  # noqa: SLF001
    return prepared


def _state(module: torch.fx.GraphModule) -> dict[str, np.ndarray[Any, Any]]:
    return {
        f"{_STATE}{name}/{field}": value.detach().numpy()
        for name, observer in ranges.observers(module)
        for field, value in observer.named_buffers(recurse=False)
    }
