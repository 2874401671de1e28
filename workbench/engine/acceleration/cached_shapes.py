"""Shape and type of a quantize or dequantize result are remembered, as for built-in operators."""

# ruff: noqa: SLF001 - the insides of the toolchain are what this file is about

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from workbench.engine.acceleration.patching import replaced

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def cached_shapes() -> Iterator[None]:
    """Let the fake tensors' own cache accept the four operators of quantization.

    The cache turns away every operator that is not built in, because such a one could do
    anything; these four are pure, and what they return depends on their arguments alone.
    """
    import torch
    import torchao.quantization.pt2e.quantize_pt2e  # noqa: F401 - registers the operators
    from torch._subclasses import fake_tensor

    library = torch.ops.quantized_decomposed
    pure = {
        library.quantize_per_tensor.default,
        library.dequantize_per_tensor.default,
        library.quantize_per_channel.default,
        library.dequantize_per_channel.default,
    }
    stock = fake_tensor.FakeTensorMode._validate_cache_key

    def validate(self: Any, func: Any, args: Any, kwargs: Any) -> None:
        if func not in pure:
            stock(self, func, args, kwargs)

    with replaced(fake_tensor.FakeTensorMode, "_validate_cache_key", validate):
        yield
