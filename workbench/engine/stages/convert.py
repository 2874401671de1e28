"""Quantize: replace observers by quantize and dequantize operators."""

from __future__ import annotations

import copy
import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from executorch.backends.arm.quantizer.arm_quantizer import get_cond_while_submodules_ao

from workbench.analysis.ranges import activations
from workbench.engine.calibration.runs import searching_ranges
from workbench.engine.data.evaluation import calibration_samples
from workbench.engine.equivalence.conversion import FakeQuantizedReference
from workbench.engine.fx import programs
from workbench.engine.fx.observers import fix_ranges
from workbench.engine.fx.snapshot import snapshot
from workbench.engine.quantization.ranges import chosen_ranges, copies_of_observers
from workbench.engine.runtime.accelerated import accelerated
from workbench.engine.targets import toolchain_of
from workbench.errors import ErrorInfo, Place, WorkbenchError
from workbench.graph.snapshot import GraphSnapshot
from workbench.results import (
    GRAPH_FILE,
    NOT_REACHED,
    CalibrateResult,
    ConvertResult,
    FormComparison,
    save_result,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from workbench.engine.runtime.context import StageContext

LEVEL = "quantized"


@dataclass
class Converted:
    """The quantized graph as a module; as a program, exported on first use.

    Quality figures need no program, and exporting takes longer than the rest of an edit.
    """

    module: torch.fx.GraphModule
    example: tuple[torch.Tensor, ...]

    @cached_property
    def program(self) -> torch.export.ExportedProgram:
        """The program to lower."""
        with torch.no_grad():
            return torch.export.export(self.module, self.example)


def run(context: StageContext) -> None:
    """Write the quantized program and its graph."""
    context.progress(0, None, "quantizing")
    converted, warnings, compared = _converted(context, compare=True)
    module = converted.module
    context.check_cancelled()
    warnings += toolchain_of(context).known_differences(context, module)
    floating = GraphSnapshot.load(context.path("export") / GRAPH_FILE)
    graph = snapshot(module, LEVEL, floating.modules)
    graph.save(context.out / GRAPH_FILE)
    integers = (torch.int8, torch.int16, torch.int32)
    state = [*module.buffers(), *module.parameters()]
    result = ConvertResult(
        nodes=len(graph.nodes),
        quantized_weights_bytes=sum(t.nbytes for t in state if t.dtype in integers),
        float_operators=_float_operators(module),
        memory=toolchain_of(context).memory(context.live("calibrate").module),
        compared=compared,
        warnings=tuple(warnings),
    )
    save_result(result, context.out)
    context.keep(converted)


def load(context: StageContext) -> Converted:
    """Convert again from the stored calibration statistics."""
    return _converted(context, compare=False)[0]


def _converted(
    context: StageContext, *, compare: bool
) -> tuple[Converted, list[str], tuple[FormComparison, ...]]:
    """Return the quantized graph, warnings, and its comparison with fake quantization if asked."""
    inputs = context.live("import_model").inputs
    with searching_ranges(context), accelerated(context.accelerate):
        observed, warnings = _observed(context)
        # Example inputs may be zeros, for which much is equal.
        samples = list(itertools.islice(calibration_samples(context), 1)) if compare else []
        with torch.inference_mode():
            reference = FakeQuantizedReference(observed, samples)
        module = _convert(observed, toolchain_of(context).convert)
        with torch.inference_mode():
            compared = reference.compare(module, lambda: _observed(context)[0])
    return Converted(module, inputs), warnings, compared


def _observed(context: StageContext) -> tuple[torch.fx.GraphModule, list[str]]:
    """Return a copy of the calibrated graph with the project's own ranges, and warnings.

    Converting consumes its argument; the observers are needed after the next edit.
    """
    calibrated = context.live("calibrate").module
    observed = copy.deepcopy(calibrated, copies_of_observers(calibrated))
    return observed, _fix_ranges(context, observed)


def _fix_ranges(context: StageContext, observed: torch.fx.GraphModule) -> list[str]:
    """Set the project's own ranges; return warnings."""
    ranges, declined = chosen_ranges(context)
    _refuse_unseen_branches(context, ranges)
    lost = (
        f"The fixed range of {tensor} has no effect: no such quantized activation."
        for tensor in fix_ranges(observed, ranges)
    )
    return [*lost, *declined]


def _refuse_unseen_branches(context: StageContext, ranges: Collection[str]) -> None:
    """Raise if no sample executed a quantized branch, which would have no ranges."""
    unseen: dict[str, list[str]] = {}
    for row in activations(context.result("calibrate", CalibrateResult).ranges):
        branch, _, tensor = row.node.rpartition("/")
        needed = row.problem == NOT_REACHED and not row.format and row.node not in ranges
        if branch and needed:
            unseen.setdefault(branch, []).append(tensor)
    if unseen:
        raise WorkbenchError(
            [
                ErrorInfo(
                    message=f"No calibration sample executes {branch}, so the ranges of "
                    f"{', '.join(tensors)} are unknown.",
                    hint="Add a sample that executes it, or pin these ranges in Ranges.",
                    where=Place(kind="node", id=branch.rpartition("/")[0]),
                    code="branch-not-calibrated",
                )
                for branch, tensors in unseen.items()
            ]
        )


def _convert(
    module: torch.fx.GraphModule, convert: Callable[[torch.fx.GraphModule], torch.fx.GraphModule]
) -> torch.fx.GraphModule:
    """Convert a graph and the bodies of its cond and while_loop, innermost first.

    Source: ExecuTorch 1.5.1 ``TOSAQuantizer._quantize_with_submodules``.
    """
    branches = (
        [
            (name, _convert(branch, convert))
            for name, branch, _ in get_cond_while_submodules_ao(module, apply_quantization=True)
        ]
        if programs.has_control_flow(module)
        else []
    )
    converted = convert(module)
    for name, branch in branches:
        converted.set_submodule(name, branch, strict=True)
    return converted


def _float_operators(module: torch.fx.GraphModule) -> int:
    """Count operators whose result is used unquantized."""
    count = 0
    for node in module.graph.nodes:
        if node.op != "call_function" or "quantize" in str(node.target):
            continue
        users = list(node.users)
        if users and not any("quantize" in str(user.target) for user in users):
            count += 1
    return count
