"""Observers that torchao lacks: percentile ranges and fixed ranges.

This file depends on torch and torchao only, because generated scripts contain it.
"""

from typing import Any

import torch
from torchao.quantization.pt2e import DerivedObserverOrFakeQuantize, HistogramObserver, MinMaxObserver


class PercentileObserver(HistogramObserver):
    """Keeps the central share of all values: ``percentile`` percent, split over both ends.

    Source: the quantile of the running histogram [bins], linear inside a bin.
    """

    def __init__(self, *, percentile: float = 99.99, **options: Any) -> None:
        super().__init__(**options)
        self.percentile = percentile

    def _quantile(self, share: float) -> float:
        counts = self.histogram.to(torch.float64)
        reached = torch.cumsum(counts, 0)
        wanted = share * reached[-1]
        index = int(torch.searchsorted(reached, wanted).clamp(max=counts.numel() - 1))
        before = float(reached[index] - counts[index])
        inside = (float(wanted) - before) / max(float(counts[index]), 1.0)
        width = (float(self.max_val) - float(self.min_val)) / counts.numel()
        return float(self.min_val) + (index + inside) * width

    def _non_linear_param_search(self) -> tuple[torch.Tensor, torch.Tensor]:
        tail = (100.0 - self.percentile) / 200.0
        low, high = self._quantile(tail), self._quantile(1.0 - tail)
        return self.min_val.new_tensor(low), self.max_val.new_tensor(high)


# The graphs of control flow, in argument order.
BRANCHES = {"cond": ("true", "false"), "while_loop": ("cond", "body")}


class FixedRangeObserver(MinMaxObserver):
    """Reports a given range, independent of the data."""

    def __init__(self, *, minimum: float, maximum: float, **options: Any) -> None:
        super().__init__(**options)
        self.min_val.copy_(torch.tensor(minimum))
        self.max_val.copy_(torch.tensor(maximum))

    def forward(self, x_orig: torch.Tensor) -> torch.Tensor:
        """Return the input unchanged and unobserved."""
        return x_orig


def fix_ranges(prepared: torch.fx.GraphModule, ranges: dict[str, tuple[float, float]]) -> list[str]:
    """Set the reported ranges of some tensors' observers; their statistics are ignored.

    Observers shared by several tensors are replaced for all of them, since they share a grid. The
    grids of biases are derived from the new ones.

    Args:
        prepared: A graph with observers; it is changed.
        ranges: Minimum and maximum by the node that produces the tensor.

    Returns:
        The tensors without an activation observer, whose ranges are unchanged.
    """
    missed = []
    for tensor, (minimum, maximum) in ranges.items():
        observers = [o for source, o in activation_observers(prepared) if source == tensor]
        if not observers:
            missed.append(tensor)
        for observer in observers:
            fixed = FixedRangeObserver(
                minimum=minimum,
                maximum=maximum,
                dtype=observer.dtype,
                qscheme=observer.qscheme,
                quant_min=observer.quant_min,
                quant_max=observer.quant_max,
                eps=float(observer.eps),
            )
            for name, child in list(prepared.named_modules(remove_duplicate=False)):
                if child is observer:
                    prepared.set_submodule(name, fixed)
                elif isinstance(child, DerivedObserverOrFakeQuantize):
                    child.obs_or_fqs = [fixed if known is observer else known for known in child.obs_or_fqs]
    return missed


def branches_of(graph_module: torch.fx.GraphModule) -> list[tuple[str, torch.fx.GraphModule]]:
    """Return the branches of each condition and the parts of each loop, in order.

    Each comes with the name prefix of its nodes, e.g. ``cond/true/``.
    """
    branches = []
    for node in graph_module.graph.nodes:
        names = BRANCHES.get(getattr(node.target, "__name__", ""), ())
        graphs = [
            getattr(graph_module, str(source.target), None)
            for source in node.all_input_nodes
            if names and source.op == "get_attr"
        ]
        inner = [graph for graph in graphs if isinstance(graph, torch.fx.GraphModule)]
        branches += [(f"{node.name}/{n}/", g) for n, g in zip(names, inner, strict=False)]
    return branches


def activation_observers(prepared: torch.fx.GraphModule, inside: str = "") -> list[tuple[str, Any]]:
    """Return the node that makes each observed tensor, and its observer."""
    observers = {
        node: prepared.get_submodule(str(node.target))
        for node in prepared.graph.nodes
        if node.op == "call_module"
    }
    own = []
    for node, observer in observers.items():
        source = node.args[0]
        while source in observers:
            source = source.args[0]
        # Ranges have no effect on emulated formats and on dynamic ranges.
        is_plain = hasattr(observer, "min_val") and not hasattr(observer, "placing")
        is_plain = is_plain and not hasattr(observer, "dynamic")
        if is_plain and source.op != "get_attr":
            own.append((f"{inside}{source.name}", observer))
    for below, branch in branches_of(prepared):
        own += activation_observers(branch, f"{inside}{below}")
    return own
