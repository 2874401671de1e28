"""Number formats on tensors: one table, one file for each family and form.

``quantize`` gives float in, float out, same shape: values on the grid of a format. Gradients go
straight through. Parameters and names are those of ``targets/number_formats``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from workbench.engine.formats import block_formats, floats, integers, mase, mx, signs
from workbench.engine.formats.straight_through import StraightThrough
from workbench.errors import failure
from workbench.targets.formats.parameters import Role, read
from workbench.targets.formats.schemes import SPECS, SchemeSpec, spec_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

    Form = Callable[[Tensor, Mapping[str, Any], Role], Tensor]

__all__ = ["SCHEMES", "Quantizer", "Scheme", "quantize", "quantizer"]


@dataclass(frozen=True)
class Scheme:
    """The two forms of a number format; ``mase`` None where MASE has none."""

    textbook: Form
    mase: Form | None


_FORMS: dict[str, tuple[Form, Form | None]] = {
    "integer": (integers.integer, integers.mase_integer),
    "fixed": (integers.integer, integers.mase_integer),
    "integer_floor": (integers.integer_floor, integers.mase_integer_floor),
    "scale_integer": (integers.scale_integer, integers.mase_scale_integer),
    "flexround": (integers.flexround, integers.mase_flexround),
    "logicnets": (integers.logicnets, integers.logicnets),
    "minifloat_ieee": (floats.minifloat_ieee, mase.minifloat_ieee),
    "minifloat_denorm": (floats.minifloat_denorm, mase.minifloat_denorm),
    "log": (floats.log, mase.log),
    "binary": (signs.binary, signs.mase_binary),
    "binary_residual": (signs.binary_residual, signs.mase_binary_residual),
    "lutnet": (signs.binary_residual, signs.mase_binary_residual),
    "ternary": (signs.ternary, signs.mase_ternary),
    "block_fp": (block_formats.block_fp, mase.block_fp),
    "block_minifloat": (block_formats.block_minifloat, mase.block_minifloat),
    "block_log": (block_formats.block_log, mase.block_log),
    "mxint_hardware": (mx.mxint_hardware, mase.mxint_hardware),
    "mxint": (mx.mxint, mase.mxint),
    "mxfp": (mx.mxfp, mase.mxfp),
    "minifloat_mx": (floats.minifloat_element, mase.minifloat_mx),
    "nvfp4": (mx.nvfp4, None),
}
SCHEMES: dict[str, Scheme] = {spec.name: Scheme(*_FORMS[spec.name]) for spec in SPECS}

# MASE's forms that are differentiable by themselves (on data), or not at all.
_OWN_GRADIENT = frozenset({"binary_residual", "lutnet"})
_NO_GRADIENT = frozenset({"mxint_hardware", "minifloat_mx"})
_HALVES = frozenset({torch.float16, torch.bfloat16})


@dataclass(frozen=True)
class Quantizer:
    """A number format with checked parameters, for one kind of operand."""

    spec: SchemeSpec
    parameters: dict[str, Any]
    role: Role
    mase_compatible: bool

    def __call__(self, x: Tensor) -> Tensor:
        """Return ``x`` on the grid of the format; see ``quantize``."""
        _check(x)
        if not (x.requires_grad and torch.is_grad_enabled()):
            return self._apply(x)
        name = self.spec.name
        if self.mase_compatible and name in _OWN_GRADIENT and self.role == "data":
            return self._apply(x)
        if self.mase_compatible and name in _NO_GRADIENT:
            return self._apply(x.detach())
        if self.mase_compatible and name == "block_minifloat":
            return NoGradient.apply(x, self._apply)
        factor = 0.5 if self.mase_compatible and self.parameters.get("stochastic") else 1.0
        return StraightThrough.apply(x, self._apply, factor)

    def _apply(self, x: Tensor) -> Tensor:
        scheme = SCHEMES[self.spec.name]
        if self.mase_compatible and scheme.mase is not None:
            return _as_mase(scheme.mase, x, self.parameters, self.role)
        if x.dtype in _HALVES:
            return _narrowed(scheme.textbook(x.float(), self.parameters, self.role), x)
        return scheme.textbook(x, self.parameters, self.role)


class NoGradient(torch.autograd.Function):
    """Applies a function that MASE cannot differentiate."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, work: Callable[[Tensor], Tensor]) -> Tensor:
        """Return ``work(x)``."""
        del ctx
        return work(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """Refuse.

        Raises:
            WorkbenchError: always.
        """
        raise failure(
            "MASE's block_minifloat has no gradient and cannot be trained.",
            "Use the textbook form.",
            code="mase-not-trainable",
        )


def quantizer(
    scheme: str, params: Mapping[str, Any], role: Role = "data", *, mase_compatible: bool = False
) -> Quantizer:
    """Return a number format ready to be applied.

    Args:
        scheme: Name in ``SCHEMES``.
        params: Parameters, bare (``width``) or with MASE's prefix for the role.
        role: What the operand is; decides how blocks lie where parameters do not.
        mase_compatible: Reproduce MASE to the bit instead of the textbook.

    Raises:
        WorkbenchError: no such scheme, or parameters unknown, missing or out of range.
    """
    spec = spec_of(scheme)
    if mase_compatible and not spec.mase:
        raise failure(f"MASE has no {spec.name}.", "Remove mase-compatible.", code="mase-format-missing")
    return Quantizer(spec, read(spec.name, spec.parameters, params, role), role, mase_compatible)


def quantize(
    x: Tensor, scheme: str, params: Mapping[str, Any], role: Role = "data", *, mase_compatible: bool = False
) -> Tensor:
    """Return ``x`` on the grid of a format: same shape and type, gradients straight through.

    Float16 and bfloat16 are worked on in float32 and rounded back in the textbook forms, and
    as they are in the mase-compatible ones. See ``quantizer`` for the arguments and errors.
    """
    return quantizer(scheme, params, role, mase_compatible=mase_compatible)(x)


def _as_mase(form: Form, x: Tensor, parameters: Mapping[str, Any], role: Role) -> Tensor:
    """Return MASE's form, worked out in the type of ``x``.

    Raises:
        WorkbenchError: limits of the format that a type of 16 bits does not hold.
    """
    try:
        return form(x, parameters, role)
    except RuntimeError as error:
        if x.dtype not in _HALVES or "overflow" not in str(error):
            raise
        name = str(x.dtype).removeprefix("torch.")
        raise failure(
            f"MASE computes in the array's type, and {name} cannot represent this format's limits.",
            "Convert the array to float32.",
            code="mase-dtype-too-narrow",
        ) from error


def _narrowed(result: Tensor, x: Tensor) -> Tensor:
    """Return what was worked out in float32 in the type of ``x``.

    Raises:
        WorkbenchError: finite values would become infinite.
    """
    held = result.to(x.dtype)
    if count := int((held.isinf() & x.isfinite()).sum()):
        name = str(x.dtype).removeprefix("torch.")
        raise failure(
            f"{count} of {x.numel()} values round to more than {name} can represent.",
            "Convert the array to float32.",
            code="format-overflow",
        )
    return held


def _check(x: Tensor) -> None:
    if not x.is_floating_point():
        raise failure(
            f"Number formats need floating-point values, not {x.dtype}.",
            "Convert the array.",
            code="array-not-float",
        )
