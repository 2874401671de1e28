"""Matrix products of an ONNX file, each with what the compiler will make of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx

from workbench.targets.nnpa.products import Product

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Shapes = Mapping[str, tuple[int, ...]]


def file_products(model: onnx.ModelProto) -> Iterator[tuple[onnx.NodeProto, Product]]:
    """Yield every MatMul and Gemm with the addition behind it, in order."""
    shapes = _shapes(model)
    held = {each.name for each in model.graph.initializer}
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


def _product(
    node: onnx.NodeProto, add: onnx.NodeProto | None, shapes: Shapes, held: set[str]
) -> Product:
    left, right = shapes.get(node.input[0], ()), shapes.get(node.input[1], ())
    gemm = node.op_type == "Gemm"
    numbers = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    bias = node.input[2] if gemm and len(node.input) > 2 else ""
    if numbers.get("transB") and len(right) == 2:
        right = (right[1], right[0])
    if not bias and add is not None and add.op_type == "Add":
        bias = _added(node, add, len(left) == 2, held)
    return Product(
        left, right, node.input[1] in held, gemm=gemm,
        transposed=bool(numbers.get("transA") or numbers.get("transB")),
        scaled=numbers.get("alpha", 1.0) != 1.0 or numbers.get("beta", 1.0) != 1.0,
        bias=shapes.get(bias, ()) if bias else None, constant_bias=not bias or bias in held,
    )  # fmt: skip


def _added(node: onnx.NodeProto, add: onnx.NodeProto, flat: bool, held: set[str]) -> str:
    """Return what an addition adds that the compiler takes together with the product, or ""."""
    is_first = add.input[0] == node.output[0]
    other = add.input[1] if is_first else add.input[0]
    return "" if flat and not is_first and other not in held else other


def _shapes(model: onnx.ModelProto) -> Shapes:
    known = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph
    found = {
        each.name: tuple(d.dim_value for d in each.type.tensor_type.shape.dim)
        for each in (*known.value_info, *known.input, *known.output)
    }
    return found | {each.name: tuple(each.dims) for each in known.initializer}
