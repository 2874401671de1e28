"""Every form of the user's network, compared with the model as its code returned it.

The exported program is compared on the example inputs when it is made; both it and the prepared
program are compared on the first samples of the data.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import torch

from workbench.engine.data import Sample
from workbench.engine.equivalence.comparison import CHANGE, EXPORTED, REWRITTEN, Comparison, is_rounding
from workbench.engine.equivalence.first_difference import described_nodes, first_unknown, location_text
from workbench.engine.evaluation.model_outputs import model_outputs
from workbench.engine.evaluation.reference_outputs import exported_module
from workbench.engine.evaluation.stateful_execution import Steps, stepping
from workbench.engine.evaluation.tensors import watched
from workbench.engine.loading.eager import Request, Step
from workbench.errors import Place, WorkbenchError, failure
from workbench.results import ExportResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from workbench.engine.data import Samples
    from workbench.engine.loading.models import LoadedModel
    from workbench.engine.runtime.context import StageContext
    from workbench.results import FormComparison

# So many samples of the data are compared.
SAMPLES = 2
# A model of lower precision may differ by so many steps of its floats.
_STEPS = 8
# How often weights and inputs are changed to learn what roundings do to the outputs.
_CHANGES = 3

Outputs = list[torch.Tensor]


def compare_exported(
    context: StageContext, loaded: LoadedModel, program: torch.export.ExportedProgram, precision: str
) -> FormComparison:
    """Return the comparison of an exported program with the model, on the example inputs.

    Args:
        context: Of the stage.
        loaded: The model.
        program: The program.
        precision: The least precise float type that the model computes in; "" for float32.

    Raises:
        WorkbenchError: they differ, or the model's outputs are random.
    """
    first, again = loaded.eager.answer(loaded.example, context.check_cancelled).outputs
    _refuse_random(first, again)
    sample = Sample(0, loaded.inputs, None)
    request = replace(loaded.example, runs=loaded.example.runs[:1])
    # Its outputs may still be split, which makes another program.
    module = cast("torch.fx.GraphModule", program.module(check_guards=False))
    reference = Reference([sample], request, [first], _step(precision))
    return _compare_exported(context, reference, program, module, list)


def compare_on_data(context: StageContext, samples: Samples) -> FormComparison:
    """Return the comparison of the exported program with the model, on the first samples.

    Raises:
        WorkbenchError: they differ.
    """
    program: torch.export.ExportedProgram = context.live("export")
    joined = model_outputs(context).joined
    module = exported_module(context)
    return _compare_exported(context, reference_on(context, samples), program, module, joined)


def compare_prepared(
    context: StageContext, reference: Reference, prepared: torch.fx.GraphModule
) -> tuple[FormComparison, ...]:
    """Return the comparisons of exported and prepared program with what the model returned.

    The prepared program is not compared where the project changes its weights.

    Raises:
        WorkbenchError: one of them differs.
    """
    program: torch.export.ExportedProgram = context.live("export")
    joined = model_outputs(context).joined
    module = exported_module(context)
    exported = _compare_exported(context, reference, program, module, joined)
    project = context.project
    if project.trained_weights or project.compressions or project.improvers:
        return (exported,)
    comparison = Comparison("prepared", max(REWRITTEN, _STEPS * reference.step))
    steps = Steps(prepared)
    try:
        outputs = [joined(watched(steps, sample)[0]) for sample in reference.samples]
    finally:
        steps.close()
    if problem := _problem(context, reference, comparison, outputs):
        node = _first_in_prepared(reference, module, prepared)
        raise _prepared_differs(problem, node)
    return exported, comparison.result


@dataclass(frozen=True)
class Reference:
    """Samples with what the model returned for them, and the relative step of its floats."""

    samples: list[Sample]
    request: Request
    outputs: list[Outputs]
    step: float


def reference_on(context: StageContext, samples: Samples) -> Reference:
    """Return the first samples with what the model returns for them, as its code returned it.

    Raises:
        WorkbenchError: the model fails on one of them, or its process ended.
    """
    loaded: LoadedModel = context.live("import_model")
    listed = list(itertools.islice(samples, SAMPLES))
    request = Request(tuple(_runs(listed, continues=_keeps_state(context, listed))))
    outputs = loaded.eager.answer(request, context.check_cancelled).outputs
    kept = [given[: len(given) - sample.carried] for sample, given in zip(listed, outputs, strict=True)]
    step = _step(context.result("export", ExportResult).precision)
    return Reference(listed, request, kept, step)


def _step(precision: str) -> float:
    """Return the relative step of a float type of lower precision; 0 for float32."""
    return torch.finfo(getattr(torch, precision)).eps if precision else 0.0


def _keeps_state(context: StageContext, samples: Sequence[Sample]) -> bool:
    program: torch.export.ExportedProgram = context.live("export")
    mutates = bool(program.graph_signature.buffers_to_mutate)
    return mutates or any(sample.carried for sample in samples)


def _runs(samples: Sequence[Sample], *, continues: bool) -> Iterable[tuple[Step, ...]]:
    """Return the steps of each run: a run goes on until a sequence begins."""
    runs: list[list[Step]] = []
    for sample in samples:
        if not runs or sample.begins or not continues:
            runs.append([])
        runs[-1].append(Step(sample.inputs, sample.carried))
    return map(tuple, runs)


def _compare_exported(
    context: StageContext,
    reference: Reference,
    program: torch.export.ExportedProgram,
    module: torch.fx.GraphModule,
    joined: Callable[[Outputs], Outputs],
) -> FormComparison:
    """Compare a program's module, whose outputs ``joined`` turns into those of the model."""
    comparison = Comparison("exported", max(EXPORTED, _STEPS * reference.step))
    with torch.no_grad(), stepping(module) as steps:
        outputs = [joined(steps(copied(sample))) for sample in reference.samples]
    if problem := _problem(context, reference, comparison, outputs):
        _refuse_other_weights(context.live("import_model"), program)
        raise _exported_differs(context, reference, module, problem)
    return comparison.result


def _refuse_other_weights(loaded: LoadedModel, program: torch.export.ExportedProgram) -> None:
    """Raise where the model was loaded again, and has other weights than when it was exported."""
    state = loaded.module.state_dict() if loaded.module is not None else {}
    for name, value in program.state_dict.items():
        own = state.get(name, value)
        if own.shape != value.shape or Comparison("", EXPORTED).add([own], [value]):
            raise failure(
                f"The model has other weights each time it is loaded: {name} differs.",
                "Seed what they are drawn from, as numpy.random.default_rng(0) does, or read them "
                "from a file: results of an earlier loading then apply. Python's, numpy's and "
                "torch's own random numbers are seeded before the model is loaded.",
                Place(kind="option", id="model.spec"),
                code="model-weights-random",
            )


def copied(sample: Sample) -> Sample:
    """Return a sample that a program may write."""
    return replace(sample, inputs=tuple(tensor.clone() for tensor in sample.inputs))


def _problem(
    context: StageContext, reference: Reference, comparison: Comparison, outputs: Sequence[Outputs]
) -> str:
    """Return how the outputs of a form differ from the model's; "" if they agree."""
    pairs = list(zip(reference.outputs, outputs, strict=True))
    problems = [comparison.add(*pair) for pair in pairs]
    problem = next(filter(None, problems), "")
    if not problem:
        return ""
    eager = context.live("import_model").eager
    change = max(CHANGE, reference.step)
    changed = [
        eager.answer(replace(reference.request, change=change, seed=seed), context.check_cancelled)
        for seed in range(_CHANGES)
    ]
    for index, (pair, difference) in enumerate(zip(pairs, problems, strict=True)):
        if difference and not is_rounding(*pair, [answer.outputs[index] for answer in changed]):
            return difference
    return ""


def _refuse_random(first: Outputs, again: Outputs) -> None:
    """Raise for a model that returns something else with other random numbers."""
    if Comparison("", EXPORTED).add(first, again):
        raise failure(
            "The outputs of the model are random: the same inputs give others each time.",
            "Make it deterministic: call eval() on its dropouts, give random tensors as inputs, or "
            "register them as buffers.",
            Place(kind="option", id="model.spec"),
            code="model-outputs-random",
        )


def _exported_differs(
    context: StageContext, reference: Reference, module: torch.fx.GraphModule, problem: str
) -> WorkbenchError:
    loaded = context.live("import_model")
    sample = reference.samples[0]
    request = Request(((Step(sample.inputs),),), record=True)
    operators = loaded.eager.answer(request, context.check_cancelled).operators
    node = first_unknown(described_nodes(module, sample.inputs), operators)
    packs = loaded.module is not None and any(
        isinstance(part, torch.nn.TransformerEncoder) and part.use_nested_tensor
        for part in loaded.module.modules()
    )
    return form_differs("exported", problem, node, _PACKING if packs else _RECORDING)


_RECORDING = (
    "torch.export records one run of the code: compute a new tensor here instead of writing into "
    "one, and keep values that change between runs in buffers."
)
_PACKING = (
    "With a mask of padding, eager torch packs the inputs of nn.TransformerEncoder and pads its "
    "outputs with zeros, which torch.export does not record: make it with enable_nested_tensor=False, "
    "and set what is padded to zero where you need it."
)


def _first_in_prepared(
    reference: Reference, module: torch.fx.GraphModule, prepared: torch.fx.GraphModule
) -> torch.fx.Node | None:
    """Return the first operation of the prepared program with another value than before."""
    for sample in reference.samples:
        known = described_nodes(module, sample.inputs).values()
        if node := first_unknown(described_nodes(prepared, sample.inputs), known):
            return node
    return None


def _prepared_differs(problem: str, node: torch.fx.Node | None) -> WorkbenchError:
    return form_differs(
        "prepared",
        problem,
        node,
        "A rewrite before quantization changes the network. Write this line with other operators.",
    )


def form_differs(form: str, problem: str, node: torch.fx.Node | None, hint: str) -> WorkbenchError:
    """Return the error for a form that computes something else than the model.

    Args:
        form: Its name.
        problem: How its outputs differ.
        node: The first operation that differs, if it is known.
        hint: What to do.
    """
    where = location_text(node)
    first = f" The first operation that differs is {where}." if where else ""
    return failure(
        f"The {form} program does not compute what the model computes: {problem}.{first}",
        hint,
        Place(kind="node", id=node.name) if node is not None else None,
        code=f"{form}-program-differs",
    )
