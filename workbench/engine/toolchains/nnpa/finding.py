"""Matrix products in an exported graph, each as the compiler will meet it in the ONNX file."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from workbench.engine import programs
from workbench.targets.nnpa.products import Product

if TYPE_CHECKING:
    from collections.abc import Iterator

_LINEAR, _ADDMM = "aten.linear.default", "aten.addmm.default"
_MATMULS = frozenset({"aten.matmul.default", "aten.mm.default", "aten.bmm.default"})
_ADDS = frozenset({"aten.add.Tensor", "aten.add_.Tensor"})


@dataclass(frozen=True)
class Found:
    """One product.

    Attributes:
        node: What has the result: the product, or the addition that it takes in.
        source: The product itself.
        left: First operand.
        right: Second operand.
        bias: What it adds itself.
        linear: Whether the second operand stands transposed, as in nn.Linear.
        product: As the compiler meets it.
    """

    node: fx.Node
    source: fx.Node
    left: fx.Node
    right: fx.Node
    bias: fx.Node | None
    linear: bool
    product: Product


def products(module: fx.GraphModule, *, rewritten: bool) -> Iterator[Found]:
    """Yield every matrix product of a graph, in order.

    Args:
        module: An exported program's module.
        rewritten: Whether the exported file gets its Gemms without transposition.
    """
    for node in list(module.graph.nodes):
        op = programs.op_of(node) if node.op == "call_function" else ""
        if op == _LINEAR:
            yield _linear(module, node, rewritten)
        elif op == _ADDMM:
            yield _addmm(module, node)
        elif op in _MATMULS:
            yield _matmul(module, node)


def constant(module: fx.GraphModule, node: fx.Node) -> torch.Tensor | None:
    """Return the value of a node that is known before anything runs; None for others."""
    if node.op == "get_attr" and not programs.is_constant(node):
        return None
    if node.op == "get_attr":
        value = operator.attrgetter(str(node.target))(module)
        return value if isinstance(value, torch.Tensor) else None
    target: Any = node.target
    if node.op != "call_function" or not _is_steady(target) or not node.all_input_nodes:
        return None
    held = {source: constant(module, source) for source in node.all_input_nodes}
    if any(value is None for value in held.values()):
        return None
    args, kwargs = fx.map_arg((node.args, node.kwargs), held.__getitem__)
    with torch.no_grad():
        value = target(*args, **kwargs)
    return value if isinstance(value, torch.Tensor) else None


def _is_steady(target: Any) -> bool:
    """Tell whether an operator gives the same for the same, and changes nothing."""
    if not isinstance(target, torch._ops.OpOverload):  # noqa: SLF001 - no public name
        return False
    schema = target._schema  # noqa: SLF001 - no public name
    return not schema.is_mutable and torch.Tag.nondeterministic_seeded not in target.tags


def _linear(module: fx.GraphModule, node: fx.Node, rewritten: bool) -> Found:
    left, right, *rest = node.args
    assert isinstance(left, fx.Node)
    assert isinstance(right, fx.Node)
    given = rest[0] if rest else node.kwargs.get("bias")
    bias = given if isinstance(given, fx.Node) else None
    shape = _shape(right)
    gemm = len(_shape(left)) == 2
    said = Product(
        _shape(left), (*shape[:-2], shape[-1], shape[-2]) if len(shape) > 1 else shape,
        constant(module, right) is not None, gemm=gemm, transposed=gemm and not rewritten,
        bias=None if bias is None else _shape(bias),
        constant_bias=bias is None or constant(module, bias) is not None,
    )  # fmt: skip
    if bias is None:
        return _with_addition(module, Found(node, node, left, right, None, True, said))
    return Found(node, node, left, right, bias, True, said)


def _addmm(module: fx.GraphModule, node: fx.Node) -> Found:
    bias, left, right = node.args
    assert isinstance(bias, fx.Node)
    assert isinstance(left, fx.Node)
    assert isinstance(right, fx.Node)
    scaled = any(node.kwargs.get(name, 1) != 1 for name in ("alpha", "beta"))
    said = Product(
        _shape(left), _shape(right), constant(module, right) is not None, gemm=True,
        scaled=scaled, bias=_shape(bias), constant_bias=constant(module, bias) is not None,
    )  # fmt: skip
    return Found(node, node, left, right, bias, False, said)


def _matmul(module: fx.GraphModule, node: fx.Node) -> Found:
    left, right = node.args
    assert isinstance(left, fx.Node)
    assert isinstance(right, fx.Node)
    said = Product(_shape(left), _shape(right), constant(module, right) is not None)
    return _with_addition(module, Found(node, node, left, right, None, False, said))


def _with_addition(module: fx.GraphModule, found: Found) -> Found:
    """Return a product with the addition behind it, where the compiler takes both together."""
    users = list(found.source.users)
    add = users[0] if len(users) == 1 else None
    if add is None or programs.op_of(add) not in _ADDS or add.kwargs.get("alpha", 1) != 1:
        return found
    first, second = add.args[:2]
    other = second if first is found.source else first
    held = not isinstance(other, fx.Node) or constant(module, other) is not None
    shape = _shape(other) if isinstance(other, fx.Node) else ()
    flat = len(found.product.left) == 2
    if flat and not held and first is not found.source:
        # Only an addition with the product in front is made a Gemm.
        return found
    said = Product(
        found.product.left, found.product.right, found.product.constant,
        gemm=found.product.gemm, transposed=found.product.transposed, bias=shape,
        constant_bias=held,
    )  # fmt: skip
    if not (said.takes_bias and held and isinstance(other, fx.Node)):
        return Found(found.source, found.source, found.left, found.right, None, found.linear, said)
    return Found(add, found.source, found.left, found.right, other, found.linear, said)


def _shape(node: fx.Node) -> tuple[int, ...]:
    value = node.meta.get("val")
    return tuple(int(size) for size in value.shape) if isinstance(value, torch.Tensor) else ()
