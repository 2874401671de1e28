"""What observers saw, as plain numbers: ranges, percentiles, histograms, the resulting grid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torchao.quantization.pt2e import HistogramObserver, ObserverBase

from workbench.engine import programs
from workbench.results import TensorRange

if TYPE_CHECKING:
    from collections.abc import Iterator

BINS = 256


def observers(module: torch.fx.GraphModule) -> Iterator[tuple[str, Any]]:
    """Yield every observer that keeps a range, once, under its first name.

    Biases have none: their grid is derived from that of input and weight.
    """
    for name, child in module.named_modules():
        if _keeps_range(child):
            yield name, child


def _keeps_range(module: torch.nn.Module) -> bool:
    return isinstance(module, ObserverBase) and hasattr(module, "min_val")


def collect(
    module: torch.fx.GraphModule,
) -> tuple[list[TensorRange], dict[str, np.ndarray[Any, Any]]]:
    """Return the ranges of all observed tensors in execution order, and the arrays beside them.

    Returns:
        Ranges, and ``histogram`` [T, 256], ``edges`` [T, 2] plus ``channel_min/<id>`` and
        ``channel_max/<id>`` [C] for weights observed per channel.
    """
    rows: list[TensorRange] = []
    histograms: list[np.ndarray[Any, Any]] = []
    edges: list[tuple[float, float]] = []
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    seen: set[int] = set()
    for node, name, observer in _calls(module, ""):
        if id(observer) in seen:
            continue
        seen.add(id(observer))
        source = node.args[0]
        counts, low, high = _histogram(observer, module, source)
        rows.append(_row(name, len(rows), source, observer, counts, (low, high)))
        histograms.append(counts)
        edges.append((low, high))
        if observer.min_val.numel() > 1:
            arrays[f"channel_min/{name}"] = observer.min_val.detach().numpy()
            arrays[f"channel_max/{name}"] = observer.max_val.detach().numpy()
    arrays["histogram"] = np.asarray(histograms, np.float32).reshape(-1, BINS)
    arrays["edges"] = np.asarray(edges, np.float64).reshape(-1, 2)
    return rows, arrays


def _calls(module: torch.fx.GraphModule, prefix: str) -> Iterator[tuple[torch.fx.Node, str, Any]]:
    for node in module.graph.nodes:
        if node.op == "call_module":
            child = module.get_submodule(str(node.target))
            if _keeps_range(child):
                yield node, f"{prefix}{node.target}", child
        elif node.op == "get_attr":
            child = getattr(module, str(node.target), None)
            if isinstance(child, torch.fx.GraphModule):
                yield from _calls(child, f"{prefix}{node.target}.")


def _weight_of(module: torch.fx.GraphModule, source: torch.fx.Node) -> torch.Tensor | None:
    if source.op != "get_attr":
        return None
    value: Any = module
    for part in str(source.target).split("."):
        value = getattr(value, part, None)
    return value if isinstance(value, torch.Tensor) else None


def _histogram(
    observer: Any, module: torch.fx.GraphModule, source: torch.fx.Node
) -> tuple[np.ndarray[Any, Any], float, float]:
    """Return counts [256] and the two outer edges; zeros where the observer keeps none."""
    minimum, maximum = observer.min_val, observer.max_val
    low, high = float(minimum.min()), float(maximum.max())
    if minimum.numel() == 0 or not np.isfinite([low, high]).all():
        return np.zeros(BINS, np.float32), 0.0, 0.0
    weight = _weight_of(module, source)
    if weight is not None:
        counts = torch.histc(weight.detach().float(), BINS, low, high) if low < high else None
        filled = counts.numpy() if counts is not None else np.eye(1, BINS)[0] * weight.numel()
        return np.asarray(filled, np.float32), low, high
    if isinstance(observer, HistogramObserver):
        counts = observer.histogram.detach().double().reshape(BINS, -1).sum(1)
        return counts.numpy().astype(np.float32), low, high
    return np.zeros(BINS, np.float32), low, high


def _percentiles(counts: np.ndarray[Any, Any], low: float, high: float) -> tuple[float, float]:
    total = counts.sum()
    if total <= 0 or high <= low:
        return low, high
    reached = np.cumsum(counts, dtype=np.float64) / total
    positions = np.interp([0.001, 0.999], np.concatenate([[0.0], reached]), np.arange(BINS + 1))
    first, last = low + positions / BINS * (high - low)
    return float(first), float(last)


def _row(
    name: str,
    index: int,
    source: torch.fx.Node,
    observer: Any,
    counts: np.ndarray[Any, Any],
    edges: tuple[float, float],
) -> TensorRange:
    low, high = edges
    reached = observer.min_val.numel() > 0 and np.isfinite(float(observer.min_val.min()))
    problem, scale, zero_point = "", 0.0, 0
    if not reached:
        problem = "no calibration sample reached this tensor"
    else:
        scales, zero_points = observer.calculate_qparams()
        scale, zero_point = float(scales.max()), int(zero_points.reshape(-1)[0])
        if low == high:
            problem = f"constant: always {low:g}"
    p_low, p_high = _percentiles(counts, low, high)
    weight = source.op == "get_attr"
    user = next(iter(source.users), source)
    consumer = next(iter(user.users), source) if weight else source
    return TensorRange(
        id=name, node=source.name, op=programs.op_of(consumer),
        module=programs.module_of(consumer), kind="weight" if weight else "activation",
        index=index, minimum=low, maximum=high, p_low=p_low, p_high=p_high,
        dtype=str(observer.dtype).removeprefix("torch."), qmin=int(observer.quant_min),
        qmax=int(observer.quant_max), scale=scale, zero_point=zero_point,
        observer=type(observer).__name__.removesuffix("Observer"),
        channels=int(observer.min_val.numel()) or 1, problem=problem,
    )  # fmt: skip
