"""TFLite study: compile a TensorFlow Lite file as the project's program is, and compare the two."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from workbench.deploy.boards import with_placement
from workbench.engine.data.evaluation import evaluation_samples
from workbench.engine.ethos_u.cpu_operators import compute
from workbench.engine.ethos_u.functional_run import WholeProgram
from workbench.engine.ethos_u.grids import meant_values, program_inputs
from workbench.engine.ethos_u.tflite import TfliteSide, tflite_side
from workbench.engine.evaluation.measures import Accumulator
from workbench.engine.evaluation.reference_outputs import exported_module
from workbench.errors import Place, WorkbenchError, failure
from workbench.results import LowerResult
from workbench.studies.tflite import (
    CpuOperator,
    OutputAgreement,
    SideTotals,
    TfliteComparison,
    digest_of,
    read_file,
)
from workbench.studies.tflite_layers import compare_layers, matched_macs
from workbench.targets import target_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from workbench.engine.runtime.context import StageContext
    from workbench.engine.studies.study import StudyContext
    from workbench.project.model import TargetChoice
    from workbench.pte.tflite_model import TfliteTensor

    Tensors = Sequence[torch.Tensor]

_WHERE = Place(kind="option", id="file")
_SAMPLES = 8
# Networks of less in common are two networks.
_LEAST_MATCHED = 0.25
_CHANNELS_LAST = {3: (0, 2, 1), 4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}
_CHANNELS_FIRST = {3: (0, 2, 1), 4: (0, 3, 1, 2), 5: (0, 4, 1, 2, 3)}


def run(study: StudyContext) -> None:
    """Write the comparison.

    Raises:
        WorkbenchError: the file cannot be compared; one sentence says why.
    """
    context, path = study.stage, Path(str(study.options["file"]))
    content = _content(path, str(study.options["digest"]))
    lowered = context.result("lower", LowerResult)
    choice = _choice(context, lowered)
    study.report(0, 3, "compiling the TensorFlow Lite network")
    theirs = tflite_side(content, choice, context.folder, context.check_cancelled)
    ours = [operation for report in lowered.vela for operation in report.operations]
    if not theirs.compiled_here:
        ours = [operation.model_copy(update={"cycles": operation.ideal_cycles}) for operation in ours]
    layers = compare_layers(ours, theirs.operations)
    outputs = _Outputs(context, theirs)
    if ours and matched_macs(layers) < _LEAST_MATCHED:
        raise _another_network("their layers have other sizes")
    study.report(1, 3, "executing both programs")
    agreements, samples, refused = outputs.compared()
    result = TfliteComparison(
        file=path.name,
        compiled_here=theirs.compiled_here,
        target=choice.id,
        system_config=lowered.system_config,
        memory_mode=lowered.memory_mode,
        program=_totals(lowered, sum(operation.cycles for operation in ours), theirs),
        tflite=theirs.totals,
        layers=layers,
        on_cpu=tuple(
            CpuOperator(op=node.op, module=node.module, reason=node.reason, cycles=node.cycles)
            for node in lowered.cpu_nodes
        ),
        random_weights=lowered.random_weights,
        samples=samples,
        outputs=agreements,
        not_executed=refused,
    )
    study.tell(result, 3, 3, "")


def _content(path: Path, digest: str) -> bytes:
    content = read_file(path)
    if digest_of(content) != digest:
        raise failure(
            f"{path.name} has changed since the comparison was asked for.",
            "Compare again.",
            _WHERE,
            code="file-changed",
        )
    return content


def _choice(context: StageContext, lowered: LowerResult) -> TargetChoice:
    """Return the choice that the program was compiled for, with all options."""
    project = with_placement(context.opened, lowered.placement).project
    return target_of(project.target.id).complete(project.target, context.folder)


def _another_network(why: str) -> WorkbenchError:
    return failure(
        f"The file and the project hold different networks: {why}.",
        "Give the .tflite of the project's network, with the same input size.",
        _WHERE,
        code="tflite-other-network",
    )


def _totals(lowered: LowerResult, cycles: int, theirs: TfliteSide) -> SideTotals:
    cpu: dict[str, int] = {}
    for node in lowered.cpu_nodes:
        cpu[node.op] = cpu.get(node.op, 0) + 1
    operations = [one for report in lowered.vela for one in report.operations]
    return SideTotals(
        cycles=lowered.cycles if theirs.compiled_here else cycles,
        cycles_vela=lowered.cycles_vela if theirs.compiled_here else None,
        inference_ms=lowered.inference_ms if theirs.compiled_here else None,
        sram_bytes=max((report.sram_bytes for report in lowered.vela), default=0),
        constant_bytes=sum(report.flash_bytes for report in lowered.vela),
        macs=sum(report.macs for report in lowered.vela),
        operations=sum(1 for operation in operations if operation.cycles),
        delegates=lowered.delegates,
        cpu=cpu,
        cpu_cycles=lowered.cpu_cycles,
    )


class _Outputs:
    """The outputs of both programs and of the model in float, on a few samples.

    Raises:
        WorkbenchError: the file takes other inputs than the model, or gives other outputs.
    """

    def __init__(self, context: StageContext, theirs: TfliteSide) -> None:
        self._context, self._theirs = context, theirs
        samples = evaluation_samples(context)
        self._samples = [sample.inputs for sample, _ in zip(samples, range(_SAMPLES), strict=False)]
        floating = exported_module(context)
        with torch.no_grad():
            self._float = [_tensors(floating(*inputs)) for inputs in self._samples]
        self._inputs = _partners(self._samples[0], theirs.model.inputs, "inputs")
        self._outputs = _partners(self._float[0], theirs.model.outputs, "outputs")

    def compared(self) -> tuple[tuple[OutputAgreement, ...], int, str]:
        """Return the agreement of each output, on how many samples, and why there is none."""
        program = self._program()
        if isinstance(program, str):
            return (), 0, program
        try:
            tflite = [self._tflite(inputs) for inputs in self._samples]
        except WorkbenchError as error:
            info = error.infos[0]
            return (), 0, f"{info.message} {info.hint}".strip()
        names = [tensor.name for tensor in self._theirs.model.outputs]
        rows = [
            _agreement(
                names[self._outputs[number]],
                [side[number] for side in self._float],
                [side[number] for side in program],
                [side[number] for side in tflite],
            )
            for number in range(len(self._float[0]))
        ]
        return tuple(rows), len(self._samples), ""

    def _program(self) -> list[list[torch.Tensor]] | str:
        """Return the outputs of the compiled program as real values; text says why not."""
        whole, converted = WholeProgram(self._context), self._context.live("convert").module
        integer_io = bool(self._context.project.target.options.get("integer_io"))
        whole.execute([program_inputs(converted, inputs, integer_io) for inputs in self._samples])
        if whole.outputs.refused:
            return whole.outputs.refused
        return [meant_values(converted, outputs, integer_io) for outputs in whole.outputs.outputs]

    def _tflite(self, inputs: Tensors) -> list[torch.Tensor]:
        """Return the outputs of the file for a sample, in the shapes and the order of the model."""
        model, order = self._theirs.model, dict(zip(self._inputs, inputs, strict=True))
        inputs_as_codes = [_codes(order[n], tensor) for n, tensor in enumerate(model.inputs)]
        results = self._theirs.program.run(inputs_as_codes, operators=compute).outputs
        return [
            _reals(results[place], model.outputs[place], tuple(known.shape))
            for place, known in zip(self._outputs, self._float[0], strict=True)
        ]


def _tensors(value: Any) -> list[torch.Tensor]:
    leaves = torch.utils._pytree.tree_leaves(value)  # noqa: SLF001 - no public name
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _partners(ours: Tensors, theirs: Sequence[TfliteTensor], which: str) -> list[int]:
    """Return for each tensor of the model the one of the file: of its shape, else of its size."""
    left = list(range(len(theirs)))
    chosen = list[int]()
    for tensor in ours:
        shape = tuple(tensor.shape)
        fits = [n for n in left if _last(shape) == theirs[n].shape or shape == theirs[n].shape]
        fits += [n for n in left if np.prod(theirs[n].shape) == tensor.numel()]
        if not fits:
            break
        left.remove(fits[0])
        chosen.append(fits[0])
    if left or len(chosen) < len(ours):
        shapes = [", ".join("x".join(map(str, t.shape)) for t in side) for side in (theirs, ours)]
        raise _another_network(f"their {which} are {shapes[0]} and {shapes[1]}")
    return chosen


def _last(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape with its channels last."""
    return tuple(shape[axis] for axis in _CHANNELS_LAST.get(len(shape), range(len(shape))))


def _codes(values: torch.Tensor, tensor: TfliteTensor) -> npt.NDArray[Any]:
    """Return an input as the file takes it."""
    array = values.detach().cpu().numpy()
    if array.shape != tensor.shape and _last(array.shape) == tensor.shape:
        array = array.transpose(_CHANNELS_LAST[array.ndim])
    array = array.reshape(tensor.shape)
    if not tensor.scale or not np.issubdtype(array.dtype, np.floating):
        return array.astype(tensor.dtype)
    limits = np.iinfo(np.dtype(tensor.dtype))
    codes = np.round(array / np.float32(tensor.scale)) + tensor.zero_point
    return codes.clip(limits.min, limits.max).astype(tensor.dtype)


def _reals(codes: npt.NDArray[Any], tensor: TfliteTensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Return an output of the file as real values in a shape of the model."""
    values = codes.astype(np.float32)
    if tensor.scale:
        values = (values - tensor.zero_point) * np.float32(tensor.scale)
    if values.shape != shape and values.ndim == len(shape) and _last(shape) == values.shape:
        values = values.transpose(_CHANNELS_FIRST[values.ndim])
    return torch.from_numpy(np.ascontiguousarray(values.reshape(shape)))


def _agreement(name: str, floating: Tensors, program: Tensors, tflite: Tensors) -> OutputAgreement:
    sums = [Accumulator() for _ in range(3)]
    for real, ours, theirs in zip(floating, program, tflite, strict=True):
        sums[0].add(real, ours)
        sums[1].add(real, theirs)
        sums[2].add(theirs, ours)
    return OutputAgreement(
        name=name,
        elements=floating[0].numel(),
        program_db=sums[0].sqnr_db,
        tflite_db=sums[1].sqnr_db,
        between_db=sums[2].sqnr_db,
    )
