"""Improvers: changes of the float weights that make quantization cost less (IMPROVERS).

AdaRound is not among them: torchao 0.18 has no such quantizer for exported programs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.engine.improving.bias import correct_biases
from workbench.engine.improving.equalizing import equalize, left_alone
from workbench.engine.improving.smoothing import smooth
from workbench.project.improvers import IMPROVERS
from workbench.results import Improvement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import torch
    from torch import fx

    from workbench.engine.toolchains.base import Toolchain

    Inputs = tuple[torch.Tensor, ...]


def improve(
    module: fx.GraphModule,
    wanted: Iterable[str],
    samples: Callable[[], Iterable[Inputs]],
    quantizer: Callable[[], Any],
    toolchain: Toolchain,
) -> list[Improvement]:
    """Apply improvers to a float module in place, in the order of the table.

    Args:
        module: Float program as a module; its weights must be its own.
        wanted: Ids of improvers.
        samples: Gives calibration inputs, as often as it is called.
        quantizer: Gives a quantizer for a trial quantization.
        toolchain: Prepares and converts it.

    Returns:
        What each improver changed and left alone.
    """
    chosen = set(wanted)
    done: list[Improvement] = []
    for improver in IMPROVERS:
        if improver.id not in chosen:
            continue
        left = ""
        match improver.id:
            case "equalize":
                places, left = equalize(module), left_alone(module)
            case "smooth":
                places = smooth(module, samples())
            case "bias":
                places = correct_biases(module, list(samples()), quantizer, toolchain)
        done.append(Improvement(improver=improver.id, places=places, left=left))
    return done
