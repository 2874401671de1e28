"""Sample study: one sample in the float, the quantized, the integer and the compiled program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from workbench.engine.data.evaluation import all_samples
from workbench.engine.evaluation.measures import class_output, classes_of
from workbench.engine.evaluation.stateful_execution import stepping
from workbench.engine.evaluation.tensors import nodes_by_name, seen_as, watched
from workbench.engine.fx import programs
from workbench.engine.targets import device_of
from workbench.errors import Place, failure
from workbench.studies.sample import INPUT, SampleTensor, save_values
from workbench.targets import target_of

if TYPE_CHECKING:
    from workbench.engine.data import Sample
    from workbench.engine.runtime.context import StageContext
    from workbench.engine.studies.study import StudyContext

_STORE_NAME = "one sample"
# The largest input that is shown [elements], and the fewest elements of an output with classes.
_MOST_SHOWN, _LEAST_CLASSES = 1 << 20, 2
Values = dict[str, dict[str, torch.Tensor]]
NOT_EXECUTED = "No operation of the compiled program writes this tensor as a whole."
NOT_LOWERED = "The integer program has not been compiled for this configuration."


def run(study: StudyContext) -> None:
    """Write the values of one tensor; the other tensors stay cached for the next request."""
    context, tensor = study.stage, str(study.options["tensor"])
    number = int(str(study.options["sample"]))
    emulation = target_of(context.project.target.id).emulation
    with_integers = bool(study.options.get("integer")) and not emulation
    sample, values = _values(context, number, with_integers=with_integers)
    sides = {side: tensors[tensor] for side, tensors in values.items() if tensor in tensors}
    node = nodes_by_name(context.live("prepare").module).get(tensor)
    if node is None or "quantized" not in sides:
        raise failure(
            f"{tensor} does not exist in the quantized program.",
            "It was fused into another operator. Choose the tensor after it.",
            Place(kind="tensor", id=tensor),
            code="tensor-not-in-program",
        )
    arrays = {side: value.detach().float().numpy() for side, value in sides.items()}
    shown = sample.inputs[0]
    if shown.numel() <= _MOST_SHOWN and not shown.is_complex():
        arrays[INPUT] = shown.detach().float().numpy()
    save_values(arrays, study.folder)
    absent = f"There is no integer program: the numbers are {emulation}."
    note = "" if with_integers else absent if emulation else NOT_LOWERED
    if with_integers and "integer" not in sides:
        note = "The integer program has no such tensor: it is inside another operator, or float."
    elif with_integers and "compiled" not in sides:
        note = NOT_EXECUTED
    apart = None
    if "compiled" in sides:
        apart = int((sides["compiled"] != sides["integer"]).sum())
    result = SampleTensor(
        sample=number, tensor=tensor, module=programs.module_of(node), op=programs.op_of(node),
        shape=tuple(sides["float"].shape), sides=tuple(sides), note=note, compiled_apart=apart,
        label=sample.label, classes=_classes(context, sample.label, values),
    )  # fmt: skip
    study.tell(result, 1, 1, "")


def _classes(context: StageContext, label: int | None, values: Values) -> dict[str, int]:
    """Return the class that each program gives, from the output that gives it."""
    prepared = context.live("prepare").module
    (output,) = (node for node in prepared.graph.nodes if node.op == "output")
    names = [_observed(node).name for node in output.all_input_nodes]
    floats = values["float"]
    if not names or any(name not in floats for name in names):
        return {}
    asked = context.project.evaluation.class_output
    name = names[class_output([floats[name] for name in names], label or 0, asked)]
    if classes_of(floats[name]) < _LEAST_CLASSES:
        return {}
    return {side: int(tensors[name].argmax()) for side, tensors in values.items() if name in tensors}


def _observed(node: torch.fx.Node) -> torch.fx.Node:
    """Return the node whose value an observer has seen, or the node itself."""
    while node.op == "call_module" and node.all_input_nodes:
        node = node.all_input_nodes[0]
    return node


def _values(context: StageContext, number: int, *, with_integers: bool) -> tuple[Sample, Values]:
    """Return a sample and all its tensors by program; those of the last sample are cached."""
    key = f"{context.plan.key('convert')} {context.plan.key('lower')} {number} {with_integers}"
    kept: tuple[str, Sample, Values] | None = context.store.get(_STORE_NAME, "")
    if kept is not None and kept[0] == key:
        return kept[1:]
    prepared, converted = context.live("prepare").module, context.live("convert").module
    history = _history(context, number, remembers=bool(programs.written_buffers(converted)))
    values: Values = {"float": {}, "quantized": {}}
    with torch.no_grad(), stepping(prepared) as floating, stepping(converted) as quantized:
        for sample in history:
            values["float"], seen = watched(floating, sample)[1], watched(quantized, sample)[1]
        names = nodes_by_name(converted)
        for name in [n for n in values["float"] if n in names]:
            value = seen.get(seen_as(name, names[name]))
            if value is not None and value.shape == values["float"][name].shape:
                values["quantized"][name] = value
        if with_integers:
            values |= device_of(context).integers(context, history)
    context.store.keep(_STORE_NAME, "", (key, history[-1], values))
    return history[-1], values


def _history(context: StageContext, number: int, *, remembers: bool) -> list[Sample]:
    """Return a sample, preceded by the earlier samples of its sequence."""
    samples = all_samples(context)
    steps: list[Sample] = []
    for sample in samples:
        if sample.begins or not (remembers or sample.carried):
            steps.clear()
        steps.append(sample)
        if sample.index == number:
            return steps
    raise failure(
        f"{samples.name} has no sample {number}.",
        "It may be excluded. Samples are numbered from 0.",
        Place(kind="sample", id=str(number)),
        code="sample-unknown",
    )
