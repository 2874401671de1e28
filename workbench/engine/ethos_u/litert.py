"""Operators and whole models of TensorFlow Lite, computed by LiteRT's reference kernels.

The optimised kernels of LiteRT round differently, so that only the reference kernels are used.
Source of the tables of a file: TensorFlow Lite, ``schema.fbs``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from workbench.errors import Place, WorkbenchError, failure

if TYPE_CHECKING:
    from collections.abc import Sequence

_Array = npt.NDArray[Any]
NAMESPACE, WHOLE = "tflite", "whole"


def compute_tflite(name: str, arguments: Sequence[Any]) -> list[_Array]:
    """Return the outputs of one operator of a model, or of the whole model.

    Args:
        name: ``tflite::3`` for operator 3 of the first graph, or ``tflite::whole``.
        arguments: The bytes of the file as an array, then the inputs: of an operator all that it
            names, also constants; of a model those of its graph.

    Raises:
        WorkbenchError: LiteRT is not installed, or refuses the model or the inputs.
    """
    try:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType
    except ImportError as error:
        raise failure(
            "LiteRT, which computes operators of TensorFlow Lite on the CPU, is not installed.",
            "Run: pip install ai-edge-litert",
            Place(kind="tool", id="ai-edge-litert"),
            code="litert-missing",
        ) from error
    content, inputs = np.asarray(arguments[0], np.uint8).tobytes(), list(arguments[1:])
    if not content:
        raise _refused("the file is empty")
    which = name.partition("::")[2]
    if which != WHOLE:
        content, inputs = _alone(content, int(which), inputs)
    try:
        interpreter = Interpreter(
            model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_REF
        )
        interpreter.allocate_tensors()
        places = interpreter.get_input_details()
        if len(places) != len(inputs):
            raise ValueError(f"the model takes {len(places)} inputs, {len(inputs)} are given")
        for place, values in zip(places, inputs, strict=True):
            interpreter.set_tensor(place["index"], np.ascontiguousarray(values))
        interpreter.invoke()
        return [
            np.array(interpreter.get_tensor(place["index"])) for place in interpreter.get_output_details()
        ]
    except (ValueError, RuntimeError) as error:
        raise _refused(str(error)) from error


def _alone(content: bytes, number: int, arguments: list[_Array]) -> tuple[bytes, list[_Array]]:
    """Return a model of one operator, and the inputs that are no constants of it."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(content, 0))
    graph = model.subgraphs[0]
    operator = graph.operators[number]
    named = [int(index) for index in operator.inputs if index >= 0]
    taken = {
        index: values
        for index, values in zip(named, arguments, strict=True)
        if not _is_constant(model, graph.tensors[index])
    }
    graph.operators = [operator]
    graph.inputs, graph.outputs = list(taken), operator.outputs
    model.subgraphs, model.signatureDefs, model.metadata = [graph], None, None
    builder = flatbuffers.Builder(len(content))
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output()), list(taken.values())


def _is_constant(model: Any, tensor: Any) -> bool:
    data = model.buffers[tensor.buffer].data
    return data is not None and len(data) > 0


def _refused(reason: str) -> WorkbenchError:
    first = next(iter(reason.splitlines()), "")
    return failure(
        f"LiteRT refuses the model or its inputs: {first.rstrip(' .')}.",
        "Open the file with LiteRT itself to see whether it is a whole TensorFlow Lite model.",
        Place(kind="file", id="program"),
        code="litert-refused",
    )
