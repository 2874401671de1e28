"""Models in ONNX: read without running code, and converted into modules of torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from workbench.engine.loading.onnx_import import reading
from workbench.engine.loading.onnx_import.calls import NotConvertedError
from workbench.engine.loading.onnx_import.conversion import convert, example_inputs, graph_inputs
from workbench.engine.loading.onnx_import.operators import TYPES
from workbench.errors import Place, WorkbenchError, failure

if TYPE_CHECKING:
    from pathlib import Path

    import onnx
    from torch import fx

Tensors = tuple[torch.Tensor, ...]
_MAX_INPUT_ELEMENTS = 1 << 26


def load(path: Path, examples: Tensors | None, hint: str) -> tuple[fx.GraphModule, Tensors]:
    """Return the module of an ONNX file, and its example inputs.

    Args:
        path: The file.
        examples: The example inputs, or their shapes as tensors of float32; None to make them from
            the shapes in the file.
        hint: What to do where the file does not fix the shapes.

    Raises:
        WorkbenchError: The file cannot be read or converted, or the inputs do not fit.
    """
    try:
        model = reading.read(path)
        inputs = _fitting_inputs(model, path.name, examples, hint)
        return convert(model, inputs), inputs
    except WorkbenchError:
        raise
    except NotConvertedError as error:
        raise failure(
            f"{path.name} cannot be converted: {error}.",
            "Export the model without it, or give the PyTorch model instead (FILE.py:callable).",
            reading.WHERE,
            code="onnx-not-converted",
        ) from error
    except Exception as error:  # Damaged graphs fail in every way: the parser checks no sizes.
        raise failure(
            f"{path.name} is damaged: {str(error).strip()[:200] or type(error).__name__}.",
            "Check it with onnx.checker.check_model; export it again.",
            reading.WHERE,
            code="model-file-unreadable",
        ) from error


def _fitting_inputs(model: onnx.ModelProto, name: str, examples: Tensors | None, hint: str) -> Tensors:
    """Return the example inputs in the types that the graph takes.

    Raises:
        WorkbenchError: They do not fit the graph, or its shapes are not fixed.
    """
    declared = graph_inputs(model)
    if examples is not None and len(examples) != len(declared):
        names = ", ".join(label for label, _, _ in declared)
        raise failure(
            f"{name} has {len(declared)} inputs ({names}); {len(examples)} are given.",
            "Give a shape or an array for each.",
            Place(kind="option", id="model.input_shapes"),
            code="model-inputs-invalid",
        )
    for position, (label, number, sizes) in enumerate(declared):
        _refuse_type(label, number)
        if examples is not None:
            _refuse_other_shape(label, sizes, examples[position])
        else:
            _refuse_open_shape(label, sizes, name, hint)
    return example_inputs(model, examples)


def _refuse_type(label: str, number: int) -> None:
    kind = TYPES.get(number)
    if kind is None or (kind.is_floating_point and kind != torch.float32):
        raise failure(
            f"The input {label} is of {str(kind or 'another type').removeprefix('torch.')}.",
            "Devices take float32 and integers: export model.float().",
            reading.WHERE,
            code="model-half-precision",
        )


def _refuse_open_shape(label: str, sizes: list[int | None], name: str, hint: str) -> None:
    fixed = [1 if position == 0 and size is None else size for position, size in enumerate(sizes)]
    elements = 1
    for size in fixed:
        if size is None:
            shown = "x".join("?" if s is None else str(s) for s in sizes)
            raise failure(
                f"The input {label} of {name} has sizes that are not fixed: {shown}.",
                hint,
                Place(kind="option", id="model.input_shapes"),
                code="model-inputs-missing",
            )
        elements *= size
    if elements > _MAX_INPUT_ELEMENTS:
        raise failure(
            f"The input {label} of {name} has {elements:,} elements.",
            f"Export it with at most {_MAX_INPUT_ELEMENTS:,}.",
            reading.WHERE,
            code="model-inputs-too-large",
        )


def _refuse_other_shape(label: str, sizes: list[int | None], value: torch.Tensor) -> None:
    shape = list(value.shape)
    fits = len(shape) == len(sizes) and all(
        size in {None, own} for size, own in zip(sizes, shape, strict=True)
    )
    if not fits:
        text = "x".join("?" if s is None else str(s) for s in sizes)
        raise failure(
            f"The input {label} takes {text}; {'x'.join(map(str, shape))} is given.",
            f"Give a shape of that form, or export the model for {'x'.join(map(str, shape))}.",
            Place(kind="option", id="model.input_shapes"),
            code="model-inputs-invalid",
        )
