"""A prepared program whose observers quantize and dequantize with the grids they chose.

It computes what the converted program must compute, without torchao's conversion.
"""

from __future__ import annotations

from typing import Any

import torch
from torchao.quantization.pt2e import ObserverBase

from workbench.engine.quality.tensors import Watched

_OPERATORS = torch.ops.quantized_decomposed


def has_grids(observed: torch.fx.GraphModule) -> bool:
    """Return whether every observer of a graph has a fixed uniform grid; no, for one with loops."""
    observers = [module for module in observed.modules() if isinstance(module, ObserverBase)]
    loops = torch.ops.higher_order.while_loop
    has_loop = any(
        node.target is loops
        for module in observed.modules()
        if isinstance(module, torch.fx.GraphModule)
        for node in module.graph.nodes
    )
    return not has_loop and all(map(_is_uniform, observers))


def _is_uniform(observer: Any) -> bool:
    is_dynamic = getattr(observer, "is_dynamic", False) or hasattr(observer, "dynamic")
    has_grid = hasattr(observer, "calculate_qparams") and hasattr(observer, "quant_min")
    return has_grid and not is_dynamic and not hasattr(observer, "placing")


class FakeQuantized(Watched):
    """Runs a prepared graph with fake quantization in place of the observers."""

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Quantize and dequantize with the grid of an observer.

        Source: torchao 0.18 ``convert.py``,
        ``_replace_observer_with_quantize_dequantize_node_decomposed``, for the operators and the
        types of their arguments.
        """
        observer: Any = self.fetch_attr(str(target))
        if not isinstance(observer, ObserverBase):
            return super().call_module(target, args, kwargs)
        (value,) = args
        scale, zero_point = observer.calculate_qparams()
        limits = (observer.quant_min, observer.quant_max, observer.dtype)
        if scale.numel() > 1 or _is_per_channel(observer):
            grid = (scale, zero_point, observer.ch_axis, *limits)
            codes = _OPERATORS.quantize_per_channel.default(value, *grid)
            return _OPERATORS.dequantize_per_channel.default(codes, *grid)
        plain = (float(scale), int(zero_point), *limits)
        codes = _OPERATORS.quantize_per_tensor.default(value, *plain)
        return _OPERATORS.dequantize_per_tensor.default(codes, *plain)


def _is_per_channel(observer: Any) -> bool:
    return observer.qscheme in {torch.per_channel_affine, torch.per_channel_symmetric}
