"""Insert observers where the rules want quantization."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from executorch.backends.arm.quantizer.arm_quantizer import get_cond_while_submodules_ao
from torchao.quantization.pt2e import ObserverBase

from workbench.engine.data.evaluation import calibration_samples
from workbench.engine.fx import programs
from workbench.engine.fx.branches import constants
from workbench.engine.fx.modules import keep_origins, with_origins
from workbench.engine.fx.snapshot import snapshot
from workbench.engine.quality.stateful_execution import plain_attention, refuse_memory
from workbench.engine.quantization.observers import branches_of
from workbench.engine.quantization.weight_transforms import improve
from workbench.engine.toolchain_patches.gate import accelerated
from workbench.engine.training.weights import put_weights, read_weights
from workbench.errors import Place, WorkbenchError, failure
from workbench.graph.snapshot import GraphSnapshot
from workbench.project.configs import IMPROVERS
from workbench.project.rules import ambiguous_classes
from workbench.project.sources import absolute
from workbench.results import (
    GRAPH_FILE,
    AppliedCorrection,
    Improvement,
    NodeAnnotation,
    PrepareResult,
    save_result,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.engine.context import StageContext
    from workbench.engine.targets.base import Toolchain

LEVEL = "prepared"
IMPROVER_SAMPLES = 64
_HANDED_IN = (
    "Weights inside of branches are quantized as activations are: one scale for a whole tensor,"
    " with the bits of the activations, biases too. torch.export hands them in as inputs."
)


@dataclass
class Prepared:
    """A graph with observers, and what the quantizer did with its nodes and those of branches."""

    module: torch.fx.GraphModule
    annotations: tuple[NodeAnnotation, ...]
    improvements: tuple[Improvement, ...] = ()
    corrections: tuple[AppliedCorrection, ...] = ()


def run(context: StageContext) -> None:
    """Leave the prepared graph and the quantizer's report."""
    context.progress(0, None, "annotating")
    floating = GraphSnapshot.load(context.path("export") / GRAPH_FILE)
    types = (module.type_name for module in floating.modules)
    if ambiguous := list(ambiguous_classes(context.project, types)):
        raise WorkbenchError(ambiguous)
    prepared = _prepare(context)
    graph = snapshot(prepared.module, LEVEL, floating.modules)
    graph.save(context.out / GRAPH_FILE)
    keep_origins(context, floating, graph)
    handed_in = constants(prepared.module)
    observers = [m for m in prepared.module.modules() if isinstance(m, ObserverBase)]
    notes = prepared.annotations
    warnings = [f"{note.node}: {note.reason}" for note in notes if note.quantized and note.reason]
    if not observers:
        warnings.append("Nothing is quantized: no rule matches an operator the target can take.")
    if any(user.op == "call_module" for _, each, _ in handed_in for user in each.users):
        warnings.append(_HANDED_IN)
    result = PrepareResult(
        observers=len(observers), annotations=with_origins(context, prepared.annotations),
        improvements=prepared.improvements, corrections=prepared.corrections,
        warnings=tuple(warnings),
    )  # fmt: skip
    save_result(result, context.out)
    context.keep(prepared)


def load(context: StageContext) -> Prepared:
    """Prepare again; observers are not kept on disk."""
    return _prepare(context)


def _prepare(context: StageContext) -> Prepared:
    toolchain, project = context.toolchain(), context.project
    quantizer = toolchain.quantizer(project, context.folder)
    with (
        accelerated(context.accelerate),
        toolchain.float_module(context) as floating,
    ):
        module, done = changed(context, floating)
        with plain_attention(when=bool(programs.written_buffers(module))):
            prepared = toolchain.prepare(module, quantizer)
        annotations = toolchain.report(quantizer, prepared, project)
        for part, inside in _prepared_branches(prepared, "", toolchain, quantizer):
            found = toolchain.report(quantizer, part, project)
            annotations += [n.model_copy(update={"node": f"{inside}{n.node}"}) for n in found]
    corrections = tuple(getattr(quantizer, "corrections", ()))
    return Prepared(prepared, tuple(annotations), tuple(done), corrections)


def changed(
    context: StageContext, module: torch.fx.GraphModule
) -> tuple[torch.fx.GraphModule, list[Improvement]]:
    """Return the float module, or a copy with trained or improved weights, and what was done."""
    project = context.project
    if project.trained_weights:
        mine = copy.deepcopy(module)
        put_weights(mine, read_weights(absolute(context.folder, project.trained_weights)))
        return mine, []
    return improved(context, module) if project.improvers else (module, [])


def improved(
    context: StageContext, module: torch.fx.GraphModule
) -> tuple[torch.fx.GraphModule, list[Improvement]]:
    """Return a copy of the float module with improved weights, and what was done."""
    if programs.has_control_flow(module):
        raise failure(
            "Improvers do not take models with branches or loops.",
            "Switch the improvers off.",
            Place(kind="option", id="improvers"),
        )
    refuse_memory(module, calibration_samples(context), "An improver", "prepare")

    def samples() -> Iterator[tuple[torch.Tensor, ...]]:
        given = calibration_samples(context)
        for number, sample in enumerate(given):
            if number == IMPROVER_SAMPLES:
                break
            context.progress(number, min(given.count or 0, IMPROVER_SAMPLES) or None, "improving")
            yield sample.inputs

    mine = copy.deepcopy(module)
    project, toolchain = context.project, context.toolchain()
    with torch.no_grad():
        done = improve(
            mine, project.improvers, samples,
            lambda: toolchain.quantizer(project, context.folder), toolchain,
        )  # fmt: skip
    titles = {improver.id: improver.title for improver in IMPROVERS}
    for each in done:
        context.log(f"{titles[each.improver]}: {each.sentence}")
    return mine, done


def _prepared_branches(
    part: torch.fx.GraphModule, inside: str, toolchain: Toolchain, quantizer: Any
) -> Iterator[tuple[torch.fx.GraphModule, str]]:
    """Prepare the bodies of cond and while_loop, as the quantizer's own submodule path does.

    Source: ExecuTorch 1.5.1 ``TOSAQuantizer._quantize_with_submodules``; torchao 0.18
    ``prepare_pt2e`` prepares by itself what a loop repeats.

    Args:
        part: A prepared graph; those below it are changed.
        inside: What its nodes are named after.
        toolchain: What prepares.
        quantizer: What ``toolchain`` made.

    Yields:
        Every graph below the part, prepared, with what its nodes are named after.
    """
    wanted = get_cond_while_submodules_ao(part, apply_quantization=True)
    unprepared = {id(branch): name for name, branch, _ in wanted}
    for below, branch in branches_of(part):
        made = branch
        if id(branch) in unprepared:
            made = toolchain.prepare(branch, quantizer)
            part.set_submodule(unprepared[id(branch)], made, strict=True)
        yield made, f"{inside}{below}"
        yield from _prepared_branches(made, f"{inside}{below}", toolchain, quantizer)
