"""Batch norms of the graph that is trained: those torchao fuses are trained, others are fixed.

Source: torchao 0.18 ``qat_utils._fuse_conv_bn_qat``, which fuses norms after convolutions, if
nothing else reads these, and finds only norms with weights. It does not find all norms after
transposed convolutions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from workbench.engine.ethos_u.corrections.batch_norm_folding import write_norm
from workbench.engine.ethos_u.corrections.graph_writer import Writer, finished
from workbench.engine.training.model import norms_of, tensor_of

if TYPE_CHECKING:
    from workbench.engine.training.weights import Weights


_ATEN = torch.ops.aten
_LINEAR = _ATEN.linear.default
_FUSED = (_ATEN.conv1d.default, _ATEN.conv2d.default)
# Argument indices of a batch norm: weight, bias, running mean, epsilon.
_WEIGHT, _BIAS, _MEAN, _EPSILON = 1, 2, 3, 7


def prepare_norms(module: torch.fx.GraphModule) -> Weights:
    """Give torchao only batch norms that it fuses, in place.

    Those after linears with a bias are folded. Those after convolutions get the weights that they
    lack: ones and zeros, which are not trained. All others become a factor and a summand for each
    channel, which are not trained either.

    Returns:
        Values for the folded norms, by the float model's names, that make them the identity: scale
        sqrt(variance + epsilon) and shift mean.
    """
    idle: Weights = {}
    for norm in list(norms_of(module)):
        source = norm.args[0]
        assert isinstance(source, torch.fx.Node)
        if _is_fused(source):
            _give_weights(module, norm)
        elif (folded := _fold(module, norm, source)) is not None:
            idle |= folded
        else:
            write_norm(module, norm, source)
    finished(module, ["norms"])
    return idle


def _is_fused(source: torch.fx.Node) -> bool:
    if source.target not in _FUSED or len(source.users) > 1:
        return False
    kernel = source.args[1]
    assert isinstance(kernel, torch.fx.Node)
    has_batch: bool = source.meta["val"].dim() == kernel.meta["val"].dim()
    return has_batch


def _give_weights(module: torch.fx.GraphModule, norm: torch.fx.Node) -> None:
    mean = tensor_of(module, norm.args[_MEAN])
    assert mean is not None
    for index, value in ((_WEIGHT, torch.ones_like(mean)), (_BIAS, torch.zeros_like(mean))):
        if norm.args[index] is None:
            own = Writer(module, norm).constant(f"{norm.name}_own_{index}", value)
            norm.update_arg(index, own)


def _fold(module: torch.fx.GraphModule, norm: torch.fx.Node, linear: torch.fx.Node) -> Weights | None:
    """Fold a batch norm into a linear; None if either is used twice or lacks a bias."""
    if linear.target is not _LINEAR or len(linear.users) > 1 or linear.meta["val"].dim() != 2:
        return None
    if any(_is_shared(module, argument) for argument in (*linear.args[1:], norm.args[_MEAN])):
        return None
    _, scale, shift, mean, variance = (tensor_of(module, argument) for argument in norm.args[:5])
    weight, bias = (tensor_of(module, argument) for argument in (*linear.args, None)[1:3])
    if weight is None or bias is None or scale is None or shift is None:
        return None
    assert mean is not None
    assert variance is not None
    deviation = torch.sqrt(variance + norm.args[_EPSILON])
    with torch.no_grad():
        weight.mul_((scale / deviation).unsqueeze(1))
        bias.copy_((bias - mean) * scale / deviation + shift)
    names = [str(getattr(argument, "target", "")) for argument in norm.args[1:5]]
    values = (deviation, mean.clone(), mean.clone(), variance.clone())
    norm.replace_all_uses_with(linear)
    module.graph.erase_node(norm)
    return dict(zip(names, values, strict=True))


def _is_shared(module: torch.fx.GraphModule, argument: object) -> bool:
    target = getattr(argument, "target", None)
    reads = [node for node in module.graph.nodes if node.op == "get_attr" and node.target == target]
    return sum(len(node.users) for node in reads) > 1
