"""The compiled program on the TOSA reference model, compared to the quantized model. Computed.

The edge program runs as on the device: CPU operators eagerly, every delegate as TOSA. The own
executor computes all samples at once; the TOSA reference model of tosa-tools 2026.5.0 computes the
first one too, with all tensors compared, and every one where something disagrees. The compiled
program is executed meanwhile.
"""

from __future__ import annotations

import itertools
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch.export.graph_signature import OutputKind

from workbench.engine.data.evaluation import evaluation_samples, verification_samples
from workbench.engine.ethos_u.compiled_program import CompiledDelegates, ExecutedCalls
from workbench.engine.ethos_u.functional_run import FunctionalOutputs, WholeProgram
from workbench.engine.ethos_u.grids import Grid, output_grids
from workbench.engine.ethos_u.integer_program import IntegerProgram, IntegerSteps, Tensors
from workbench.engine.ethos_u.intermediates import IntegerComparison, pairs
from workbench.engine.ethos_u.pool_rounding import halves_away_from_zero
from workbench.engine.ethos_u.reference_process import ReferenceProcess
from workbench.engine.ethos_u.sample_groups import SAMPLES_AT_ONCE, one_thread_for_products
from workbench.engine.ethos_u.tosa_delegates import ExecutorDiffers, TosaDelegates
from workbench.engine.evaluation.dependence import Variation
from workbench.engine.evaluation.measures import Accumulator, OutputAccumulator, blocks, tensors_of
from workbench.engine.evaluation.model_outputs import PartTally, model_outputs
from workbench.engine.evaluation.perplexity import TextTally
from workbench.engine.evaluation.quick_modules import quantized_module
from workbench.engine.evaluation.reference_outputs import exported_module
from workbench.engine.evaluation.rounding import with_roundings
from workbench.engine.evaluation.sample_outputs import SampleOutputs, load_outputs
from workbench.engine.evaluation.stateful_execution import Steps, stepping
from workbench.engine.fx import programs
from workbench.errors import Place, failure
from workbench.results import AgainstFloat, ExportResult, IntegerQuality, OutputQuality, VerifyResult

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Future

    from workbench.engine.data import Sample, Samples
    from workbench.engine.runtime.context import StageContext
    from workbench.engine.targets import Lowered


# Otherwise the quantized model is interpreted node by node, several times slower.
TENSOR_SAMPLES = 4
# What an element counts as that is NaN or infinite in one of two programs [LSB].
_NOT_FINITE_LSB = 1 << 16


@dataclass(frozen=True)
class Verified:
    """What *verify* computed, for the stages that follow.

    Attributes:
        integer: Outputs of the integer program for each sample, as real numbers.
        quantized: Outputs of the quantized model.
        executed: What the whole compiled program gave; None if not for all samples.
    """

    integer: list[Tensors]
    quantized: list[Tensors]
    executed: FunctionalOutputs | None


def verify(context: StageContext) -> VerifyResult:
    """Compare the integer program with the quantized model over the evaluation samples."""
    with (
        ReferenceProcess(context.live("lower").edge) as process,
        one_thread_for_products(),
        halves_away_from_zero(context.live("convert").module, context.live("lower").edge) as rounds,
    ):
        try:
            return _Verification(context, process, rounds_pools=rounds).result()
        except ExecutorDiffers as error:
            context.log(
                f"The built-in executor of TOSA and the reference model differ in {error}: the "
                "reference model computes all samples.",
                "warning",
            )
            return _Verification(context, process, differs=str(error), rounds_pools=rounds).result()


@dataclass(frozen=True)
class _Batch:
    """Samples that are computed together.

    Attributes:
        rows: The samples, each with whether it is an evaluation sample.
        inputs: Of each, in the types of the program.
        first: The number of the first.
        executing: What the whole compiled program gives for them.
    """

    rows: list[tuple[Sample, bool]]
    inputs: list[Tensors]
    first: int
    executing: Future[ExecutedCalls]


class _Verification:
    """One comparison of all programs over the chosen samples."""

    def __init__(
        self, context: StageContext, process: ReferenceProcess, differs: str = "", *, rounds_pools: bool
    ) -> None:
        self._context, self._differs = context, differs
        # Then *evaluate* has computed other integers of the quantized model.
        self._rounds_pools = rounds_pools
        lowered: Lowered = context.live("lower")
        converted = context.live("convert").module
        integer_io = bool(context.project.target.options.get("integer_io"))
        self._tosa = TosaDelegates(lowered.tosa, process, trusted=not differs)
        self._program = IntegerProgram(lowered, self._tosa)
        self._integer = IntegerSteps(self._program, converted, integer_io=integer_io)
        self._tally = Tally(output_grids(converted), integer_io=integer_io)
        self._compiled = CompiledDelegates(context, lowered)
        self._whole, self._whole_most = WholeProgram(context), 0
        self._floating = _FloatModel(context, evaluation_samples(context))
        self._inside = _inside(context, lowered)
        # Only a program without state may be replaced by an equal, faster one.
        self._remembers = bool(programs.written_buffers(converted)) or _has_state(lowered.edge)
        self._converted = converted
        # What *evaluate* has computed of the same samples is not computed again.
        self._known = SampleOutputs() if self._remembers else load_outputs(context)
        # Executes the compiled program beside the integer program and the models in floats.
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="compiled program")
        self._integers: list[Tensors] = []
        self._quantized: list[Tensors] = []
        # The largest difference from the quantized model that the reference model has confirmed.
        self._confirmed = 0

    @cached_property
    def _module(self) -> torch.fx.GraphModule:
        return self._converted if self._remembers else quantized_module(self._context)

    def result(self) -> VerifyResult:
        """Run all samples and return the comparison.

        Raises:
            ExecutorDiffers: the reference model gives other integers than the built-in executor.
        """
        context = self._context
        wanted = context.project.verification.samples
        self._program.expose((pair.delegate, pair.name) for pair in self._inside.pairs)
        with self._pool, torch.no_grad(), stepping(self._converted) as steps:
            for batch in self._started():
                number = len(self._integers)
                context.progress(number, wanted, f"sample {number + 1}")
                self._add(batch, steps)
                if len(self._integers) >= TENSOR_SAMPLES:
                    self._program.expose(())
        self._tosa.conclude()
        executed = self._whole.outputs
        is_whole = executed.refused or len(executed.outputs) == len(self._integers)
        # The stage ``run`` takes what is computed here.
        context.keep(Verified(self._integers, self._quantized, executed if is_whole else None))
        return self._results()

    def _batches(self) -> Iterator[list[tuple[Sample, bool]]]:
        """Yield the samples, each with whether it is an evaluation sample.

        The first one is alone, then those whose inner tensors are compared; programs with state
        take one at a time.
        """
        chosen = iter(_chosen(self._context))
        size, done = 1, 0
        while batch := list(itertools.islice(chosen, size)):
            yield batch
            done += len(batch)
            if not self._remembers and not batch[0][0].carried:
                size = TENSOR_SAMPLES - done if done < TENSOR_SAMPLES else SAMPLES_AT_ONCE

    def _started(self) -> Iterator[_Batch]:
        """Yield the batches, each when the compiled program is being executed for it and the next one.

        With state, the inputs of a sample follow from what the one before gave.
        """
        first, before = 0, None
        for rows in self._batches():
            inputs = [self._integer.inputs_of(sample) for sample, _ in rows]
            samples = [sample for sample, _ in rows]
            executing = self._pool.submit(self._execute, samples, inputs, first)
            batch = _Batch(rows, inputs, first, executing)
            first += len(rows)
            if self._remembers or samples[0].carried:
                yield batch
                continue
            if before is not None:
                yield before
            before = batch
        if before is not None:
            yield before

    def _add(self, batch: _Batch, steps: Steps) -> None:
        first, samples = batch.first, [sample for sample, _ in batch.rows]
        self._tosa.begin(first)
        integers = self._integer.together(samples, batch.inputs)
        for at, (sample, counts) in enumerate(batch.rows):
            self._compare_models(at, sample, integers[at], steps, counts=counts)
        for call, at in self._compiled.compare(self._program.calls, first, batch.executing.result()):
            self._tosa.settle(call, at)
        self._compare_whole(batch)

    def _execute(self, samples: Sequence[Sample], inputs: Sequence[Tensors], first: int) -> ExecutedCalls:
        """Execute the whole compiled program; one with state for the first sample only."""
        has_state = self._remembers or bool(samples[0].carried)
        if self._whole.outputs.refused or (first and has_state):
            return ExecutedCalls()
        return self._whole.execute(inputs)

    def _compare_models(
        self, at: int, sample: Sample, integers: Tensors, steps: Steps, *, counts: bool
    ) -> None:
        """Compare the models in floats with the integer program, for a sample of the batch."""
        inputs, known = steps.inputs(sample), self._known.get(sample)
        if len(self._integers) < TENSOR_SAMPLES:
            self._inside.add(inputs, self._program.exposed[at])
        alike = None if self._rounds_pools else known
        outputs = alike.quantized if alike else tensors_of(self._module(*inputs))
        quantized, reals = steps.took(sample, outputs), self._tally.reals(integers)
        most, is_changed = self._tally.add(quantized, integers)
        self._confirm(at, most, is_changed=is_changed)
        self._integers.append(reals)
        self._quantized.append(quantized)
        floats = known.floats if known else self._floating.outputs(sample)
        self._floating.add(sample, (floats, quantized, reals), most, counts=counts)

    def _confirm(self, at: int, most: int, *, is_changed: bool) -> None:
        """Let the reference model settle a sample that differs as none before it did.

        Args:
            at: Which sample of the batch.
            most: Its largest difference from the quantized model [LSB].
            is_changed: Whether a decided arg-max differs.
        """
        if most > self._confirmed or is_changed:
            for call in self._program.calls:
                self._tosa.settle(call, at)
            self._tosa.settled(at)
            self._confirmed = max(self._confirmed, most)

    def _compare_whole(self, batch: _Batch) -> None:
        """Compare what the whole compiled program gave with the integer program.

        The last outputs of a sample that are inputs of the next step are not compared.
        """
        executed, carried = self._whole.outputs, batch.rows[0][0].carried
        end = batch.first + len(batch.rows)
        for at, values in enumerate(executed.outputs[batch.first : end], batch.first):
            expected = self._integers[at]
            reals = self._tally.reals(values[: len(values) - carried])
            if len(reals) != len(expected):
                executed.refused = (
                    f"The executed program has {len(reals)} outputs, {len(expected)} are expected."
                )
                return
            self._whole_most = max(self._whole_most, self._tally.steps_apart(expected, reals))

    def _results(self) -> VerifyResult:
        context, tally, floating = self._context, self._tally, self._floating
        refused = self._whole.outputs.refused
        compiled = self._compiled.result(tally.samples).model_copy(
            update={"whole_refused": refused, "whole_max_lsb": None if refused else self._whole_most}
        )
        result = _with_names(tally.result(), context.result("export", ExportResult))
        if not self._remembers:
            samples = (sample.inputs for sample, _ in _chosen(context))
            result = with_roundings(result, context.live("convert").module, samples)
        return _with_tensors(result, tuple(self._inside.result())).model_copy(
            update={
                "text": floating.text.result() if floating.text is not None else None,
                "against_float": floating.result(_ignored(context, context.live("lower"))),
                "compiled": compiled,
                "executors": self._tosa.by.result(self._differs),
            }
        )


def _has_state(edge: Any) -> bool:
    """Return whether an edge program writes its buffers."""
    specs = edge.graph_signature.output_specs
    return any(spec.kind is OutputKind.BUFFER_MUTATION for spec in specs)


def _with_names(result: VerifyResult, exported: ExportResult) -> VerifyResult:
    """Return a result with the names that the model gives to its outputs."""
    names = exported.program_output_names(len(result.outputs))
    outputs = (o.model_copy(update={"name": n}) for n, o in zip(names, result.outputs, strict=True))
    return result.model_copy(update={"outputs": tuple(outputs)})


def _with_tensors(result: VerifyResult, tensors: tuple[IntegerQuality, ...]) -> VerifyResult:
    """Return a result with the comparison of the tensors inside the program."""
    return result.model_copy(
        update={
            "tensors": tensors,
            "tensor_samples": min(result.samples, TENSOR_SAMPLES),
            "first_divergence": next((t.tensor for t in tensors if t.max_lsb), ""),
        }
    )


def _chosen(context: StageContext) -> Iterator[tuple[Sample, bool]]:
    """Return the samples to verify, each with whether it is an evaluation sample."""
    return itertools.islice(verification_samples(context), context.project.verification.samples)


class _FloatModel:
    """Compares the quantized model and the integer program with the float model."""

    def __init__(self, context: StageContext, samples: Samples) -> None:
        self._context = context
        self._data, self._held_out = samples.name, samples.held_out
        self._quantized, self._integer = Accumulator(), Accumulator()
        self._outputs: list[OutputAccumulator] = []
        self._returned = model_outputs(context)
        self._parts = PartTally(self._returned)
        self._variation, self._evaluated = Variation(), 0
        self.text = TextTally(samples.spell) if samples.spell else None

    @cached_property
    def _steps(self) -> Steps:
        return Steps(exported_module(self._context))

    def outputs(self, sample: Sample) -> list[torch.Tensor]:
        """Return what the float model gives for the next sample."""
        return self._steps(sample)

    def add(
        self, sample: Sample, programs_outputs: tuple[Sequence[torch.Tensor], ...], most: int, *, counts: bool
    ) -> None:
        """Add a step of all three programs, as real numbers.

        Args:
            sample: The step.
            programs_outputs: Those of the float, the quantized model and the integer program.
            most: The largest difference of the last two [LSB].
            counts: Whether it is an evaluation sample, which the accuracy follows from.
        """
        outputs, quantized, integer = map(self._returned.joined, programs_outputs)
        self._outputs = self._outputs or [OutputAccumulator() for _ in outputs]
        for reference, a, b in zip(outputs, quantized, integer, strict=True):
            self._quantized.add(reference, a)
            self._integer.add(reference, b)
        self._variation.add(outputs, integer)
        if counts:
            self._evaluated += 1
            self._parts.add(sample.index, outputs, integer)
            for sums, reference, b in zip(self._outputs, outputs, integer, strict=True):
                sums.add(reference, b)
        if self.text is not None:
            self.text.add(sample, outputs[0], quantized[0], integer[0], most)

    def result(self, ignored: Sequence[str]) -> AgainstFloat:
        """Return the quality of both; ``ignored`` are inputs that nothing in the program reads."""
        known = self._variation.result(self._returned.exported)
        inputs = tuple(dict.fromkeys((*known.ignored, *ignored)))
        names = self._returned.exported.model_output_names(len(self._outputs))
        return AgainstFloat(
            quantized_sqnr_db=self._quantized.sqnr_db,
            integer_sqnr_db=self._integer.sqnr_db,
            samples=self._evaluated,
            data=self._data,
            held_out=self._held_out,
            outputs=tuple(s.output(name) for name, s in zip(names, self._outputs, strict=True)),
            parts=self._parts.result(),
            dependence=known.model_copy(update={"ignored": inputs}),
        )


def _ignored(context: StageContext, lowered: Lowered) -> list[str]:
    """Return the inputs that an operation of the float model reads, and none of the program."""
    names = [spec.name for spec in context.result("export", ExportResult).inputs]
    sides = [_inputs_read(context.live("export")), _inputs_read(lowered.edge)]
    return [n for n, floats, edge in zip(names, *sides, strict=False) if floats and not edge]


def _inputs_read(program: Any) -> list[bool]:
    """Return for each input of an exported program whether an operation reads it."""
    users = {node.name: len(node.users) for node in program.graph.nodes if node.op == "placeholder"}
    return [users.get(str(name), 0) > 0 for name in program.graph_signature.user_inputs]


def _inside(context: StageContext, lowered: Lowered) -> IntegerComparison:
    converted = context.live("convert").module
    prepared = context.live("prepare").module
    inner_pairs = pairs(prepared, converted, lowered.device_graph) if lowered.device_graph else []
    return IntegerComparison(converted, inner_pairs, is_accelerated=context.is_accelerated)


def integers(context: StageContext, history: Sequence[Sample]) -> dict[str, dict[str, torch.Tensor]]:
    """Return the real values of all integer tensors, by program and the quantized model's names.

    "integer" is the TOSA on the reference model, "compiled" the compiled program on the functional
    simulator; each of its delegates gets the integers that its TOSA gets. They belong to the last
    sample of ``history``, after the others in order.
    """
    lowered: Lowered = context.live("lower")
    converted = context.live("convert").module
    integer_io = bool(context.project.target.options.get("integer_io"))
    inside = _inside(context, lowered)
    with ReferenceProcess(lowered.edge) as process, one_thread_for_products():
        program = IntegerProgram(lowered, TosaDelegates(lowered.tosa, process, trusted=False))
        integer = IntegerSteps(program, converted, integer_io=integer_io)
        for sample in history:
            if sample is history[-1]:
                program.expose((pair.delegate, pair.name) for pair in inside.pairs)
                program.compiled = CompiledDelegates(context, lowered)
            integer(sample)
    with stepping(converted) as steps:
        for sample in history[:-1]:
            steps(sample)
        inputs = steps.inputs(history[-1])
        return {
            side: {pair.node.name: real for pair, _, real in inside.reals(inputs, tensors)}
            for side, tensors in (("integer", program.exposed[0]), ("compiled", program.executed))
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
            for one, two in blocks(a, b):
                apart = torch.round((one.double() - two.double()).abs() / step)
                apart[~apart.isfinite() & ~(one == two)] = _NOT_FINITE_LSB
                most = max(most, int(apart.nan_to_num(0.0).max())) if apart.numel() else most
        return most

    def add(self, quantized: list[torch.Tensor], integer: list[torch.Tensor]) -> tuple[int, bool]:
        """Add one sample's outputs of both programs.

        Returns:
            The largest difference [LSB], and whether a decided arg-max differs.
        """
        self.samples += 1
        decided = self._decided - self._decided_equal
        same, most, given = True, 0, self.reals(integer)
        _check_shapes(quantized, given)
        for position, (a, real) in enumerate(zip(quantized, given, strict=True)):
            grid = self._grids[position] if position < len(self._grids) else None
            step = grid.scale if grid is not None else 1.0
            steps = self._add_steps(a, real, step)
            most = max(most, steps)
            if position < len(self._quality):
                self._quality[position].add(a, real)
                self._most[position] = max(self._most[position], steps)
            # torch finds no largest of truth values.
            first, second = (v.byte().argmax() if v.dtype == torch.bool else v.argmax() for v in (a, real))
            agree = bool(first == second)
            if position == 0 and grid is not None and _has_argmax(a, grid.scale):
                self._decided += 1
                self._decided_equal += agree
            same = same and agree
        self._equal += same
        return most, self._decided - self._decided_equal > decided

    def _add_steps(self, quantized: torch.Tensor, integer: torch.Tensor, step: float) -> int:
        """Count the differences of two outputs by their size; return the largest [LSB]."""
        most = 0
        for a, b in blocks(quantized, integer):
            lsb = torch.round((b.double() - a.double()) / step).to(torch.int64)
            values, counts = torch.unique(lsb, return_counts=True)
            self._histogram.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
            most = max(most, int(lsb.abs().max()))
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
                f"Output {i} is not quantized: differences are counted in units of 1." for i in loose
            ),
        )

    def _outputs(self) -> Iterator[OutputQuality]:
        rows = zip(self._quality, self._grids, self._most, strict=True)
        for index, (quality, grid, most) in enumerate(rows):
            width = None if grid is None else torch.iinfo(grid.dtype).bits
            yield quality.output(f"output {index}").model_copy(
                update={"bits": width, "max_lsb": None if grid is None else most}
            )


def _check_shapes(expected: Sequence[torch.Tensor], actual: Sequence[torch.Tensor]) -> None:
    """Check that a program has the outputs of the quantized model.

    Raises:
        WorkbenchError: their number or a shape differs.
    """
    wanted, shapes = [tuple(v.shape) for v in expected], [tuple(v.shape) for v in actual]
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


def _has_argmax(values: torch.Tensor, step: float) -> bool:
    """Return whether a vector has an element that exceeds all others by more than a step."""
    if values.numel() < 2 or max(values.shape) != values.numel():
        return False
    first, second = values.reshape(-1).double().topk(2).values.tolist()
    return bool(first - second > 1.5 * step)
