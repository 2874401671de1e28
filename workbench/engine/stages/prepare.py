"""Insert observers where the rules want quantization."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from executorch.backends.arm.quantizer.arm_quantizer import get_cond_while_submodules_ao
from torchao.quantization.pt2e import ObserverBase
from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

from workbench.engine import programs
from workbench.engine.acceleration.table import accelerated
from workbench.engine.fx_snapshot import snapshot
from workbench.graph.snapshot import GraphSnapshot
from workbench.results import GRAPH_FILE, PrepareResult, save_result

if TYPE_CHECKING:
    from workbench.engine.context import StageContext

LEVEL = "prepared"


@dataclass
class Prepared:
    """A graph with observers, and the quantizer that put them there."""

    module: torch.fx.GraphModule
    quantizer: Any


def run(context: StageContext) -> None:
    """Leave the prepared graph and the quantizer's report."""
    context.progress(0, None, "annotating")
    prepared = _prepare(context)
    floating = GraphSnapshot.load(context.path("export") / GRAPH_FILE)
    graph = snapshot(prepared.module, LEVEL, floating.modules)
    graph.save(context.out / GRAPH_FILE)
    toolchain = context.toolchain()
    annotations = toolchain.report(prepared.quantizer, prepared.module, context.project)
    observers = [m for m in prepared.module.modules() if isinstance(m, ObserverBase)]
    warnings = []
    if not observers:
        warnings.append("Nothing is quantized: no rule matches an operator the target can take.")
    result = PrepareResult(
        observers=len(observers), annotations=tuple(annotations), warnings=tuple(warnings)
    )
    save_result(result, context.out)
    context.keep(prepared)


def load(context: StageContext) -> Prepared:
    """Prepare again; observers are not kept on disk."""
    return _prepare(context)


def _prepare(context: StageContext) -> Prepared:
    program: torch.export.ExportedProgram = context.hot("export")
    # With guards the module holds a call_module node on which the Arm passes fail.
    module = program.module(check_guards=False)
    quantizer = context.toolchain().quantizer(context.project)
    with accelerated(context.accelerate, log=context.log):
        prepared = prepare_pt2e(module, quantizer)
        if programs.has_control_flow(prepared):
            _prepare_branches(prepared, prepared, quantizer, "")
    return Prepared(prepared, quantizer)


def _prepare_branches(
    whole: torch.fx.GraphModule, part: torch.fx.GraphModule, quantizer: Any, prefix: str
) -> None:
    """Prepare the bodies of cond and while_loop, as the quantizer's own submodule path does.

    Source: ExecuTorch 1.5.1 ``TOSAQuantizer._quantize_with_submodules``.
    """
    for name, branch, _ in get_cond_while_submodules_ao(part, apply_quantization=True):
        qualified = f"{prefix}.{name}" if prefix else name
        whole.set_submodule(qualified, prepare_pt2e(branch, quantizer), strict=True)
        _prepare_branches(whole, branch, quantizer, qualified)
