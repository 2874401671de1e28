"""Fixed point: integer, fixed, integer_floor, scale_integer, logicnets and FlexRound's grid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from workbench.engine.formats.blocks import by_chunks, by_rows, finite_largest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from workbench.targets.formats.parameters import Role

_MOST = torch.finfo(torch.float64).max


def limits(width: int, signed: bool) -> tuple[int, int]:
    """Return the smallest and the largest integer of a width."""
    if signed:
        return -(2 ** (width - 1)), 2 ** (width - 1) - 1
    return 0, 2**width - 1


def fixed_point(
    x: Tensor, width: int, frac_width: int, *, signed: bool = True, floor: bool = False, exact: bool = True
) -> Tensor:
    """Return ``clip(round(x 2^f), lo, hi) / 2^f``; ties to even, or down with ``floor``.

    Infinities saturate, NaN stays. ``exact``: rounded down, a negative value becomes a code of at
    most -1 also where x 2^f is too small for the type.
    """
    low, high = limits(width, signed)
    lost = exact and floor and frac_width < 0
    scale, step = 2.0**frac_width, 2.0**-frac_width

    def work(piece: Tensor) -> Tensor:
        value = piece * scale
        value = value.floor_() if floor else value.round_()
        if lost:
            value.masked_fill_((value == 0) & (piece < 0), -1)
        return value.clamp_(low, high).mul_(step)

    return by_chunks(x, work)


def integer(x: Tensor, parameters: Mapping[str, Any], role: Role) -> Tensor:
    """Return values on the grid of a fixed-point number; ``frac_width`` None is half the width."""
    del role
    return _integer(x, parameters)


def mase_integer(x: Tensor, parameters: Mapping[str, Any], role: Role) -> Tensor:
    """Return MASE's form: rounded down, negative values that underflow become 0."""
    del role
    return _integer(x, parameters, exact=False)


def _integer(x: Tensor, parameters: Mapping[str, Any], *, exact: bool = True) -> Tensor:
    frac = parameters["frac_width"]
    return fixed_point(
        x,
        parameters["width"],
        parameters["width"] // 2 if frac is None else frac,
        signed=parameters["is_signed"],
        floor=parameters.get("floor", False),
        exact=exact,
    )


def integer_floor(x: Tensor, parameters: Mapping[str, Any], role: Role) -> Tensor:
    """Return values on the grid of a fixed-point number, rounded down."""
    return integer(x, {**parameters, "floor": True}, role)


def mase_integer_floor(x: Tensor, parameters: Mapping[str, Any], role: Role) -> Tensor:
    """Return MASE's form; see ``mase_integer``."""
    return mase_integer(x, {**parameters, "floor": True}, role)


def logicnets(x: Tensor, parameters: Mapping[str, Any], role: Role) -> Tensor:
    """Return data on a fixed-point grid; weights and biases stay as they are.

    The weights disappear in truth tables over the data's codes, so that they need no grid.

    Source: Umuroglu et al. 2020, LogicNets, arXiv 2004.03021, section 3.
    """
    return integer(x, parameters, role) if role == "data" else x.clone()


def scale_integer(x: Tensor, parameters: Mapping[str, Any], role: Role) -> Tensor:
    """Return integers with one scale for each row of the last dimension, largest value kept.

    A row of zeros stays zero. The scale comes from the largest finite value; infinities saturate,
    NaN stays at its place.
    """
    del role
    low, high = limits(parameters["width"], parameters["is_signed"])
    if x.numel() == 0:
        return x.clone()
    rows = x.reshape(-1, x.shape[-1]) if x.dim() else x.reshape(1, 1)

    def work(part: Tensor, largest: Tensor) -> Tensor:
        # Float64, so that the largest value comes out as it went in.
        scale = (high / torch.where(largest > 0, largest, 1.0).double()).clamp_(max=_MOST)
        values = part.double().mul_(scale).round_().clamp_(low, high)
        return values.div_(scale).to(part.dtype)

    return by_rows(rows, (finite_largest(rows),), work).reshape(x.shape)


def mase_scale_integer(x: Tensor, parameters: Mapping[str, Any], role: Role) -> Tensor:
    """Return MASE's form: the scale is 2^(w-1)/(max+1e-9), or 2^w unsigned."""
    del role
    signed = parameters["is_signed"]
    low, high = limits(parameters["width"], signed)
    reach = 2 ** (parameters["width"] - 1) if signed else 2 ** parameters["width"]
    if x.numel() == 0:
        return x.clone()
    scale = reach / (x.abs().amax(-1, keepdim=True) + 1e-9)
    return (x * scale).round_().clamp_(low, high) / scale


def flexround(x: Tensor, parameters: Mapping[str, Any], role: Role) -> Tensor:
    """Return values on the grid FlexRound gives activations."""
    return integer(x, {**parameters, "is_signed": parameters["symmetric"]}, role)


def mase_flexround(x: Tensor, parameters: Mapping[str, Any], role: Role) -> Tensor:
    """Return MASE's form: clipped, then rounded; small arrays pass."""
    del role
    if x.numel() < 10 or float(x.abs().max()) < 1e-5:
        return x.clone()
    frac = parameters["width"] // 2 if parameters["frac_width"] is None else parameters["frac_width"]
    low, high = limits(parameters["width"], parameters["symmetric"])
    scale = 2.0**frac
    return (x.clamp(low / scale, high / scale) * scale).round_() / scale
