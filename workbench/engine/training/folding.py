"""Batch norms behind linears, folded before training: the device has them folded too.

torchao folds them for calibration (``prepare_pt2e``) but not for training, where the Arm backend
takes them apart. So they are folded here, into the linear's own memory; what is left of the norm
does nothing, and calibration folds that nothing.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from workbench.engine.training.weights import Weights

_LINEAR, _NORM = torch.ops.aten.linear.default, torch.ops.aten.batch_norm.default
_EPSILON = 7


def fold_linear_norms(module: torch.fx.GraphModule) -> Weights:
    """Fold batch norms behind linears with a bias, in place.

    Returns:
        Numbers for the norms, by the float model's names, with which they change nothing: scale
        sqrt(variance + epsilon) and shift mean.
    """
    idle: Weights = {}
    for node in list(module.graph.nodes):
        linear = node.args[0] if node.target is _NORM else None
        if linear is None or linear.target is not _LINEAR or len(linear.users) > 1:
            continue
        _, scale, shift, mean, variance = (_tensor(module, each) for each in node.args[:5])
        weight, bias = (_tensor(module, each) for each in (*linear.args, None)[1:3])
        if weight is None or bias is None or scale is None or shift is None:
            continue
        assert mean is not None
        assert variance is not None
        deviation = torch.sqrt(variance + node.args[_EPSILON])
        with torch.no_grad():
            weight.mul_((scale / deviation).unsqueeze(1))
            bias.copy_((bias - mean) * scale / deviation + shift)
        idle |= {
            str(node.args[1].target): deviation, str(node.args[2].target): mean.clone(),
            str(node.args[3].target): mean.clone(), str(node.args[4].target): variance.clone(),
        }  # fmt: skip
        node.replace_all_uses_with(linear)
        module.graph.erase_node(node)
    module.graph.eliminate_dead_code()
    module.recompile()
    return idle


def _tensor(module: torch.fx.GraphModule, node: torch.fx.Node | None) -> torch.Tensor | None:
    if node is None or node.op != "get_attr":
        return None
    found: torch.Tensor = operator.attrgetter(str(node.target))(module)
    return found
