"""Passes over data, accelerated where the results stay bit-exact."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from workbench.engine.calibration import statistics
from workbench.engine.calibration.quick_observers import RangeMemory, quick_calibration, remembered_ranges
from workbench.engine.calibration.transform_memory import TransformMemory, remembered_transforms
from workbench.engine.ethos_u.applied_corrections import correction_functions
from workbench.engine.ethos_u.corrections.batch_norm_folding import made_foldable
from workbench.engine.evaluation.quick_modules import fast_quantized_module
from workbench.engine.fx import programs
from workbench.engine.fx.branches import own_branches
from workbench.engine.fx.modules import source_line
from workbench.engine.quality.reference_outputs import reference_of
from workbench.engine.quality.tensors import QuickComparison, TensorComparison
from workbench.engine.quantization.statistics_cache import memory_of
from workbench.engine.toolchain_patches.gate import acceleration
from workbench.errors import ErrorInfo, Place, WorkbenchError
from workbench.toolchain_versions import status

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import torch

    from workbench.engine.context import StageContext
    from workbench.engine.quality.reference_outputs import FloatReference
    from workbench.engine.quantization.sample_extrema import SampleExtrema
    from workbench.engine.quantization.statistics_cache import StatisticsMemory

_MEMORY = "range memory"
_TRANSFORMS = "transform memory"


def _allowed(context: StageContext) -> bool:
    return context.accelerate and status().active


@contextmanager
def float_module(context: StageContext) -> Iterator[torch.fx.GraphModule]:
    """Yield the float program's module for preparation; prepare inside the block."""
    program: torch.export.ExportedProgram = context.live("export")
    # With guards the module contains a call_module node on which the Arm passes fail.
    project = context.project
    functions = correction_functions(project.target.options, "quantizer")[0].get("batch_norm_folding", ())
    make = partial(_module, program, functions)
    if project.trained_weights or project.compressions:
        # What these change is changed first, by the names of the model.
        yield own_branches(_module(program, None))
        return
    remembers = program.graph_signature.buffers_to_mutate
    usual = project.improvers or remembers or programs.has_control_flow(program)
    if usual or not _allowed(context):
        yield own_branches(make())
        return
    key = f"{context.plan.key('export')} {[function.__name__ for function in functions]}"
    memory = context.store.get(_TRANSFORMS, key)
    if memory is None:
        memory = TransformMemory(make)
        context.store.keep(_TRANSFORMS, key, memory)
    with remembered_transforms(memory):
        yield memory.module()


def _module(program: torch.export.ExportedProgram, functions: Sequence[Any] | None) -> torch.fx.GraphModule:
    """Return a program's module, with these corrections of what batch norms are folded into."""
    module: Any = program.module(check_guards=False)
    refuse_present_statistics(module)
    if functions is not None:
        made_foldable(module, functions)
    return cast("torch.fx.GraphModule", module)


_FOLDED_INTO = ("aten.conv", "aten.linear")


def refuse_present_statistics(module: torch.fx.GraphModule) -> None:
    """Raise for batch norms with statistics of the batch, which torchao folds all the same.

    Raises:
        WorkbenchError: every such batch norm.
    """
    problems = [
        _of_present_statistics(node)
        for node in module.graph.nodes
        if str(node.target) == "aten.batch_norm.default"
        and (node.args[3] is None or node.args[5])
        and str(node.args[0].target).startswith(_FOLDED_INTO)
    ]
    if problems:
        raise WorkbenchError(problems)


def _of_present_statistics(norm: torch.fx.Node) -> ErrorInfo:
    line = source_line(norm.meta.get("stack_trace"), own=True)
    named = f"{norm.name} in module {programs.module_of(norm) or 'forward'}"
    hint = "Train the model with track_running_stats=True"
    if norm.meta["val"].dim() > _WITHOUT_POSITIONS:
        affine = " and affine=True" if norm.args[1] is not None else ""
        hint += (
            f", or use InstanceNorm with track_running_stats=False{affine}, which is the same for "
            "a batch of one"
        )
    return ErrorInfo(
        message=f"The batch norm {named}{f' at {line}' if line else ''} normalizes with the "
        "statistics of the present batch, not with running ones.",
        hint=f"{hint}.",
        where=Place(kind="node", id=norm.name),
        code="batch-norm-without-statistics",
    )


# Dimensions of a value that has a batch and channels only.
_WITHOUT_POSITIONS = 2


def quantized_module(context: StageContext) -> torch.fx.GraphModule:
    """Return the converted module, or an equal, faster one."""
    converted: torch.fx.GraphModule = context.live("convert").module
    return fast_quantized_module(converted) if _allowed(context) else converted


def tensor_comparison(context: StageContext, reference: FloatReference | None) -> TensorComparison:
    """Return the comparison of all tensors; fast if a float reference may be used."""
    prepared, converted = context.live("calibrate").module, context.live("convert").module
    hashes = statistics.value_hashes(prepared) if reference is not None else None
    if reference is None or hashes is None:
        return TensorComparison(prepared, converted, partial(quantized_module, context))
    with acceleration("lazy-recompile"):
        return QuickComparison(prepared, converted, hashes, reference)


def float_reference(context: StageContext) -> FloatReference | None:
    """Return the float reference of the evaluation samples, if it may be used."""
    return reference_of(context) if _allowed(context) else None


class Calibration:
    """One calibration of a prepared module, using cached statistics.

    ``is_answered`` means that no data is needed; the sample extrema are then complete.
    """

    def __init__(self, context: StageContext, prepared: torch.fx.GraphModule, extrema: SampleExtrema) -> None:
        self.module = prepared
        self.extrema = extrema
        self.is_answered = False
        self._keys: dict[str, str] = {}
        self._memory: StatisticsMemory | None = None
        self._quick = _allowed(context)
        keys = statistics.statistics_keys(prepared) if self._quick else None
        if keys is None:
            return
        self._keys, self._memory = keys, memory_of(context)
        known = self._memory.known
        unanswered = statistics.unanswered(prepared, keys, known)
        statistics.replay(prepared, known, keys)
        for name, key in keys.items():
            if key in known:
                extrema.recall(name, known[key])
        self.is_answered = bool(self._memory.samples) and not unanswered
        if self.is_answered:
            extrema.samples = list(self._memory.samples)

    @contextmanager
    def observing(self) -> Iterator[None]:
        """Run observers without statistics on the data of the block, accelerated."""
        if not self._quick:
            yield
            return
        known = self._memory.known if self._memory is not None else {}
        with quick_calibration(self.module), statistics.only_missing(self.module, self._keys, known):
            yield

    def remember(self) -> None:
        """Store the observers' statistics for later configurations."""
        if self._memory is None:
            return
        missing = [name for name, key in self._keys.items() if key not in self._memory.known]
        entry = {
            self._keys[name]: {**statistics.statistics(self.module, name), **self.extrema.account(name)}
            for name in missing
        }
        if entry:
            self._memory.add(entry, self.extrema.samples)


@contextmanager
def searching_ranges(context: StageContext) -> Iterator[None]:
    """Search ranges faster, and once for all edits that do not change a tensor's histogram."""
    if not _allowed(context):
        yield
        return
    memory = context.store.get(_MEMORY, "")
    if memory is None:
        memory = RangeMemory()
        context.store.keep(_MEMORY, "", memory)
    with remembered_ranges(memory), acceleration("quick-search"):
        yield
