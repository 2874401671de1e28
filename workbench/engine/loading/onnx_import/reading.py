"""Reading of ONNX files: bounded, with external data from the model's own folder only.

An ONNX file holds no code: reading it runs none.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import onnx
from google.protobuf.message import DecodeError
from onnx.inliner import inline_local_functions

from workbench.engine.loading.onnx_import.calls import NotConvertedError
from workbench.engine.loading.onnx_import.conversion import (
    graph_inputs,
    operator_of,
    tensor_of,
    unknown_operators,
)
from workbench.errors import Place, failure, reason_of
from workbench.files import MAX_PROGRAM_BYTES, open_regular, read_limited
from workbench.text import listed

if TYPE_CHECKING:
    from collections.abc import Iterator

WHERE = Place(kind="option", id="model.spec")
_LFS = b"version https://git-lfs"
_AGAIN = "Export it again with torch.onnx.export, or copy the whole file."
_QUANTIZED = frozenset(
    {
        "QuantizeLinear",
        "DequantizeLinear",
        "DynamicQuantizeLinear",
        "QLinearConv",
        "QLinearMatMul",
        "ConvInteger",
        "MatMulInteger",
    }
)
_SHORT = {onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16, onnx.TensorProto.DOUBLE}
_SHOWN = 8


def read(path: Path) -> onnx.ModelProto:
    """Return a model with its weights, its own functions expanded.

    Raises:
        WorkbenchError: The file is missing, damaged, too large or too new, names data outside of
            its folder, has operators that are not supported, or weights that are no numbers.
    """
    model = _parsed(path)
    _refuse_form(model, path.name)
    _take_external_data(model, path)
    if model.functions:
        model = inline_local_functions(model)
    _refuse_operators(model.graph, path.name)
    _refuse_values(model.graph, path.name)
    return model


def _parsed(path: Path) -> onnx.ModelProto:
    try:
        data = read_limited(path, MAX_PROGRAM_BYTES)
    except FileNotFoundError as error:
        raise failure(
            f"{path.name} does not exist.", "Correct the path.", WHERE, code="model-file-missing"
        ) from error
    except OSError as error:
        raise failure(
            f"{path.name} cannot be read: {error.strerror}.",
            "Choose another file.",
            WHERE,
            code="model-file-unreadable",
        ) from error
    if not data:
        raise failure(f"{path.name} is empty.", _AGAIN, WHERE, code="model-file-unreadable")
    if data.startswith(_LFS):
        raise failure(
            f"{path.name} is only a pointer to a file of Git LFS.",
            "Get the file: git lfs pull",
            WHERE,
            code="model-file-unreadable",
        )
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        raise failure(
            f"{path.name} is not an ONNX model, or is cut short.",
            _AGAIN,
            WHERE,
            details=str(error),
            code="model-file-unreadable",
        ) from error
    return model


def _refuse_form(model: onnx.ModelProto, name: str) -> None:
    """Raise for a file without a graph, and for versions that this release does not know."""
    if not model.graph.node or not model.graph.output or not model.opset_import:
        raise failure(f"{name} has no graph of operators.", _AGAIN, WHERE, code="model-file-unreadable")
    known = onnx.defs.onnx_opset_version()
    version = max((v.version for v in model.opset_import if v.domain in {"", "ai.onnx"}), default=0)
    if version > known:
        raise failure(
            f"{name} uses operator set {version}; operator sets up to {known} are supported.",
            "Export it with an earlier one: torch.onnx.export(..., opset_version=18).",
            WHERE,
            code="onnx-opset-too-new",
        )
    if not graph_inputs(model):
        raise failure(
            f"{name} has no inputs.", "Export the model with its inputs.", WHERE, code="model-inputs-missing"
        )


def _take_external_data(model: onnx.ModelProto, path: Path) -> None:
    """Put the weights that lie in other files into the model."""
    left = MAX_PROGRAM_BYTES
    for tensor in _tensors(model.graph):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        fields = {entry.key: entry.value for entry in tensor.external_data}
        file = _external_file(path, fields.get("location", ""), tensor.name)
        try:
            offset, length = int(fields.get("offset", 0)), int(fields.get("length", -1))
            data = _part(file, offset, length, left)
        except (OSError, ValueError) as error:
            raise failure(
                f"The weight {tensor.name} cannot be read from {file.name}: {reason_of(error)}.",
                f"Put the whole {file.name} beside {path.name}.",
                WHERE,
                code="onnx-data-unreadable",
            ) from error
        left -= len(data)
        tensor.raw_data = data
        tensor.ClearField("external_data")
        tensor.data_location = onnx.TensorProto.DEFAULT


def _external_file(path: Path, location: str, tensor: str) -> Path:
    """Return the file of external data, which lies in the model's folder, without links to it."""
    parts = PurePosixPath(location).parts
    is_inside = bool(parts) and ".." not in parts and not location.startswith("/")
    if not is_inside or "\\" in location or ":" in location or "\0" in location:
        raise failure(
            f"The weight {tensor} is outside of the folder of {path.name}: {location[:100]!r}.",
            "Export the model again: torch.onnx.export writes its data beside it.",
            WHERE,
            code="onnx-data-outside",
        )
    file = path.parent
    for part in parts:
        file = file / part
        if file.is_symlink():
            raise failure(
                f"The weight {tensor} is behind a link: {location[:100]!r}.",
                "Copy the file itself into the model's folder.",
                WHERE,
                code="onnx-data-outside",
            )
    return file


def _part(file: Path, offset: int, length: int, limit: int) -> bytes:
    """Return bytes of a file.

    Raises:
        OSError: It cannot be read.
        ValueError: It is too short, or the part is too large.
    """
    with open_regular(file, follow=False) as stream:
        size = os.fstat(stream.fileno()).st_size
        length = size - offset if length < 0 else length
        if offset < 0 or length < 0 or offset + length > size:
            raise ValueError(f"the file has {size} bytes, the weight ends at {offset + length}")
        if length > limit:
            raise ValueError(f"all weights have more than {MAX_PROGRAM_BYTES} bytes")
        stream.seek(offset)
        return stream.read(length)


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Yield every constant of a graph and of its branches."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            if attribute.HasField("g"):
                yield from _tensors(attribute.g)


def _refuse_operators(graph: onnx.GraphProto, name: str) -> None:
    used = {operator_of(node) for node in graph.node}
    if quantized := sorted(used & _QUANTIZED):
        raise failure(
            f"{name} is quantized already: it has {listed(quantized)}.",
            "Give the float model that it was made from: the workbench quantizes it.",
            WHERE,
            code="model-quantized",
        )
    if not (unknown := unknown_operators(graph)):
        return
    raise failure(
        f"{name} has operators that are not supported: {listed(unknown, _SHOWN)}.",
        _remedy(unknown),
        WHERE,
        code="onnx-operator-unsupported",
    )


def _remedy(unknown: list[str]) -> str:
    if "ai.onnx.ml.ZipMap" in unknown:
        return "Convert it with skl2onnx and options={'zipmap': False}."
    if any(name.startswith("ai.onnx.ml.") for name in unknown):
        return "Only neural networks and linear models can be compiled for an NPU."
    if any(name in {"Loop", "Scan"} for name in unknown):
        return "Export the model with torch.onnx.export from its Python code, without scripting."
    if any("." in name for name in unknown):
        return "Export the model without the optimizer of onnxruntime, which adds own operators."
    return "Give the PyTorch model instead (FILE.py:callable), or cut the operators off the model."


def _refuse_values(graph: onnx.GraphProto, name: str) -> None:
    """Raise for weights that are NaN or not of float32."""
    for tensor in graph.initializer:
        if tensor.data_type in _SHORT:
            kind = onnx.TensorProto.DataType.Name(tensor.data_type)
            raise failure(
                f"The weight {tensor.name} of {name} is of {kind}.",
                "Devices take float32: export model.float().",
                WHERE,
                code="model-half-precision",
            )
    for tensor in _tensors(graph):
        try:
            value = tensor_of(tensor)
        except NotConvertedError as error:
            raise failure(
                f"{name} is damaged or has a type that is not supported: {error}.",
                _AGAIN,
                WHERE,
                code="model-file-unreadable",
            ) from error
        if value.is_floating_point() and bool(value.isnan().any()):
            raise failure(
                f"The weight {tensor.name} of {name} holds NaN.",
                "Train the model again, or export an earlier checkpoint.",
                WHERE,
                code="weights-not-finite",
            )
