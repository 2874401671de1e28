"""Prepare: insert observers for the tensors that the rules quantize."""

from __future__ import annotations

import copy
import operator
import random
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from executorch.backends.arm.quantizer.arm_quantizer import get_cond_while_submodules_ao
from torchao.quantization.pt2e import ObserverBase

from workbench.engine.data.evaluation import calibration_samples
from workbench.engine.evaluation.stateful_execution import plain_attention, refuse_memory
from workbench.engine.fx import programs
from workbench.engine.fx.branches import constants
from workbench.engine.fx.modules import keep_origins, with_origins
from workbench.engine.fx.observers import branches_of
from workbench.engine.fx.snapshot import snapshot
from workbench.engine.quantization import compression
from workbench.engine.quantization.improvement import Improved, improve
from workbench.engine.quantization.layer_walk import Trial
from workbench.engine.runtime.accelerated import accelerated
from workbench.engine.targets import toolchain_of
from workbench.engine.training.weights import put_weights, read_weights, write_tensors
from workbench.errors import Place, WorkbenchError, failure
from workbench.graph.snapshot import GraphSnapshot
from workbench.project.configs import IMPROVERS
from workbench.project.rules import ambiguous_classes
from workbench.project.sources import absolute
from workbench.results import (
    GRAPH_FILE,
    IMPROVED_WEIGHTS,
    AppliedCorrection,
    AppliedRewrite,
    CompressedLayer,
    NodeAnnotation,
    PrepareResult,
    save_result,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.engine.runtime.context import StageContext
    from workbench.engine.targets import Toolchain
    from workbench.engine.training.weights import Weights

LEVEL = "prepared"
_HANDED_IN = (
    "Weights inside branches are quantized like activations: one scale per "
    "tensor, with the activations' bits, including biases. torch.export passes "
    "them as inputs."
)


@dataclass
class Prepared:
    """A graph with observers, and the quantizer's report on its nodes and branches."""

    module: torch.fx.GraphModule
    annotations: tuple[NodeAnnotation, ...]
    improved: Improved = field(default_factory=Improved)
    weights: Weights = field(default_factory=dict)
    compressed: tuple[CompressedLayer, ...] = ()
    corrections: tuple[AppliedCorrection, ...] = ()
    rewrites: tuple[AppliedRewrite, ...] = ()


def run(context: StageContext) -> None:
    """Write the prepared graph and the quantizer's report."""
    context.progress(0, None, "annotating")
    floating = GraphSnapshot.load(context.path("export") / GRAPH_FILE)
    types = (module.type_name for module in floating.modules)
    if ambiguous := list(ambiguous_classes(context.project, types)):
        raise WorkbenchError(ambiguous)
    prepared = _prepare(context, again=False)
    graph = snapshot(prepared.module, LEVEL, floating.modules)
    graph.save(context.out / GRAPH_FILE)
    keep_origins(context, floating, graph)
    handed_in = constants(prepared.module)
    observers = [m for m in prepared.module.modules() if isinstance(m, ObserverBase)]
    notes = prepared.annotations
    warnings = [f"{note.node}: {note.reason}" for note in notes if note.quantized and note.reason]
    if not observers:
        warnings.append("Nothing is quantized: no rule matches a supported operator.")
    if any(user.op == "call_module" for _, node, _ in handed_in for user in node.users):
        warnings.append(_HANDED_IN)
    result = PrepareResult(
        observers=len(observers),
        annotations=with_origins(context, prepared.annotations),
        improvements=tuple(prepared.improved.improvements),
        ranges=prepared.improved.ranges,
        compressed=prepared.compressed,
        corrections=prepared.corrections,
        rewrites=prepared.rewrites,
        warnings=tuple(warnings),
    )
    save_result(result, context.out)
    if context.project.improves():
        write_tensors(prepared.weights, context.out / IMPROVED_WEIGHTS)
    context.keep(prepared)


def load(context: StageContext) -> Prepared:
    """Prepare again; observers are not stored."""
    return _prepare(context, again=True)


def _prepare(context: StageContext, *, again: bool) -> Prepared:
    toolchain, project = toolchain_of(context), context.project
    quantizer = toolchain.quantizer(context.opened)
    with accelerated(context.accelerate), toolchain.float_module(context) as floating:
        narrow, channels = pruned(context, floating)
        module, done = changed(context, narrow, again=again)
        weights = _differences(narrow, module) if project.improves() else {}
        module, clusters = clustered(context, module)
        with plain_attention(when=bool(programs.written_buffers(module))):
            prepared = toolchain.prepare(module, quantizer)
        annotations = toolchain.report(quantizer, prepared, project)
        for part, inside in _prepared_branches(prepared, "", toolchain, quantizer):
            report = toolchain.report(quantizer, part, project)
            annotations += [n.model_copy(update={"node": f"{inside}{n.node}"}) for n in report]
    corrections = tuple(getattr(quantizer, "applied_corrections", ()))
    rewritten = tuple(getattr(quantizer, "rewritten", ()))
    layers = tuple(
        CompressedLayer(module=name, channels=channels.get(name), clusters=clusters.get(name))
        for name in sorted({*channels, *clusters})
    )
    return Prepared(prepared, tuple(annotations), done, weights, layers, corrections, rewritten)


def pruned(
    context: StageContext, module: torch.fx.GraphModule
) -> tuple[torch.fx.GraphModule, dict[str, tuple[int, int]]]:
    """Return the float module, or a copy with fewer channels, with those of changed layers."""
    wanted = context.project.channels()
    if not wanted:
        return module, {}
    mine = copy.deepcopy(module)
    with _refused("channels"):
        _refuse_branches(mine, "compressions")
        return mine, compression.prune(mine, wanted)


def clustered(
    context: StageContext, module: torch.fx.GraphModule
) -> tuple[torch.fx.GraphModule, dict[str, tuple[int, int]]]:
    """Return the float module, or a copy with fewer distinct weights, with those of each layer."""
    wanted = context.project.clusters()
    if not wanted:
        return module, {}
    mine = copy.deepcopy(module)
    with _refused("clusters"):
        return mine, compression.cluster(mine, wanted)


@contextmanager
def _refused(what: str) -> Iterator[None]:
    """Raise a problem for a module that cannot be compressed."""
    try:
        yield
    except compression.NotPrunableError as error:
        name, reason = error.args
        raise failure(
            f"The {what} of {name} cannot be set: it {reason}.",
            "Remove the entry, or set another module: workbench compress PROJECT lists them.",
            Place(kind="module", id=name),
            code=f"{what}-not-compressible",
        ) from error


def changed(
    context: StageContext, module: torch.fx.GraphModule, *, again: bool
) -> tuple[torch.fx.GraphModule, Improved]:
    """Return the float module, or a copy with trained or improved weights, with a report.

    ``again`` takes the improved weights from the result of an earlier run.
    """
    project = context.project
    if project.trained_weights:
        mine = copy.deepcopy(module)
        put_weights(mine, read_weights(absolute(context.folder, project.trained_weights)))
        return mine, Improved()
    if not project.improvers:
        return module, Improved()
    if not again:
        return improved(context, module)
    mine, result = copy.deepcopy(module), context.result("prepare", PrepareResult)
    put_weights(mine, read_weights(context.path("prepare") / IMPROVED_WEIGHTS))
    return mine, Improved(list(result.improvements), result.ranges)


def improved(context: StageContext, module: torch.fx.GraphModule) -> tuple[torch.fx.GraphModule, Improved]:
    """Return a copy of the float module with improved weights, with a report."""
    _refuse_branches(module, "improvers")
    refuse_memory(module, calibration_samples(context), "An improver", "prepare")
    mine = copy.deepcopy(module)
    project, toolchain = context.project, toolchain_of(context)

    def trial(floating: torch.fx.GraphModule, samples: Any, ranges: Any) -> Trial:
        quantizer = toolchain.trial_quantizer(context.opened)
        return Trial(floating, quantizer, toolchain, samples, ranges)

    with torch.no_grad():
        done = improve(
            mine,
            project.improvers,
            lambda: _chosen_samples(context),
            trial,
            project.improving,
            context.progress,
        )
    titles = {improver.id: improver.title for improver in IMPROVERS}
    for name in done.improvements:
        context.log(f"{titles[name.improver]}: {name.sentence}")
    return mine, done


def _chosen_samples(context: StageContext) -> list[tuple[torch.Tensor, ...]]:
    """Return the calibration samples for improvers, in order; of more, seeded random ones.

    Source: reservoir sampling, Vitter 1985, algorithm R.
    """
    given, settings = calibration_samples(context), context.project.improving
    generator = random.Random(settings.seed)
    chosen: list[tuple[int, tuple[torch.Tensor, ...]]] = []
    for number, sample in enumerate(given):
        context.progress(number, given.count, "reading samples")
        if number < settings.samples:
            chosen.append((number, sample.inputs))
        elif (place := generator.randrange(number + 1)) < settings.samples:
            chosen[place] = (number, sample.inputs)
    return [inputs for _, inputs in sorted(chosen, key=operator.itemgetter(0))]


def _differences(before: torch.fx.GraphModule, after: torch.fx.GraphModule) -> Weights:
    """Return the weights of a module, by name, that another one does not have."""
    held = {**dict(before.named_parameters()), **dict(before.named_buffers())}
    return {
        name: value.data
        for name, value in (*after.named_parameters(), *after.named_buffers())
        if not torch.equal(value, held[name])
    }


def _refuse_branches(module: torch.fx.GraphModule, option: str) -> None:
    if programs.has_control_flow(module):
        raise failure(
            "Changes of the float weights do not support models with branches or loops.",
            f"Remove the {option}.",
            Place(kind="option", id=option),
            code="improvers-branches-not-supported",
        )


def _prepared_branches(
    part: torch.fx.GraphModule, inside: str, toolchain: Toolchain, quantizer: Any
) -> Iterator[tuple[torch.fx.GraphModule, str]]:
    """Prepare the bodies of cond and while_loop, like the quantizer's own submodule path.

    Source: ExecuTorch 1.5.1 ``TOSAQuantizer._quantize_with_submodules``; torchao 0.18
    ``prepare_pt2e`` prepares loop bodies itself.

    Args:
        part: A prepared graph; nested graphs are changed.
        inside: Name prefix of its nodes.
        toolchain: The target's toolchain.
        quantizer: The toolchain's quantizer.

    Yields:
        Every nested graph, prepared, with the name prefix of its nodes.
    """
    wanted = get_cond_while_submodules_ao(part, apply_quantization=True)
    unprepared = {id(branch): name for name, branch, _ in wanted}
    for below, branch in branches_of(part):
        module = branch
        if id(branch) in unprepared:
            module = toolchain.prepare(branch, quantizer)
            part.set_submodule(unprepared[id(branch)], module, strict=True)
        yield module, f"{inside}{below}"
        yield from _prepared_branches(module, f"{inside}{below}", toolchain, quantizer)
