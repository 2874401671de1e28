"""Operations on quantized operands: each operand on its grid, then the operation in float.

A configuration is flat, with MASE's names: ``data_in_*`` for what flows, ``weight_*`` for weights
and the second operand of a product, ``bias_*``. Sums are float and results are not quantized again,
except where ``data_out_*`` is given (``fixed``, ``integer``, ``logicnets``).

In the mase-compatible form the operands are those MASE quantizes, its failures are refusals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from workbench.engine.formats.schemes import Quantizer, quantizer
from workbench.errors import Place, failure
from workbench.results.programs import FLOAT_BITS
from workbench.targets.formats.schemes import bits_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

    from workbench.engine.formats.schemes import Quantizer
    from workbench.targets.formats.parameters import Role


def _batch_norm2d(x: Tensor, w: Tensor | None, b: Tensor | None, **options: Any) -> Tensor:
    """Normalize with running statistics, ``mean`` 0 and ``var`` 1 where there are none."""
    channels = x.shape[1]
    mean = options.pop("mean", torch.zeros(channels, dtype=x.dtype))
    variance = options.pop("var", torch.ones(channels, dtype=x.dtype))
    return functional.batch_norm(x, mean, variance, w, b, **options)


def _layer_norm(x: Tensor, w: Tensor | None, b: Tensor | None, **options: Any) -> Tensor:
    shape = options.pop("normalized_shape", x.shape[-1:] if w is None else w.shape)
    return functional.layer_norm(x, tuple(shape), w, b, **options)


def _group_norm(x: Tensor, w: Tensor | None, b: Tensor | None, **options: Any) -> Tensor:
    return functional.group_norm(x, options.pop("num_groups"), w, b, **options)


def _instance_norm2d(x: Tensor, w: Tensor | None, b: Tensor | None, **options: Any) -> Tensor:
    return functional.instance_norm(x, weight=w, bias=b, **options)


def _rms_norm(x: Tensor, w: Tensor | None, b: Tensor | None, **options: Any) -> Tensor:
    del b
    shape = options.pop("normalized_shape", x.shape[-1:])
    return functional.rms_norm(x, tuple(shape), w, **options)


WEIGHTED: dict[str, Callable[..., Tensor]] = {
    "linear": functional.linear,
    "conv1d": functional.conv1d,
    "conv2d": functional.conv2d,
}
PRODUCTS: dict[str, Callable[..., Tensor]] = {"matmul": torch.matmul, "bmm": torch.bmm}
ARITHMETIC: dict[str, Callable[..., Tensor]] = {"add": torch.add, "sub": torch.sub, "mul": torch.mul}
ACTIVATIONS: dict[str, Callable[..., Tensor]] = {
    "relu": functional.relu,
    "selu": functional.selu,
    "tanh": torch.tanh,
    "gelu": functional.gelu,
    "softsign": functional.softsign,
    "softplus": functional.softplus,
}
NORMS: dict[str, Callable[..., Tensor]] = {
    "batch_norm2d": _batch_norm2d,
    "layer_norm": _layer_norm,
    "group_norm": _group_norm,
    "instance_norm2d": _instance_norm2d,
    "rms_norm": _rms_norm,
}


_TILED = frozenset({"block_fp", "block_minifloat", "block_log"})
_SCALED = frozenset({"mxint", "mxfp", "nvfp4"})
_MATRICES = frozenset({"matmul", "bmm", "add", "sub", "mul"})
_CONVOLUTIONS = frozenset({"conv1d", "conv2d"})


def on_blocks(quantizer: Quantizer, value: Tensor, operation: str, operand: str) -> Tensor:
    """Return an operand on its grid, its blocks laid as the operation needs them.

    Args:
        quantizer: Of the operand.
        value: The operand.
        operation: Name of the operation.
        operand: "x", "w" or "b".
    """
    laid, shape = layout(quantizer, tuple(value.shape), operation, operand)
    return laid(value.reshape(shape)).reshape(value.shape) if shape != value.shape else laid(value)


def layout(
    quantizer: Quantizer, shape: tuple[int, ...], operation: str, operand: str
) -> tuple[Quantizer, tuple[int, ...]]:
    """Return the quantizer that knows how blocks lie, and the shape in which it takes the operand.

    Args:
        quantizer: Of the operand.
        shape: Of the operand.
        operation: Name of the operation.
        operand: "x", "w" or "b".
    """
    name = quantizer.spec.name
    if name in _SCALED:
        return _along(quantizer, operation, operand), shape
    if name not in _TILED:
        return quantizer, shape
    if len(shape) > 3:
        return _skipping(quantizer, True), (math.prod(shape[:-2]), *shape[-2:])
    return _skipping(quantizer, _skips(len(shape), operation, operand)), shape


def _skips(rank: int, operation: str, operand: str) -> bool:
    """Return whether blocks of an operand of at most three dimensions skip the first."""
    if operand == "b" or rank == 1:
        return False
    if operation in _CONVOLUTIONS or operation in _MATRICES:
        return rank > 2
    return operand == "x"


def _skipping(quantizer: Quantizer, skip: bool) -> Quantizer:
    """Return the quantizer with the default for skipping the first dimension."""
    if quantizer.parameters["skip_first_dim"] is not None:
        return quantizer
    return replace(quantizer, parameters={**quantizer.parameters, "skip_first_dim": skip})


def _along(quantizer: Quantizer, operation: str, operand: str) -> Quantizer:
    """Return the quantizer with blocks along the reduction dimension by default."""
    if quantizer.parameters["block_dim"] is not None or quantizer.mase_compatible:
        return quantizer
    if operation in _CONVOLUTIONS and operand == "x":
        return replace(quantizer, parameters={**quantizer.parameters, "block_dim": 1})
    if operation in {"matmul", "bmm"} and operand == "w":
        return replace(quantizer, parameters={**quantizer.parameters, "block_dim": -2})
    return quantizer


OPERATIONS = (*WEIGHTED, *PRODUCTS, *ARITHMETIC, *ACTIVATIONS, *NORMS)
_INTEGERS = frozenset({"integer", "fixed"})
_WEIGHTS_ONLY = frozenset({"binary", "ternary"})
# Schemes that leave an operand in float in both forms.
_FLOAT = {"w": {"logicnets"}, "b": {"logicnets", "binary_residual", "lutnet"}}
_OUT = "data_out_width"
_ROLES: dict[str, Role] = {"x": "data", "w": "weight", "b": "bias"}


@dataclass(frozen=True)
class Operands:
    """Operands of an operation, on their grids; None where there is none.

    Attributes:
        x: What flows in.
        w: Weight, or the second operand.
        b: Bias.
    """

    x: Tensor
    w: Tensor | None = None
    b: Tensor | None = None


@dataclass(frozen=True)
class Operation:
    """An operation of MASE's table under a number format.

    Attributes:
        name: In ``OPERATIONS``.
        scheme: Name of a number format.
        config: Parameters of every operand, with MASE's names.
        mase_compatible: As MASE computes it.
        options: Keywords of the float operation (stride, padding, eps ...).
    """

    name: str
    scheme: str
    config: Mapping[str, Any]
    mase_compatible: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.name not in OPERATIONS:
            raise failure(
                f"Unknown operation {self.name!r}.",
                f"Known: {', '.join(OPERATIONS)}.",
                Place(kind="option", id="operation"),
                code="operation-unknown",
            )
        if self.mase_compatible:
            self._refuse_what_mase_cannot()

    def __call__(self, x: Tensor, w: Tensor | None = None, b: Tensor | None = None) -> Tensor:
        """Return the result for an input, a weight or second operand, and a bias."""
        return self.on(self.operands(x, w, b))

    def operands(self, x: Tensor, w: Tensor | None = None, b: Tensor | None = None) -> Operands:
        """Return the operands on their grids.

        Raises:
            WorkbenchError: parameters are missing, or a shape does not suit the format.
        """
        return Operands(
            self.placed(x, "x"),
            None if w is None else self.placed(w, "w"),
            None if b is None else self.placed(b, "b"),
        )

    def on(self, operands: Operands) -> Tensor:
        """Return the float operation on operands that are on their grids."""
        x, w, b = operands.x, operands.w, operands.b
        options = dict(self.options)
        if self.name in WEIGHTED:
            return self.result(WEIGHTED[self.name](x, w, b, **options))
        if self.name in PRODUCTS:
            return PRODUCTS[self.name](x, w)
        if self.name in ARITHMETIC:
            return ARITHMETIC[self.name](x, w)
        if self.name in ACTIVATIONS:
            return ACTIVATIONS[self.name](x, **options)
        if self.mase_compatible and self.name == "layer_norm":
            options["eps"] = 1e-5
        return NORMS[self.name](x, w, b, **options)

    def placed(self, value: Tensor, operand: str) -> Tensor:
        """Return one operand ("x", "w" or "b") on its grid, or itself where the form leaves it.

        Raises:
            WorkbenchError: parameters are missing, or the shape does not suit the format.
        """
        if not self._quantizes(operand):
            return value
        placed = on_blocks(self._quantizer(operand), value, self.name, operand)
        stacked = placed.dim() == value.dim() + 1
        return placed.sum(0) if stacked else placed

    def bits(self, shape: tuple[int, ...], operand: str) -> float:
        """Return the bits of an element of an operand ("x", "w" or "b"), on average.

        Raises:
            WorkbenchError: parameters are missing.
        """
        if not self._quantizes(operand):
            return FLOAT_BITS
        laid, taken = layout(self._quantizer(operand), shape, self.name, operand)
        mase = self.mase_compatible
        return bits_of(self.scheme, laid.parameters, laid.role, taken, mase_compatible=mase)

    def result_bits(self) -> float:
        """Return the bits of an element of the result where ``data_out_*`` gives it a grid."""
        return float(self.config[_OUT])

    def _quantizer(self, operand: str) -> Quantizer:
        role = role_of(self.name, operand)
        return quantizer(self.scheme, self._own(role), role, mase_compatible=self.mase_compatible)

    def _own(self, role: Role) -> dict[str, Any]:
        parameters = dict(self.config)
        if self.name in ACTIVATIONS and self.mase_compatible and self.scheme in _INTEGERS:
            parameters["is_signed"] = False
        if self.scheme == "lutnet" and role != "data":
            parameters = {k: v for k, v in parameters.items() if k != "data_in_levels"}
        return parameters

    def _quantizes(self, operand: str) -> bool:
        if self.scheme in _FLOAT.get(operand, ()):
            return False
        if self.name in NORMS:
            return self._quantizes_norm(operand)
        if not self.mase_compatible:
            return True
        if self.name in WEIGHTED:
            return operand == "w" or self.scheme not in _WEIGHTS_ONLY
        if self.name in ACTIVATIONS:
            return self.scheme not in _WEIGHTS_ONLY
        return not (self.scheme == "block_log" and self.name in PRODUCTS and operand == "w")

    def _quantizes_norm(self, operand: str) -> bool:
        if self.mase_compatible:
            return operand == "x" and self.name != "rms_norm" and self.scheme != "binary"
        prefix = {"x": "data_in_", "w": "weight_", "b": "bias_"}[operand]
        return operand == "x" or any(key.startswith(prefix) for key in self.config)

    def result(self, y: Tensor) -> Tensor:
        """Return the result, on its own grid where ``data_out_*`` gives one, else itself."""
        takes_one = self.name in WEIGHTED and self.scheme in {*_INTEGERS, "logicnets"}
        if not takes_one or self.config.get(_OUT) is None:
            return y
        parameters = {
            "width": self.config[_OUT],
            "frac_width": self.config.get("data_out_frac_width"),
            "floor": bool(self.config.get("floor")),
        }
        return quantizer("integer", parameters)(y)

    def _refuse_what_mase_cannot(self) -> None:
        reason = ""
        if self.name in {"tanh", "gelu", "softsign", "softplus"}:
            reason = "it fails in every form"
        elif self.name in ARITHMETIC and self.scheme == "log":
            reason = "it needs data_in_exponent_width, which log does not have"
        elif self.name == "sub" and self.scheme == "block_log":
            reason = "it fails for every number of dimensions"
        elif self.name in PRODUCTS and self.scheme == "ternary":
            reason = "it calls the quantizer with unsupported arguments"
        elif self.name in NORMS and self.scheme not in {"integer", "binary"}:
            reason = "it has norms for integer only"
        elif self.name == "conv2d" and self.scheme == "fixed":
            reason = "it has no such layer"
        if reason:
            raise failure(
                f"MASE cannot run {self.name} with {self.scheme}: {reason}.",
                "Use the textbook form.",
                code="mase-operation-not-supported",
            )


def role_of(operation: str, operand: str) -> Role:
    """Return what an operand counts as; both operands of an addition are data to MASE and us."""
    if operation in ARITHMETIC:
        return "data"
    return _ROLES[operand]


def residual_linear(operation: Operation, operands: Operands, gamma: Tensor, mask: Tensor) -> Tensor:
    """Return MASE's binary_residual layer: weights times |gamma| and a mask of pruned ones."""
    weight = operands.w
    if weight is None:
        raise failure(
            f"{operation.name} with {operation.scheme} needs a weight.", code="operation-weight-missing"
        )
    return functional.linear(operands.x, weight * gamma.abs() * mask, operands.b)


def flexround_linear(x: Tensor, w: Tensor, b: Tensor | None, out: Quantizer, step: float = 1.0) -> Tensor:
    """Return a linear layer as FlexRound has it: weights rounded to steps, the result quantized.

    Source: Lee et al. 2023, FlexRound, arXiv 2306.00317, equation 2 with all scales but the step 1.
    """
    rounded = torch.floor(w / step + 0.5) * step
    return out(functional.linear(x, rounded, b))
