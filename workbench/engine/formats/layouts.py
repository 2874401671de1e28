"""How the blocks of a format lie on the operands of an operation.

Blocks of ``block_fp``, ``block_minifloat`` and ``block_log`` lie on the last two dimensions:
images of convolutions (each channel by itself), kernels (each by itself), matrices of products. An
array of two dimensions is one matrix to a product or a sum, and rows to an activation.
Microscaling blocks run along what is summed over.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.engine.formats import Quantizer

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
    """Return the quantizer with blocks that skip the first dimension or not, if nobody said."""
    if quantizer.given["skip_first_dim"] is not None:
        return quantizer
    return replace(quantizer, given={**quantizer.given, "skip_first_dim": skip})


def _along(quantizer: Quantizer, operation: str, operand: str) -> Quantizer:
    """Return the quantizer with blocks along what is summed over, if nobody said."""
    if quantizer.given["block_dim"] is not None or quantizer.mase_compatible:
        return quantizer
    if operation in _CONVOLUTIONS and operand == "x":
        return replace(quantizer, given={**quantizer.given, "block_dim": 1})
    if operation in {"matmul", "bmm"} and operand == "w":
        return replace(quantizer, given={**quantizer.given, "block_dim": -2})
    return quantizer
