"""What integers of a width could hold of a network: eager PyTorch, each result on a fitted grid.

Nothing is exported or rewritten, so that no alias and no statement can be lost. An operator that
the NPU computes in several steps is one step here, except for norms and softmax, so that the figure
is an upper bound.
"""

from __future__ import annotations

import dataclasses
from types import ModuleType
from typing import Any

import torch
from torch._decomp import get_decompositions
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

_HUGE = 1e6


# The NPU computes these in many steps, each with a grid of its own.
_ATEN = torch.ops.aten
_TAKEN_APART = get_decompositions(
    [
        _ATEN.native_layer_norm,
        _ATEN.native_group_norm,
        _ATEN.std,
        _ATEN.norm,
        _ATEN.linalg_vector_norm,
        _ATEN._softmax,
        _ATEN.logsumexp,
    ]
)


class _Grids(TorchDispatchMode):
    """Observes the results of a run in order, or puts them on the grids that were observed."""

    def __init__(self, bits: int) -> None:
        super().__init__()
        self._bits = bits
        # Of 16 bits, one is head-room for values that calibration does not see.
        self._room = 2.0 if bits == 16 else 1.0
        self._ranges: list[tuple[float, float, bool]] = []
        self._at = 0
        self.is_observing = True

    def begin(self) -> None:
        """Start again at the first operator."""
        self._at = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _TAKEN_APART:
            with self:
                return _TAKEN_APART[func](*args, **(kwargs or {}))
        result = func(*args, **(kwargs or {}))
        if not any(alias.alias_info and not alias.alias_info.is_write for alias in func._schema.returns):
            for value in _pytree.tree_leaves(result):
                if isinstance(value, torch.Tensor) and value.is_complex():
                    self._take(torch.view_as_real(value))
                elif isinstance(value, torch.Tensor) and value.dtype == torch.float32:
                    self._take(value)
        return result

    def _take(self, value: torch.Tensor) -> None:
        if self._at == len(self._ranges):
            self._ranges.append((0.0, 0.0, False))
        low, high, masks = self._ranges[self._at]
        ordinary = value.abs() < _HUGE
        if self.is_observing:
            real = value[ordinary]
            if real.numel():
                low, high = min(low, float(real.min())), max(high, float(real.max()))
            self._ranges[self._at] = (low, high, masks or not bool(ordinary.all()))
        elif high > low:
            low, high = low * self._room, high * self._room
            step = (high - low) / (2**self._bits - 1)
            codes = (value.nan_to_num(0.0, high, low).clamp(low, high) / step).round()
            # A mask stays what it is; a huge value that calibration did not see saturates.
            value.copy_(torch.where(ordinary | (not masks), codes * step, value))
        self._at += 1


def ideal(module: ModuleType, config: str, samples: list[tuple[torch.Tensor, ...]]) -> Any:
    """Return the outputs for some samples, calibrated on the module's own."""
    grids = _Grids(16 if config == "a16w8" else 8)
    for sample in module.samples():
        _run(module, config, sample, grids)
    grids.is_observing = False
    return [_run(module, config, sample, grids) for sample in samples]


def _run(module: ModuleType, config: str, sample: Any, grids: _Grids) -> list[torch.Tensor]:
    model, _ = module.net()
    most = 7 if config == "a8w4" else 127
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1 and not weight.is_complex():
                steps = weight.abs().amax(tuple(range(1, weight.dim())), keepdim=True) / most
                weight.copy_((weight / steps).round() * steps)
        grids.begin()
        with grids:
            result = model(*(tensor.clone() for tensor in sample))
    return [value.clone() for value in tensors_of(result)]


def tensors_of(value: Any) -> list[torch.Tensor]:
    """Return the tensors in what a model returns, in order: in containers and in dataclasses."""
    if isinstance(value, torch.Tensor):
        return [value]
    if dataclasses.is_dataclass(value):
        value = [getattr(value, field.name) for field in dataclasses.fields(value)]
    if isinstance(value, dict):
        value = list(value.values())
    return [part for v in value for part in tensors_of(v)] if isinstance(value, list | tuple) else []
