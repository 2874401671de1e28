"""What a program keeps between calls: inputs and outputs of its ONNX file, and taken along here.

The exporter (torch 2.13) makes a constant of a buffer that a program writes and drops what is
written. Here such a buffer is an input after all others, and what it becomes an output after all
others, in the same order.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import TYPE_CHECKING, Any

import onnx
import onnx_ir as ir
import torch
from torch.export.graph_signature import ExportGraphSignature, OutputKind, OutputSpec
from torch.utils import _pytree as pytree

from workbench.engine.quality import tensors_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from workbench.engine.data import Sample

NEXT = "_next"
# Their indices are int64 by ONNX's definition; the exporter hands on int32 as the program has it.
_INDEXED = frozenset({"GatherND", "ScatterND"})


def kept(program: torch.export.ExportedProgram) -> tuple[str, ...]:
    """Return the buffers that a program writes, in the order of the file's inputs and outputs."""
    return tuple(program.graph_signature.buffers_to_mutate.values())


def giving(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return a program that gives what it writes into its buffers as its first outputs.

    Its weights are those of the given program, which stays as it is.
    """
    if not kept(program):
        return program
    said = program.graph_signature
    outputs = [
        OutputSpec(OutputKind.USER_OUTPUT, spec.arg, None)
        if spec.kind is OutputKind.BUFFER_MUTATION else spec
        for spec in said.output_specs
    ]  # fmt: skip
    first, *others = program.module_call_graph
    assert first.signature is not None
    flat = pytree.tree_structure(tuple(range(len(outputs))))
    whole = dataclasses.replace(
        first, signature=dataclasses.replace(first.signature, out_spec=flat)
    )
    return torch.export.ExportedProgram(
        root=program.graph_module, graph=copy.deepcopy(program.graph),
        graph_signature=ExportGraphSignature(list(said.input_specs), outputs),
        state_dict=program.state_dict, range_constraints=program.range_constraints,
        module_call_graph=[whole, *others], example_inputs=program.example_inputs,
        constants=program.constants, verifiers=program.verifiers,
    )  # fmt: skip


def hand_on(made: torch.onnx.ONNXProgram, names: Sequence[str]) -> None:
    """Make inputs and outputs of the buffers that a program writes, after all others, in place.

    Args:
        made: Exported from ``giving``, before constants are folded.
        names: The buffers, from ``kept``.
    """
    graph = made.model.graph
    given = list(graph.outputs)
    graph.outputs.clear()
    graph.outputs.extend(given[len(names) :])
    for name, value in zip(names, given, strict=False):
        held = graph.initializers.pop(name)
        held.const_value = None
        graph.inputs.append(held)
        # Of its own, because one value may be several outputs, and an input be one.
        after = ir.Value(name=f"{name}{NEXT}", type=held.type, shape=held.shape)
        graph.append(ir.node("Identity", [value], outputs=[after]))
        graph.outputs.append(after)


def widen_indices(model: onnx.ModelProto) -> None:
    """Give operators that take int64 indices int64 ones, in place."""
    types = {
        each.name: each.type.tensor_type.elem_type
        for graph in (model.graph, onnx.shape_inference.infer_shapes(model).graph)
        for each in (*graph.input, *graph.value_info)
    } | {each.name: each.data_type for each in model.graph.initializer}
    nodes: list[onnx.NodeProto] = []
    wide: dict[str, str] = {}
    for node in model.graph.node:
        if node.op_type in _INDEXED and types.get(node.input[1]) == onnx.TensorProto.INT32:
            source = node.input[1]
            if source not in wide:
                wide[source] = f"{source}_int64"
                nodes.append(onnx.helper.make_node(
                    "Cast", [source], [wide[source]], f"{source}_to_int64",
                    to=onnx.TensorProto.INT64,
                ))  # fmt: skip
            node.input[1] = wide[source]
        nodes.append(node)
    if wide:
        kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del model.graph.node[:]
        model.graph.node.extend(kept)


def first_state(program: torch.export.ExportedProgram) -> dict[str, torch.Tensor]:
    """Return what a program keeps before its first call, by the names of the file's inputs."""
    held: Mapping[str, Any] = {**program.constants, **program.state_dict}
    return {name: held[name].detach().clone() for name in kept(program)}


class FileSteps:
    """Runs a file sample after sample, with what goes from one to the next."""

    def __init__(
        self, run: Callable[[Sequence[torch.Tensor]], list[torch.Tensor]],
        first: Mapping[str, torch.Tensor],
    ) -> None:  # fmt: skip
        """``run`` computes all outputs from all inputs; ``first`` is what the program keeps."""
        self._run, self._first = run, tuple(first.values())
        self._state: tuple[torch.Tensor, ...] = self._first
        self._carried: tuple[torch.Tensor, ...] = ()

    def __call__(self, sample: Sample) -> list[torch.Tensor]:
        """Return the outputs for the next sample that are neither kept nor carried on."""
        if sample.begins:
            self._state, self._carried = self._first, ()
        given = tensors_of(sample.inputs)
        if self._carried:
            given = [*given[: -sample.carried], *self._carried]
        outputs = self._run([*given, *self._state])
        own = len(outputs) - len(self._first)
        self._state = tuple(outputs[own:])
        self._carried = tuple(outputs[own - sample.carried : own])
        return outputs[: own - sample.carried]
