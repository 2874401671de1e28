"""Observer statistics as numbers: ranges, percentiles, histograms, grids."""

from __future__ import annotations

import copy
import math
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torchao.quantization.pt2e import HistogramObserver, ObserverBase

from workbench.analysis.ranges import METHOD_TITLES, METHODS_BY_ID, MethodRanges, call_ranges, read_chosen
from workbench.engine.fx import programs
from workbench.engine.fx.observers import activation_observers, branches_of
from workbench.results import NOT_REACHED, TensorRange

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.engine.calibration.sample_extrema import SampleExtrema, TensorExtrema
    from workbench.engine.runtime.context import StageContext
    from workbench.project.configs import RangeMethod


BINS = 2048


def observers(module: torch.fx.GraphModule) -> Iterator[tuple[str, Any]]:
    """Yield every observer with a range, once, with its first name.

    Biases have none: their grid is derived from the grids of input and weight.
    """
    for name, child in module.named_modules():
        if _keeps_range(child):
            yield name, child


def copies_of_observers(module: torch.fx.GraphModule) -> dict[int, Any]:
    """Return a copy of every observer by the id of the original, as ``copy.deepcopy`` takes them.

    A deep copy visits every empty table of hooks of every observer, which takes longer than the graph.
    """
    copies = dict[int, Any]()
    for observer in module.modules():
        # One that is derived refers to others, which may have been copied with it.
        if isinstance(observer, ObserverBase) and id(observer) not in copies:
            own: Any = object.__new__(type(observer))
            copies[id(observer)] = own
            own.__dict__.update((name, _own(value, copies)) for name, value in vars(observer).items())
    return copies


def _own(value: Any, copies: dict[int, Any]) -> Any:
    if type(value) in _CONTAINERS and not value:
        return type(value)()
    return value if isinstance(value, _CONSTANTS) else copy.deepcopy(value, copies)


_CONTAINERS = (OrderedDict, dict, set)
_CONSTANTS = (bool, int, float, str, type(None), torch.dtype, torch.qscheme)


def _keeps_range(module: torch.nn.Module) -> bool:
    return isinstance(module, ObserverBase) and hasattr(module, "min_val")


def activations(module: torch.fx.GraphModule) -> dict[str, tuple[str, Any]]:
    """Return every activation observer by name, with the first node it observes."""
    nodes: dict[str, tuple[str, Any]] = {}
    for node, name, observer, inside in _calls(module):
        source = node.args[0]
        if source.op != "get_attr" and all(known is not observer for _, known in nodes.values()):
            nodes[name] = (f"{inside}{source.name}", observer)
    return nodes


def collect(
    module: torch.fx.GraphModule, recorded: SampleExtrema
) -> tuple[list[TensorRange], dict[str, np.ndarray[Any, Any]]]:
    """Return the ranges of all observed tensors in execution order, with arrays.

    Returns:
        Ranges, and ``histogram`` [T, 2048], ``edges`` [T, 2] plus ``channel_min/<id>`` and
        ``channel_max/<id>`` [C] for weights observed per channel, and the arrays of the sample
        extrema.
    """
    rows: list[TensorRange] = []
    histograms: list[np.ndarray[Any, Any]] = []
    edges: list[tuple[float, float]] = []
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    seen: dict[int, list[str]] = {}
    for node, _, observer, inside in _calls(module):
        seen.setdefault(id(observer), []).append(f"{inside}{node.args[0].name}")
    for node, name, observer, inside in _calls(module):
        shared = seen.pop(id(observer), None)
        if shared is None:
            continue
        source = node.args[0]
        extrema, weight = recorded.by_name.get(name), _weight_of(module, source)
        counts, low, high = _histogram(observer, weight, extrema)
        row = _row(name, len(rows), source, observer, counts, (low, high))
        fields = {
            "node": f"{inside}{row.node}",
            "shared": tuple(dict.fromkeys(shared[1:])) if row.kind == "activation" else (),
            **_of_values(observer, weight, extrema),
            **_of_format(observer),
            **_of_calls(observer, extrema),
        }
        rows.append(row.model_copy(update=fields))
        histograms.append(counts)
        edges.append((low, high))
        if observer.min_val.numel() > 1:
            arrays[f"channel_min/{name}"] = observer.min_val.detach().numpy()
            arrays[f"channel_max/{name}"] = observer.max_val.detach().numpy()
    arrays["histogram"] = np.asarray(histograms, np.float32).reshape(-1, BINS)
    arrays["edges"] = np.asarray(edges, np.float64).reshape(-1, 2)
    return rows, arrays | recorded.arrays([row.id for row in rows])


def carried_ranges(module: torch.fx.GraphModule, carried: int) -> dict[str, tuple[float, float]]:
    """Return one range for each output that is an input of the next step, and for that input.

    As integers they are handed on as they are: with a grid of their own each, the meaning of a
    cache would change with every step. Both get the smallest range with the ranges of both. Pairs
    with one observer, or with other bits, are left out.

    Args:
        module: A calibrated graph with observers.
        carried: How many of the last outputs are the last inputs of the next step.

    Returns:
        Minimum and maximum by node.
    """
    nodes = list(module.graph.nodes)
    inputs = [node.name for node in nodes if node.op == "placeholder"]
    outputs = [_source(module, value) for value in _listed(nodes[-1].args[0])]
    known = activation_observers(module)
    shared: dict[str, tuple[float, float]] = {}
    for output_name, input_name in zip(outputs[-carried:], inputs[-carried:], strict=True) if carried else ():
        at_input = next((o for name, o in known if name == input_name), None)
        if at_input is None:
            continue
        at_output = [o for name, o in known if name == output_name and _bits(o) == _bits(at_input)]
        if not at_output or any(other is at_input for other in at_output):
            continue
        lows, highs = zip(*map(_ends, (at_input, *at_output)), strict=True)
        shared |= dict.fromkeys((output_name, input_name), (min(lows), max(highs)))
    return shared


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _source(module: torch.fx.GraphModule, value: Any) -> str:
    """Return the name of the node that makes an output, before its observers."""
    while value.op == "call_module" and isinstance(module.get_submodule(str(value.target)), ObserverBase):
        value = value.args[0]
    return str(value.name)


def _bits(observer: Any) -> tuple[Any, ...]:
    return observer.dtype, observer.quant_min, observer.quant_max, observer.qscheme


def _ends(observer: Any) -> tuple[float, float]:
    """Return the smallest and the largest value of an observer's grid."""
    scale, zero = (float(value) for value in observer.calculate_qparams())
    return (observer.quant_min - zero) * scale, (observer.quant_max - zero) * scale


def _in_order(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    """Return the nodes in execution order; constants and their observers before their first use.

    Some passes of the quantizer leave all weights at the start of the graph.
    """
    positions = {node: index for index, node in enumerate(graph.nodes)}

    def position_of(node: torch.fx.Node) -> int:
        source = node.args[0] if node.op == "call_module" and node.args else node
        is_constant = isinstance(source, torch.fx.Node) and source.op == "get_attr"
        uses = [positions[user] for user in node.users] if is_constant else []
        return min(uses, default=positions[node])

    return sorted(graph.nodes, key=position_of)


def _calls(
    module: torch.fx.GraphModule, prefix: str = "", inside: str = ""
) -> Iterator[tuple[torch.fx.Node, str, Any, str]]:
    """Yield each call of an observer: its name, the observer, and the prefix of its nodes."""
    below = {id(graph): name for name, graph in branches_of(module)}
    for node in _in_order(module.graph):
        if node.op == "call_module":
            child = module.get_submodule(str(node.target))
            if _keeps_range(child):
                yield node, f"{prefix}{node.target}", child, inside
        elif node.op == "get_attr":
            child = getattr(module, str(node.target), None)
            if isinstance(child, torch.fx.GraphModule):
                named = f"{inside}{below.get(id(child), '')}"
                yield from _calls(child, f"{prefix}{node.target}.", named)


def _weight_of(module: torch.fx.GraphModule, source: torch.fx.Node) -> torch.Tensor | None:
    if source.op != "get_attr":
        return None
    value: Any = module
    for part in str(source.target).split("."):
        value = getattr(value, part, None)
    return value if isinstance(value, torch.Tensor) else None


def _of_values(observer: Any, weight: torch.Tensor | None, extrema: TensorExtrema | None) -> dict[str, Any]:
    """Return the fields of a range about single values, where known."""
    if weight is not None:
        flat = weight.detach().float()
        channels = flat.reshape(observer.min_val.numel() or 1, -1) if flat.numel() else flat
        return {
            "zeros": float((flat == 0).float().mean()),
            "mean_square": float(flat.double().square().mean()),
            "dead": int((observer.min_val == 0).logical_and(observer.max_val == 0).sum())
            if channels.shape[0] > 1
            else 0,
        }
    if extrema is None or not extrema.values:
        return {}
    fields: dict[str, Any] = {
        "zeros": extrema.zeros / extrema.values,
        "mean_square": extrema.squares / extrema.values,
    }
    if extrema.infinite is not None:
        fields["problem"] = f"infinite in sample {extrema.infinite}; such values were ignored"
    if type(observer) is not HistogramObserver:
        searched = extrema.shadow or observer
        grid = HistogramObserver.calculate_qparams(searched)
        if isinstance(observer, HistogramObserver):
            ends = HistogramObserver._non_linear_param_search(observer)  # noqa: SLF001
            grid = observer._calculate_qparams(*ends)  # noqa: SLF001
        fields["searched"] = (float(grid[0].max()), int(grid[1].reshape(-1)[0]))
    return fields


def _of_format(observer: Any) -> dict[str, Any]:
    """Return the fields of a range of an emulated format, which has no integer grid."""
    placing = getattr(observer, "placing", None)
    if placing is None:
        return {}
    return {
        "format": placing.text,
        "dtype": placing.config.label,
        "scale": 0.0,
        "zero_point": 0,
        "qmin": 0,
        "qmax": 0,
        "searched": None,
    }


def _of_calls(observer: Any, extrema: TensorExtrema | None) -> dict[str, Any]:
    """Return the fields of a dynamic range."""
    mode = getattr(observer, "dynamic", "")
    if not mode:
        return {}
    ends = np.asarray([*(extrema.extremes.values() if extrema else ())], np.float32)
    ranges = call_ranges(mode, *ends.reshape(-1, 2).T)
    return {"dynamic": mode, "problem": ranges.warning, "searched": None}


def _histogram(
    observer: Any, weight: torch.Tensor | None, extrema: TensorExtrema | None
) -> tuple[np.ndarray[Any, Any], float, float]:
    """Return counts [2048] and the two outer edges; zeros without a histogram."""
    low, high = _extremes(observer)
    if not has_seen(observer):
        return np.zeros(BINS, np.float32), 0.0, 0.0
    if weight is not None:
        counts = torch.histc(weight.detach().float(), BINS, low, high) if low < high else None
        filled = counts.numpy() if counts is not None else np.eye(1, BINS)[0] * weight.numel()
        return np.asarray(filled, np.float32), low, high
    keeper = extrema.shadow if extrema is not None and extrema.shadow is not None else observer
    if isinstance(keeper, HistogramObserver) and np.isfinite(float(keeper.min_val)):
        counts = keeper.histogram.detach().double().reshape(BINS, -1).sum(1)
        return counts.numpy().astype(np.float32), float(keeper.min_val), float(keeper.max_val)
    return np.zeros(BINS, np.float32), low, high


def _extremes(observer: Any) -> tuple[float, float]:
    """Return the extremes of an observer; infinite without data."""
    if not observer.min_val.numel():
        return math.inf, -math.inf
    return float(observer.min_val.min()), float(observer.max_val.max())


def has_seen(observer: Any) -> bool:
    """Return whether an observer has observed any value."""
    return bool(np.isfinite(_extremes(observer)).all())


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
    low, high = _extremes(observer)
    reached = has_seen(observer)
    problem, scale, zero_point = "", 0.0, 0
    if not reached:
        problem = NOT_REACHED
    else:
        scales, zero_points = observer.calculate_qparams()
        scale, zero_point = float(scales.max()), int(zero_points.reshape(-1)[0])
        if low == high:
            problem = f"constant: always {low:g}"
    low, high = (low, high) if reached else (0.0, 0.0)
    p_low, p_high = _percentiles(counts, *edges)
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
        symmetric="symmetric" in str(observer.qscheme), eps=float(observer.eps),
    )  # fmt: skip


_METHOD_RANGES = "method ranges"
_NAMED = 3


def chosen_ranges(context: StageContext) -> tuple[dict[str, tuple[float, float]], list[str]]:
    """Return minimum and maximum by node of each range that the project sets.

    Returns:
        Pinned ranges and ranges computed by a method from the current calibration, and messages
        about tensors without an applicable method.
    """
    method_ranges = context.store.get(_METHOD_RANGES, "")
    if method_ranges is None:
        method_ranges = MethodRanges()
        context.store.keep(_METHOD_RANGES, "", method_ranges)
    taken, declined = read_chosen(context.project, context.path("calibrate"), method_ranges)
    by_choice: dict[RangeMethod, list[str]] = {}
    for row, chosen in declined:
        by_choice.setdefault(chosen, []).append(row.node)
    return taken, [_sentence(chosen, tensors) for chosen, tensors in by_choice.items()]


def _sentence(chosen: RangeMethod, tensors: list[str]) -> str:
    more = f" and {len(tensors) - _NAMED} more" if len(tensors) > _NAMED else ""
    known = METHODS_BY_ID.get(chosen.method)
    why = f" ({known.meaning})" if known is not None else ""
    return (
        f"{METHOD_TITLES[chosen.method]} is not applicable to "
        f"{', '.join(tensors[:_NAMED])}{more}{why}: the calibrated range is used."
    )
