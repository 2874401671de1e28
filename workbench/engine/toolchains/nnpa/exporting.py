"""The float program as an ONNX file that the compiler can quantize: written, rewritten, checked.

Opset 20 and IR 10: 18 takes GELU apart, 23 hides the products of attention in one operator.
"""

from __future__ import annotations

import copy
import logging
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxscript.optimizer
import torch
from onnx import numpy_helper

from workbench.engine.toolchains.nnpa import state
from workbench.errors import Place, failure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.engine.context import StageContext

OPSET, IR_VERSION = 20, 10
# The exporter's own records of a node: its modules and its name in the exported graph.
_SCOPES = "pkg.torch.onnx.name_scopes"


def float_program(context: StageContext) -> torch.export.ExportedProgram:
    """Return the float program, with the weights that improvers or training left."""
    program: torch.export.ExportedProgram = context.hot("export")
    if not (context.project.improvers or context.project.trained_weights):
        return program
    prepared = context.hot("calibrate").module
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
            made = torch.onnx.export(
                state.giving(program),
                inputs,
                dynamo=True,
                opset_version=OPSET,
                verbose=False,
                optimize=False,
            )
            assert made is not None
            state.hand_on(made, state.kept(program))
            # Nothing but constants: the exporter's other optimizations would fold batch norms into
            # products, and the weights that are quantized would not be those of the model.
            onnxscript.optimizer.fold_constants(made.model)
            onnxscript.optimizer.remove_unused_nodes(made.model)
            model = made.model_proto
    except Exception as error:
        first = next((t for t in str(error).splitlines() if t.strip()), type(error).__name__)
        raise failure(
            f"The program does not export to ONNX: {first.strip()[:300]}",
            "Its own words are in the details.", Place(kind="stage", id="lower"),
            details=str(error),
        ) from error  # fmt: skip
    model.ir_version = IR_VERSION
    state.widen_indices(model)
    _name_nodes(model)
    return model


def rewrite_gemms(model: onnx.ModelProto) -> int:
    """Transpose the constant weights of Gemms in the file, in place; return how many Gemms.

    Raises nothing: a Gemm whose weight is computed stays.
    """
    held = {each.name: each for each in model.graph.initializer}
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
    """Drop what nobody reads, shapes that may be wrong, and records of this machine."""
    read = {name for node in model.graph.node for name in node.input}
    read |= {output.name for output in model.graph.output}
    kept = [each for each in model.graph.initializer if each.name in read]
    del model.graph.initializer[:]
    model.graph.initializer.extend(sorted(kept, key=lambda each: each.name))
    # Shapes of weights stand there too, and would contradict those that were transposed.
    del model.graph.value_info[:]
    for each in (model, model.graph, *model.graph.node, *model.graph.input, *model.graph.output,
                 *model.graph.initializer):  # fmt: skip
        del each.metadata_props[:]
        each.doc_string = ""


def check(model: onnx.ModelProto) -> None:
    """Check a model in full: operators, types and shapes.

    Raises:
        WorkbenchError: it is not valid ONNX.
    """
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise failure(
            "The exported file is not valid ONNX.", "The checker's words are in the details.",
            Place(kind="stage", id="lower"), details=str(error),
        ) from error  # fmt: skip


def origins(model: onnx.ModelProto) -> dict[str, tuple[str, str]]:
    """Return module and operation of the exported graph by node, while the records are there."""
    found = {}
    for node in model.graph.node:
        scopes = _scopes(node)
        if scopes:
            module = next((name for name in reversed(scopes[:-1]) if name), "")
            found[node.name] = module, scopes[-1]
    return found


def _name_nodes(model: onnx.ModelProto) -> None:
    """Call nodes ``/module/operation/`` and what is before that, so that none is part of others."""
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

        return [str(each) for each in ast.literal_eval(text)] if text else []
    except (SyntaxError, ValueError):
        return []


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporter from telling of libraries that are not there."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)
