"""What the first stages leave of the program: its inputs, and what the quantizer made of it."""

from __future__ import annotations

from workbench.project.frozen import Frozen


class TensorSpec(Frozen):
    """Name, shape and dtype of one input or output; -1 in a shape is a free size."""

    name: str
    shape: tuple[int, ...]
    dtype: str


class ImportResult(Frozen):
    """The float model as it was loaded."""

    model_class: str
    parameters: int
    parameter_bytes: int
    inputs: tuple[TensorSpec, ...]
    warnings: tuple[str, ...] = ()


class ExportResult(Frozen):
    """The exported program in figures; its graph lies in graph.json."""

    nodes: int
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    branches: tuple[str, ...] = ()


class NodeAnnotation(Frozen):
    """What the quantizer did with one node of the prepared graph; ``reason`` when it did not."""

    node: str
    op: str
    module: str
    config: str
    by: str = ""
    quantized: bool
    reason: str = ""


class PrepareResult(Frozen):
    """The quantizer's own report."""

    observers: int
    annotations: tuple[NodeAnnotation, ...]
    warnings: tuple[str, ...] = ()


class ConvertResult(Frozen):
    """The quantized program in figures; its graph lies in graph.json."""

    nodes: int
    quantized_weights_bytes: int
    float_operators: int
    warnings: tuple[str, ...] = ()
