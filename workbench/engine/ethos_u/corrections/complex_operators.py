"""Complex numbers as pairs of real ones: what reads a complex value is written with its two parts.

ExecuTorch has no complex numbers for the NPU. A value that is made of transforms, products, sums and
movements is followed back to real values; its parts are products with the matrices of the Fourier
transform, and sums of products.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import fx

from .graph_writer import Writer
from .window_operators import frames

_ATEN = torch.ops.aten
# The real and the imaginary part; the second of a real value is None.
Parts = tuple[fx.Node, fx.Node]
_Either = tuple[fx.Node, fx.Node | None]
_KEPT = "real_parts"


def _parts(write: Writer, node: fx.Node) -> Parts | None:
    """Return the parts of a complex value; None where it is made in another way.

    Those of a value that several operators read are written once.
    """
    known: Parts | None = node.meta.get(_KEPT)
    if known is None:
        known = _made(write, node)
        if known is not None:
            node.meta[_KEPT] = known
    return known


def _made(write: Writer, node: fx.Node) -> Parts | None:
    if (value := write.held(node)) is not None:
        return _constants(write, torch.view_as_real(value.detach().resolve_conj()))
    if node.op != "call_function":
        return None
    if node.target in _MOVES:
        return _moved(write, node)
    maker: Callable[..., Parts | None] | None = _MAKERS.get(node.target)
    return None if maker is None else maker(write, *node.args, **node.kwargs)


def _constants(write: Writer, pairs: torch.Tensor) -> Parts:
    real, imaginary = (write.parameter("complex_part", part.clone()) for part in pairs.unbind(-1))
    return real, imaginary


def _filled(write: Writer, sizes: Any, number: Any, **_: Any) -> Parts:
    fills = (complex(number).real, complex(number).imag)
    real, imaginary = (write(_ATEN.full.default, [*sizes], fill, dtype=torch.float32) for fill in fills)
    return real, imaginary


def _filled_like(write: Writer, x: fx.Node, number: Any = 0.0, **_: Any) -> Parts:
    return _filled(write, x.meta["val"].shape, number)


def _new_zeros(write: Writer, _: fx.Node, sizes: Any, **_options: Any) -> Parts:
    return _filled(write, sizes, 0.0)


def _moved(write: Writer, node: fx.Node) -> Parts | None:
    """Move the parts of a value as the value itself."""
    sources = node.all_input_nodes
    fills = node.target in _PADDINGS and any(isinstance(value, float) and value for value in node.args)
    if fills or "dtype" in node.kwargs:
        return None
    inner = [parts for source in sources if (parts := _parts(write, source)) is not None]
    if len(inner) < len(sources):
        return None
    halves = []
    for half in zip(*inner, strict=True):
        args, kwargs = fx.map_arg((node.args, node.kwargs), dict(zip(sources, half, strict=True)).__getitem__)
        halves.append(write(node.target, *args, **kwargs))
    return halves[0], halves[1]


def _either(write: Writer, value: Any) -> _Either | None:
    if not isinstance(value, fx.Node):
        return None
    return _parts(write, value) if value.meta["val"].is_complex() else (value, None)


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


def _product(write: Writer, a: Any, b: Any) -> Parts | None:
    if isinstance(b, int | float | complex):
        return _scaled(write, a, complex(b))
    return _bilinear(write, lambda x, y: write(_ATEN.mul.Tensor, x, y), a, b)


def _scaled(write: Writer, x: fx.Node, factor: complex) -> Parts | None:
    parts = _parts(write, x)
    if parts is None:
        return None
    ways = [[write(_ATEN.mul.Tensor, part, way) for part in parts] for way in (factor.real, factor.imag)]
    if not factor.imag:
        return ways[0][0], ways[0][1]
    real = write(_ATEN.sub.Tensor, ways[0][0], ways[1][1])
    return real, write(_ATEN.add.Tensor, ways[0][1], ways[1][0])


def _matrix_product(write: Writer, a: Any, b: Any) -> Parts | None:
    return _bilinear(write, lambda x, y: write(_ATEN.matmul.default, x, y), a, b)


def _sum_of_products(write: Writer, equation: str, operands: Any, **_: Any) -> Parts | None:
    if len(operands) != 2:
        return None
    return _bilinear(write, lambda x, y: write(_ATEN.einsum.default, equation, [x, y]), *operands)


def _sum(write: Writer, a: Any, b: Any, target: Any = _ATEN.add.Tensor) -> Parts | None:
    one, two = _either(write, a), _either(write, b)
    if one is None or two is None or one[1] is None or two[1] is None:
        return None
    return write(target, one[0], two[0]), write(target, one[1], two[1])


def _difference(write: Writer, a: Any, b: Any) -> Parts | None:
    return _sum(write, a, b, _ATEN.sub.Tensor)


def _chosen(write: Writer, condition: fx.Node, a: fx.Node, b: fx.Node) -> Parts | None:
    one, two = _complete(write, a), _complete(write, b)
    if one is None or two is None:
        return None
    real, imaginary = (write(_ATEN.where.self, condition, x, y) for x, y in zip(one, two, strict=True))
    return real, imaginary


def _complete(write: Writer, value: fx.Node) -> Parts | None:
    """Return the parts of a complex or real value; the second of a real one is zero."""
    parts = _either(write, value)
    if parts is None or parts[1] is not None:
        return parts  # type: ignore[return-value]
    return parts[0], write(_ATEN.zeros_like.default, parts[0])


def _masked(write: Writer, x: fx.Node, mask: fx.Node, number: Any) -> Parts | None:
    parts = _parts(write, x)
    if parts is None:
        return None
    fills = (complex(number).real, complex(number).imag)
    real, imaginary = (
        write(_ATEN.masked_fill.Scalar, part, mask, fill) for part, fill in zip(parts, fills, strict=True)
    )
    return real, imaginary


def _conjugate(write: Writer, x: fx.Node) -> Parts | None:
    parts = _parts(write, x)
    return None if parts is None else (parts[0], write(_ATEN.neg.default, parts[1]))


def _of_pairs(write: Writer, x: fx.Node) -> Parts:
    if (value := write.held(x)) is not None:
        return _constants(write, value.detach())
    return write(_ATEN.select.int, x, -1, 0), write(_ATEN.select.int, x, -1, 1)


def _of_two(_write: Writer, real: fx.Node, imaginary: fx.Node) -> Parts:
    return real, imaginary


def _short_time(write: Writer, x: fx.Node, size: int, *rest: Any, **named: Any) -> Parts | None:
    """Return the parts of a spectrogram of shape (..., frequencies, frames)."""
    names = ("hop_length", "win_length", "window", "normalized", "onesided")
    options = dict(zip(names, rest, strict=False)) | named
    window, hop, width = (options.get(name) for name in ("window", "hop_length", "win_length"))
    held = _window_values(write, width or size, window)
    if held is None or options.get("onesided") is False:
        return None
    before = (size - held.numel()) // 2
    held = torch.nn.functional.pad(held.float(), (before, size - held.numel() - before))
    norm = "ortho" if options.get("normalized") else None
    waves = [wave[: size // 2 + 1] * held for wave in _waves(size, norm)]
    windows = frames(write, x, -1, size, hop or size // 4)
    real, imaginary = (write(_ATEN.transpose.int, _along(write, windows, -1, wave), -1, -2) for wave in waves)
    return real, imaginary


def _window_values(write: Writer, size: int, window: Any) -> Any:
    """Return the values of a window: none is ones; None where they are not known."""
    if window is None:
        return torch.ones(size)
    if window.op == "call_function" and not window.all_input_nodes:
        return window.target(*window.args, **window.kwargs)
    return write.held(window)


def _waves(length: int, norm: str | None, *, inverse: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the real and the imaginary part of a transform's matrix [frequency, place].

    Source: the definition in the documentation of ``torch.fft``, with its ``norm``.
    """
    angles = torch.outer(torch.arange(length), torch.arange(length)).double()
    angles = (angles % length) * (2 * math.pi / length)
    divided = inverse == (norm in {None, "backward"})
    factor = length**-0.5 if norm == "ortho" else 1 / length if divided else 1.0
    return (angles.cos() * factor).float(), (angles.sin() * (factor if inverse else -factor)).float()


def _along(write: Writer, x: fx.Node, dim: int, wave: torch.Tensor) -> fx.Node:
    """Multiply a dimension with a matrix."""
    rank = x.meta["val"].dim()
    is_last = dim % rank == rank - 1
    turned = x if is_last else write(_ATEN.transpose.int, x, dim, -1)
    product = write(_ATEN.linear.default, turned, write.parameter("wave", wave.contiguous()))
    return product if is_last else write(_ATEN.transpose.int, product, dim, -1)


def _turned(write: Writer, value: _Either, dim: int, norm: str | None, *, inverse: bool = False) -> Parts:
    """Write a whole transform over one dimension."""
    real, imaginary = value
    cosines, sines = _waves(real.meta["val"].shape[dim], norm, inverse=inverse)
    if imaginary is None:
        return _along(write, real, dim, cosines), _along(write, real, dim, sines)
    return (
        write(_ATEN.sub.Tensor, _along(write, real, dim, cosines), _along(write, imaginary, dim, sines)),
        write(_ATEN.add.Tensor, _along(write, real, dim, sines), _along(write, imaginary, dim, cosines)),
    )


def _halved(write: Writer, x: fx.Node, dim: int, norm: str | None) -> Parts:
    """Write the transform of real numbers over one dimension, of which half is kept."""
    length = x.meta["val"].shape[dim]
    cosines, sines = (wave[: length // 2 + 1] for wave in _waves(length, norm))
    return _along(write, x, dim, cosines), _along(write, x, dim, sines)


def _whole(
    write: Writer, x: Any, n: Any = None, dim: Any = -1, norm: str | None = None, *, inverse: bool = False
) -> Parts | None:
    """Write a transform over one or several dimensions; None where it cuts or fills up."""
    value, dims = _either(write, x), [dim] if isinstance(dim, int) else dim
    if value is None or not _is_whole(x, n, dims):
        return None
    for one in reversed(dims):
        value = _turned(write, value, one, norm, inverse=inverse)
    real, imaginary = value
    return None if imaginary is None else (real, imaginary)


def _inverse(write: Writer, *args: Any, **kwargs: Any) -> Parts | None:
    return _whole(write, *args, **kwargs, inverse=True)


def _of_reals(write: Writer, x: Any, n: Any = None, dim: Any = -1, norm: str | None = None) -> Parts | None:
    """Write a transform of real numbers, of which half is kept in the last of its dimensions."""
    dims = [dim] if isinstance(dim, int) else dim
    if not _is_whole(x, n, dims):
        return None
    value = _halved(write, x, dims[-1], norm)
    for one in reversed(dims[:-1]):
        value = _turned(write, value, one, norm)
    return value


def _is_whole(x: fx.Node, n: Any, dims: Any) -> bool:
    sizes = [x.meta["val"].shape[one] for one in dims]
    return n is None or ([n] if isinstance(n, int) else list(n)) == sizes


def _to_reals(
    write: Writer, x: fx.Node, n: Any = None, dim: Any = -1, norm: str | None = None
) -> fx.Node | None:
    """Write the real numbers of half a spectrum; None where it is cut or filled up."""
    dims, sizes = ([dim], [n]) if isinstance(dim, int) else (dim, n or [None] * len(dim))
    frequencies = x.meta["val"].shape[dims[-1]]
    length = sizes[-1] or 2 * (frequencies - 1)
    value = _parts(write, x)
    if value is None or frequencies != length // 2 + 1 or not _is_whole(x, list(sizes[:-1]), dims[:-1]):
        return None
    for one in dims[:-1]:
        value = _turned(write, value, one, norm, inverse=True)
    # Each frequency counts twice, but the first, and the last of an even length.
    twice = torch.full((frequencies,), 2.0)
    twice[0] = 1.0
    if length % 2 == 0:
        twice[-1] = 1.0
    waves = [wave[:, :frequencies] * twice for wave in _waves(length, norm, inverse=True)]
    real, imaginary = (_along(write, part, dims[-1], wave) for part, wave in zip(value, waves, strict=True))
    return write(_ATEN.sub.Tensor, real, imaginary)


def _over_several(function: Any, dims: Any = None) -> Any:
    """Return a transform whose dimensions are the last ones, or all, where none are named."""

    def written(write: Writer, x: fx.Node, s: Any = None, dim: Any = dims, norm: str | None = None) -> Any:
        rank = x.meta["val"].dim()
        return function(write, x, s, dim or range(rank)[-len(s) if s else 0 :], norm)

    return written


def _magnitude(write: Writer, x: fx.Node) -> fx.Node | None:
    parts = _parts(write, x) if x.meta["val"].is_complex() else None
    if parts is None:
        return None
    squares = [write(_ATEN.mul.Tensor, part, part) for part in parts]
    return write(_ATEN.sqrt.default, write(_ATEN.add.Tensor, *squares))


def _as_pairs(write: Writer, x: fx.Node) -> fx.Node | None:
    parts = _parts(write, x)
    if parts is None:
        return None
    return write(_ATEN.cat.default, [write(_ATEN.unsqueeze.default, p, -1) for p in parts], -1)


def _real(write: Writer, x: fx.Node) -> fx.Node | None:
    parts = _parts(write, x)
    return None if parts is None else parts[0]


def _imaginary(write: Writer, x: fx.Node) -> fx.Node | None:
    parts = _parts(write, x)
    return None if parts is None else parts[1]


def is_complex(node: fx.Node) -> bool:
    """Return whether a node computes complex numbers."""
    value = node.meta.get("val")
    return node.op == "call_function" and isinstance(value, torch.Tensor) and value.is_complex()


_PLANE = (-2, -1)
_PADDINGS = (_ATEN.constant_pad_nd.default, _ATEN.pad.default)
_MOVES = frozenset(
    (
        *(_ATEN.slice.Tensor, _ATEN.select.int, _ATEN.reshape.default, _ATEN.view.default),
        *(_ATEN.unsqueeze.default, _ATEN.squeeze.dim, _ATEN.permute.default, _ATEN.transpose.int),
        *(_ATEN.clone.default, _ATEN.expand.default, _ATEN.cat.default, _ATEN.contiguous.default),
        *(_ATEN.flatten.using_ints, _ATEN.neg.default, _ATEN.sum.dim_IntList, _ATEN.mean.dim),
        *_PADDINGS,
    )
)
_MAKERS: dict[Any, Any] = {
    _ATEN.stft.default: _short_time,
    _ATEN.fft_rfft.default: _of_reals,
    _ATEN.fft_rfft2.default: _over_several(_of_reals, _PLANE),
    _ATEN.fft_rfftn.default: _over_several(_of_reals),
    _ATEN.fft_fft.default: _whole,
    _ATEN.fft_fft2.default: _over_several(_whole, _PLANE),
    _ATEN.fft_fftn.default: _over_several(_whole),
    _ATEN.fft_ifft.default: _inverse,
    _ATEN.fft_ifft2.default: _over_several(_inverse, _PLANE),
    _ATEN.fft_ifftn.default: _over_several(_inverse),
    _ATEN.mul.Tensor: _product,
    _ATEN.matmul.default: _matrix_product,
    _ATEN.einsum.default: _sum_of_products,
    _ATEN.add.Tensor: _sum,
    _ATEN.sub.Tensor: _difference,
    _ATEN.full.default: _filled,
    _ATEN.full_like.default: _filled_like,
    _ATEN.zeros.default: partial(_filled, number=0.0),
    _ATEN.ones.default: partial(_filled, number=1.0),
    _ATEN.zeros_like.default: _filled_like,
    _ATEN.new_zeros.default: _new_zeros,
    _ATEN.where.self: _chosen,
    _ATEN.masked_fill.Scalar: _masked,
    _ATEN._conj.default: _conjugate,  # noqa: SLF001
    _ATEN.conj.default: _conjugate,
    _ATEN.view_as_complex.default: _of_pairs,
    _ATEN.complex.default: _of_two,
}
COMPLEX: dict[Any, Any] = {
    _ATEN.view_as_real.default: _as_pairs,
    _ATEN.real.default: _real,
    _ATEN.imag.default: _imaginary,
}
# 8 bits do not hold the squares of a spectrum, nor its zero frequency beside the others.
WIDE: dict[Any, Any] = {
    _ATEN.abs.default: _magnitude,
    _ATEN.fft_irfft.default: _to_reals,
    _ATEN.fft_irfft2.default: _over_several(_to_reals, _PLANE),
    _ATEN.fft_irfftn.default: _over_several(_to_reals),
}
