"""Masks and limits of huge numbers, written so that no range is spanned by them."""

import math
from typing import Any

import torch
from executorch.backends.arm.quantizer import EthosUQuantizer
from torch import fx

from .graph_writer import Writer, constant_of, finished, floating_calls

_ATEN = torch.ops.aten
# A number that is no score: masks have -inf, the least float, -1e9 or -10,000.
_MASKED = 1e4
# From here on a float32 plus a score is the number itself, so that a row masked everywhere is even.
_ABSORBING = 1e8
# A limit that no value reaches.
_OPEN = 1e6


def bounded_masks(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Keep the huge numbers of masks and limits out of ranges.

    Fault: A mask of -1e9, -3.4e38 or -10,000, also one that is computed, and a limit of a clamp
        that is meant as none, are quantized with the values beside them: their step becomes so
        large that nothing else is left. Infinities and the least float alone get another number,
        and then a row that is masked everywhere is no longer even.
    Instead: What is masked becomes the least of the scores it is compared with, less 14. A row that
        is masked everywhere is even or keeps its scores, as in eager mode. A limit that no value
        reaches is left out.
    Right because: What is masked has no weight in a softmax and is no maximum, with any number that
        is less than all scores.
    Network: softmax(q @ k.T + (1 - mask) * -3.4e38, -1)
    Tools: executorch 1.5.1
    """
    is_wide = _is_wide(quantizer)
    least = float(quantizer.compile_spec._get_pass_pipeline_config().quantize_inf.neg_inf)  # noqa: SLF001
    done = [node.name for node in floating_calls(module, _SDPA) if _written_out(module, node, is_wide)]
    for node in floating_calls(module, _ATEN.baddbmm.default):
        if not node.kwargs and _adds_mask(module, node):
            write, (mask, *factors) = Writer(module, node), node.args
            write.replace(write(_ATEN.add.Tensor, mask, write(_ATEN.bmm.default, *factors)))
    for node in floating_calls(module, _ATEN.masked_fill.Scalar, _ATEN.where.self):
        if _bound_choice(module, node, is_wide):
            done.append(node.name)
    for node in floating_calls(module, _ATEN.add.Tensor, _ATEN.sub.Tensor):
        if not node.kwargs and _bound_constant(module, node, is_wide):
            done.append(node.name)
    done += _bound_computed(module, least)
    for node in floating_calls(module, *_LIMITS):
        if _LIMITS[node.target](module, node):
            done.append(node.name)
    return finished(module, done)


def _is_wide(quantizer: EthosUQuantizer) -> bool:
    """Return whether activations have 16 bits as a rule."""
    spec = getattr(getattr(quantizer, "global_config", None), "input_activation", None)
    return getattr(spec, "dtype", None) is torch.int16


def _is_bounded_by_stock(masked: torch.Tensor, value: torch.Tensor | float, dim: int) -> bool:
    """Return whether a constant mask is one that ExecuTorch bounds as well.

    Args:
        masked: Where it masks.
        value: What it adds or puts there.
        dim: The dimension over which the scores are compared.
    """
    least = torch.finfo(torch.float32).min
    values = value[masked] if isinstance(value, torch.Tensor) else torch.tensor([value])
    return bool((values <= least).all()) and not bool(masked.all(dim).any())


_PASSING = (
    "view",
    "reshape",
    "unsqueeze",
    "squeeze",
    "expand",
    "permute",
    "transpose",
    "slice",
    "select",
    "to",
    "_to_copy",
    "clone",
    "contiguous",
    "dropout",
    "flatten",
    "alias",
    "detach",
    "expand_as",
    "type_as",
    "repeat",
    "repeat_interleave",
    "unflatten",
    "roll",
    "flip",
    "index_select",
    "lift_fresh_copy",
)
_SDPA = _ATEN.scaled_dot_product_attention.default
# What is masked has this part of the weight of the least score: exp(-14) is 8e-7.
_MARGIN = 14.0


def _called(node: Any) -> str:
    schema = getattr(getattr(node, "target", None), "_schema", None)
    return str(schema.name).rpartition("::")[2] if schema is not None else ""


def _is_passed(node: Any) -> bool:
    """Return whether a node has the values of its first argument in another shape, and zeros."""
    name, more = _called(node), getattr(node, "args", ())[2:]
    is_padded = name == "constant_pad_nd" or (name == "pad" and more[:1] in ((), ("constant",)))
    return name in _PASSING or (is_padded and more[-1:] in ((), ("constant",), (None,), (0,)))


def _comparison(node: fx.Node, factor: float = 1.0) -> tuple[list[int], float] | None:
    """Return the dimensions over which a value is compared, and how far below masks have to be."""
    for reader in node.users:
        name, args = _called(reader), reader.args
        if name in {"softmax", "_softmax", "logsumexp"}:
            given: Any = args[1]
            return list(given) if isinstance(given, list | tuple) else [given], _MARGIN * factor
        if name == "amax" or str(reader.target) == "aten.max.dim":
            given = args[1]
            return list(given) if isinstance(given, list | tuple) else [given], 0.0
        scaled = name in {"mul", "div"} and isinstance(args[1], int | float) and args[1] > 0
        if scaled:
            number = float(args[1])  # type: ignore[arg-type]
            factor = factor * number if name == "div" else factor / number
        is_passed = name in {"dropout", "to", "_to_copy", "alias", "clone"} or scaled
        if is_passed and (known := _comparison(reader, factor)) is not None:
            return known
    return None


def _masked(write: Writer, scores: fx.Node, inverse: fx.Node, known: tuple[list[int], float]) -> Any:
    """Return scores with the least of them, less a margin, where the inverse of a mask is 1."""
    low = _low(write, scores, known)
    gap = write(_ATEN.sub.Tensor, scores, low)
    return write(_ATEN.sub.Tensor, scores, write(_ATEN.mul.Tensor, gap, inverse))


def _low(write: Writer, scores: fx.Node, known: tuple[list[int], float]) -> fx.Node:
    dims, margin = known
    low = write(_ATEN.amin.default, scores, dims, True)
    return write(_ATEN.sub.Tensor, low, margin) if margin else low


def _number(module: fx.GraphModule, given: Any) -> float | None:
    if isinstance(given, int | float):
        return float(given)
    value = constant_of(module, given)
    return float(value) if value is not None and value.numel() == 1 else None


def _bound_constant(module: fx.GraphModule, node: fx.Node, is_wide: bool) -> bool:
    """Write scores with a constant mask added; return whether there is one."""
    sign = 1 if node.target is _ATEN.add.Tensor else -1
    for index in (1, 0) if sign == 1 else (1,):
        value, scores = constant_of(module, node.args[index]), node.args[1 - index]
        if value is None or not isinstance(scores, fx.Node) or value.numel() == 1:
            continue
        value = sign * value.float()
        known = _comparison(node)
        masked = value <= -_MASKED
        if known is None or not bool(masked.any()):
            continue
        shape = [*node.meta["val"].shape]
        if is_wide and _is_bounded_by_stock(masked.expand(shape), value.expand(shape), known[0][0]):
            continue
        write = Writer(module, node)
        inverse, rest = _parted(value, shape, known[0])
        if bool(rest.any()):
            bias = write.constant(f"{node.name}_bias", rest)
            scores = write(_ATEN.add.Tensor, scores, bias)
        elif list(scores.meta["val"].shape) != write.shape:
            scores = write(_ATEN.expand.default, scores, write.shape)
        constant = write.constant(f"{node.name}_masked", inverse)
        write.replace(_masked(write, scores, constant, known))
        return True
    return False


def _parted(value: torch.Tensor, shape: list[int], dims: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return where a mask is, as ones, and what it adds elsewhere.

    A row that is masked everywhere by a number that absorbs the scores is even, as it is where all
    scores become one number. Any other number shifts the whole row, which nothing sees.
    """
    masked = value <= -_MASKED
    rows = value.expand(shape) if any(value.expand(shape).stride()) else value
    if masked.expand(shape).all(dims[0], keepdim=True).any():
        whole = (rows.expand(shape) <= -_MASKED).all(dims[0], keepdim=True)
        shifted = whole & ~(rows.expand(shape) <= -_ABSORBING).all(dims[0], keepdim=True)
        masked = masked.expand(shape) & ~shifted
        value = torch.where(shifted, torch.zeros(()), value)
    return masked.float(), torch.where(masked, torch.zeros(()), value)


def _bound_computed(module: fx.GraphModule, least: float) -> list[str]:
    """Write scores to which a computed mask is added, with the inverse of the mask."""
    sums = dict[fx.Node, list[tuple[fx.Node, int, int]]]()
    for node in floating_calls(module, _ATEN.add.Tensor, _ATEN.sub.Tensor):
        sign = 1 if node.target is _ATEN.add.Tensor else -1
        for index in (1, 0) if sign == 1 else (1,):
            source = _before_passing(node.args[index])
            if isinstance(source, fx.Node) and _is_mask(module, source, sign):
                sums.setdefault(source, []).append((node, index, sign))
                break
    done = list[str]()
    for source, readers in sums.items():
        nodes = {node for node, _, _ in readers}
        is_known = all(_comparison(node) is not None and not node.kwargs for node in nodes)
        if is_known and _read_by(source) <= nodes and len({sign for *_, sign in readers}) == 1:
            _invert(module, source, readers[0][2])
            for node, index, _ in readers:
                write = Writer(module, node)
                scores, inverse = node.args[1 - index], node.args[index]
                if list(scores.meta["val"].shape) != write.shape:  # type: ignore[union-attr]
                    scores = write(_ATEN.expand.default, scores, write.shape)
                known: Any = _comparison(node)
                write.replace(_masked(write, scores, inverse, known))  # type: ignore[arg-type]
        elif source.target is _ATEN.mul.Tensor:
            place, number = _factor(module, source)
            source.update_arg(place, math.copysign(least, number))
        else:
            continue
        done.append(source.name)
    return done


def _adds_mask(module: fx.GraphModule, node: fx.Node) -> bool:
    """Return whether the first argument of a sum of products is a mask, constant or computed."""
    value, source = constant_of(module, node.args[0]), _before_passing(node.args[0])
    if value is not None:
        return bool((value <= -_MASKED).any())
    return isinstance(source, fx.Node) and _is_mask(module, source, 1)


def _before_passing(value: Any) -> Any:
    while _is_passed(value):
        value = value.args[0]
    return value


def _read_by(source: fx.Node) -> set[fx.Node]:
    """Return what reads a value, as it is or in another shape."""
    readers, left = set[fx.Node](), [source]
    while left:
        for reader in left.pop().users:
            if _is_passed(reader):
                left.append(reader)
            else:
                readers.add(reader)
    return readers


def _factor(module: fx.GraphModule, source: fx.Node) -> tuple[int, float]:
    """Return which argument of a product is a huge number, and the number; else 0."""
    for place in (0, 1):
        number = _number(module, source.args[place])
        if number is not None and abs(number) >= _MASKED:
            return place, number
    return 0, 0.0


def _is_mask(module: fx.GraphModule, source: fx.Node, sign: int) -> bool:
    """Return whether a computed value is a mask that is added: zero, or a huge number."""
    if source.target is _ATEN.mul.Tensor:
        return bool(_factor(module, source)[1])
    if sign == -1:
        return False
    if source.target is _ATEN.masked_fill.Scalar:
        value, chosen, number = source.args[0], source.args[1], _number(module, source.args[2])
        is_zero = _least_of(module, value) == 0.0
        is_own = _called(chosen) in {"to", "_to_copy", "ne"} and chosen.args[0] is value  # type: ignore[union-attr]
        return number is not None and number <= -_MASKED and (is_zero or is_own)
    if source.target is _ATEN.where.self:
        values = [_number(module, given) for given in source.args[1:]]
        return None not in values and max(values) == 0.0 and min(values) <= -_MASKED  # type: ignore[type-var,operator]
    return False


def _invert(module: fx.GraphModule, source: fx.Node, sign: int) -> None:
    """Let a mask be 1 where it masks, and 0 elsewhere."""
    if source.target is _ATEN.mul.Tensor:
        place, number = _factor(module, source)
        source.update_arg(place, 1.0 if number * sign < 0 else -1.0)
    elif source.target is _ATEN.masked_fill.Scalar:
        source.update_arg(2, 1.0)
    else:
        for index in (1, 2):
            number = 0.0 if _number(module, source.args[index]) == 0.0 else 1.0
            given = Writer(module, source).constant(f"{source.name}_{index}", torch.tensor(number))
            source.update_arg(index, given)


def _bound_choice(module: fx.GraphModule, node: fx.Node, is_wide: bool) -> bool:
    """Choose the least score, less a margin, where a huge number is chosen in its place."""
    known = _comparison(node)
    if node.target is _ATEN.masked_fill.Scalar:
        scores, chosen, number = node.args[0], node.args[1], _number(module, node.args[2])
        is_first = True
    else:
        chosen = node.args[0]
        numbers = [_least_of(module, given) for given in node.args[1:]]
        is_first = numbers[0] is not None
        number, scores = (numbers[0], node.args[2]) if is_first else (numbers[1], node.args[1])
    if known is None or number is None or number > -_MASKED or not isinstance(scores, fx.Node):
        return False
    value = constant_of(module, chosen)
    if is_wide and value is not None:
        masked = (value if is_first else ~value).expand(node.meta["val"].shape)
        if _is_bounded_by_stock(masked, number, known[0][0]):
            return False
    write = Writer(module, node)
    if list(scores.meta["val"].shape) != write.shape:
        scores = write(_ATEN.expand.default, scores, write.shape)
    if value is None:
        low = _low(write, scores, known)
        both = (low, scores) if is_first else (scores, low)
        write.replace(write(_ATEN.where.self, chosen, *both))
        return True
    masked = (value if is_first else ~value).to(torch.float32)
    constant = write.constant(f"{node.name}_masked", masked)
    write.replace(_masked(write, scores, constant, known))
    return True


def _least_of(module: fx.GraphModule, given: Any) -> float | None:
    """Return the number that all elements of a constant have; None for other values."""
    value = constant_of(module, given)
    if isinstance(given, fx.Node) and _called(given) in {"full", "full_like"}:
        return float(given.args[1])  # type: ignore[arg-type]
    if value is None or value.numel() == 0 or bool((value != value.flatten()[0]).any()):
        return None
    return float(value.flatten()[0])


def _written_out(module: fx.GraphModule, node: fx.Node, is_wide: bool) -> bool:
    """Write masked attention with its products and its softmax; return whether it was."""
    arguments = dict(zip(("q", "k", "v", "mask", "dropout", "causal"), node.args, strict=False))
    q, k, v = (arguments[name] for name in ("q", "k", "v"))
    mask, causal = arguments.get("mask"), arguments.get("causal", False)
    if (mask is None and not causal) or node.kwargs.get("enable_gqa"):
        return False
    if is_wide and (mask is None or _is_stock_mask(module, mask)):
        return False
    write = Writer(module, node)
    size = q.meta["val"].shape[-1]  # type: ignore[union-attr]
    given = node.kwargs.get("scale")
    scale = size**-0.5 if given is None else float(given)  # type: ignore[arg-type]
    scores = write(_ATEN.matmul.default, q, write(_ATEN.transpose.int, k, -2, -1))
    scores = write(_ATEN.mul.Tensor, scores, scale)
    if causal:
        shape = scores.meta["val"].shape[-2:]
        above = torch.ones(tuple(shape)).triu(1)
        inverse = write.constant(f"{node.name}_causal", above)
        scores = _masked(write, scores, inverse, ([-1], _MARGIN))
    elif mask.meta["val"].dtype == torch.bool:  # type: ignore[union-attr]
        value = constant_of(module, mask)
        if value is not None:
            inverse = write.constant(f"{node.name}_masked", (~value).float())
            scores = _masked(write, scores, inverse, ([-1], _MARGIN))
        else:
            low = _low(write, scores, ([-1], _MARGIN))
            scores = write(_ATEN.where.self, mask, scores, low)
    else:
        scores = write(_ATEN.add.Tensor, scores, mask)
    weights = write(_ATEN.softmax.int, scores, -1)
    write.replace(write(_ATEN.matmul.default, weights, v))
    return True


def _is_stock_mask(module: fx.GraphModule, mask: Any) -> bool:
    """Return whether the mask of an attention is constant, and one that ExecuTorch bounds."""
    value = constant_of(module, mask)
    if value is None:
        return False
    if value.dtype == torch.bool:
        return _is_bounded_by_stock(~value, -torch.inf, -1)
    return _is_bounded_by_stock(value <= -_MASKED, value, -1)


def _open_clamp(module: fx.GraphModule, node: fx.Node) -> bool:
    """Drop limits of a clamp that no value reaches."""
    del module
    low, high = (*node.args[1:], None, None)[:2]
    kept_low = None if isinstance(low, int | float) and low <= -_OPEN else low
    kept_high = None if isinstance(high, int | float) and high >= _OPEN else high
    if (kept_low, kept_high) == (low, high):
        return False
    if kept_low is None and kept_high is None:
        node.replace_all_uses_with(node.args[0])  # type: ignore[arg-type]
    else:
        node.args = (node.args[0], kept_low, kept_high)
    return True


def _open_limits(module: fx.GraphModule, node: fx.Node) -> bool:
    """Write a clamp between tensors as a maximum and a minimum where some limits are open."""
    given = [constant_of(module, limit) for limit in (*node.args[1:], None, None)[:2]]
    if not any(value is not None and bool((value.abs() >= _OPEN).any()) for value in given):
        return False
    write, value = Writer(module, node), node.args[0]
    for limit, target in zip(node.args[1:], (_ATEN.maximum.default, _ATEN.minimum.default), strict=False):
        if limit is not None:
            value = write(target, value, limit)
            _open_limit(module, value)
    write.replace(value)
    return True


def _open_limit(module: fx.GraphModule, node: fx.Node) -> bool:
    """Let an open limit of a maximum or a minimum be the value itself."""
    sign = 1 if node.target is _ATEN.maximum.default else -1
    for index in (0, 1):
        limit, source = constant_of(module, node.args[index]), node.args[1 - index]
        if limit is None or not isinstance(source, fx.Node):
            continue
        is_open = sign * limit <= -_OPEN
        if not bool(is_open.any()):
            continue
        write = Writer(module, node)
        opened = write.constant(f"{node.name}_open", is_open.to(limit.dtype))
        closed = write.constant(f"{node.name}_limit", torch.where(is_open, 0.0, limit))
        own = write(_ATEN.mul.Tensor, source, opened)
        node.update_arg(index, write(_ATEN.add.Tensor, own, closed))
        return True
    return False


_LIMITS: dict[Any, Any] = {
    _ATEN.clamp.default: _open_clamp,
    _ATEN.clamp.Tensor: _open_limits,
    _ATEN.maximum.default: _open_limit,
    _ATEN.minimum.default: _open_limit,
}
