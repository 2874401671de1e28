"""Only patterns of convolutions that a program has are traced when batch norms are fused.

``prepare_qat_pt2e`` exports three patterns for each of four kinds of convolution, which takes
seconds, and then looks for them.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from workbench.engine.toolchain_patches.patching import replaced, sources_match

if TYPE_CHECKING:
    from collections.abc import Iterator

_MODULE = "torchao.quantization.pt2e.qat_utils"
FUSION = f"{_MODULE}:_fuse_conv_bn_qat_helper"
PINS = ((FUSION, "a7036b7b4272e27c"), (f"{_MODULE}:_get_conv_bn_pattern", "de59de645b9284c1"))


@contextmanager
def present_norm_patterns() -> Iterator[None]:
    """Leave out patterns whose convolution does not occur in the program while the block runs.

    A pattern holds one call of its convolution, whose operator bears the name of the function.
    """
    from torchao.quantization.pt2e import qat_utils

    if not sources_match("The choice of patterns of batch norms", PINS):
        yield
        return

    stock = qat_utils._fuse_conv_bn_qat_helper  # noqa: SLF001 - the insides of the toolchain

    def fuse(module: Any, convolution: Any, *arguments: Any, **named: Any) -> Any:
        prefix = f"aten.{convolution.__name__}."
        if any(str(node.target).startswith(prefix) for node in module.graph.nodes):
            return stock(module, convolution, *arguments, **named)
        # The rest of what stock does where nothing matches.
        module.graph.eliminate_dead_code()
        module.recompile()
        return module

    with replaced(qat_utils, "_fuse_conv_bn_qat_helper", fuse):
        yield
