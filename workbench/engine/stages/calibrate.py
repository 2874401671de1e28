"""Calibrate: run the calibration samples through the prepared graph."""

from __future__ import annotations

import copy
import itertools
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from workbench.engine.calibration.observer_threads import ObserverThreads, can_observe_beside
from workbench.engine.calibration.runs import Calibration, searching_ranges
from workbench.engine.calibration.sample_extrema import SampleExtrema
from workbench.engine.calibration.statistics import hashes_of_prepared
from workbench.engine.data.evaluation import calibration_samples, is_repeatable
from workbench.engine.equivalence.first_difference import first_failing, location_text
from workbench.engine.equivalence.forms import SAMPLES, compare_prepared, reference_on
from workbench.engine.evaluation.sample_outputs import digest_of
from workbench.engine.evaluation.stateful_execution import stepping
from workbench.engine.fx.branches import constants
from workbench.engine.fx.modules import with_origins
from workbench.engine.quantization import ranges
from workbench.engine.runtime.accelerated import accelerated
from workbench.engine.runtime.forked import Beside
from workbench.engine.runtime.memory_check import is_memory_missing
from workbench.errors import Place, failure
from workbench.results import (
    ARRAYS_FILE,
    EXAMPLE_ONLY,
    CalibrateResult,
    PrepareResult,
    load_arrays,
    save_result,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from workbench.engine.data import Samples
    from workbench.engine.runtime.context import StageContext
    from workbench.results import FormComparison

_STATE = "state/"
_NOT_REPEATABLE = (
    "The data gives other samples each time it is read. Seed its random numbers: else results "
    "belong to different samples."
)


def run(context: StageContext) -> None:
    """Write the range of every observed tensor, and the observers' state."""
    prepared = context.live("prepare")
    # The observers of ``prepare`` stay empty, for other data or another order.
    with accelerated(context.accelerate):
        calibrated = replace(prepared, module=_own_observers(prepared.module))
    samples = calibration_samples(context)
    with (
        _naming_operators(prepared.module, samples),
        _comparing(context, samples, prepared.module) as comparison,
    ):
        extrema = SampleExtrema(ranges.activations(calibrated.module))
        calibration = Calibration(context, calibrated.module, extrema)
        warnings = _observe(context, calibration, samples)
        _observe_constants(calibrated.module)
        with searching_ranges(context):
            rows, arrays = ranges.collect(calibrated.module, extrema)
        compared = comparison()
    carried = next((sample.carried for sample in samples), 0)
    result = CalibrateResult(
        samples=len(extrema.samples),
        calibrated_on=samples.name if context.project.calibration else EXAMPLE_ONLY,
        ranges=with_origins(context, rows),
        improved={
            **_improved(context, {row.node for row in rows}),
            **ranges.carried_ranges(calibrated.module, carried),
        },
        compared=compared,
        warnings=(*warnings, *(f"{r.node}: {r.problem}." for r in rows if r.dynamic and r.problem)),
    )
    np.savez(context.out / ARRAYS_FILE, **arrays, **_state(calibrated.module))
    save_result(result, context.out)
    if not context.project.calibration:
        context.log("Calibrated on the example input only: ranges are not meaningful.", "warning")
    context.keep(calibrated)


@contextmanager
def _naming_operators(module: torch.fx.GraphModule, samples: Samples) -> Iterator[None]:
    """Raise a problem for an operator that refuses what preparing made of the program.

    Raises:
        WorkbenchError: its line in the user's source, and what helps.
    """
    try:
        yield
    except RuntimeError as error:
        node = None if is_memory_missing(error) else first_failing(module, next(iter(samples)).inputs)
        if node is None:
            raise
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise failure(
            f"The prepared program fails in {location_text(node)}: {lines[0]}"[:600],
            "Return what the operator reads, and compute the rest outside of the model; or write it with "
            "other operators. Whole numbers of 64 bits have 32 in the program.",
            Place(kind="node", id=node.name),
            details=str(error),
            code="operator-failed",
        ) from error


@contextmanager
def _comparing(
    context: StageContext, samples: Samples, prepared: torch.fx.GraphModule
) -> Iterator[Callable[[], tuple[FormComparison, ...]]]:
    """Compare exported and prepared program with the model, beside what the block does.

    Most edits change observers only, which pass values on: what was compared for the same function
    on the same samples is known.
    """
    key = _function_key(context, samples, prepared) if context.is_accelerated else ""
    if known := context.store.get("compared", key):
        yield lambda: known
        return
    reference = reference_on(context, samples)

    def compare() -> tuple[FormComparison, ...]:
        with torch.inference_mode():
            return compare_prepared(context, reference, prepared)

    with Beside(compare, context.check_cancelled) as comparing:
        yield comparing.result
    if key:
        context.store.keep("compared", key, comparing.result())


def _function_key(context: StageContext, samples: Samples, prepared: torch.fx.GraphModule) -> str:
    """Return a key of what a prepared program computes, and of what it is compared on; "" if unknown."""
    hashes, outputs = hashes_of_prepared(context, prepared), list[str]()
    if hashes is None:
        return ""
    torch.fx.map_arg(prepared.graph.output_node().args, lambda node: outputs.append(hashes[node.name]))
    inputs = [digest_of(sample) for sample in itertools.islice(samples, SAMPLES)]
    project = context.project
    is_changed = bool(project.trained_weights or project.compressions or project.improvers)
    return f"{context.plan.key('export')} {outputs} {inputs} {is_changed}"


def _observe(context: StageContext, calibration: Calibration, samples: Samples) -> list[str]:
    """Run the samples whose statistics are not known; return warnings."""
    if calibration.is_answered:
        context.log("No samples needed: the statistics of all tensors are cached.")
        return []
    _feed(context, calibration, samples)
    return [] if is_repeatable(samples) else [_NOT_REPEATABLE]


def _improved(context: StageContext, observed: set[str]) -> dict[str, tuple[float, float]]:
    """Return the ranges of observed tensors that improvers chose, by node."""
    chosen = context.result("prepare", PrepareResult).ranges
    return {name: ends for name, ends in chosen.items() if name in observed}


def load(context: StageContext) -> Any:
    """Load the observers' state of a finished calibration into a prepared graph."""
    prepared = context.live("prepare")
    module = _own_observers(prepared.module)
    arrays = load_arrays(context.path("calibrate"))
    for name, observer in ranges.observers(module):
        for field in list(observer._buffers):  # noqa: SLF001 - sizes change, so no state dict
            key = f"{_STATE}{name}/{field}"
            if key in arrays:
                observer._buffers[field] = torch.from_numpy(arrays[key])  # noqa: SLF001
    return replace(prepared, module=module)


def _feed(context: StageContext, calibration: Calibration, samples: Samples) -> None:
    """Run all samples; where it is exact, observers run beside the program."""
    extrema = calibration.extrema
    is_beside = context.accelerate and can_observe_beside(calibration.module)
    with (
        torch.inference_mode(),
        calibration.observing(),
        ObserverThreads() as threads,
        extrema.watching(threads if is_beside else None),
        stepping(calibration.module) as steps,
    ):
        for seen, sample in enumerate(samples):
            context.progress(seen, samples.count, f"sample {seen + 1}")
            extrema.begin(sample.index)
            steps(sample)
            threads.wait()
    if not extrema.samples:
        raise failure(
            f"{samples.name} contains no samples.",
            "Calibration needs at least one sample.",
            Place(kind="option", id="calibration.spec"),
            code="calibration-empty",
        )
    calibration.remember()


def _observe_constants(module: torch.fx.GraphModule) -> None:
    """Let observers observe the constants of branches that no sample executed."""
    for graph, placeholder, value in constants(module):
        for user in placeholder.users:
            observer: Any = graph.get_submodule(str(user.target)) if user.op == "call_module" else None
            if observer is not None and not ranges.has_seen(observer):
                observer(value.detach())


def _own_observers(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Return a copy with its own observers; weights are shared."""
    observed = {id(b) for _, observer in ranges.observers(module) for b in observer.buffers()}
    tensors = [*module.parameters(), *module.buffers()]
    shared = {id(tensor): tensor for tensor in tensors if id(tensor) not in observed}
    return copy.deepcopy(module, {**shared, **ranges.copies_of_observers(module)})


def _state(module: torch.fx.GraphModule) -> dict[str, np.ndarray[Any, Any]]:
    return {
        f"{_STATE}{name}/{field}": value.detach().numpy()
        for name, observer in ranges.observers(module)
        for field, value in observer.named_buffers(recurse=False)
    }
