"""The float program as an ONNX file that the compiler can quantize.

Opset 20 and IR 10: 18 decomposes GELU, 23 hides the products of attention in one operator.
"""

from __future__ import annotations

import copy
import dataclasses
import logging
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxscript.optimizer
import torch
from onnx import numpy_helper
from torch.export.graph_signature import ExportGraphSignature, OutputKind, OutputSpec
from torch.utils import _pytree as pytree

from workbench.engine.evaluation.measures import tensors_of
from workbench.engine.fx.plain_regions import copied_graph
from workbench.errors import Place, failure
from workbench.targets.nnpa.products import Product

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from workbench.engine.runtime.context import StageContext

    Shapes = Mapping[str, tuple[int, ...]]
    from collections.abc import Callable, Mapping, Sequence

    from workbench.engine.data import Sample


NEXT = "_next"
# Their indices are int64 by ONNX's definition; the exporter keeps the program's int32.
_INDEXED = frozenset({"GatherND", "ScatterND"})


def state_buffers(program: torch.export.ExportedProgram) -> tuple[str, ...]:
    """Return the buffers that a program mutates, in the order of the file's inputs and outputs."""
    return tuple(program.graph_signature.buffers_to_mutate.values())


def giving(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return a program that returns its new buffer values as its first outputs.

    It shares the weights of the given program, which is unchanged.
    """
    if not state_buffers(program):
        return program
    signature = program.graph_signature
    outputs = [
        OutputSpec(OutputKind.USER_OUTPUT, spec.arg, None)
        if spec.kind is OutputKind.BUFFER_MUTATION
        else spec
        for spec in signature.output_specs
    ]
    first, *others = program.module_call_graph
    assert first.signature is not None
    flat = pytree.tree_structure(tuple(range(len(outputs))))
    whole = dataclasses.replace(first, signature=dataclasses.replace(first.signature, out_spec=flat))
    return torch.export.ExportedProgram(
        root=program.graph_module,
        graph=copied_graph(program).graph,
        graph_signature=ExportGraphSignature(list(signature.input_specs), outputs),
        state_dict=program.state_dict,
        range_constraints=program.range_constraints,
        module_call_graph=[whole, *others],
        example_inputs=program.example_inputs,
        constants=program.constants,
        verifiers=program.verifiers,
    )


def keep_for_packaging(onnx_program: torch.onnx.ONNXProgram, names: Sequence[str]) -> None:
    """Make inputs and outputs of the buffers that a program writes, after all others, in place.

    Args:
        onnx_program: Exported from ``giving``, before constants are folded.
        names: The buffers, from ``state_buffers``.
    """
    graph = onnx_program.model.graph
    given = list(graph.outputs)
    graph.outputs.clear()
    graph.outputs.extend(given[len(names) :])
    for name, value in zip(names, given, strict=False):
        held = graph.initializers.pop(name)
        held.const_value = None
        graph.inputs.append(held)
        # A separate node, because one value may be several outputs, and an input may be one.
        after = ir.Value(name=f"{name}{NEXT}", type=held.type, shape=held.shape)
        graph.append(ir.node("Identity", [value], outputs=[after]))
        graph.outputs.append(after)


def widen_indices(model: onnx.ModelProto) -> None:
    """Convert the inputs of operators that need int64 indices, in place."""
    types = {
        value.name: value.type.tensor_type.elem_type
        for graph in (model.graph, onnx.shape_inference.infer_shapes(model).graph)
        for value in (*graph.input, *graph.value_info)
    } | {initializer.name: initializer.data_type for initializer in model.graph.initializer}
    nodes: list[onnx.NodeProto] = []
    wide: dict[str, str] = {}
    for node in model.graph.node:
        if node.op_type in _INDEXED and types.get(node.input[1]) == onnx.TensorProto.INT32:
            source = node.input[1]
            if source not in wide:
                wide[source] = f"{source}_int64"
                nodes.append(
                    onnx.helper.make_node(
                        "Cast", [source], [wide[source]], f"{source}_to_int64", to=onnx.TensorProto.INT64
                    )
                )
            node.input[1] = wide[source]
        nodes.append(node)
    if wide:
        kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del model.graph.node[:]
        model.graph.node.extend(kept)


def first_state(program: torch.export.ExportedProgram) -> dict[str, torch.Tensor]:
    """Return the initial state of a program, by the names of the file's inputs."""
    held: Mapping[str, Any] = {**program.constants, **program.state_dict}
    return {name: held[name].detach().clone() for name in state_buffers(program)}


class FileSteps:
    """Runs a file sample by sample, with its state."""

    def __init__(
        self, run: Callable[[Sequence[torch.Tensor]], list[torch.Tensor]], first: Mapping[str, torch.Tensor]
    ) -> None:
        """``run`` computes all outputs from all inputs; ``first`` is the initial state."""
        self._run, self._first = run, tuple(first.values())
        self._state: tuple[torch.Tensor, ...] = self._first
        self._carried: tuple[torch.Tensor, ...] = ()

    def __call__(self, sample: Sample) -> list[torch.Tensor]:
        """Return the outputs for the next sample, without state."""
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


OPSET, IR_VERSION = 20, 10
# The exporter's metadata of a node: its modules and its name in the exported graph.
_SCOPES = "pkg.torch.onnx.name_scopes"


def float_program(context: StageContext) -> torch.export.ExportedProgram:
    """Return the float program with improved or trained weights."""
    program: torch.export.ExportedProgram = context.live("export")
    project = context.project
    if project.channels():
        raise failure(
            "Channels cannot be removed for this target: ONNX is exported with all of them.",
            "Remove the channels from the compressions.",
            Place(kind="option", id="compressions"),
            code="channels-not-supported",
        )
    if not (project.improvers or project.trained_weights or project.compressions):
        return program
    prepared = context.live("calibrate").module
    held = {**dict(prepared.named_parameters()), **dict(prepared.named_buffers())}
    mine = copy.deepcopy(program)
    for name in list(mine.state_dict):
        if name in held:
            mine.state_dict[name] = held[name]
    return mine


def exported(program: torch.export.ExportedProgram, inputs: tuple[Any, ...]) -> onnx.ModelProto:
    """Return the program as ONNX; every node is called after its module and operation.

    What the program keeps between calls goes in and out last; see ``state``.

    Raises:
        WorkbenchError: an operator has no form in ONNX.
    """
    try:
        with _quiet(), torch.no_grad():
            onnx_program = torch.onnx.export(
                giving(program), inputs, dynamo=True, opset_version=OPSET, verbose=False, optimize=False
            )
            assert onnx_program is not None
            keep_for_packaging(onnx_program, state_buffers(program))
            # Constants only: the exporter's other optimizations would fold batch norms into
            # products, and the quantized weights would not be those of the model.
            onnxscript.optimizer.fold_constants(onnx_program.model)
            onnxscript.optimizer.remove_unused_nodes(onnx_program.model)
            model = onnx_program.model_proto
    except Exception as error:
        first = next((t for t in str(error).splitlines() if t.strip()), type(error).__name__)
        raise failure(
            f"ONNX export failed: {first.strip()[:300]}",
            "See details for the exporter's output.",
            Place(kind="stage", id="lower"),
            details=str(error),
            code="onnx-export-failed",
        ) from error
    model.ir_version = IR_VERSION
    widen_indices(model)
    _name_nodes(model)
    return model


def rewrite_gemms(model: onnx.ModelProto) -> int:
    """Transpose the constant weights of Gemms in the file, in place; return how many Gemms.

    Raises nothing: a Gemm whose weight is computed stays.
    """
    held = {initializer.name: initializer for initializer in model.graph.initializer}
    done = 0
    for node in model.graph.node:
        flag = next((a for a in node.attribute if a.name == "transB"), None)
        if node.op_type != "Gemm" or flag is None or not flag.i or node.input[1] not in held:
            continue
        name = f"{node.input[1]}_transposed"
        if name not in held:
            value = numpy_helper.to_array(held[node.input[1]])
            turned = numpy_helper.from_array(np.ascontiguousarray(value.T), name)
            model.graph.initializer.append(turned)
            held[name] = turned
        node.input[1] = name
        flag.i = 0
        done += 1
    return done


def tidy(model: onnx.ModelProto) -> None:
    """Remove unused values, possibly wrong shapes, and records of this machine."""
    read = {name for node in model.graph.node for name in node.input}
    read |= {output.name for output in model.graph.output}
    kept = [initializer for initializer in model.graph.initializer if initializer.name in read]
    del model.graph.initializer[:]
    model.graph.initializer.extend(sorted(kept, key=lambda constant: constant.name))
    # It also contains shapes of weights, which would contradict the transposed ones.
    del model.graph.value_info[:]
    for holder in (
        model,
        model.graph,
        *model.graph.node,
        *model.graph.input,
        *model.graph.output,
        *model.graph.initializer,
    ):
        del holder.metadata_props[:]
        holder.doc_string = ""


def check(model: onnx.ModelProto) -> None:
    """Check a model in full: operators, types and shapes.

    Raises:
        WorkbenchError: it is not valid ONNX.
    """
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise failure(
            "The exported file is not valid ONNX.",
            "See details for the checker's output.",
            Place(kind="stage", id="lower"),
            details=str(error),
            code="onnx-invalid",
        ) from error


def origins(model: onnx.ModelProto) -> dict[str, tuple[str, str]]:
    """Return module and operation of the exported graph by node, from the metadata."""
    by_node = {}
    for node in model.graph.node:
        scopes = _scopes(node)
        if scopes:
            module = next((name for name in reversed(scopes[:-1]) if name), "")
            by_node[node.name] = module, scopes[-1]
    return by_node


def _name_nodes(model: onnx.ModelProto) -> None:
    """Name nodes ``/module/operation/`` plus suffixes, so that no name is part of another."""
    known = origins(model)
    last = {origin: node.name for node in model.graph.node if (origin := known.get(node.name))}
    taken: dict[str, int] = {}
    for node in model.graph.node:
        if node.name not in known:
            continue
        module, operation = known[node.name]
        is_last = last[module, operation] == node.name
        name = "/".join(("", *filter(None, (module, operation)), ""))
        if not is_last:
            number = taken[name + node.op_type] = taken.get(name + node.op_type, 0) + 1
            name += f"{node.op_type}{number if number > 1 else ''}/"
        node.name = name


def _scopes(node: onnx.NodeProto) -> list[str]:
    text = next((p.value for p in node.metadata_props if p.key == _SCOPES), "")
    try:
        import ast

        return [str(scope) for scope in ast.literal_eval(text)] if text else []
    except (SyntaxError, ValueError):
        return []


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the exporter's messages about missing libraries."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


def file_products(model: onnx.ModelProto) -> Iterator[tuple[onnx.NodeProto, Product]]:
    """Yield every MatMul and Gemm with the addition after it, in order."""
    shapes = _shapes(model)
    held = {initializer.name for initializer in model.graph.initializer}
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    outputs = {output.name for output in model.graph.output}
    for node in model.graph.node:
        if node.op_type not in {"MatMul", "Gemm"}:
            continue
        behind = readers.get(node.output[0], [])
        add = behind[0] if len(behind) == 1 and node.output[0] not in outputs else None
        yield node, _product(node, add, shapes, held)


def _product(node: onnx.NodeProto, add: onnx.NodeProto | None, shapes: Shapes, held: set[str]) -> Product:
    left, right = shapes.get(node.input[0], ()), shapes.get(node.input[1], ())
    gemm = node.op_type == "Gemm"
    numbers = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    bias = node.input[2] if gemm and len(node.input) > 2 else ""
    if numbers.get("transB") and len(right) == 2:
        right = (right[1], right[0])
    if not bias and add is not None and add.op_type == "Add":
        bias = _added(node, add, len(left) == 2, held)
    return Product(
        left,
        right,
        node.input[1] in held,
        gemm=gemm,
        transposed=bool(numbers.get("transA") or numbers.get("transB")),
        scaled=numbers.get("alpha", 1.0) != 1.0 or numbers.get("beta", 1.0) != 1.0,
        bias=shapes.get(bias, ()) if bias else None,
        constant_bias=not bias or bias in held,
    )


def _added(node: onnx.NodeProto, add: onnx.NodeProto, flat: bool, held: set[str]) -> str:
    """Return the operand of an addition that the compiler fuses with the product, or ""."""
    is_first = add.input[0] == node.output[0]
    other = add.input[1] if is_first else add.input[0]
    return "" if flat and not is_first and other not in held else other


def _shapes(model: onnx.ModelProto) -> Shapes:
    known = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph
    shapes = {
        value.name: tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
        for value in (*known.value_info, *known.input, *known.output)
    }
    return shapes | {initializer.name: tuple(initializer.dims) for initializer in known.initializer}
