"""Masks and limits of huge numbers, written so that no range is spanned by them."""

import math
from collections.abc import Callable
from typing import Any

import torch
from executorch.backends.arm.quantizer import EthosUQuantizer
from torch import fx

from .compared_values import OF_ROWS, called, comparison, low_of, masked_scores
from .graph_writer import Writer, constant_of, finished, floating_calls

_ATEN = torch.ops.aten
# A number that is no score: masks have -inf, the least float, -1e9 or -10,000.
_MASKED = 1e4
# From here on a float32 plus a score is the number itself, so that a row masked everywhere is even.
_ABSORBING = 1e8
# A limit that no value reaches.
_OPEN = 1e6
# What is added to ones and zeros so that their logarithm is finite.
_LARGEST_GUARD = 1e-6


def bounded_masks(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Keep the huge numbers of masks and limits out of ranges.

    Fault: A mask of -1e9, -3.4e38 or -10,000, also one that is computed, a padding with such a
        number, the logarithm of a mask of ones and zeros, and a limit of a clamp that is meant as
        none, are quantized with the values beside them: their step becomes so large that nothing
        else is left. Infinities and the least float alone get another number, and then a row that
        is masked everywhere is no longer even, nor infinite where the network asks for that. Large
        positive numbers do so before a minimum.
    Instead: What is masked becomes the least of the scores it is compared with, less 14; less an
        eighth of their spread where a place is asked for; the largest before a minimum. A row that
        is masked everywhere is even or keeps its scores, as in eager mode, and is asked for in the
        mask. A picture is padded with its outermost values before a pool of the largest. A limit
        that no value reaches is left out.
    Right because: What is masked has no weight in a softmax and is no maximum, with any number that
        is less than all scores. The outermost values are in each window that reaches beyond them.
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
    for node in floating_calls(module, *_CHOICES):
        if _bound_choice(module, node, is_wide):
            done.append(node.name)
    for node in floating_calls(module, _ATEN.add.Tensor, _ATEN.sub.Tensor):
        if not node.kwargs and _bound_constant(module, node, is_wide):
            done.append(node.name)
    for node in floating_calls(module, _ATEN.log.default):
        _write_logarithm(module, node)
    done += _bound_computed(module, least)
    for node in floating_calls(module, *_LIMITS):
        if _LIMITS[node.target](module, node):
            done.append(node.name)
    return finished(module, done)


def _is_wide(quantizer: EthosUQuantizer) -> bool:
    """Return whether activations have 16 bits as a rule."""
    spec = getattr(getattr(quantizer, "global_config", None), "input_activation", None)
    return getattr(spec, "dtype", None) is torch.int16


def _is_bounded_by_stock(masked: torch.Tensor, value: torch.Tensor | float, dim: int, side: int = 1) -> bool:
    """Return whether a constant mask is one that ExecuTorch bounds as well.

    Args:
        masked: Where it masks.
        value: What it adds or puts there.
        dim: The dimension over which the scores are compared.
        side: 1 where what is masked is less than the scores.
    """
    if side != 1:
        return False
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


def _is_passed(node: Any) -> bool:
    """Return whether a node has the values of its first argument in another shape, and zeros."""
    name, more = called(node), getattr(node, "args", ())[2:]
    is_padded = name == "constant_pad_nd" or (name == "pad" and more[:1] in ((), ("constant",)))
    return name in _PASSING or (is_padded and more[-1:] in ((), ("constant",), (None,), (0,)))


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
        known = comparison(node)
        if known is None:
            continue
        value = known.side * sign * value.float()
        masked = value <= -_MASKED
        if not bool(masked.any()):
            continue
        shape = [*node.meta["val"].shape]
        dim = known.dims[0]
        if is_wide and _is_bounded_by_stock(masked.expand(shape), value.expand(shape), dim, known.side):
            continue
        write = Writer(module, node)
        inverse, rest = _parted(value, shape, dim)
        rest = known.side * rest
        if bool(rest.any()):
            bias = write.constant(f"{node.name}_bias", rest)
            scores = write(_ATEN.add.Tensor, scores, bias)
        elif list(scores.meta["val"].shape) != write.shape:
            scores = write(_ATEN.expand.default, scores, write.shape)
        constant = write.constant(f"{node.name}_masked", inverse)
        write.replace(masked_scores(write, scores, constant, known))
        return True
    return False


def _parted(value: torch.Tensor, shape: list[int], dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return where a mask is, as ones, and what it adds elsewhere.

    A row that is masked everywhere by a number that absorbs the scores is even, as it is where all
    scores become one number. Any other number shifts the whole row, which nothing sees.
    """
    masked = value <= -_MASKED
    rows = value.expand(shape) if any(value.expand(shape).stride()) else value
    if masked.expand(shape).all(dim, keepdim=True).any():
        whole = (rows.expand(shape) <= -_MASKED).all(dim, keepdim=True)
        shifted = whole & ~(rows.expand(shape) <= -_ABSORBING).all(dim, keepdim=True)
        masked = masked.expand(shape) & ~shifted
        value = torch.where(shifted, torch.zeros(()), value)
    return masked.float(), torch.where(masked, torch.zeros(()), value)


def _write_logarithm(module: fx.GraphModule, node: fx.Node) -> None:
    """Write the logarithm of ones and zeros, which is added to scores, as a product with a huge number."""
    flags: Any = node.args[0]
    is_guarded = called(flags) in {"add", "clamp", "clamp_min"} and not flags.kwargs
    if is_guarded and 0 < (_number(module, flags.args[1]) or 0.0) <= _LARGEST_GUARD:
        flags = flags.args[0]
    is_cast = called(flags) in {"to", "_to_copy"}
    sums = _read_by(node)
    if not is_cast or flags.args[0].meta["val"].dtype is not torch.bool or not sums:
        return
    if all(reader.target is _ATEN.add.Tensor and comparison(reader) is not None for reader in sums):
        write = Writer(module, node)
        inverse = write(_ATEN.rsub.Scalar, flags, 1)
        write.replace(write(_ATEN.mul.Tensor, inverse, torch.finfo(torch.float32).min))


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
        sides = {getattr(comparison(node), "side", 0) for node in nodes}
        is_known = sides in ({1}, {-1}) and not any(node.kwargs for node in nodes)
        is_known = is_known and _number_of(module, source) * min(sides) <= 0
        if is_known and _read_by(source) <= nodes and len({sign for *_, sign in readers}) == 1:
            _invert(module, source, readers[0][2] * sides.pop())
            for node, index, _ in readers:
                write = Writer(module, node)
                scores, inverse = node.args[1 - index], node.args[index]
                if list(scores.meta["val"].shape) != write.shape:  # type: ignore[union-attr]
                    scores = write(_ATEN.expand.default, scores, write.shape)
                known: Any = comparison(node)
                write.replace(masked_scores(write, scores, inverse, known))  # type: ignore[arg-type]
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
        is_own = called(chosen) in {"to", "_to_copy", "ne"} and chosen.args[0] is value  # type: ignore[union-attr]
        return number is not None and abs(number) >= _MASKED and (is_zero or is_own)
    if source.target is _ATEN.where.self:
        values = [_number(module, given) for given in source.args[1:]]
        return None not in values and 0.0 in values and max(map(abs, values)) >= _MASKED  # type: ignore[arg-type]
    return False


def _number_of(module: fx.GraphModule, source: fx.Node) -> float:
    """Return the huge number of a computed mask that is chosen; 0 for a product, whose sign is open."""
    if source.target is _ATEN.masked_fill.Scalar:
        return _number(module, source.args[2]) or 0.0
    if source.target is _ATEN.where.self:
        return sum(_number(module, given) or 0.0 for given in source.args[1:])
    return 0.0


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
    known = comparison(node)
    if node.target in _FILLS:
        scores, chosen, number = node.args[0], node.args[1], _number(module, node.args[2])
        is_first = True
    else:
        chosen = node.args[0]
        numbers = [_least_of(module, given) for given in node.args[1:]]
        is_first = numbers[0] is not None
        number, scores = (numbers[0], node.args[2]) if is_first else (numbers[1], node.args[1])
    if known is None or number is None or not isinstance(scores, fx.Node):
        return False
    if number * known.side > -_MASKED:
        return False
    value = constant_of(module, chosen)
    if math.isinf(number):
        _answer_for_rows(Writer(module, node), node, chosen, is_first=is_first)  # type: ignore[arg-type]
    if is_wide and value is not None:
        masked = (value if is_first else ~value).expand(node.meta["val"].shape)
        if _is_bounded_by_stock(masked, number, known.dims[0], known.side):
            return False
    write = Writer(module, node)
    if list(scores.meta["val"].shape) != write.shape:
        scores = write(_ATEN.expand.default, scores, write.shape)
    if value is None:
        low = low_of(write, scores, known)
        both = (low, scores) if is_first else (scores, low)
        write.replace(write(_ATEN.where.self, chosen, *both))
        return True
    masked = (value if is_first else ~value).to(torch.float32)
    constant = write.constant(f"{node.name}_masked", masked)
    write.replace(masked_scores(write, scores, constant, known))
    return True


def _answer_for_rows(write: Writer, node: fx.Node, chosen: fx.Node, *, is_first: bool) -> None:
    """Answer from the mask whether rows are masked everywhere, where a network asks for NaN or infinity.

    Eager mode has NaN in such a row of a softmax, and infinity as its largest or least value.
    """
    for reader in [*node.users]:
        name, dims = called(reader), reader.args[1] if len(reader.args) > 1 else None
        if name not in {"softmax", "amax", "amin", "max", "min"} or dims is None:
            continue
        keep = name == "softmax" or (len(reader.args) > 2 and bool(reader.args[2]))
        is_pair = isinstance(reader.meta["val"], tuple | list)
        values = [user for user in reader.users if user.args[1] == 0] if is_pair else [reader]
        for part, asked in [(value, user) for value in values for user in value.users]:
            at = write.at(asked)
            if (answer := _answer(at, part, asked)) is not None:
                # Not with numbers: calibration may have seen no such row.
                valid = at(_ATEN.logical_not.default, chosen) if is_first else chosen
                valid = at(_ATEN.expand.default, valid, [*node.meta["val"].shape])
                some = at(_ATEN.any.dims, valid, dims if isinstance(dims, list) else [dims], keep)
                empty = at(_ATEN.logical_not.default, some)
                at.replace(answer(at(_ATEN.expand.default, empty, [*part.meta["val"].shape])))


def _answer(write: Writer, part: fx.Node, asked: fx.Node) -> Callable[[fx.Node], fx.Node] | None:
    """Return what makes of "the row is masked" what a question for NaN or infinity gives."""
    name, more = called(asked), (*asked.args[1:], None, None, None)
    numbers = {"nan": more[0], "posinf": more[1], "neginf": more[2], **asked.kwargs}
    if name in {"isnan", "isinf", "isneginf", "isposinf"}:
        return lambda empty: empty
    if name == "eq" and isinstance(more[0], float) and math.isinf(more[0]):
        return lambda empty: empty
    if name == "isfinite":
        return lambda empty: write(_ATEN.logical_not.default, empty)
    if name != "nan_to_num" or called(part) not in {"softmax"}:
        return None
    instead: Any = numbers["nan"] or 0.0
    return lambda empty: write(_ATEN.masked_fill.Scalar, part, empty, instead)


def _bound_padding(module: fx.GraphModule, node: fx.Node) -> bool:
    """Pad with values that change no maximum, where a huge number pads what is compared."""
    arguments: list[Any] = [*node.args, *node.kwargs.values()]
    x, sizes, numbers = (
        arguments[0],
        arguments[1],
        [one for one in arguments[2:] if isinstance(one, int | float)],
    )
    if not numbers or abs(numbers[0]) < _MASKED or min(sizes) < 0:
        return False
    known, write = comparison(node), Writer(module, node)
    rank, pads = len(write.shape), list(zip(sizes[::2], sizes[1::2], strict=True))
    is_pooled = numbers[0] < 0 and all(_is_pool_over(reader, pads) for reader in node.users)
    padded = {rank - 1 - axis for axis in range(len(pads))}
    is_over = known is not None and padded <= {dim % rank for dim in known.dims}
    if not is_pooled and (known is None or not is_over or numbers[0] * known.side > 0):
        return False
    low = None if is_pooled else low_of(write, x, known)  # type: ignore[arg-type]
    for axis, ends in enumerate(pads):
        x = _grown(write, x, rank - 1 - axis, ends, low)
    write.replace(x)
    return True


def _grown(write: Writer, x: fx.Node, dim: int, ends: tuple[int, int], low: fx.Node | None) -> fx.Node:
    """Return a value with one repeated at both ends of a dimension: its own outermost, or another."""
    before, size, after = x.meta["val"].shape[:dim], x.meta["val"].shape[dim], x.meta["val"].shape[dim + 1 :]
    sides = list[list[fx.Node]]()
    for count, edge in zip(ends, (0, size - 1), strict=True):
        single = low or write(_ATEN.slice.Tensor, x, dim, edge, edge + 1)
        sides.append([write(_ATEN.expand.default, single, [*before, count, *after])] if count else [])
    parts = [*sides[0], x, *sides[1]]
    return write(_ATEN.cat.default, parts, dim) if len(parts) > 1 else x


def _is_pool_over(reader: fx.Node, pads: list[tuple[int, int]]) -> bool:
    """Return whether a pool of the largest has a value of the picture in every window."""
    if called(reader) == "unfold" and len(pads) == 1:
        dim, size = reader.args[1:3]
        is_last = dim in {-1, reader.args[0].meta["val"].dim() - 1}  # type: ignore[union-attr]
        maxima = all(called(one) == "amax" and one.args[1] in ([-1], [dim]) for one in reader.users)
        return is_last and maxima and max(pads[0]) < size  # type: ignore[operator]
    if called(reader) not in {"max_pool1d", "max_pool2d", "max_pool2d_with_indices"}:
        return False
    _, size, _, own, apart, ceil = (*reader.args, None, None, None, None)[:6]
    sides = [*size] * (1 if len(size) == len(pads) else len(pads))  # type: ignore[arg-type,misc]
    is_plain = not any(own or (0,)) and not ceil and all(step == 1 for step in apart or (1,))  # type: ignore[arg-type,union-attr]
    return is_plain and all(max(ends) < side for ends, side in zip(reversed(pads), sides, strict=True))


def _least_of(module: fx.GraphModule, given: Any) -> float | None:
    """Return the number that all elements of a constant have; None for other values."""
    if isinstance(given, int | float):
        return float(given)
    value = constant_of(module, given)
    if isinstance(given, fx.Node) and called(given) in {"full", "full_like"}:
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
        scores = masked_scores(write, scores, inverse, OF_ROWS)
    elif mask.meta["val"].dtype == torch.bool:  # type: ignore[union-attr]
        value = constant_of(module, mask)
        if value is not None:
            inverse = write.constant(f"{node.name}_masked", (~value).float())
            scores = masked_scores(write, scores, inverse, OF_ROWS)
        else:
            low = low_of(write, scores, OF_ROWS)
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


_FILLS = (
    _ATEN.masked_fill.Scalar,
    _ATEN.masked_fill.Tensor,
    _ATEN.masked_fill_.Scalar,
    _ATEN.masked_fill_.Tensor,
)
_CHOICES = (*_FILLS, _ATEN.where.self, _ATEN.where.ScalarOther, _ATEN.where.ScalarSelf)
_LIMITS: dict[Any, Any] = {
    _ATEN.pad.default: _bound_padding,
    _ATEN.constant_pad_nd.default: _bound_padding,
    _ATEN.clamp.default: _open_clamp,
    _ATEN.clamp.Tensor: _open_limits,
    _ATEN.maximum.default: _open_limit,
    _ATEN.minimum.default: _open_limit,
}
