"""The operators of an exported graph that are operations of MASE's table.

Source: the ATen schemas of torch 2.13, as ``torch.export`` shows the modules and functions.
"""

from __future__ import annotations

from workbench.targets.base import Reason

_NORMS = {
    "aten.batch_norm.default": "batch_norm2d",
    "aten.instance_norm.default": "instance_norm2d",
    "aten.layer_norm.default": "layer_norm",
    "aten.group_norm.default": "group_norm",
    "aten.rms_norm.default": "rms_norm",
}
# The sum and the quotient of x / (1 + |x|) are one operation, identified by the quotient.
SOFTSIGN = "softsign"
OPERATORS: dict[str, str] = {
    "aten.linear.default": "linear",
    "aten.conv1d.default": "conv1d",
    "aten.conv1d.padding": "conv1d",
    "aten.conv2d.default": "conv2d",
    "aten.conv2d.padding": "conv2d",
    "aten.matmul.default": "matmul",
    "aten.bmm.default": "bmm",
    **{f"aten.{name}{place}.Tensor": name for name in ("add", "sub", "mul") for place in ("", "_")},
    **{
        f"aten.{name}{place}.default": name
        for name in ("relu", "selu", "tanh", "gelu")
        for place in ("", "_")
    },
    "aten.softplus.default": "softplus",
    "aten.div.Tensor": SOFTSIGN,
    **_NORMS,
}

_DECOMPOSED = Reason("decomposed", "The program was decomposed; export it without decompositions.")
# Why operators that are decompositions or fusions of these operations stay float.
FUSED: dict[str, Reason] = {
    "aten.scaled_dot_product_attention.default": Reason(
        "products-only",
        "Two products and a softmax are one operator here; MASE's table has only the products.",
    ),
    "aten.convolution.default": _DECOMPOSED,
    "aten.addmm.default": _DECOMPOSED,
    "aten.mm.default": _DECOMPOSED,
    "aten.native_layer_norm.default": _DECOMPOSED,
    "aten.native_group_norm.default": _DECOMPOSED,
    "aten._native_batch_norm_legit_no_training.default": _DECOMPOSED,
}
NOT_IN_TABLE = Reason("not-in-table", "MASE, which defines the formats, has none for this operation.")
UNRULED = Reason("no-rule", "No rule assigns a format to it.")


def operators_of(operation: str) -> tuple[str, ...]:
    """Return the ATen operators of an operation of MASE's table."""
    return tuple(op for op, name in OPERATORS.items() if name == operation)


OPERATIONS: tuple[str, ...] = tuple(dict.fromkeys(OPERATORS.values()))
