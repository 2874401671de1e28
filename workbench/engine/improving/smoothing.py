"""SmoothQuant: outliers of activations behind a layer norm move into the weights of the linears.

Source: Xiao et al., SmoothQuant, ICML 2023, equation 4, with a strength of one half. The norm's own
scale and shift take the division, so the float model computes the same, up to rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from workbench.engine.improving.layers import Layer, layers, tensor

if TYPE_CHECKING:
    from collections.abc import Iterable

_NORM = torch.ops.aten.layer_norm.default
_STRENGTH = 0.5
_LEAST = 1e-5


def smooth(module: fx.GraphModule, samples: Iterable[tuple[torch.Tensor, ...]]) -> int:
    """Smooth all linears behind layer norms in place; return how many norms took part."""
    groups = _groups(module)
    watch = _Peaks(module, set(groups))
    with torch.no_grad():
        for sample in samples:
            watch.run(*sample)
    for norm, linears in groups.items():
        if norm not in watch.peaks:
            continue
        peaks = watch.peaks[norm].clamp(min=_LEAST)
        weights = torch.stack([each.weight.abs().amax(0) for each in linears]).amax(0)
        factors = peaks**_STRENGTH / weights.clamp(min=_LEAST) ** (1.0 - _STRENGTH)
        factors = factors.clamp(min=_LEAST)
        for place in (2, 3):
            held = tensor(module, norm.args[place])
            assert held is not None
            held.div_(factors)
        for linear in linears:
            linear.scale_inputs(factors)
    return len(groups)


def _groups(module: fx.GraphModule) -> dict[fx.Node, list[Layer]]:
    """Return the linears behind each layer norm that feeds nothing else."""
    linears = {each.node: each for each in layers(module) if each.weight.dim() == 2}
    uses: dict[str, int] = {}
    for node in module.graph.nodes:
        if node.op == "get_attr":
            uses[str(node.target)] = uses.get(str(node.target), 0) + len(node.users)
    found = {}
    for node in module.graph.nodes:
        if node.op != "call_function" or node.target is not _NORM or len(node.args) < 4:
            continue
        own = [tensor(module, each) for each in node.args[2:4]]
        is_own = all(
            held is not None and held.dim() == 1 and uses[str(each.target)] == 1
            for held, each in zip(own, node.args[2:4], strict=True)
        )
        if is_own and node.users and all(user in linears for user in node.users):
            found[node] = [linears[user] for user in node.users]
    return found


class _Peaks(fx.Interpreter):
    """Keeps the greatest magnitude of each channel of some nodes."""

    def __init__(self, module: fx.GraphModule, nodes: set[fx.Node]) -> None:
        super().__init__(module)
        self._watched = nodes
        self.peaks: dict[fx.Node, torch.Tensor] = {}

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if n in self._watched:
            peak = value.abs().reshape(-1, value.shape[-1]).amax(0)
            self.peaks[n] = torch.maximum(peak, self.peaks[n]) if n in self.peaks else peak
        return value
