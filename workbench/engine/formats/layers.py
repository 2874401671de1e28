"""The float operations of MASE's table, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


def _batch_norm2d(x: Tensor, w: Tensor | None, b: Tensor | None, **options: Any) -> Tensor:
    """Normalize with running statistics, ``mean`` 0 and ``var`` 1 where there are none."""
    channels = x.shape[1]
    mean = options.pop("mean", torch.zeros(channels, dtype=x.dtype))
    variance = options.pop("var", torch.ones(channels, dtype=x.dtype))
    return functional.batch_norm(x, mean, variance, w, b, **options)


def _layer_norm(x: Tensor, w: Tensor | None, b: Tensor | None, **options: Any) -> Tensor:
    shape = options.pop("normalized_shape", x.shape[-1:] if w is None else w.shape)
    return functional.layer_norm(x, tuple(shape), w, b, **options)


def _group_norm(x: Tensor, w: Tensor | None, b: Tensor | None, **options: Any) -> Tensor:
    return functional.group_norm(x, options.pop("num_groups"), w, b, **options)


def _instance_norm2d(x: Tensor, w: Tensor | None, b: Tensor | None, **options: Any) -> Tensor:
    return functional.instance_norm(x, weight=w, bias=b, **options)


def _rms_norm(x: Tensor, w: Tensor | None, b: Tensor | None, **options: Any) -> Tensor:
    del b
    shape = options.pop("normalized_shape", x.shape[-1:])
    return functional.rms_norm(x, tuple(shape), w, **options)


WEIGHTED: dict[str, Callable[..., Tensor]] = {
    "linear": functional.linear,
    "conv1d": functional.conv1d,
    "conv2d": functional.conv2d,
}
PRODUCTS: dict[str, Callable[..., Tensor]] = {"matmul": torch.matmul, "bmm": torch.bmm}
ARITHMETIC: dict[str, Callable[..., Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
}
ACTIVATIONS: dict[str, Callable[..., Tensor]] = {
    "relu": functional.relu,
    "selu": functional.selu,
    "tanh": torch.tanh,
    "gelu": functional.gelu,
    "softsign": functional.softsign,
    "softplus": functional.softplus,
}
NORMS: dict[str, Callable[..., Tensor]] = {
    "batch_norm2d": _batch_norm2d,
    "layer_norm": _layer_norm,
    "group_norm": _group_norm,
    "instance_norm2d": _instance_norm2d,
    "rms_norm": _rms_norm,
}
