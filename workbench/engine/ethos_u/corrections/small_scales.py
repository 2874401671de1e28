"""Grids of activations and constants that ExecuTorch makes too coarse for their values."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial, wraps
from typing import Any

import torch
from torch import fx
from torchao.quantization.pt2e.observer import HistogramObserver, MinMaxObserver, PartialWrapper
from torchao.quantization.pt2e.quantizer import QuantizationSpec, SharedQuantizationSpec

# The least step of a constant factor, by the number of values of its grid.
_LEAST_STEPS = {256: 2.0**-32, 65536: 2.0**-40}
_FACTOR_OF = ("mul", "mul_", "bmm", "mm", "matmul")
_RESHAPING = ("reshape", "view", "unsqueeze", "expand", "permute", "transpose", "squeeze", "t")


def fine_factors(annotated: fx.GraphModule) -> list[str]:
    """Give small constant factors a grid of their own.

    Fault: Steps of activations are at least 2^-16 in 8 bits and 2^-12 in 16, those of constants
        too. The factor 1/N of a norm or a mean over many elements is below that: it becomes zero or
        keeps a few steps, and the whole norm is wrong. The search of the range knows 2048 places
        and cuts off the largest values: in 16 bits 1 becomes 0.9995, 16 steps away.
    Instead: The step of a constant factor may be as small as its values ask for, down to 2^-32 in 8
        bits and 2^-40 in 16, where its range ends at its largest value.
    Right because: The grid of a factor scales the product and nothing else; a product's rescale
        takes any such scale. A constant has no values that calibration did not see. Factors that
        the stock step represents keep it in 8 bits.
    Network: torch.nn.GroupNorm(1, 4) over [1, 4, 192, 192] in a8w8
    Tools: executorch 1.5.1, torchao 0.18.0
    """
    refined = list[str]()
    for node in annotated.graph.nodes:
        edges = list(_factor_edges(node)) if node.op == "get_attr" else []
        specs = {id(spec): spec for spec in (_spec(*edge) for edge in edges) if spec is not None}
        fine = {key: _fine(spec) for key, spec in specs.items()}
        largest = max((_steps(spec) for spec in specs.values()), default=0.0)
        value = _constant(annotated, str(node.target)) if edges else None
        if value is None or not 0.0 < float(value.detach().abs().max()) < largest:
            continue
        for source, reader in edges:
            notes = reader.meta["quantization_annotation"].input_qspec_map
            if id(notes.get(source)) in fine:
                notes[source] = fine[id(notes[source])]
        refined.append(node.name)
    return refined


def _factor_edges(node: fx.Node) -> Iterator[tuple[fx.Node, fx.Node]]:
    """Yield each use of a constant, reshaped or not; nothing if one is not in a product."""
    edges, left = list[tuple[fx.Node, fx.Node]](), [node]
    while left:
        source = left.pop()
        for reader in source.users:
            name = getattr(reader.target, "_schema", None)
            operator = name.name.rpartition("::")[2] if name is not None else ""
            if operator not in (*_FACTOR_OF, *_RESHAPING):
                return
            edges.append((source, reader))
            if operator in _RESHAPING:
                left.append(reader)
    yield from edges


def _spec(source: fx.Node, reader: fx.Node) -> Any:
    """Return the spec of an input that has a step of its own; None for any other."""
    note = reader.meta.get("quantization_annotation")
    spec = note.input_qspec_map.get(source) if note is not None else None
    return spec if type(spec) is QuantizationSpec and _least(spec) is not None else None


def _least(spec: QuantizationSpec) -> float | None:
    constructor = getattr(spec.observer_or_fake_quant_ctr, "p", None)
    return getattr(constructor, "keywords", {}).get("eps")


def _steps(spec: QuantizationSpec) -> float:
    """Return the largest value whose grid the least step of the observer makes coarser."""
    return float(_least(spec) or 0.0) * _values(spec) / 2


def _values(spec: QuantizationSpec) -> int:
    bounds = torch.iinfo(spec.dtype)
    return bounds.max - bounds.min + 1


def _fine(spec: QuantizationSpec) -> QuantizationSpec:
    least = _LEAST_STEPS[_values(spec)]
    constructor: Any = spec.observer_or_fake_quant_ctr
    if _values(spec) == 256 or constructor.p.func is not HistogramObserver:
        return _with_least(spec, least)
    options = {name: value for name, value in constructor.p.keywords.items() if name != "bins"}
    return replace(spec, observer_or_fake_quant_ctr=MinMaxObserver.with_args(**{**options, "eps": least}))


def _constant(module: fx.GraphModule, path: str) -> Any:
    """Return the floating tensor at a path of a module; None for anything else."""
    owner, _, name = path.rpartition(".")
    value = getattr(module.get_submodule(owner), name, None)
    is_float = isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel() > 0
    return value if is_float else None


# The least step of an activation, by the number of values of its grid.
_LEAST_ACTIVATION_STEPS = {256: 2.0**-24, 65536: 2.0**-32}
# How many times the calibrated range a grid covers that is finer than stock's, by the number of
# its values: values that calibration did not see may be larger, and 16 bits have bits to spare.
_HEAD_ROOM = {256: 2.0, 65536: 8.0}
# How many times a wider one covers it, whose grid stock spans over what it saw: half as much again
# costs at most 1 dB in 16 bits (73.9 to 72.9 without weights, 46.2 to 46.2 with them).
_WIDE_ROOM = {256: 1.0, 65536: 1.5}
# The part of 32 bits that a bias may fill.
_LARGEST_BIAS = 2.0**30
_WEIGHTED = ("linear", "conv1d", "conv2d", "convolution", "conv_transpose2d")


def fine_steps(annotated: fx.GraphModule) -> list[str]:
    """Let small activations have small steps.

    Fault: Steps of activations are at least 2^-16 in 8 bits and 2^-12 in 16: a 16-bit tensor within
        8 uses a part of its values, and one within 0.01 has 80 of them.
    Instead: The least step is 2^-24 in 8 bits and 2^-32 in 16, or what keeps every bias of the
        program within 2^30 of its own steps. A grid that is finer than stock's covers eight times
        the calibrated range in 16 bits, and twice in 8, or as much as stock's. In 16 bits a range
        that needs more than stock's least step is covered one and a half times.
    Right because: Stock's limit keeps biases within 32 bits for any network; the new one is
        computed from the biases and weights of this network. Values that calibration did not see
        are not cut off: in 16 bits that costs more than a step half as large again.
    Network: gelu(linear(x)) * torch.full((16,), 1e-3) in a16w8
    Tools: executorch 1.5.1, torchao 0.18.0
    """
    weights = {id(note.input_qspec_map.get(node.args[1])) for node, note in _weighted(annotated)}
    needed = _least_needed(annotated)
    observers = dict[int, Any]()

    def finer(spec: Any) -> Any:
        if type(spec) is not QuantizationSpec or id(spec) in weights or _least(spec) is None:
            return spec
        if spec.qscheme not in (torch.per_tensor_affine, torch.per_tensor_symmetric):
            return spec
        # A factor's own step, and other observers' own choice, are finer than stock's already.
        least = max(_LEAST_ACTIVATION_STEPS[_values(spec)], needed)
        if least < float(_least(spec) or 0.0):
            observers.setdefault(id(spec), (spec, _with_head_room(spec, least)))
            return observers[id(spec)][1]
        return spec

    for node in annotated.graph.nodes:
        note = node.meta.get("quantization_annotation")
        if note is not None:
            note.output_qspec = finer(note.output_qspec)
            for source, spec in note.input_qspec_map.items():
                note.input_qspec_map[source] = finer(spec)
    return []


def _weighted(annotated: fx.GraphModule) -> Iterator[tuple[fx.Node, Any]]:
    for node in annotated.graph.nodes:
        note = node.meta.get("quantization_annotation")
        if note is not None and _operator(node) in _WEIGHTED:
            yield node, note


def _least_needed(annotated: fx.GraphModule) -> float:
    """Return the least step of activations with which every bias fits into 32 bits."""
    needed = 0.0
    for node, note in _weighted(annotated):
        spec = note.input_qspec_map.get(node.args[1])
        values = [
            _constant(annotated, str(arg.target))
            for arg in (*node.args, None, None)[1:3]
            if isinstance(arg, fx.Node) and arg.op == "get_attr"
        ]
        if len(values) != 2 or any(value is None for value in values):
            continue
        weight, bias = (value.detach().abs() for value in values)
        turned = weight.transpose(0, 1) if "transpose" in str(node.target) else weight
        if turned.shape[0] != bias.numel():
            turned = turned.reshape(1, -1).expand(bias.numel(), -1)
        largest = turned.reshape(bias.numel(), -1).amax(1)
        top = float(getattr(spec, "quant_max", None) or 127)
        steps = (largest / top).clamp(min=float(_least(spec) or 0.0) if spec else 0.0)
        used = bias > 0
        if bool(used.any()):
            needed = max(needed, float((bias[used] / steps[used].clamp(min=1e-30)).max()))
    return needed / _LARGEST_BIAS


def _with_least(spec: QuantizationSpec, least: float) -> QuantizationSpec:
    constructor: Any = spec.observer_or_fake_quant_ctr
    # A wrapper of a wrapper has no name, which others ask for.
    options = {**constructor.p.keywords, "eps": least}
    return replace(spec, observer_or_fake_quant_ctr=constructor.p.func.with_args(**options))


def _with_head_room(spec: QuantizationSpec, least: float) -> QuantizationSpec:
    """Return a spec with a finer least step whose grids have head-room up to stock's step."""
    constructor: Any = spec.observer_or_fake_quant_ctr
    values = _values(spec)
    room = float(_least(spec) or 0.0), _HEAD_ROOM[values], _WIDE_ROOM[values]
    options = {**constructor.p.keywords, "eps": least}
    if "minimum" in options:
        # The range was given, not observed.
        return _with_least(spec, least)
    return _with_grids(spec, _qparams_with_room, room, options)


def _with_grids(
    spec: QuantizationSpec, qparams: Any, grids: tuple[float, ...], options: dict[str, Any]
) -> QuantizationSpec:
    """Return a spec whose observers compute their grids in another way.

    Args:
        spec: The spec.
        qparams: Called with an observer and both ends of its range; returns steps and zero points.
        grids: What it reads, as ``observer.grids``.
        options: What the observers are made with.
    """
    constructor: Any = spec.observer_or_fake_quant_ctr
    # Its name tells torchao whether the observer takes an axis.
    make = wraps(constructor.p.func, updated=())(partial(_observing, constructor.p.func, qparams, grids))
    return replace(spec, observer_or_fake_quant_ctr=PartialWrapper(partial(make, **options)))


def _observing(kind: Any, qparams: Any, grids: tuple[float, ...], **options: Any) -> Any:
    fake_quantize = kind(**options)
    observer = getattr(fake_quantize, "activation_post_process", fake_quantize)
    observer.grids = grids
    # A partial object is copied together with the observer.
    observer._calculate_qparams = partial(qparams, observer)  # noqa: SLF001 - its only name
    return fake_quantize


def _qparams_with_room(
    observer: Any, low: torch.Tensor, high: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return step and zero point of a range, with head-room.

    ``observer.grids`` are the step up to which grids cover some times what it saw, how many, and
    how many above.

    Source: torchao 0.18 ``UniformQuantizationObserverBase._calculate_qparams``.
    """
    stock = type(observer)._calculate_qparams  # noqa: SLF001 - its only name
    largest, times, wide = observer.grids
    step, zero = stock(observer, low, high)
    roomy = max(min(largest, times * float(step)), wide * float(step))
    if roomy <= float(step):
        return step, zero
    least = observer.eps
    try:
        observer.eps = torch.full_like(least, roomy)
        step, zero = stock(observer, low, high)
    finally:
        observer.eps = least
    return step, zero


# A weight is a whole number of steps if it is as near to one as this [steps].
_NEAR = 1e-3
# Weights that add up to one in float32.
_NEAR_ONE = 1e-5
# So many of the largest weights of a channel are tried first.
_FEW = 4


def steps_of_fractions(annotated: fx.GraphModule) -> list[str]:
    """Choose the step of weights that are fractions of one number.

    Fault: The largest weight of a channel is 127 steps (7 of 4 bits) whatever the others are: with
        weights of 1/3 and 2/3, as of an interpolation, the smaller is 63.5 steps, and their sum is
        0.3 % too large. Those of Sobel's filter (1 and 2) do not add up to zero.
    Instead: The largest weight is the number of steps, half of them or more, with which all weights
        of the channel are whole; where the weights are a mean (they add up to one), the number with
        the least error.
    Right because: A step is any positive number, and the largest weight stays in range. Channels
        whose weights have no such step keep theirs, as trained ones do.
    Network: interpolate(relu(conv(x)), size=(12, 20), mode="bilinear", align_corners=True) in a16w8
        for U55
    Tools: executorch 1.5.1, torchao 0.18.0
    """
    refined = list[str]()
    for node, note in _weighted(annotated):
        source = node.args[1]
        spec = note.input_qspec_map.get(source)
        value = _constant(annotated, str(source.target)) if source.op == "get_attr" else None
        if value is None or type(spec) is not QuantizationSpec or _least(spec) is None:
            continue
        times = _times_for_whole(value.detach(), spec)
        if times is not None:
            options = spec.observer_or_fake_quant_ctr.p.keywords
            note.input_qspec_map[source] = _with_grids(spec, _qparams_of_fractions, times, options)
            refined.append(node.name)
    return refined


def _times_for_whole(weight: torch.Tensor, spec: QuantizationSpec) -> tuple[float, ...] | None:
    """Return how many times larger the step of each channel is to be; None if none is."""
    top = spec.quant_max
    by_channel = {torch.per_channel_symmetric: spec.ch_axis, torch.per_tensor_symmetric: None}
    if top is None or spec.qscheme not in by_channel:
        return None
    axis = by_channel[spec.qscheme]
    rows = weight.reshape(1, -1) if axis is None else weight.movedim(axis, 0).flatten(1)
    # The product of all weights and numbers would be large: a few weights leave few channels.
    is_mean = (rows.sum(1) - 1).abs() < _NEAR_ONE
    whole, _ = _errors(rows.abs().topk(min(_FEW, rows.shape[1]), dim=1).values, top)
    times = torch.ones(len(rows))
    for row in (is_mean | (whole.argmax(0) > 0)).nonzero().flatten().tolist():
        whole, error = _errors(rows[row : row + 1], top)
        # The first is the finest; a channel without one keeps it.
        best = error.argmin() if is_mean[row] and not whole.any() else whole.argmax()
        times[row] = top / (top - int(best))
    return tuple(times.tolist()) if bool((times > 1).any()) else None


def _errors(rows: torch.Tensor, top: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return whether weights are whole, and their error, by the steps of the largest and by channel."""
    ratios = rows.to(torch.float64) / rows.abs().amax(1, keepdim=True).clamp(min=1e-30)
    counts = torch.arange(top, top // 2, -1).view(-1, 1, 1)
    steps = ratios * counts
    off = (steps - steps.round()).abs()
    return (off.amax(2) < _NEAR).to(torch.int8), (off / counts).square().sum(2)


def _qparams_of_fractions(
    observer: Any, low: torch.Tensor, high: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return steps and zero points of the ranges of weights; ``observer.grids`` are times of the steps."""
    steps, zeros = type(observer)._calculate_qparams(observer, low, high)  # noqa: SLF001 - its only name
    return steps * torch.tensor(observer.grids, dtype=steps.dtype), zeros


_CLAMPS_AT_ZERO = ("relu", "relu_", "hardtanh", "hardtanh_")


def relus_with_layers(annotated: fx.GraphModule) -> list[str]:
    """Round a layer and its ReLU once where their rules differ.

    Fault: A convolution or linear and the ReLU after it are rounded once, after the ReLU, where one
        rule covers both. Where a rule covers only the layer, its output is rounded before the ReLU
        too, on a grid that the ReLU has to share: half of it is for negative values.
    Instead: The layer's output is rounded after the ReLU, on the grid of its positive values.
    Right because: It is what one rule for both does: the layer's activations have that grid's type
        and scheme. The ReLU has no precision of its own, and nothing else reads the layer.
    Network: relu(conv(x)) with per-tensor weights for the module of the convolution in a8w8
    Tools: executorch 1.5.1, torchao 0.18.0
    """
    joined = list[str]()
    for node in annotated.graph.nodes:
        layer = node.args[0] if _is_clamp_at_zero(node) else None
        if not isinstance(layer, fx.Node) or len(layer.users) > 1 or not _is_layer_end(layer):
            continue
        note, before = (n.meta.get("quantization_annotation") for n in (node, layer))
        if note is None or before is None or note.output_qspec is None or layer not in note.input_qspec_map:
            continue
        own, shared = before.output_qspec, note.input_qspec_map[layer]
        grid = _grid_of(shared)
        if type(own) is not QuantizationSpec or own.qscheme is not torch.per_tensor_affine:
            continue
        if type(grid) is QuantizationSpec and (grid.dtype, grid.qscheme) == (own.dtype, own.qscheme):
            before.output_qspec = None
            del note.input_qspec_map[layer]
            if shared is grid:
                note.output_qspec = grid
                _share_with(annotated, node, (layer, node))
            joined.append(node.name)
    return joined


def _is_clamp_at_zero(node: fx.Node) -> bool:
    name = _operator(node)
    return name in _CLAMPS_AT_ZERO and (name.startswith("relu") or node.args[1:2] in {(0,), (0.0,)})


def _is_layer_end(node: fx.Node) -> bool:
    """Return whether a node is a layer, or the batch norm that only it has."""
    if _operator(node) == "batch_norm" and isinstance(node.args[0], fx.Node):
        layer = node.args[0]
        return len(layer.users) == 1 and _operator(layer) in _WEIGHTED
    return _operator(node) in _WEIGHTED


def _operator(node: fx.Node) -> str:
    schema = getattr(node.target, "_schema", None)
    return schema.name.rpartition("::")[2] if schema is not None else ""


def _grid_of(spec: Any) -> Any:
    """Return the spec that a shared one stands for; others as they are."""
    if not isinstance(spec, SharedQuantizationSpec):
        return spec
    if isinstance(spec.edge_or_node, fx.Node):
        return spec.edge_or_node.meta["quantization_annotation"].output_qspec
    source, reader = spec.edge_or_node
    return reader.meta["quantization_annotation"].input_qspec_map.get(source)


def _share_with(annotated: fx.GraphModule, node: fx.Node, edge: tuple[fx.Node, fx.Node]) -> None:
    """Let what shares the grid of an edge share that of a node's output."""
    for other in annotated.graph.nodes:
        note = other.meta.get("quantization_annotation")
        if note is None or other is node:
            continue
        is_shared = isinstance(note.output_qspec, SharedQuantizationSpec)
        if is_shared and note.output_qspec.edge_or_node == edge:
            note.output_qspec = SharedQuantizationSpec(node)
        for source, spec in note.input_qspec_map.items():
            if isinstance(spec, SharedQuantizationSpec) and spec.edge_or_node == edge:
                note.input_qspec_map[source] = SharedQuantizationSpec(node)


# A guard that is as small as this is no limit that a network is meant to reach.
_LARGEST_GUARD = 1e-4
_NEVER_NEGATIVE = ("relu", "relu_", "relu6", "sigmoid", "exp", "abs", "softplus", "softmax")


def guarded_quotients(annotated: fx.GraphModule) -> list[str]:
    """Leave the reciprocal of a guard out of the range of the reciprocals.

    Fault: The guard of a division keeps the reciprocal finite where a row is zero: 1e12 for
        torch.nn.functional.normalize. The calibrated range ends there, and all other rows become
        zero; where the range is too large for a scale, lowering ends.
    Instead: What calibration sees of the reciprocal ends below that of the guard: with the other
        rows in 8 bits, and at up to 16 times them in 16, for rows that calibration did not see. It
        is less where the rows differ so much that the reciprocals of large ones would be coarse.
    Right because: The rows whose reciprocal is that of the guard are zero, and are zero multiplied
        by any other number. A division whose numerator is not zero there keeps its range.
    Network: normalize(pad(linear(x), (0, 0, 1, 0)), dim=-1) in a8w8, a row of padding
    Tools: executorch 1.5.1, torchao 0.18.0
    """
    refined = list[str]()
    for node in annotated.graph.nodes:
        note = node.meta.get("quantization_annotation")
        spec = note.output_qspec if note is not None else None
        if _operator(node) not in ("reciprocal", "rsqrt") or type(spec) is not QuantizationSpec:
            continue
        limit, base = _guard(annotated, node)
        if base is None or not all(_is_zero_with(reader, node, base) for reader in node.users):
            continue
        note.output_qspec = _observed_below(spec, limit)
        for reader in node.users:
            notes = reader.meta["quantization_annotation"].input_qspec_map
            if notes.get(node) is spec:
                notes[node] = note.output_qspec
        refined.append(node.name)
    return refined


def _guard(annotated: fx.GraphModule, quotient: fx.Node) -> tuple[float, fx.Node | None]:
    """Return the reciprocal of the guard of a denominator, and what the denominator is summed from."""
    value, guard, power = quotient.args[0], 0.0, 0.5 if _operator(quotient) == "rsqrt" else 1.0
    while isinstance(value, fx.Node) and value.args:
        name, more = _operator(value), value.args[1:]
        if name in ("sum", "mean", "amax", "max"):
            return (guard**-power if guard else 0.0), value.args[0] if guard else None  # type: ignore[return-value]
        if name in ("clamp", "clamp_min", "add", "maximum") and not guard:
            guard = _number(annotated, more[0]) or 0.0
            if not 0.0 < guard <= _LARGEST_GUARD:
                break
        elif name == "sqrt" or (name == "pow" and more[:1] == (0.5,)):
            power = power if guard else power / 2
        elif name not in _RESHAPING and not (name == "mul" and _number(annotated, more[0]) is not None):
            break
        value = value.args[0]
    return 0.0, None


def _number(annotated: fx.GraphModule, argument: Any) -> float | None:
    """Return a single number that an operator is given, also as a constant; None for others."""
    if isinstance(argument, fx.Node) and argument.op == "get_attr":
        value = _constant(annotated, str(argument.target))
        return float(value) if value is not None and value.numel() == 1 else None
    return float(argument) if isinstance(argument, int | float) else None


def _is_zero_with(product: fx.Node, quotient: fx.Node, base: fx.Node) -> bool:
    """Return whether a product is of a reciprocal and what is zero where the denominator is."""
    if _operator(product) != "mul" or product.args[0] is product.args[1]:
        return False
    numerator = next(value for value in product.args[:2] if value is not quotient)
    source = _before_reshapes(base)
    square = _operator(source) == "mul" and source.args[0] is source.args[1]
    if square or _operator(source) == "abs" or (_operator(source) == "pow" and source.args[1] == 2):
        return _vanishes(numerator, {source, _before_reshapes(source.args[0])})
    value = _before_reshapes(numerator)
    if _operator(value) == "sum":
        return _vanishes(value, {source})
    return value is source and _is_never_negative(source)


def _is_never_negative(value: Any) -> bool:
    """Return whether a value is not negative; masks, which others are multiplied by, are not."""
    if not isinstance(value, fx.Node):
        return False
    if _operator(value) == "mul":
        return any(_is_never_negative(_before_reshapes(part)) for part in value.args[:2])
    return _operator(value) in _NEVER_NEGATIVE


def _vanishes(value: Any, zeros: set[Any]) -> bool:
    """Return whether a value is zero where others are: one of them, a product with one, or a sum of such."""
    value = _before_reshapes(value)
    name = _operator(value) if isinstance(value, fx.Node) else ""
    if name == "mul":
        return value in zeros or any(_vanishes(part, zeros) for part in value.args[:2])
    if name in ("sum", "neg"):
        return _vanishes(value.args[0], zeros)
    # The mean of a variance may be taken once more, by an operator of its own.
    differences = [zero.args[0] for zero in zeros if name == _operator(zero) == "sub"]
    return value in zeros or (name == "sub" and value.args[0] in differences)


def _before_reshapes(value: Any) -> Any:
    while isinstance(value, fx.Node) and _operator(value) in _RESHAPING:
        value = value.args[0]
    return value


def _observed_below(spec: QuantizationSpec, limit: float) -> QuantizationSpec:
    """Return a spec whose observer leaves out what reaches a limit."""
    constructor: Any = spec.observer_or_fake_quant_ctr
    # Its name tells torchao whether the observer takes an axis.
    make = wraps(constructor.p.func, updated=())(partial(_limited, constructor.p.func, limit))
    return replace(spec, observer_or_fake_quant_ctr=PartialWrapper(partial(make, **constructor.p.keywords)))


def _limited(kind: Any, limit: float, **options: Any) -> Any:
    fake_quantize = kind(**options)
    observer = getattr(fake_quantize, "activation_post_process", fake_quantize)
    # Rounding must not bring the reciprocal of the guard below the limit.
    observer.observed_below = limit * (1 - 1e-6)
    observer.forward = partial(_observe_below, observer)
    return fake_quantize


def _observe_below(observer: Any, value: torch.Tensor) -> torch.Tensor:
    """Let an observer see the values below its limit, and head-room in place of others in 16 bits."""
    values = value.detach()
    is_below = values.abs() < observer.observed_below
    others = values[is_below].abs()
    largest = others.max() if others.numel() else values.new_zeros(())
    if observer.quant_max - observer.quant_min > 255 and others.numel():
        # The error of a product is a part of it, the larger the less its reciprocal is.
        spread = float(largest * others.clamp(min=1e-30).pow(-2).mean().sqrt())
        largest = largest * min(max(_SPREAD_FOR_QUOTIENTS / spread, 1.0), _ROOM_FOR_QUOTIENTS)
    type(observer).forward(observer, values.where(is_below, largest.clamp(max=observer.observed_below)))
    return value


# How many times the other rows a grid of 16 bits covers, and how many times their usual reciprocal
# at most: then rounding is 55 dB below the products.
_ROOM_FOR_QUOTIENTS, _SPREAD_FOR_QUOTIENTS = 16.0, 200.0


def grids_of_triangles(annotated: fx.GraphModule) -> list[str]:
    """Let a triangle or a diagonal of a matrix have the grid of the matrix.

    Fault: As a product with ones and zeros it is rounded a second time, on a grid of its own.
        Calibration may not have seen there what lies in the rest of the matrix, which is cut off.
    Instead: The product has the grid of the matrix.
    Right because: A value times one or zero is a value of its grid, as with the choice between the
        matrix and zero that torch writes.
    Network: torch.outer(x, y).tril() in a8w8
    Tools: executorch 1.5.1, torchao 0.18.0
    """
    joined = list[str]()
    for node in annotated.graph.nodes:
        note = node.meta.get("quantization_annotation")
        if _operator(node) != "mul" or note is None or type(note.output_qspec) is not QuantizationSpec:
            continue
        for matrix, factor in (node.args[:2], node.args[1::-1]):
            if _is_band(annotated, factor) and note.input_qspec_map.get(matrix) is not None:
                note.output_qspec = SharedQuantizationSpec((matrix, node))
                joined.append(node.name)
                break
    return joined


def _is_band(annotated: fx.GraphModule, factor: Any) -> bool:
    """Return whether a factor is a matrix of ones and zeros that are constant along its diagonals."""
    is_constant = isinstance(factor, fx.Node) and factor.op == "get_attr"
    value = _constant(annotated, str(factor.target)) if is_constant else None
    if value is None or value.dim() < 2 or value.numel() != value.shape[-1] * value.shape[-2]:
        return False
    matrix = value.detach().reshape(value.shape[-2:])
    is_binary = bool(((matrix == 0) | (matrix == 1)).all()) and 0 < float(matrix.sum()) < matrix.numel()
    return is_binary and bool((matrix[1:, 1:] == matrix[:-1, :-1]).all())
