"""Fourier transforms as products with their matrices, of real and imaginary parts."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from .graph_writer import Writer
from .window_operators import frames

_ATEN = torch.ops.aten
# The real and the imaginary part; the second of a real value is None.
Parts = tuple[fx.Node, fx.Node]
Either = tuple[fx.Node, fx.Node | None]
# How torch divides a transform, by its ``norm``: by nothing, the root of the number of places, or it.
# Source: torch 2.13 ``aten/src/ATen/native/SpectralOpsUtils.h``, ``fft_norm_mode``.
_EXPONENTS = (0.0, -0.5, -1.0)


def whole_transform(
    write: Writer, value: Either, dims: Sequence[int], norm: int, *, inverse: bool = False
) -> Either:
    """Write a transform over one or several dimensions."""
    for dim in reversed(dims):
        value = _turned(write, value, dim, norm, inverse=inverse)
    return value


def half_transform(write: Writer, x: fx.Node, dims: Sequence[int], norm: int) -> Either:
    """Write a transform of real numbers, of which half is kept in the last of its dimensions."""
    length = x.meta["val"].shape[dims[-1]]
    cosines, sines = (wave[: length // 2 + 1] for wave in _waves(length, norm))
    value = _along(write, x, dims[-1], cosines), _along(write, x, dims[-1], sines)
    return whole_transform(write, value, dims[:-1], norm)


def real_transform(write: Writer, value: Parts, dims: Sequence[int], norm: int, length: int) -> fx.Node:
    """Write the real numbers of half a spectrum."""
    for dim in dims[:-1]:
        value = _turned(write, value, dim, norm, inverse=True)  # type: ignore[assignment]
    waves = _real_waves(length, norm)
    real, imaginary = (_along(write, part, dims[-1], wave) for part, wave in zip(value, waves, strict=True))
    return write(_ATEN.sub.Tensor, real, imaginary)


def short_time(write: Writer, x: fx.Node, size: int, *rest: Any, **named: Any) -> Parts | None:
    """Return the parts of a spectrogram of shape (..., frequencies, frames)."""
    names = ("hop_length", "win_length", "window", "normalized", "onesided")
    options = dict(zip(names, rest, strict=False)) | named
    window, hop, width = (options.get(name) for name in ("window", "hop_length", "win_length"))
    held = window_values(write, size, width, window)
    if held is None:
        return None
    frequencies = size if options.get("onesided") is False else size // 2 + 1
    waves = [wave[:frequencies] * held for wave in _waves(size, int(bool(options.get("normalized"))))]
    windows = frames(write, x, -1, size, hop or size // 4)
    real, imaginary = (write(_ATEN.transpose.int, _along(write, windows, -1, wave), -1, -2) for wave in waves)
    return real, imaginary


def inverse_short_time(write: Writer, value: Parts, size: int, *rest: Any, **named: Any) -> Any:
    """Return the signal of half a spectrogram: its frames added up, by the sum of squared windows."""
    names = ("hop", "width", "window", "center", "normalized", "onesided", "length", "return_complex")
    own = {"hop_length": "hop", "win_length": "width"}
    options = dict(zip(names, rest, strict=False)) | {own.get(key, key): one for key, one in named.items()}
    held = window_values(write, size, options.get("width"), options.get("window"))
    hop, shape = options.get("hop") or size // 4, value[0].meta["val"].shape
    is_half = shape[-2] == size // 2 + 1 and options.get("onesided") is not False
    if held is None or not is_half or options.get("return_complex"):
        return None
    waves = [wave * held[:, None] for wave in _real_waves(size, 1 if options.get("normalized") else 2)]
    sides = [_along(write, part, -2, wave) for part, wave in zip(value, waves, strict=True)]
    windows = write(_ATEN.sub.Tensor, *sides)
    whole = size + hop * (shape[-1] - 1)
    rows = write(_ATEN.reshape.default, windows, [-1, *windows.meta["val"].shape[-2:]])
    added = write(_ATEN.col2im.default, rows, [1, whole], [1, size], [1, 1], [0, 0], [1, hop])
    squares = (held**2)[None, :, None].expand(1, size, shape[-1])
    total = torch.nn.functional.fold(squares, (1, whole), (1, size), stride=(1, hop)).flatten()
    first = size // 2 if options.get("center", True) is not False else 0
    last = first + write.shape[-1]
    if last > whole or float(total[first:last].abs().min()) < _LEAST_ENVELOPE:
        return None
    signal = write(_ATEN.reshape.default, added, [*shape[:-2], whole])
    part = write(_ATEN.slice.Tensor, signal, -1, first, last)
    return write(_ATEN.mul.Tensor, part, write.constant("envelope", 1 / total[first:last]))


# torch.istft refuses a smaller one, too.
_LEAST_ENVELOPE = 1e-11


def window_values(write: Writer, size: int, width: int | None, window: Any) -> Any:
    """Return the values of a window in the middle of ``size`` places; None where they are not known."""
    if window is None:
        held = torch.ones(width or size)
    elif window.op == "call_function" and not window.all_input_nodes:
        held = window.target(*window.args, **window.kwargs)
    else:
        held = write.held(window)
    if held is None:
        return None
    before = (size - held.numel()) // 2
    return torch.nn.functional.pad(held.detach().float(), (before, size - held.numel() - before))


def _waves(length: int, norm: int, *, inverse: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the real and the imaginary part of a transform's matrix [frequency, place].

    Source: the definition in the documentation of ``torch.fft``.
    """
    places = torch.outer(torch.arange(length), torch.arange(length)) % length
    angles = places.double() * (2 * math.pi / length)
    factor = length ** _EXPONENTS[norm]
    # The imaginary part at half a turn is exactly zero, which decides the sign of an angle of pi.
    sines = torch.where(2 * places == length, 0.0, angles.sin())
    return (angles.cos() * factor).float(), (sines * (factor if inverse else -factor)).float()


def _real_waves(length: int, norm: int) -> list[torch.Tensor]:
    """Return the matrices of the transform from half a spectrum [place, frequency]."""
    frequencies = length // 2 + 1
    # Each frequency counts twice, but the first, and the last of an even length.
    twice = torch.full((frequencies,), 2.0)
    twice[0] = 1.0
    if length % 2 == 0:
        twice[-1] = 1.0
    return [wave[:, :frequencies] * twice for wave in _waves(length, norm, inverse=True)]


def _along(write: Writer, x: fx.Node, dim: int, wave: torch.Tensor) -> fx.Node:
    """Multiply a dimension with a matrix."""
    rank = x.meta["val"].dim()
    is_last = dim % rank == rank - 1
    turned = x if is_last else write(_ATEN.transpose.int, x, dim, -1)
    product = write(_ATEN.linear.default, turned, write.parameter("wave", wave.contiguous()))
    return product if is_last else write(_ATEN.transpose.int, product, dim, -1)


def _turned(write: Writer, value: Either, dim: int, norm: int, *, inverse: bool = False) -> Parts:
    """Write a whole transform over one dimension."""
    real, imaginary = value
    cosines, sines = _waves(real.meta["val"].shape[dim], norm, inverse=inverse)
    if imaginary is None:
        return _along(write, real, dim, cosines), _along(write, real, dim, sines)
    return (
        write(_ATEN.sub.Tensor, _along(write, real, dim, cosines), _along(write, imaginary, dim, sines)),
        write(_ATEN.add.Tensor, _along(write, real, dim, sines), _along(write, imaginary, dim, cosines)),
    )
