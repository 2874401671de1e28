"""Operators without a pattern of Ethos-U's quantizer, written with operators that have one."""

import math
from collections.abc import Container
from importlib import metadata
from typing import Any

import torch
from executorch.backends.arm.quantizer import EthosUQuantizer
from torch import fx

from .complex_operators import COMPLEX, WIDE, composite_calls, refuse_left
from .complex_values import is_complex, is_for_cpu, reads_complex, spectrum_of
from .composite_operators import decomposed, is_composite
from .decomposition_tracking import MadeOf, root_of
from .graph_writer import Writer, finished, floating_calls, quantized_nodes
from .linear_algebra import ALGEBRA, LONGEST, distances, long_reduction, product_along
from .selections import SELECTIONS, TAKEN
from .volumes import VOLUMES
from .window_operators import WINDOWS

_ATEN = torch.ops.aten
_NEEDS_STRIDE = metadata.version("executorch").startswith("1.4.")


def plain_operators(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Write operators without a pattern with operators that have one.

    Fault: The quantizer has no pattern for pools over one dimension or the whole image, instance
        norms, RMSNorm, softplus, mish, logsigmoid, logsumexp, roll, rrelu, std, clamp_min,
        expand_as, max and min of two tensors or of all, square, lerp, addcmul, pairwise_distance,
        channel_shuffle, log2, exp2 and nearest interpolation over one dimension: they stay on the
        CPU in float, and split the program. So do convolutions over one dimension whose padding has a
        name; with an even kernel and padding "same" a convolution is padded after quantization, and
        its program is wrong. An input that is padded by nothing is
        passed through, and Vela rejects the program. A padding by less than nothing, as in the time
        shift of RWKV, cannot be lowered. A product of a tensor and a computed vector is compiled
        wrongly. Maxima whose places are read are not prepared, and a division by whole numbers, as
        by a length, is not lowered. Interpolations that are bicubic, or linear over one or three
        dimensions, become up to 164 operators on the CPU. Operators that torch writes with others
        have no pattern either, such as mT, swapaxes, narrow, hsplit, outer, tensordot and relu6.
        A cosine similarity is always taken over dimension 1. For U55 and U65, flips, rows that a
        constant selects, and bilinear interpolations and nearest ones by other factors than 2, 4
        and 8 stay on the CPU, and Vela rejects convolutions over three dimensions; for
        U85 it computes those in groups or with strides wrongly. index_put with accumulate adds once
        to a place that is named twice. A loss of classes refuses their indices once they have 32 bits.
        Pools over three dimensions stay on the CPU. A mean or sum over more than 65,536 places of one
        dimension does so for U55 and U65, and is wrong for U85. Complex numbers, as of transforms, filters
        of spectra and rotary positions, stay on the CPU.
    Instead: They are written with means, pools over two dimensions, group norms, tables and slices;
        paddings by nothing are left out, those by less are slices; a vector becomes a matrix of one
        column or row; places are found apart on the CPU, and whole numbers become floats before
        they divide; an interpolation is a product with a matrix along each dimension; so many places
        are a rectangle, if need be with zeros; a complex number is its two parts, and a transform a
        product with its matrix, in float where 8 bits do not hold it; what is added to constant
        places is a product with ones and zeros, and to computed ones index_add on the CPU; a loss of
        classes gathers them, and gives none that is left out. What the
        CPU computes faster as one operator is written only where a rule quantizes it.
    Right because: Each is the same function of real numbers, and every part has a grid of its own.
    Network: torch.nn.AdaptiveAvgPool1d(1)(conv1d(x)); x @ x.mean((0, 1)); linear(x).mT;
        torch.nn.functional.cosine_similarity(x, y, dim=-1)
    Tools: executorch 1.5.1
    """
    costly = _COSTLY
    if quantizer is not None and "u55" in str(quantizer.tosa_spec).lower():
        costly = {**costly, **SELECTIONS, _ATEN.upsample_bilinear2d.vec: _scaled}
    composites = {n.target for n in module.graph.nodes if is_composite(n.target)} - {*_PLAIN, *costly}
    # Those that torch writes first: what they are written with may be in the table.
    done = _written(module, dict.fromkeys(composites, decomposed))
    if any(map(is_complex, module.graph.nodes)):
        done += _without_complex(module, quantizer)
    done += _written(module, _PLAIN)
    if quantizer is not None and any(node.target in costly for node in module.graph.nodes):
        done += _written(module, costly, quantized_nodes(module, quantizer))
    return finished(module, done)


def _written(
    module: fx.GraphModule, table: dict[Any, Any], among: Container[fx.Node] | None = None
) -> list[str]:
    """Write the operators of a table; return the names of the nodes that were replaced."""
    done = list[str]()
    for node in floating_calls(module, *table):
        if among is not None and node not in among:
            continue
        write = Writer(module, node)
        written = table[node.target](write, *node.args, **node.kwargs)
        if written is not None:
            write.replace(written)
            done.append(node.name)
    return done


def _without_complex(module: fx.GraphModule, quantizer: Any) -> list[str]:
    """Write what is computed with complex numbers; what 8 bits do not hold of it stays in float."""
    done = list[str]()
    for node in composite_calls(module):
        write = Writer(module, node)
        if (result := decomposed(write, *node.args, **node.kwargs)) is not None:
            write.replace(result)
            done.append(node.name)
    if quantizer is not None:
        wide = quantized_nodes(module, quantizer, torch.int16)
        narrow = {node for node in floating_calls(module, *WIDE) if node not in wide and reads_complex(node)}
        floats = {node for node in narrow if not is_for_cpu(node)}
        names = {(root_of(one) or one).name for node in floats for one in (node, *spectrum_of(node))}
        if floats:
            quantizer.quantizer.set_node_finder(None, MadeOf(tuple(names)))
        done += _written(module, WIDE, wide | floats)
    done += _written(module, COMPLEX)
    refuse_left(module)
    return done


def _mean(write: Writer, x: fx.Node, size: Any) -> fx.Node | None:
    is_whole = all(axis == 1 for axis in size)
    return write(_ATEN.mean.dim, x, [-axis - 1 for axis in range(len(size))], True) if is_whole else None


def _adaptive_image(write: Writer, x: fx.Node, size: Any) -> fx.Node | None:
    """Take the mean of a picture of more places than a pool counts as one; one picture as a batch."""
    if math.prod(x.meta["val"].shape[-2:]) > LONGEST and (mean := _mean(write, x, size)) is not None:
        return mean
    return _image(write, x, size)


def _adaptive_mean(write: Writer, x: fx.Node, size: Any) -> fx.Node | None:
    """Take means over parts as pools over two dimensions; parts may overlap by one."""
    extent = x.meta["val"].shape[-1]
    if size[0] == 1:
        return _mean(write, x, size)
    if extent % size[0] == 0:
        return _pool(write, x, [extent // size[0]])
    means = write(_ATEN.adaptive_avg_pool2d.default, _flat(write, x), [1, *size])
    return _sequence(write, x, means)


def _flat(write: Writer, x: fx.Node) -> fx.Node:
    """Return a sequence, of a batch or alone, as a batch of images of one row."""
    batch = x if x.meta["val"].dim() == 3 else write(_ATEN.unsqueeze.default, x, 0)
    return write(_ATEN.unsqueeze.default, batch, 2)


def _sequence(write: Writer, x: fx.Node, images: fx.Node) -> fx.Node:
    """Return images of one row as sequences of as many dimensions as ``x``."""
    batch = write(_ATEN.squeeze.dim, images, 2)
    return batch if x.meta["val"].dim() == 3 else write(_ATEN.squeeze.dim, batch, 0)


def _pool(
    write: Writer, x: fx.Node, size: Any, stride: Any = (), pad: Any = (0,), *rest: Any
) -> fx.Node | None:
    """Take a mean over the whole extent as one, and a pool over one dimension as one over two."""
    extent = list(x.meta["val"].shape[-len(size) :])
    is_plain = not any(pad) and rest[2:] in {(), (None,)}
    if list(size) == extent and is_plain:
        return _mean(write, x, [1] * len(size))
    if len(size) > 1:
        if is_plain and not any(rest[:1]):
            part = _read_part(write, x, size, stride or size)
            if part is not x:
                return write(write.target, part, size, stride or size)
        return _image(write, x, size, stride or size, pad if len(pad) > 1 else [0, 0], *rest)
    sizes = [1, *size], [1, *(stride or size)], [0, *pad]
    return _sequence(write, x, write(_ATEN.avg_pool2d.default, _flat(write, x), *sizes, *rest))


# ExecuTorch counts rows that no window of a mean reads as padding, which wider windows of U55 lack.
_WIDEST_PADDED, _LONGEST_STRIDE = 8, 3


def _read_part(write: Writer, x: fx.Node, size: Any, stride: Any) -> fx.Node:
    """Return the rows and columns that wide windows read, without those behind the last window."""
    steps = [*stride] * (len(size) // len(stride))
    if max(size) <= _WIDEST_PADDED or max(steps) > _LONGEST_STRIDE or x.meta["val"].dim() != 4:
        return x
    for dim, (side, step) in enumerate(zip(size, steps, strict=True), 2):
        extent = x.meta["val"].shape[dim]
        if unread := (extent - side) % step:
            x = write(_ATEN.slice.Tensor, x, dim, 0, extent - unread)
    return x


def _image(write: Writer, x: fx.Node, *settings: Any) -> fx.Node | None:
    """Write a pool of one image as that of a batch of one."""
    if x.meta["val"].dim() != 3:
        return None
    batch = write(_ATEN.unsqueeze.default, x, 0)
    return write(_ATEN.squeeze.dim, write(write.target, batch, *settings), 0)


def _max_pool(
    write: Writer, x: fx.Node, size: Any, stride: Any = (), pad: Any = (0,), apart: Any = (1,), *rest: Any
) -> fx.Node:
    sizes = [1, *size], [1, *(stride or size)], [0, *pad], [1, *apart]
    return _sequence(write, x, write(_ATEN.max_pool2d.default, _flat(write, x), *sizes, *rest))


def _with_stride(write: Writer, x: fx.Node, size: Any, stride: Any = (), *rest: Any) -> fx.Node | None:
    """Write a pool of the largest with its stride, which ExecuTorch 1.4 reads without asking."""
    if stride or not _NEEDS_STRIDE:
        return None
    return write(_ATEN.max_pool2d.default, x, size, size, *rest)


def _largest(write: Writer, x: fx.Node, size: Any) -> tuple[fx.Node, fx.Node] | None:
    """Take the largest of the whole extent as such, where nothing reads its index."""
    is_read = any(reader.args[1] != 0 and reader.users for reader in write.readers)
    if is_read or any(axis != 1 for axis in size):
        return None
    largest = write(_ATEN.amax.default, x, [-axis - 1 for axis in range(len(size))], True)
    return largest, largest


def _with_places(write: Writer, x: fx.Node, dim: int, keep: bool = False) -> Any:
    """Take the extremes and their places apart, where something reads the places."""
    if not any(reader.args[1] == 1 and reader.users for reader in write.readers):
        return None
    is_largest = write.target is _ATEN.max.dim
    value = _ATEN.amax.default if is_largest else _ATEN.amin.default
    place = _ATEN.argmax.default if is_largest else _ATEN.argmin.default
    return write(value, x, [dim], keep), write(place, x, dim, keep)


def _quotient(write: Writer, *sides: Any) -> fx.Node | None:
    """Divide by whole numbers, as the length of a sequence, as by the floats that they become."""
    if not any(_is_whole(side) for side in sides):
        return None
    floats = (write(_ATEN.to.dtype, s, torch.float32) if _is_whole(s) else s for s in sides)
    return write(_ATEN.div.Tensor, *floats)


def _is_whole(side: Any) -> bool:
    value = side.meta["val"] if isinstance(side, fx.Node) else None
    return isinstance(value, torch.Tensor) and not value.is_floating_point()


def _instances(write: Writer, x: fx.Node, weight: Any, bias: Any, *settings: Any) -> fx.Node | None:
    """Take the norm of each channel as a group norm, unless it has running statistics."""
    mean, _, present, _, eps, *_ = settings
    if mean is not None or not present:
        return None
    return write(_ATEN.group_norm.default, x, x.meta["val"].shape[1], weight, bias, eps)


def _softplus(write: Writer, x: fx.Node, beta: float = 1, limit: float = 20) -> fx.Node | None:
    """Write log(1 + exp(x)) as relu(x) + log1p(exp(-|x|)), whose parts have small ranges.

    Above its limit, softplus is the value itself, which differs visibly only where that is low.
    """
    if beta <= 0 or limit < _SAME_AS_RELU:
        return None
    if beta != 1:
        scaled = _softplus(write, write(_ATEN.mul.Tensor, x, beta), 1, limit)
        return write(_ATEN.mul.Tensor, scaled, 1 / beta)
    small = write(_ATEN.exp.default, write(_ATEN.neg.default, write(_ATEN.abs.default, x)))
    return write(_ATEN.add.Tensor, write(_ATEN.relu.default, x), write(_ATEN.log1p.default, small))


# log1p(exp(-15)) is 3e-7.
_SAME_AS_RELU = 15


def _log_of_sum(write: Writer, x: fx.Node, dims: Any, keep: bool = False) -> fx.Node:
    largest = write(_ATEN.amax.default, x, dims, True)
    small = write(_ATEN.exp.default, write(_ATEN.sub.Tensor, x, largest))
    total = write(_ATEN.log.default, write(_ATEN.sum.dim_IntList, small, dims, True))
    total_log = write(_ATEN.add.Tensor, total, largest)
    return total_log if keep else write(_ATEN.squeeze.dims, total_log, dims)


def _rolled(write: Writer, x: fx.Node, shifts: Any, dims: Any = ()) -> fx.Node | None:
    """Write a roll as the two parts in the other order."""
    if len(shifts) != len(dims):
        return None
    for shift, dim in zip(shifts, dims, strict=True):
        size = x.meta["val"].shape[dim]
        if at := -shift % size:
            parts = [write(_ATEN.slice.Tensor, x, dim, at, size), write(_ATEN.slice.Tensor, x, dim, 0, at)]
            x = write(_ATEN.cat.default, parts, dim)
    return x


def _same(
    write: Writer,
    x: fx.Node,
    weight: Any,
    bias: Any = None,
    stride: Any = (1,),
    padding: str = "valid",
    *rest: Any,
) -> fx.Node:
    """Write a padding by name with its numbers; behind an even kernel it has one row more."""
    sizes = weight.meta["val"].shape[2:]
    apart = (*(rest[0] if rest else (1,)),) * (len(sizes) if not rest or len(rest[0]) == 1 else 1)
    more = [step * (size - 1) * (padding == "same") for size, step in zip(sizes, apart, strict=True)]
    numbers = [extent // 2 for extent in more]
    if any(extent % 2 for extent in more):
        around = [end for extent in reversed(more) for end in (extent // 2, extent - extent // 2)]
        x, numbers = write(_ATEN.pad.default, x, around, "constant", 0.0), [0] * len(sizes)
    target = _ATEN.conv1d.default if len(sizes) == 1 else _ATEN.conv2d.default
    is_alone = x.meta["val"].dim() == len(sizes) + 1
    x = write(_ATEN.unsqueeze.default, x, 0) if is_alone else x
    result = write(target, x, weight, bias, stride, numbers, *rest)
    return write(_ATEN.squeeze.dim, result, 0) if is_alone else result


def _as_batch(write: Writer, x: fx.Node, weight: Any, *rest: Any) -> fx.Node | None:
    """Write a convolution of one image or sequence as that of a batch of one."""
    if x.meta["val"].dim() == weight.meta["val"].dim():
        return None
    batch = write(_ATEN.unsqueeze.default, x, 0)
    return write(_ATEN.squeeze.dim, write(write.target, batch, weight, *rest), 0)


def _leaky(write: Writer, x: fx.Node, low: Any = 1 / 8, high: Any = 1 / 3, *rest: Any) -> Any:
    return None if any(rest) else write(_ATEN.leaky_relu.default, x, (low + high) / 2)


def _deviation(write: Writer, x: fx.Node, dims: Any = None, *rest: Any, **named: Any) -> Any:
    """Write a standard deviation as the root of the variance."""
    unbiased = rest[0] if rest else True
    keep = rest[1] if rest[1:] else False
    correction = named.get("correction", 1)
    if correction not in {0, 1, None}:
        return None
    every = list(range(x.meta["val"].dim()))
    is_unbiased = bool(unbiased) and correction != 0
    keep = bool(keep or named.get("keepdim"))
    return write(_ATEN.sqrt.default, write(_ATEN.var.dim, x, dims or every, is_unbiased, keep))


def _whole_power(write: Writer, x: fx.Node, exponent: Any) -> Any:
    """Write a power with a whole exponent, such as 2.0, as one of products."""
    if isinstance(exponent, float) and exponent.is_integer():
        return write(_ATEN.pow.Tensor_Scalar, x, int(exponent))
    return None


def _root_mean_square(
    write: Writer, x: fx.Node, shape: Any, weight: Any = None, eps: float | None = None
) -> fx.Node:
    """Write RMSNorm with its mean and its root."""
    dims = [-1 - axis for axis in range(len(shape))]
    mean = write(_ATEN.mean.dim, write(_ATEN.pow.Tensor_Scalar, x, 2), dims, True)
    least = torch.finfo(x.meta["val"].dtype).eps if eps is None else eps
    root = write(_ATEN.rsqrt.default, write(_ATEN.add.Tensor, mean, least))
    scaled = write(_ATEN.mul.Tensor, x, root)
    return scaled if weight is None else write(_ATEN.mul.Tensor, scaled, weight)


def _between(write: Writer, a: fx.Node, b: fx.Node, weight: Any) -> fx.Node:
    apart = write(_ATEN.mul.Tensor, write(_ATEN.sub.Tensor, b, a), weight)
    return write(_ATEN.add.Tensor, a, apart)


def _product_added(write: Writer, x: fx.Node, a: fx.Node, b: fx.Node, *, value: Any = 1) -> Any:
    product = write(_ATEN.mul.Tensor, a, b)
    scaled = product if value == 1 else write(_ATEN.mul.Tensor, product, value)
    return write(_ATEN.add.Tensor, x, scaled)


def _softshrink(write: Writer, x: fx.Node, limit: float = 0.5) -> fx.Node:
    return write(_ATEN.sub.Tensor, x, write(_ATEN.clamp.default, x, -limit, limit))


def _quotient_added(write: Writer, x: fx.Node, a: fx.Node, b: fx.Node, *, value: Any = 1) -> Any:
    quotient = write(_ATEN.div.Tensor, a, b)
    scaled = quotient if value == 1 else write(_ATEN.mul.Tensor, quotient, value)
    return write(_ATEN.add.Tensor, x, scaled)


def _log_of_two(write: Writer, a: fx.Node, b: fx.Node) -> fx.Node:
    """Write log(exp(a) + exp(b)) as the larger and log1p(exp(-|a - b|)), of small range."""
    apart = write(_ATEN.abs.default, write(_ATEN.sub.Tensor, a, b))
    small = write(_ATEN.exp.default, write(_ATEN.neg.default, apart))
    largest = write(_ATEN.maximum.default, a, b)
    return write(_ATEN.add.Tensor, largest, write(_ATEN.log1p.default, small))


def _power_of_number(write: Writer, base: Any, x: fx.Node) -> fx.Node | None:
    if base <= 0:
        return None
    return write(_ATEN.exp.default, write(_ATEN.mul.Tensor, x, math.log(base)))


def _extremes(
    write: Writer, x: fx.Node, *, dim: int | None = None, keepdim: bool = False
) -> tuple[fx.Node, fx.Node]:
    dims = list(range(x.meta["val"].dim())) if dim is None else [dim]
    values = (_ATEN.amin.default, _ATEN.amax.default)
    smallest, largest = (write(value, x, dims, keepdim) for value in values)
    return smallest, largest


def _spread_and_mean(
    write: Writer, x: fx.Node, dims: Any = None, *, correction: Any = 1, keepdim: bool = False
) -> tuple[fx.Node, fx.Node] | None:
    """Write a variance or standard deviation with the mean as both apart."""
    if correction not in {0, 1, None}:
        return None
    every = dims or list(range(x.meta["val"].dim()))
    spread = write(_ATEN.var.dim, x, every, correction != 0, keepdim)
    if write.target is _ATEN.std_mean.correction:
        spread = write(_ATEN.sqrt.default, spread)
    return spread, write(_ATEN.mean.dim, x, every, keepdim)


def _without_nan(value: Any) -> Any:
    """Return what writes a sum or mean that leaves NaN out: integers have none."""

    def written(write: Writer, x: fx.Node, dims: Any = None, keep: bool = False, **_: Any) -> Any:
        return write(value, x, dims or list(range(x.meta["val"].dim())), keep)

    return written


def _repeated(write: Writer, x: fx.Node, size: Any, *factors: Any) -> fx.Node | None:
    """Repeat the steps of a sequence, where each is repeated the same number of times.

    With a factor such as 2.05 that need not be so although the sizes fit.
    """
    n, channels, steps = x.meta["val"].shape
    result = write.shape[-1]
    if result % steps:
        return None
    taken = write.target(torch.arange(float(steps)).view(1, 1, -1), size, *factors).flatten()
    if not taken.equal(torch.arange(float(steps)).repeat_interleave(result // steps)):
        return None
    columns = write(_ATEN.unsqueeze.default, x, 3)
    wide = write(_ATEN.expand.default, columns, [n, channels, steps, result // steps])
    return write(_ATEN.reshape.default, wide, [n, channels, result])


def _scaled(write: Writer, x: fx.Node, *settings: Any) -> fx.Node | None:
    """Write an interpolation as a product with a matrix along each dimension."""
    sizes = [*x.meta["val"].shape[2:]]
    weights = [_interpolation(write.target, sizes, axis, settings) for axis in range(len(sizes))]
    if sum(weight.numel() for weight in weights) > _MOST_WEIGHTS:
        return None
    for axis, weight in enumerate(weights, 2):
        x = product_along(write, x, axis, weight, f"interpolation_{axis}")
    return x


# Of the matrices of one interpolation, a byte each.
_MOST_WEIGHTS = 1 << 20


def _interpolation(target: Any, sizes: list[int], axis: int, settings: Any) -> torch.Tensor:
    """Return the matrix of an interpolation along a dimension, of (elements after, before)."""
    # The others only need an extent that no factor makes empty: their weights add up to one.
    extents = [size if at == axis else min(size, 8) for at, size in enumerate(sizes)]
    count = sizes[axis]
    shape = [count, 1, *(count if at == axis else 1 for at in range(len(sizes)))]
    unit = torch.eye(count).reshape(shape).expand(count, 1, *extents)
    values = target(unit.contiguous(), *settings).movedim(axis + 2, 1)
    return values.reshape(count, values.shape[1], -1)[:, :, 0].t()


def _shuffled(write: Writer, x: fx.Node, groups: int) -> fx.Node:
    """Write a shuffle of channels as an exchange of two dimensions."""
    n, channels, *rest = x.meta["val"].shape
    apart = write(_ATEN.reshape.default, x, [n, groups, channels // groups, *rest])
    turned = write(_ATEN.transpose.int, apart, 1, 2)
    return write(_ATEN.reshape.default, turned, [n, channels, *rest])


def _filled_rows(write: Writer, x: fx.Node, dim: int, index: fx.Node, value: Any) -> fx.Node:
    """Write a fill or copy of some rows as a write by index, whose index may have 32 bits."""
    if not isinstance(value, fx.Node):
        value = write.constant("filled", torch.tensor(float(value)))
    places = [None] * (dim % x.meta["val"].dim())
    return write(_ATEN.index_put.default, x, [*places, index], value)


def _pad(write: Writer, x: fx.Node, sizes: Any, *rest: Any, **named: Any) -> fx.Node | None:
    """Leave out a padding by nothing, and write one by less than nothing as the slice that it is.

    ``rest`` is (mode, value) of ``pad``, or the value alone.
    """
    mode, value = "constant", 0.0
    for setting in (*rest, *named.values()):
        if isinstance(setting, str):
            mode = setting
        elif setting is not None:
            value = setting
    if mode != "constant" or (any(sizes) and min(sizes) >= 0):
        return None
    for axis, (before, behind) in enumerate(zip(sizes[::2], sizes[1::2], strict=True)):
        dim = x.meta["val"].dim() - 1 - axis
        if min(before, behind) < 0:
            end = x.meta["val"].shape[dim] + min(0, behind)
            x = write(_ATEN.slice.Tensor, x, dim, max(0, -before), end)
    grown = [max(0, size) for size in sizes]
    return write(_ATEN.constant_pad_nd.default, x, grown, value) if any(grown) else x


_PLAIN: dict[Any, Any] = {
    **WINDOWS,
    **TAKEN,
    **ALGEBRA,
    _ATEN.pad.default: _pad,
    _ATEN.constant_pad_nd.default: _pad,
    _ATEN.clamp_min.default: lambda write, x, low: write(_ATEN.clamp.default, x, low),
    _ATEN.clamp_max.default: lambda write, x, high: write(_ATEN.clamp.default, x, None, high),
    _ATEN.expand_as.default: lambda write, x, like: write(_ATEN.expand.default, x, [*like.meta["val"].shape]),
    _ATEN.square.default: lambda write, x: write(_ATEN.pow.Tensor_Scalar, x, 2),
    _ATEN.pow.Tensor_Scalar: _whole_power,
    _ATEN.mean.dim: long_reduction,
    _ATEN.mean.default: long_reduction,
    _ATEN.sum.dim_IntList: long_reduction,
    _ATEN.sum.default: long_reduction,
    _ATEN.std.dim: _deviation,
    _ATEN.std.correction: _deviation,
    _ATEN.max.dim: _with_places,
    _ATEN.min.dim: _with_places,
    _ATEN.div.Tensor: _quotient,
    _ATEN.max.other: lambda write, a, b: write(_ATEN.maximum.default, a, b),
    _ATEN.min.other: lambda write, a, b: write(_ATEN.minimum.default, a, b),
    _ATEN.rms_norm.default: _root_mean_square,
    _ATEN.lerp.Scalar: _between,
    _ATEN.lerp.Tensor: _between,
    _ATEN.addcmul.default: _product_added,
    _ATEN.softshrink.default: _softshrink,
    _ATEN.addcdiv.default: _quotient_added,
    _ATEN.logaddexp.default: _log_of_two,
    _ATEN.pow.Scalar: _power_of_number,
    _ATEN.aminmax.default: _extremes,
    _ATEN.var_mean.correction: _spread_and_mean,
    _ATEN.std_mean.correction: _spread_and_mean,
    _ATEN.nansum.default: _without_nan(_ATEN.sum.dim_IntList),
    _ATEN.nanmean.default: _without_nan(_ATEN.mean.dim),
    _ATEN.fmax.default: lambda write, a, b: write(_ATEN.maximum.default, a, b),
    _ATEN.fmin.default: lambda write, a, b: write(_ATEN.minimum.default, a, b),
    _ATEN.erfc.default: lambda write, x: write(_ATEN.rsub.Scalar, write(_ATEN.erf.default, x), 1),
    _ATEN.upsample_nearest1d.default: _repeated,
    _ATEN.upsample_nearest1d.vec: _repeated,
    _ATEN.channel_shuffle.default: _shuffled,
    _ATEN.log2.default: lambda write, x: write(
        _ATEN.mul.Tensor, write(_ATEN.log.default, x), 1 / math.log(2)
    ),
    _ATEN.exp2.default: lambda write, x: write(_ATEN.exp.default, write(_ATEN.mul.Tensor, x, math.log(2))),
    _ATEN.conv1d.default: _as_batch,
    _ATEN.conv2d.default: _as_batch,
    _ATEN.conv1d.padding: _same,
    _ATEN.conv2d.padding: _same,
    _ATEN.adaptive_avg_pool1d.default: _adaptive_mean,
    _ATEN.avg_pool1d.default: _pool,
    _ATEN.avg_pool2d.default: _pool,
    _ATEN.adaptive_avg_pool2d.default: _adaptive_image,
    _ATEN.max_pool1d.default: _max_pool,
    _ATEN.max_pool2d.default: _with_stride,
    _ATEN.adaptive_max_pool1d.default: _largest,
    _ATEN.adaptive_max_pool2d.default: _largest,
    _ATEN.instance_norm.default: _instances,
    _ATEN.softplus.default: _softplus,
    _ATEN.mish.default: lambda write, x: write(
        _ATEN.mul.Tensor, x, write(_ATEN.tanh.default, _softplus(write, x))
    ),
    _ATEN.log_sigmoid.default: lambda write, x: write(
        _ATEN.neg.default, _softplus(write, write(_ATEN.neg.default, x))
    ),
    _ATEN.logsumexp.default: _log_of_sum,
    _ATEN.roll.default: _rolled,
    _ATEN.rrelu.default: _leaky,
    _ATEN.index_fill.int_Scalar: _filled_rows,
    _ATEN.index_fill.int_Tensor: _filled_rows,
    _ATEN.index_copy.default: _filled_rows,
}
# What takes the CPU longer than the operator itself: written only where it is quantized.
_COSTLY: dict[Any, Any] = {
    **VOLUMES,
    _ATEN.upsample_bicubic2d.vec: _scaled,
    _ATEN.upsample_linear1d.vec: _scaled,
    _ATEN.upsample_trilinear3d.vec: _scaled,
    _ATEN.cdist.default: distances,
}
