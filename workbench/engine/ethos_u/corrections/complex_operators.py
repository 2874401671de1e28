"""Complex numbers as pairs of real ones: what reads a complex value is written with its two parts.

ExecuTorch has no complex numbers for the NPU. A value that is made of transforms, products, sums and
movements is followed back to real values; its parts are products with the matrices of the Fourier
transform, and sums of products.
"""

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import fx

from .complex_values import NotWrittenError, is_complex, is_for_cpu, left_complex, reads_complex, spectrum_of
from .composite_operators import is_decomposable
from .fourier_transforms import (
    Either,
    Parts,
    half_transform,
    inverse_short_time,
    real_transform,
    short_time,
    whole_transform,
)
from .graph_writer import Writer

_ATEN = torch.ops.aten
_WRITTEN = "real_parts"
_GET_ITEM = operator.getitem
_Number = int | float | complex


def _parts(write: Writer, node: fx.Node) -> Parts | None:
    """Return the parts of a complex value; None where it is made in another way.

    They are written once, where the value is computed.
    """
    known: Parts | None = node.meta.get(_WRITTEN)
    if known is None:
        known = _made(write.at(node), node)
        if known is not None:
            node.meta[_WRITTEN] = known
    return known


def _made(write: Writer, node: fx.Node) -> Parts | None:
    if (value := write.held(node)) is not None:
        return _constants(write, torch.view_as_real(value.detach().resolve_conj()))
    if node.op != "call_function":
        return None
    if node.target is _GET_ITEM:
        return _part_of_several(write, *node.args)
    if node.target in _MOVES:
        return _moved(write, node)
    maker: Callable[..., Parts | None] | None = _MAKERS.get(node.target)
    return None if maker is None else maker(write, *node.args, **node.kwargs)


def _constants(write: Writer, pairs: torch.Tensor) -> Parts:
    real, imaginary = (write.parameter("complex_part", part.clone()) for part in pairs.float().unbind(-1))
    return real, imaginary


def _filled(write: Writer, sizes: Any, number: Any, **_: Any) -> Parts:
    fills = (complex(number).real, complex(number).imag)
    real, imaginary = (write(_ATEN.full.default, [*sizes], fill, dtype=torch.float32) for fill in fills)
    return real, imaginary


def _filled_like(write: Writer, x: fx.Node, number: Any = 0.0, **_: Any) -> Parts:
    return _filled(write, x.meta["val"].shape, number)


def _new_zeros(write: Writer, _: fx.Node, sizes: Any, **_options: Any) -> Parts:
    return _filled(write, sizes, 0.0)


def _moved(write: Writer, node: fx.Node) -> Any:
    """Move the parts of a value as the value itself; places and masks are the same for both."""
    if {"dtype", "value"} & {*node.kwargs}:
        return None
    halves: list[dict[fx.Node, fx.Node]] = [{}, {}]
    for source in node.all_input_nodes:
        is_float = source.meta["val"].is_complex() or source.meta["val"].is_floating_point()
        parts = _complete(write, source) if is_float else (source, source)
        if parts is None:
            return None
        for half, part in zip(halves, parts, strict=True):
            half[source] = part
    moved = []
    for index, half in enumerate(halves):
        args, kwargs = fx.map_arg((node.args, node.kwargs), half.__getitem__)
        if node.target in _FILLING and isinstance(args[-1], _Number):
            args = (*args[:-1], (complex(args[-1]).real, complex(args[-1]).imag)[index])
        moved.append(write(node.target, *args, **kwargs))
    return moved[0], moved[1]


def _part_of_several(write: Writer, source: Any, index: Any) -> Parts | None:
    """Return the parts of one of the values that a split of a complex one gives."""
    if source.target not in _SPLITS:
        return None
    whole = source.meta.get(_WRITTEN)
    if whole is None:
        at = write.at(source)
        parts = _parts(at, source.args[0])
        if parts is None:
            return None
        whole = source.meta[_WRITTEN] = [
            at(source.target, part, *source.args[1:], **source.kwargs) for part in parts
        ]
    real, imaginary = (write(_GET_ITEM, one, index) for one in whole)
    return real, imaginary


def _either(write: Writer, value: Any) -> Either | None:
    """Return the parts of a value, of which a real one has one; None for what is no tensor."""
    if not isinstance(value, fx.Node):
        return None
    return _parts(write, value) if value.meta["val"].is_complex() else (value, None)


def _complete(write: Writer, value: fx.Node) -> Parts | None:
    """Return the parts of a complex or real value; the second of a real one is zero."""
    parts = _either(write, value)
    if parts is None or parts[1] is not None:
        return parts  # type: ignore[return-value]
    return parts[0], write(_ATEN.zeros_like.default, parts[0])


def _bilinear(write: Writer, product: Callable[[fx.Node, fx.Node], fx.Node], a: Any, b: Any) -> Parts | None:
    """Write a product of two values of which one at least is complex."""
    one, two = _either(write, a), _either(write, b)
    if one is None or two is None:
        return None
    (r1, i1), (r2, i2) = one, two
    if i2 is None:
        return None if i1 is None else (product(r1, r2), product(i1, r2))
    if i1 is None:
        return product(r1, r2), product(r1, i2)
    return (
        write(_ATEN.sub.Tensor, product(r1, r2), product(i1, i2)),
        write(_ATEN.add.Tensor, product(r1, i2), product(i1, r2)),
    )


def _product_added(write: Writer, x: Any, a: Any, b: Any, *, value: Any = 1) -> Parts | None:
    product, summand = _product(write, a, b), _complete(write, x)
    if product is None or summand is None or value != 1:
        return None
    real, imaginary = (write(_ATEN.add.Tensor, *both) for both in zip(summand, product, strict=True))
    return real, imaginary


def _product(write: Writer, a: Any, b: Any) -> Parts | None:
    if isinstance(b, _Number):
        return _scaled(write, a, complex(b))
    return _bilinear(write, lambda x, y: write(_ATEN.mul.Tensor, x, y), a, b)


def _scaled(write: Writer, x: fx.Node, factor: complex) -> Parts | None:
    """Write a product of a complex or real value with a number."""
    parts = _either(write, x)
    if parts is None:
        return None
    real, imaginary = parts
    if imaginary is None:
        return _times(write, real, factor.real), _times(write, real, factor.imag)
    if not factor.imag:
        return _times(write, real, factor.real), _times(write, imaginary, factor.real)
    across = _times(write, imaginary, -factor.imag), _times(write, real, factor.imag)
    if not factor.real:
        return across
    along = _times(write, real, factor.real), _times(write, imaginary, factor.real)
    sums = [write(_ATEN.add.Tensor, *both) for both in zip(along, across, strict=True)]
    return sums[0], sums[1]


def _times(write: Writer, x: fx.Node, factor: float) -> fx.Node:
    if factor == 1:
        return x
    return write(_ATEN.mul.Tensor, x, factor) if factor else write(_ATEN.zeros_like.default, x)


def _matrix_product(target: Any) -> Any:
    def written(write: Writer, a: Any, b: Any) -> Parts | None:
        return _bilinear(write, lambda x, y: write(target, x, y), a, b)

    return written


def _sum_of_products(write: Writer, equation: str, operands: Any, **_: Any) -> Parts | None:
    if len(operands) != 2:
        return None
    return _bilinear(write, lambda x, y: write(_ATEN.einsum.default, equation, [x, y]), *operands)


def _layer(target: Any) -> Any:
    """Return what writes a linear or convolution with complex weights."""

    def written(write: Writer, x: Any, weight: Any, bias: Any = None, *rest: Any) -> Parts | None:
        product = _bilinear(write, lambda a, b: write(target, a, b, None, *rest), x, weight)
        if product is None or bias is None:
            return product
        summands = _complete(write, bias)
        if summands is None:
            return None
        shape = [-1, *[1] * (weight.meta["val"].dim() - 2)]
        rows = [write(_ATEN.reshape.default, one, shape) for one in summands]
        real, imaginary = (write(_ATEN.add.Tensor, *both) for both in zip(product, rows, strict=True))
        return real, imaginary

    return written


def _sum(write: Writer, a: Any, b: Any, *, alpha: Any = 1, sign: int = 1) -> Parts | None:
    """Write a sum or difference of values and numbers, of which one at least is complex."""
    factor = complex(alpha) * sign
    if isinstance(b, _Number):
        parts = _parts(write, a)
        if parts is None:
            return None
        number = complex(b) * factor
        return _plus(write, parts[0], number.real), _plus(write, parts[1], number.imag)
    other = _either(write, b)
    if factor not in {1, -1}:
        other, factor = _scaled(write, b, factor), 1 + 0j
    one = _either(write, a)
    if one is None or other is None:
        return None
    target = _ATEN.add.Tensor if factor == 1 else _ATEN.sub.Tensor
    real = write(target, one[0], other[0])
    if other[1] is None:
        return real, _spread(write, one[1])
    if one[1] is None:
        return real, _spread(write, other[1] if factor == 1 else write(_ATEN.neg.default, other[1]))
    return real, write(target, one[1], other[1])


def _plus(write: Writer, x: fx.Node, number: float) -> fx.Node:
    return write(_ATEN.add.Tensor, x, number) if number else x


def _spread(write: Writer, part: Any) -> fx.Node:
    """Repeat a part over the dimensions that the result has besides."""
    is_same = list(part.meta["val"].shape) == write.shape
    result: fx.Node = part if is_same else write(_ATEN.expand.default, part, write.shape)
    return result


def _taken_from(write: Writer, x: Any, number: Any, alpha: Any = 1) -> Parts | None:
    """Write a number less a value."""
    parts = _scaled(write, x, -complex(alpha))
    if parts is None:
        return None
    return _plus(write, parts[0], complex(number).real), _plus(write, parts[1], complex(number).imag)


def _quotient(write: Writer, a: Any, b: Any, **rounding: Any) -> Parts | None:
    if rounding:
        return None
    if isinstance(b, _Number):
        return _scaled(write, a, 1 / complex(b))
    if not b.meta["val"].is_complex():
        parts = _parts(write, a)
        return None if parts is None else tuple(write(_ATEN.div.Tensor, part, b) for part in parts)  # type: ignore[return-value]
    inverse = _inverse(write, b)
    return None if inverse is None else _with_parts(write, a, inverse)


def _with_parts(write: Writer, a: Any, other: Parts) -> Parts | None:
    """Write a product with a value whose parts are known."""
    one = _either(write, a)
    if one is None:
        return None
    real, imaginary = one
    products = [write(_ATEN.mul.Tensor, real, part) for part in other]
    if imaginary is None:
        return products[0], products[1]
    return (
        write(_ATEN.sub.Tensor, products[0], write(_ATEN.mul.Tensor, imaginary, other[1])),
        write(_ATEN.add.Tensor, products[1], write(_ATEN.mul.Tensor, imaginary, other[0])),
    )


def _inverse(write: Writer, x: fx.Node) -> Parts | None:
    """Write 1 / x as the conjugate by the square of the magnitude."""
    if (value := write.held(x)) is not None:
        return _constants(write, torch.view_as_real(value.reciprocal().resolve_conj()))
    parts = _parts(write, x)
    if parts is None:
        return None
    square = _square_of_magnitude(write, parts)
    real = write(_ATEN.div.Tensor, parts[0], square)
    return real, write(_ATEN.neg.default, write(_ATEN.div.Tensor, parts[1], square))


def _power(write: Writer, x: fx.Node, exponent: Any) -> Parts | None:
    """Write a small whole power as products."""
    if exponent not in {1, 2, 3, 4}:
        return None
    parts = power = _parts(write, x)
    for _ in range(int(exponent) - 1):
        power = None if power is None else _of_products(write, power, parts)  # type: ignore[arg-type]
    return power


def _of_products(write: Writer, a: Parts, b: Parts) -> Parts:
    products = [[write(_ATEN.mul.Tensor, one, other) for other in b] for one in a]
    return (
        write(_ATEN.sub.Tensor, products[0][0], products[1][1]),
        write(_ATEN.add.Tensor, products[0][1], products[1][0]),
    )


def _exponential(write: Writer, x: fx.Node) -> Parts | None:
    parts = _parts(write, x)
    if parts is None:
        return None
    turned = _on_circle(write, parts[1])
    if parts[0].target is _ATEN.zeros_like.default:
        return turned
    factor = write(_ATEN.exp.default, parts[0])
    return write(_ATEN.mul.Tensor, factor, turned[0]), write(_ATEN.mul.Tensor, factor, turned[1])


def _on_circle(write: Writer, angle: fx.Node) -> Parts:
    return write(_ATEN.cos.default, angle), write(_ATEN.sin.default, angle)


def _polar(write: Writer, magnitude: fx.Node, angle: fx.Node) -> Parts:
    real, imaginary = (write(_ATEN.mul.Tensor, magnitude, part) for part in _on_circle(write, angle))
    return real, imaginary


def _chosen(write: Writer, condition: fx.Node, a: Any, b: Any) -> Parts | None:
    """Choose between two values or numbers; by a constant condition with ones and zeros."""
    pairs = [
        [complex(value).real, complex(value).imag] if isinstance(value, _Number) else _complete(write, value)
        for value in (a, b)
    ]
    if None in pairs:
        return None
    real, imaginary = (_choice(write, condition, x, y) for x, y in zip(*pairs, strict=True))  # type: ignore[arg-type]
    return real, imaginary


def _choice(write: Writer, condition: fx.Node, a: Any, b: Any) -> fx.Node:
    mask = write.held(condition)
    if mask is None:
        return write(_ATEN.where.self, condition, *(_as_tensor(write, value) for value in (a, b)))
    sides = ((a, mask.float()), (b, (~mask).float()))
    summands = [_masked_value(write, value, ones) for value, ones in sides if _counts(value)]
    if not summands:
        return write(_ATEN.full.default, write.shape, 0.0, dtype=torch.float32)
    return _spread(write, summands[0] if len(summands) == 1 else write(_ATEN.add.Tensor, *summands))


def _counts(value: Any) -> bool:
    """Return whether a value is not known to be zero."""
    if isinstance(value, fx.Node):
        is_zero = value.target is _ATEN.full.default and value.args[1] == 0
        return not is_zero and value.target is not _ATEN.zeros_like.default
    return bool(value)


def _masked_value(write: Writer, value: Any, ones: torch.Tensor) -> fx.Node:
    """Write a value or number where a mask is one, and zero elsewhere."""
    if isinstance(value, fx.Node):
        return write(_ATEN.mul.Tensor, value, write.constant("chosen", ones))
    return write.constant("chosen", (ones * value).expand(write.shape).clone())


def _as_tensor(write: Writer, value: Any) -> fx.Node:
    return value if isinstance(value, fx.Node) else write.constant("number", torch.tensor(float(value)))


def _masked(write: Writer, x: fx.Node, mask: fx.Node, number: Any) -> Parts | None:
    return _chosen(write, mask, number, x)


def _conjugate(write: Writer, x: fx.Node) -> Parts | None:
    parts = _parts(write, x)
    return None if parts is None else (parts[0], write(_ATEN.neg.default, parts[1]))


def _same(write: Writer, x: fx.Node, *_: Any, **_named: Any) -> Parts | None:
    return _complete(write, x)


def _of_pairs(write: Writer, x: fx.Node) -> Parts:
    if (value := write.held(x)) is not None:
        return _constants(write, value.detach())
    return write(_ATEN.select.int, x, -1, 0), write(_ATEN.select.int, x, -1, 1)


def _of_two(_write: Writer, real: fx.Node, imaginary: fx.Node) -> Parts:
    return real, imaginary


def _transform(write: Writer, x: fx.Node, dims: Any, norm: int, forward: bool) -> Any:
    value = _parts(write, x)
    return None if value is None else whole_transform(write, value, dims, norm, inverse=not forward)


def _transform_of_reals(write: Writer, x: fx.Node, dims: Any, norm: int, onesided: bool) -> Any:
    if onesided:
        return half_transform(write, x, dims, norm)
    return whole_transform(write, (x, None), dims, norm)


def _to_reals(write: Writer, x: fx.Node, dims: Any, norm: int, length: int) -> fx.Node | None:
    value = _parts(write, x)
    return None if value is None else real_transform(write, value, dims, norm, length)


def _to_signal(write: Writer, x: fx.Node, *settings: Any, **named: Any) -> fx.Node | None:
    value = _parts(write, x)
    return None if value is None else inverse_short_time(write, value, *settings, **named)


def _square_of_magnitude(write: Writer, parts: Parts) -> fx.Node:
    return write(_ATEN.add.Tensor, *(write(_ATEN.mul.Tensor, part, part) for part in parts))


def _magnitude(write: Writer, x: fx.Node) -> fx.Node | None:
    parts = _parts(write, x) if x.meta["val"].is_complex() else None
    return None if parts is None else write(_ATEN.sqrt.default, _square_of_magnitude(write, parts))


def _angle(write: Writer, x: fx.Node) -> fx.Node | None:
    parts = _parts(write, x) if x.meta["val"].is_complex() else None
    return None if parts is None else write(_ATEN.atan2.default, parts[1], parts[0])


def _as_pairs(write: Writer, x: fx.Node) -> fx.Node | None:
    parts = _parts(write, x)
    if parts is None:
        return None
    return write(_ATEN.cat.default, [write(_ATEN.unsqueeze.default, p, -1) for p in parts], -1)


def _one_part(index: int) -> Any:
    def written(write: Writer, x: fx.Node) -> fx.Node | None:
        parts = _parts(write, x) if x.meta["val"].is_complex() else None
        return None if parts is None else parts[index]

    return written


def refuse_left(module: fx.GraphModule) -> None:
    """Raise for the first operator that computes with complex numbers and is not for the CPU.

    Raises:
        NotWrittenError: the operator, as its argument.
    """
    module.graph.eliminate_dead_code()
    readers = [node for node in module.graph.nodes if reads_complex(node) and is_for_cpu(node)]
    on_cpu = {node for reader in readers for node in (reader, *spectrum_of(reader))}
    for node in left_complex(module):
        if node in on_cpu or node.target in _SPLITS:
            continue
        if not is_complex(node) or _parts(Writer(module, node), node) is None:
            raise NotWrittenError(node)


def composite_calls(module: fx.GraphModule) -> list[fx.Node]:
    """Return the calls on complex numbers that torch writes with others, as shifts and transforms."""
    written_here = {*_MAKERS, *_MOVES, *COMPLEX, *WIDE, *_SPLITS}
    return [
        node
        for node in left_complex(module)
        if node.target not in written_here and is_decomposable(node.target) and node.target is not _GET_ITEM
    ]


_FILLING = (
    *(_ATEN.constant_pad_nd.default, _ATEN.pad.default),
    *(_ATEN.index_fill.int_Scalar, _ATEN.scatter.value),
)
_SPLITS = (_ATEN.split.Tensor, _ATEN.split_with_sizes.default, _ATEN.unbind.int, _ATEN.chunk.default)
_MOVES = frozenset(
    (
        *(_ATEN.slice.Tensor, _ATEN.select.int, _ATEN.reshape.default, _ATEN.view.default),
        *(_ATEN.unsqueeze.default, _ATEN.squeeze.dim, _ATEN.squeeze.default, _ATEN.squeeze.dims),
        *(_ATEN.permute.default, _ATEN.transpose.int, _ATEN.t.default, _ATEN.clone.default),
        *(_ATEN.expand.default, _ATEN.cat.default, _ATEN.stack.default, _ATEN.contiguous.default),
        *(_ATEN.flatten.using_ints, _ATEN.neg.default, _ATEN.repeat.default, _ATEN.lerp.Scalar),
        *(_ATEN.sum.dim_IntList, _ATEN.sum.default, _ATEN.mean.dim, _ATEN.mean.default),
        *(_ATEN.cumsum.default, _ATEN.roll.default, _ATEN.flip.default),
        *(_ATEN.triu.default, _ATEN.tril.default),
        *(_ATEN.index.Tensor, _ATEN.index_select.default, _ATEN.gather.default, _ATEN.index_put.default),
        *(_ATEN.scatter.src, _ATEN.index_copy.default, _ATEN.index_add.default, _ATEN.slice_scatter.default),
        *_FILLING,
    )
)
_MAKERS: dict[Any, Any] = {
    _ATEN.stft.default: short_time,
    _ATEN._fft_r2c.default: _transform_of_reals,  # noqa: SLF001
    _ATEN._fft_c2c.default: _transform,  # noqa: SLF001
    _ATEN.mul.Tensor: _product,
    _ATEN.addcmul.default: _product_added,
    _ATEN.div.Tensor: _quotient,
    _ATEN.reciprocal.default: _inverse,
    _ATEN.pow.Tensor_Scalar: _power,
    _ATEN.exp.default: _exponential,
    _ATEN.polar.default: _polar,
    _ATEN.matmul.default: _matrix_product(_ATEN.matmul.default),
    _ATEN.bmm.default: _matrix_product(_ATEN.bmm.default),
    _ATEN.mm.default: _matrix_product(_ATEN.mm.default),
    _ATEN.einsum.default: _sum_of_products,
    _ATEN.linear.default: _layer(_ATEN.linear.default),
    _ATEN.conv1d.default: _layer(_ATEN.conv1d.default),
    _ATEN.conv2d.default: _layer(_ATEN.conv2d.default),
    _ATEN.add.Tensor: _sum,
    _ATEN.sub.Tensor: partial(_sum, sign=-1),
    _ATEN.rsub.Scalar: _taken_from,
    _ATEN.full.default: _filled,
    _ATEN.full_like.default: _filled_like,
    _ATEN.zeros.default: partial(_filled, number=0.0),
    _ATEN.ones.default: partial(_filled, number=1.0),
    _ATEN.zeros_like.default: _filled_like,
    _ATEN.ones_like.default: partial(_filled_like, number=1.0),
    _ATEN.new_zeros.default: _new_zeros,
    _ATEN.where.self: _chosen,
    _ATEN.where.ScalarSelf: _chosen,
    _ATEN.where.ScalarOther: _chosen,
    _ATEN.masked_fill.Scalar: _masked,
    **dict.fromkeys(
        (
            *(_ATEN._conj.default, _ATEN.conj.default),  # noqa: SLF001
            *(_ATEN._conj_physical.default, _ATEN.conj_physical.default),  # noqa: SLF001
        ),
        _conjugate,
    ),
    **dict.fromkeys(
        (
            *(_ATEN.resolve_conj.default, _ATEN.lift_fresh_copy.default, _ATEN.alias.default),
            *(_ATEN.to.dtype, _ATEN._to_copy.default, _ATEN.detach.default),  # noqa: SLF001
        ),
        _same,
    ),
    _ATEN.view_as_complex.default: _of_pairs,
    _ATEN.complex.default: _of_two,
}
COMPLEX: dict[Any, Any] = {
    _ATEN.view_as_real.default: _as_pairs,
    _ATEN.real.default: _one_part(0),
    _ATEN.imag.default: _one_part(1),
    _ATEN.angle.default: _angle,
}
# 8 bits do not hold the squares of a spectrum, nor its zero frequency beside the others.
WIDE: dict[Any, Any] = {
    _ATEN.abs.default: _magnitude,
    _ATEN._fft_c2r.default: _to_reals,  # noqa: SLF001
    _ATEN.istft.default: _to_signal,
}
