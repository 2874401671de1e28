"""Losses over classes, written with operators that have a pattern or a kernel."""

from typing import Any

import torch
from torch import fx

from .graph_writer import Writer

_ATEN = torch.ops.aten
# What ``reduction`` stands for.
_MEAN, _SUM = 1, 2


def _class_loss(
    write: Writer, scores: fx.Node, target: fx.Node, weight: Any, reduction: int, ignored: int
) -> tuple[fx.Node, fx.Node]:
    """Write the loss of log-probabilities at the classes of a target, and the sum of the weights.

    ``scores`` has the shape (classes,) or (samples, classes, ...), ``target`` the same without classes.

    Source: torch 2.13 ``_decomp/decompositions.py``, ``_nll_loss_forward``.
    """
    axis = min(1, scores.meta["val"].dim() - 1)
    # Targets that are left out may be no class at all.
    known = write(_ATEN.clamp.default, target, 0, scores.meta["val"].shape[axis] - 1)
    counted = write(_ATEN.to.dtype, write(_ATEN.ne.Scalar, target, ignored), torch.float32)
    if weight is not None:
        counted = write(_ATEN.mul.Tensor, counted, write(_ATEN.index.Tensor, weight, [known]))
    places = write(_ATEN.unsqueeze.default, known, axis)
    taken = write(_ATEN.squeeze.dim, write(_ATEN.gather.default, scores, axis, places), axis)
    losses = write(_ATEN.neg.default, write(_ATEN.mul.Tensor, taken, counted))
    every_axis = list(range(target.meta["val"].dim()))
    if reduction not in (_MEAN, _SUM):
        return losses, counted
    loss, total = (write(_ATEN.sum.dim_IntList, part, every_axis) for part in (losses, counted))
    return (write(_ATEN.div.Tensor, loss, total) if reduction == _MEAN else loss), total


LOSSES: dict[Any, Any] = {
    _ATEN.nll_loss_forward.default: _class_loss,
    _ATEN.nll_loss2d_forward.default: _class_loss,
}
