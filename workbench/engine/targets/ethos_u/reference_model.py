"""The compiled program on the TOSA reference model, compared to the quantized model. Computed.

The edge program runs as on the device: CPU operators eagerly, every delegate's TOSA on the
reference model. Source: tosa-tools 2026.5.0, module ``tosa_reference_model``.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import tosa_reference_model
from torch._higher_order_ops.executorch_call_delegate import executorch_call_delegate
from torch.export.graph_signature import OutputKind

from workbench.engine.data.evaluation import evaluation_samples, verification_samples
from workbench.engine.fx import programs
from workbench.engine.quality.dependence import Variation
from workbench.engine.quality.measures import Accumulator, OutputAccumulator, tensors_of
from workbench.engine.quality.model_outputs import PartTally, model_outputs
from workbench.engine.quality.passes import quantized_module
from workbench.engine.quality.perplexity import TextTally
from workbench.engine.quality.rounding import with_roundings
from workbench.engine.quality.stateful_execution import Steps, stepping
from workbench.engine.targets.ethos_u.compiled_program import CompiledDelegates
from workbench.engine.targets.ethos_u.functional_run import execute
from workbench.engine.targets.ethos_u.grids import Grid, given_values, meant_values, output_grids
from workbench.engine.targets.ethos_u.intermediates import (
    IntegerComparison,
    exposed,
    outer_names,
    output_names,
    pairs,
)
from workbench.engine.targets.ethos_u.pool_rounding import halves_away_from_zero
from workbench.errors import Place, failure
from workbench.results import (
    AgainstFloat,
    ExportResult,
    IntegerQuality,
    OutputQuality,
    VerifyResult,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from workbench.engine.context import StageContext
    from workbench.engine.data import Sample, Samples
    from workbench.engine.targets.base import Lowered


class IntegerSteps:
    """Runs the integer program sample by sample, with state as on the device.

    Outputs that are inputs of the next step are passed as real numbers on the grid of that input:
    firmware that passes integers must convert between the grids too.
    """

    def __init__(
        self, program: IntegerProgram, converted: torch.fx.GraphModule, *, integer_io: bool
    ) -> None:
        self._program, self._converted, self._integer_io = program, converted, integer_io
        self._carried: list[torch.Tensor] = []

    def given(self, sample: Sample) -> list[torch.Tensor]:
        """Return the inputs for the next sample; resets the state at the start of a sequence."""
        if sample.begins:
            self._program.reset()
            self._carried = []
        inputs = sample.inputs
        if self._carried:
            inputs = (*inputs[: -sample.carried], *self._carried)
        return given_values(self._converted, inputs, self._integer_io)

    def __call__(self, sample: Sample) -> list[torch.Tensor]:
        """Return the program's outputs for the next sample, without state."""
        outputs = self._program.compute(tuple(self.given(sample)))
        kept = len(outputs) - sample.carried
        if sample.carried:
            self._carried = meant_values(self._converted, outputs, self._integer_io)[kept:]
        return outputs[:kept]


_DELEGATE = executorch_call_delegate
# Otherwise the quantized model is interpreted node by node, several times slower.
TENSOR_SAMPLES = 4
# What an element counts as that is NaN or infinite in one of two programs [LSB].
_NOT_FINITE_LSB = 1 << 16


class IntegerProgram(torch.fx.Interpreter):
    """Runs an edge program whose delegates run on the reference model.

    Buffers keep their values between runs, until ``reset``.
    """

    def __init__(self, lowered: Lowered) -> None:
        program = lowered.edge
        super().__init__(program.graph_module)
        delegates = programs.delegates(program)
        self._tosa = dict(zip(delegates, lowered.tosa, strict=True))
        self._specs = {
            name: [v.meta["val"] for v in _outputs(delegate)]
            for name, delegate in delegates.items()
        }
        self._program = program
        self._buffers: dict[str, torch.Tensor] = {}
        self._wanted: dict[str, list[str]] = {}
        self._at: Any = None
        self.compiled: CompiledDelegates | None = None
        self.made: dict[tuple[int, str], np.ndarray[Any, Any]] = {}
        self.executed: dict[tuple[int, str], np.ndarray[Any, Any]] = {}
        self.keeps_executed = False

    def expose(self, tensors: Iterable[tuple[int, str]]) -> None:
        """Store these tensors of the delegates in ``made`` from now on; none to stop.

        Tensors inside branches and loops are not available and are skipped.
        """
        self.made = {}
        names = list(self._tosa)
        self._wanted = {name: [] for name in names}
        outer = {name: outer_names(flatbuffer) for name, flatbuffer in self._tosa.items()}
        for delegate, tensor in tensors:
            name = names[delegate]
            if tensor in outer[name]:
                self._wanted[name].append(tensor)

    def compute(self, inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
        """Return the program's outputs for one set of inputs."""
        signature = self._program.graph_signature
        outputs = self.run(*self._values(inputs))
        for spec, value in zip(signature.output_specs, outputs, strict=True):
            if spec.kind is OutputKind.BUFFER_MUTATION:
                self._buffers[spec.target] = value
        user = [v for s, v in zip(signature.output_specs, outputs, strict=True)
                if s.kind is OutputKind.USER_OUTPUT]  # fmt: skip
        return [value for value in user if isinstance(value, torch.Tensor)]

    def reset(self) -> None:
        """Reset all buffers to their initial values."""
        self._buffers = {}

    def _values(self, inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
        """Return the values of the graph's placeholders."""
        program = self._program
        signature = program.graph_signature
        given = iter(inputs)
        values = []
        for node in program.graph.nodes:
            if node.op != "placeholder":
                continue
            name = node.name
            if name in signature.inputs_to_parameters:
                values.append(program.state_dict[signature.inputs_to_parameters[name]])
            elif name in signature.inputs_to_buffers:
                target = signature.inputs_to_buffers[name]
                kept = self._buffers.get(target, program.state_dict.get(target))
                values.append(program.constants[target] if kept is None else kept)
            elif name in signature.inputs_to_lifted_tensor_constants:
                target = signature.inputs_to_lifted_tensor_constants[name]
                values.append(program.constants[target])
            else:
                values.append(next(given))
        return values

    def run_node(self, n: torch.fx.Node) -> Any:
        """Run a node; a delegate call needs the memory order of its tensors."""
        self._at = n
        return super().run_node(n)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Run a delegate on the reference model, other functions directly."""
        if target is not _DELEGATE:
            return super().call_function(target, args, kwargs)
        name = next(n for n in self._tosa if getattr(self._program.graph_module, n) is args[0])
        layouts = [source.meta["val"].dim_order() for source in self._at.args[1:]]
        arrays = [_lying(a, layout) for a, layout in zip(args[1:], layouts, strict=True)]
        flatbuffer, inner = self._tosa[name], self._wanted.get(name, [])
        if inner:
            flatbuffer = exposed(flatbuffer, [*output_names(flatbuffer), *inner])
        outputs, status = tosa_reference_model.run(
            flatbuffer, arrays, verbosity="NONE",
            initialize_variable_tensor_from_numpy=True,
        )  # fmt: skip
        if status != tosa_reference_model.GraphStatus.TOSA_VALID:
            raise failure(
                f"The reference model rejected the delegate {name} ({status}).",
                "The TOSA program is invalid. Please report it with the model.",
                Place(kind="stage", id="verify"),
                code="reference-model-rejected",
            )
        count, number = len(self._specs[name]), list(self._tosa).index(name)
        _check_outputs(number, outputs[:count], self._specs[name])
        if self.compiled is not None:
            self.compiled.compare(number, arrays, [np.array(o) for o in outputs[:count]])
        for tensor, values in zip(inner, outputs[count:], strict=True):
            self.made[number, tensor] = np.array(values)
        if self.compiled is not None and self.keeps_executed:
            wanted = {tensor: self.made[number, tensor] for tensor in inner}
            tensors = self.compiled.tensors(number, arrays, wanted)
            self.executed |= {(number, tensor): values for tensor, values in tensors.items()}
        shaped = zip(outputs[:count], self._specs[name], strict=True)
        return [_standing(np.array(o), v) for o, v in shaped]


def verify(context: StageContext) -> VerifyResult:
    """Compare the integer program with the quantized model over the evaluation samples."""
    with halves_away_from_zero(context.hot("convert").module, context.hot("lower").edge):
        return _verify(context)


def _verify(context: StageContext) -> VerifyResult:
    lowered: Lowered = context.hot("lower")
    program, converted = IntegerProgram(lowered), context.hot("convert").module
    integer_io = bool(context.project.target.options.get("integer_io"))
    integer = IntegerSteps(program, converted, integer_io=integer_io)
    tally = Tally(output_grids(converted), integer_io=integer_io)
    program.compiled = CompiledDelegates(context, lowered)
    wanted = context.project.verification.samples
    floating = _FloatModel(context, evaluation_samples(context))
    inside = _inside(context, lowered)
    program.expose((pair.delegate, pair.name) for pair in inside.pairs)
    # Only a program without state may be replaced by an equal, faster one.
    remembers = programs.written_buffers(converted)
    module = converted if remembers else quantized_module(context)
    computed: list[list[torch.Tensor]] = []
    whole: dict[str, object] = {}
    with torch.no_grad(), stepping(module) as steps:
        for number, (sample, counts) in enumerate(_chosen(context)):
            context.progress(number, wanted, f"sample {number + 1}")
            program.compiled.begin(number)
            inputs, outputs = steps.inputs(sample), integer(sample)
            if number < TENSOR_SAMPLES:
                inside.add(inputs, program.made)
            quantized = steps.took(sample, tensors_of(steps.module(*inputs)))
            most = tally.add(quantized, outputs)
            computed.append(tally.reals(outputs))
            if not number:
                whole = _whole_program(context, inputs, computed[0], tally)
            floating.add(sample, quantized, computed[-1], most, counts=counts)
            if number + 1 == TENSOR_SAMPLES:
                program.expose(())
    # The stage ``run`` compares with the same outputs.
    context.keep(computed)
    compiled = program.compiled.result(tally.samples).model_copy(update=whole)
    chosen = (sample.inputs for sample, _ in _chosen(context))
    result = tally.result() if remembers else with_roundings(tally.result(), converted, chosen)
    return _with_tensors(result, tuple(inside.result())).model_copy(update={
        "text": floating.text.result() if floating.text is not None else None,
        "against_float": floating.result(_ignored(context, lowered)),
        "compiled": compiled,
    })  # fmt: skip


def _with_tensors(result: VerifyResult, tensors: tuple[IntegerQuality, ...]) -> VerifyResult:
    """Return a result with the comparison of the tensors inside the program."""
    return result.model_copy(update={
        "tensors": tensors,
        "tensor_samples": min(result.samples, TENSOR_SAMPLES),
        "first_divergence": next((t.tensor for t in tensors if t.max_lsb), ""),
    })  # fmt: skip


def _chosen(context: StageContext) -> Iterator[tuple[Sample, bool]]:
    """Return the samples to verify, each with whether it is an evaluation sample."""
    return itertools.islice(verification_samples(context), context.project.verification.samples)


def _whole_program(
    context: StageContext, inputs: tuple[torch.Tensor, ...], expected: list[torch.Tensor],
    tally: Tally,
) -> dict[str, object]:  # fmt: skip
    """Execute the whole program for one sample, with the operators that run on the CPU.

    Args:
        context: The stage.
        inputs: The sample.
        expected: The outputs of the integer program, as real numbers.
        tally: Counts in steps of the outputs' grids.

    Returns:
        Why it was not executed, and the largest difference, as fields of ``CompiledProgram``.
    """
    integer_io = bool(context.project.target.options.get("integer_io"))
    given = given_values(context.hot("convert").module, inputs, integer_io)
    executed = execute(context, [given])
    if executed.refused:
        return {"whole_refused": executed.refused}
    values = tally.reals(executed.outputs[0])
    if len(values) != len(expected):
        text = f"The executed program has {len(values)} outputs, {len(expected)} are expected."
        return {"whole_refused": text}
    return {"whole_max_lsb": tally.steps_apart(expected, values)}


class _FloatModel:
    """Compares the quantized model and the integer program with the float model."""

    def __init__(self, context: StageContext, samples: Samples) -> None:
        self._steps = Steps(context.hot("export").module(check_guards=False))
        self._inputs = [spec.name for spec in context.result("export", ExportResult).inputs]
        self._data, self._held_out = samples.name, samples.held_out
        self._quantized, self._integer = Accumulator(), Accumulator()
        self._outputs: list[OutputAccumulator] = []
        self._returned = model_outputs(context)
        self._parts = PartTally(self._returned)
        self._variation, self._evaluated = Variation(), 0
        self.text = TextTally(samples.spell) if samples.spell else None

    def add(
        self,
        sample: Sample,
        quantized: Sequence[torch.Tensor],
        integer: Sequence[torch.Tensor],
        most: int,
        *,
        counts: bool,
    ) -> None:
        """Add a step of the quantized model and of the integer program, as real numbers.

        ``counts`` is whether it is an evaluation sample, which the accuracy follows from.
        """
        joined = self._returned.joined
        outputs, quantized, integer = (
            joined(self._steps(sample)),
            joined(quantized),
            joined(integer),
        )
        self._outputs = self._outputs or [OutputAccumulator() for _ in outputs]
        for reference, a, b in zip(outputs, quantized, integer, strict=True):
            self._quantized.add(reference, a)
            self._integer.add(reference, b)
        self._variation.add(outputs, integer)
        if counts:
            self._evaluated += 1
            self._parts.add(outputs, integer)
            for sums, reference, b in zip(self._outputs, outputs, integer, strict=True):
                sums.add(reference, b)
        if self.text is not None:
            self.text.add(sample, outputs[0], quantized[0], integer[0], most)

    def result(self, ignored: Sequence[str]) -> AgainstFloat:
        """Return the quality of both; ``ignored`` are inputs that nothing in the program reads."""
        known = self._variation.result(self._inputs)
        names = tuple(dict.fromkeys((*known.ignored, *ignored)))
        return AgainstFloat(
            quantized_sqnr_db=self._quantized.sqnr_db, integer_sqnr_db=self._integer.sqnr_db,
            samples=self._evaluated, data=self._data, held_out=self._held_out,
            outputs=tuple(s.output(f"output {i}") for i, s in enumerate(self._outputs)),
            parts=self._parts.result(),
            dependence=known.model_copy(update={"ignored": names}),
        )  # fmt: skip


def _ignored(context: StageContext, lowered: Lowered) -> list[str]:
    """Return the inputs that an operation of the float model reads, and none of the program."""
    names = [spec.name for spec in context.result("export", ExportResult).inputs]
    sides = [_inputs_read(context.hot("export")), _inputs_read(lowered.edge)]
    return [n for n, floats, edge in zip(names, *sides, strict=False) if floats and not edge]


def _inputs_read(program: Any) -> list[bool]:
    """Return for each input of an exported program whether an operation reads it."""
    users = {node.name: len(node.users) for node in program.graph.nodes if node.op == "placeholder"}
    return [users.get(str(name), 0) > 0 for name in program.graph_signature.user_inputs]


def _inside(context: StageContext, lowered: Lowered) -> IntegerComparison:
    converted = context.hot("convert").module
    prepared = context.hot("prepare").module
    inner_pairs = pairs(prepared, converted, lowered.device_graph) if lowered.device_graph else []
    return IntegerComparison(converted, inner_pairs)


def integers(
    context: StageContext, history: Sequence[Sample]
) -> dict[str, dict[str, torch.Tensor]]:
    """Return the real values of all integer tensors, by program and the quantized model's names.

    "integer" is the TOSA on the reference model, "compiled" the compiled program on the functional
    simulator; each of its delegates gets the integers that its TOSA gets. They belong to the last
    sample of ``history``, after the others in order.
    """
    lowered: Lowered = context.hot("lower")
    converted = context.hot("convert").module
    program, inside = IntegerProgram(lowered), _inside(context, lowered)
    program.expose((pair.delegate, pair.name) for pair in inside.pairs)
    program.compiled = CompiledDelegates(context, lowered)
    integer_io = bool(context.project.target.options.get("integer_io"))
    integer = IntegerSteps(program, converted, integer_io=integer_io)
    for sample in history:
        program.keeps_executed = sample is history[-1]
        integer(sample)
    with stepping(converted) as steps:
        for sample in history[:-1]:
            steps(sample)
        inputs = steps.inputs(history[-1])
        return {
            side: {pair.node.name: real for pair, _, real in inside.reals(inputs, tensors)}
            for side, tensors in (("integer", program.made), ("compiled", program.executed))
        }


class Tally:
    """Counts differences in steps of each output's grid."""

    def __init__(self, grids: list[Grid | None], *, integer_io: bool) -> None:
        self._grids = grids
        self._integer_io = integer_io
        self._histogram: Counter[int] = Counter()
        self.samples = self._equal = self._decided = self._decided_equal = 0
        self._most = [0 for _ in grids]
        self._quality = [Accumulator() for _ in grids]

    def reals(self, outputs: list[torch.Tensor]) -> list[torch.Tensor]:
        """Return the real values of the integer program's outputs."""
        grids = [*self._grids, *[None] * len(outputs)]
        pairs = zip(outputs, grids, strict=False)
        return [g.reals(v) if self._integer_io and g is not None else v for v, g in pairs]

    def steps_apart(self, expected: list[torch.Tensor], outputs: list[torch.Tensor]) -> int:
        """Return the largest difference of two sets of outputs [LSB]; nothing is added."""
        most = 0
        for a, b, grid in zip(expected, outputs, self._grids, strict=False):
            step = grid.scale if grid is not None else 1.0
            apart = torch.round((a.double() - b.double()).abs() / step)
            apart[~apart.isfinite() & ~(a == b)] = _NOT_FINITE_LSB
            most = max(most, int(apart.nan_to_num(0.0).max())) if apart.numel() else most
        return most

    def add(self, quantized: list[torch.Tensor], integer: list[torch.Tensor]) -> int:
        """Add one sample's outputs of both programs; return the largest difference [LSB]."""
        self.samples += 1
        same, most, given = True, 0, self.reals(integer)
        _check_shapes(quantized, given)
        for position, (a, real) in enumerate(zip(quantized, given, strict=True)):
            grid = self._grids[position] if position < len(self._grids) else None
            step = grid.scale if grid is not None else 1.0
            lsb = torch.round((real.double() - a.double()) / step).to(torch.int64)
            values, counts = torch.unique(lsb, return_counts=True)
            self._histogram.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
            most = max(most, int(lsb.abs().max()))
            if position < len(self._quality):
                self._quality[position].add(a, real)
                self._most[position] = max(self._most[position], int(lsb.abs().max()))
            # torch finds no largest of truth values.
            first, second = (v.reshape(-1).double().argmax() for v in (a, real))
            agree = bool(first == second)
            if position == 0 and grid is not None and _has_argmax(a, grid.scale):
                self._decided += 1
                self._decided_equal += agree
            same = same and agree
        self._equal += same
        return most

    def result(self) -> VerifyResult:
        """Return the tally."""
        histogram = dict(sorted(self._histogram.items()))
        loose = [i for i, grid in enumerate(self._grids) if grid is None]
        return VerifyResult(
            samples=self.samples,
            elements=sum(histogram.values()),
            exact=histogram.get(0, 0),
            max_lsb=max((abs(lsb) for lsb in histogram), default=0),
            argmax_equal=self._equal,
            histogram=histogram,
            outputs=tuple(self._outputs()),
            decided=self._decided,
            decided_equal=self._decided_equal,
            warnings=tuple(
                f"Output {i} is not quantized: differences are counted in units of 1."
                for i in loose
            ),
        )

    def _outputs(self) -> Iterator[OutputQuality]:
        rows = zip(self._quality, self._grids, self._most, strict=True)
        for index, (quality, grid, most) in enumerate(rows):
            width = None if grid is None else torch.iinfo(grid.dtype).bits
            yield quality.output(f"output {index}").model_copy(
                update={"bits": width, "max_lsb": None if grid is None else most}
            )


def _check_shapes(expected: Sequence[torch.Tensor], given: Sequence[torch.Tensor]) -> None:
    """Check that a program has the outputs of the quantized model.

    Raises:
        WorkbenchError: their number or a shape differs.
    """
    wanted, shapes = [tuple(v.shape) for v in expected], [tuple(v.shape) for v in given]
    if wanted == shapes:
        return
    if len(wanted) != len(shapes):
        text = f"The program has {len(shapes)} outputs, the quantized model {len(wanted)}."
    else:
        at = next(i for i, pair in enumerate(zip(wanted, shapes, strict=True)) if len({*pair}) > 1)
        text = f"Output {at} has the shape {shapes[at]}, that of the quantized model {wanted[at]}."
    raise failure(
        text,
        "The compiled program is another one than the quantized model. Compile again, and report "
        "it with the model if this stays.",
        Place(kind="stage", id="lower"),
        code="program-outputs-differ",
    )


def _check_outputs(delegate: int, outputs: Sequence[Any], specs: Sequence[torch.Tensor]) -> None:
    """Check that the TOSA of a delegate has the outputs that the program reads.

    Raises:
        WorkbenchError: one is missing or has another size.
    """
    sizes, wanted = [np.asarray(o).size for o in outputs], [spec.numel() for spec in specs]
    if sizes == wanted:
        return
    raise failure(
        f"The TOSA of delegate {delegate} has outputs of {sizes} elements, and the program reads "
        f"{wanted}.",
        "The program was lowered wrongly. Report it with the model.",
        Place(kind="stage", id="lower"),
        code="delegate-outputs-differ",
    )


def _has_argmax(values: torch.Tensor, step: float) -> bool:
    """Return whether a vector has an element that exceeds all others by more than a step."""
    if values.numel() < 2 or max(values.shape) != values.numel():
        return False
    first, second = values.reshape(-1).double().topk(2).values.tolist()
    return bool(first - second > 1.5 * step)


def _lying(tensor: torch.Tensor, layout: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return values in memory order, which is the shape in a delegate's TOSA."""
    return np.ascontiguousarray(tensor.detach().permute(layout).numpy())


def _standing(values: np.ndarray[Any, Any], like: torch.Tensor) -> torch.Tensor:
    """Return a delegate's output in the shape of the program's tensor."""
    layout = like.dim_order()
    lying = torch.from_numpy(values).reshape([like.shape[axis] for axis in layout])
    return lying.permute([layout.index(axis) for axis in range(len(layout))]).to(like.dtype)


def _outputs(delegate: Any) -> list[Any]:
    return list(delegate.original_module.graph.output_node().args[0])
