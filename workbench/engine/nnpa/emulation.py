"""The operators of an emulated program: operands with their range, and the quantized product.

An operand carries its values and how its range is taken; the product computes codes, sum and
correction in one, because the accelerator's correction and bias are added to the sum before it is
rounded. Each operand may come as plain float values instead: then it takes part as they are.
Gradients go straight through.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch

from workbench.engine.nnpa import arithmetic
from workbench.engine.nnpa.arithmetic import Mode, Range, codes, range_of
from workbench.errors import Place, WorkbenchError

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.engine.nnpa.arithmetic import Numerics, Weight


@dataclass(frozen=True)
class Activation:
    """A left operand, quantized by each reader.

    Attributes:
        values: Float32 [..., M, K].
        mode: How its range is computed.
    """

    values: Tensor
    mode: Mode

    @property
    def rounded(self) -> Tensor:
        """The values as a product reads them, by the documented equations."""
        by = range_of(self.values, self.mode)
        return (codes(self.values, by) - by.zero_point) * by.scale


@dataclass(frozen=True)
class Held:
    """A right operand: its codes, and float values if they are trained.

    Attributes:
        codes: Integers as stored in the model: [K, N], [S, K, N], or [N, K] for a linear.
        by: Its range.
        values: The float values; None if only codes are stored.
    """

    codes: Tensor
    by: Range
    values: Tensor | None = None

    @cached_property
    def rounded(self) -> Tensor:
        """The values of the codes."""
        return (self.codes.float() - self.by.zero_point) * self.by.scale

    def weight(self, *, linear: bool) -> Weight:
        """Return it as [K, N] or [S, K, N]."""
        values = (self.codes.t() if linear else self.codes).float()
        return arithmetic.Weight(values, self.by, values.sum(-2))


def quantize_per_nnpa(x: Tensor, role: str, mode: Mode) -> Activation | Held:
    """Return an operand with its range: an "activation" or a "weight"."""
    if role == "activation":
        return Activation(x, mode)
    weight_codes = arithmetic.weight_of(x.detach(), mode)
    return Held(weight_codes.codes, weight_codes.by, x)


def dequantize_per_nnpa(operand: Activation | Held) -> Activation | Held:
    """Return the operand unchanged: the product after it reads codes."""
    return operand


def dequantize_weight_per_nnpa(stored: Tensor, scale: float, zero_point: float, reciprocal: float) -> Held:
    """Return a weight of int8 codes that was quantized during conversion."""
    by = Range(*(torch.tensor(value) for value in (scale, zero_point, reciprocal)))
    return Held(stored, by)


def nnpa_matmul(
    a: Activation | Tensor, b: Held | Tensor, bias: Tensor | None, how: tuple[Any, ...]
) -> Tensor:
    """Return a product of operands as they come.

    Args:
        a: [..., M, K].
        b: [K, N] or [S, K, N]; [N, K] of a linear.
        bias: [N], or None.
        how: The reading; whether it is a linear; the node's name.

    Raises:
        WorkbenchError: an operand has no range.
    """
    numerics, linear, name = how
    if isinstance(a, Activation) and isinstance(b, Held):
        try:
            product = _quantized(a, b.weight(linear=linear), bias, numerics)
        except WorkbenchError as error:
            place = Place(kind="node", id=name)
            infos = [info.model_copy(update={"where": place}) for info in error.infos]
            raise WorkbenchError(infos) from error
        return _straight_through(product, a, b, bias, linear)
    left = a.rounded if isinstance(a, Activation) else a
    right = b.rounded if isinstance(b, Held) else b
    return _float(left, right, bias, linear)


def _quantized(a: Activation, weight: Weight, bias: Tensor | None, numerics: Numerics) -> Tensor:
    """Return the quantized product; unsupported operands count as zeros."""
    values = a.values.detach()
    if numerics == "nnpa":
        if not range_of(values, a.mode).fits_accelerator:
            values = torch.zeros_like(values)
        if not weight.by.fits_accelerator:
            weight = arithmetic.weight_of(torch.zeros_like(weight.codes))
    held = None if bias is None else bias.detach()
    return arithmetic.product(values, weight, held, a.mode, numerics).y


def _straight_through(quantized: Tensor, a: Activation, b: Held, bias: Tensor | None, linear: bool) -> Tensor:
    if not torch.is_grad_enabled() or b.values is None:
        return quantized
    plain = _float(a.values, b.values, bias, linear)
    return plain + (quantized - plain).detach()


def _float(a: Tensor, b: Tensor, bias: Tensor | None, linear: bool) -> Tensor:
    if linear:
        return torch.nn.functional.linear(a, b, bias)
    product = a @ b
    return product if bias is None else product + bias
