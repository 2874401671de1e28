"""How far the roundings of a quantized model alone can move its outputs.

An operator of the integer program may round a value to the neighbour of what PyTorch's arithmetic
gives. In deep networks such steps add up until the outputs differ by more than a fixed limit. Here
the quantized model itself is computed with steps of that kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from workbench.engine.evaluation.measures import tensors_of
from workbench.engine.fx import programs
from workbench.project.gate import LSB_LIMIT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from workbench.results import VerifyResult

# Single operators differ from PyTorch in 2 to 28 % of their elements (8 bits, decoders and
# vision transformers), by one step.
SHARE = 0.1
_SMALL_BITS = 8


def with_roundings(
    result: VerifyResult, module: torch.fx.GraphModule, samples: Iterable[tuple[torch.Tensor, ...]]
) -> VerifyResult:
    """Return a result with ``rounding_lsb`` of 8-bit outputs that differ by much.

    Args:
        result: The integer program compared with the quantized model.
        module: The quantized model, without state.
        samples: Its inputs; read only if an output differs by more than the default limit.
    """
    large = [o for o in result.outputs if o.bits == _SMALL_BITS and (o.max_lsb or 0) > LSB_LIMIT]
    if not large:
        return result
    steps = largest_steps(module, samples, _scales(module))
    rows = zip(result.outputs, steps, strict=True)
    outputs = (o.model_copy(update={"rounding_lsb": n}) if o in large else o for o, n in rows)
    return result.model_copy(update={"outputs": tuple(outputs)})


def _scales(module: torch.fx.GraphModule) -> list[float | None]:
    """Return the step of each output's grid; None for a float output."""
    values = next(node for node in module.graph.nodes if node.op == "output").args[0]
    listed = values if isinstance(values, list | tuple) else [values]
    nodes = [node for node in listed if isinstance(node, torch.fx.Node)]
    is_grid = [programs.quantize_kind(str(node.target)) == "dequantize" for node in nodes]
    return [float(n.args[1]) if known else None for n, known in zip(nodes, is_grid, strict=True)]  # type: ignore[arg-type]


class Moved(torch.fx.Interpreter):
    """A quantized model in which a share of the integers is one step away; the same each time."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        self._generator = torch.Generator().manual_seed(0)

    def run_node(self, n: torch.fx.Node) -> Any:
        """Return a node's value, moved behind a quantize operator."""
        value = super().run_node(n)
        if n.op != "call_function" or programs.quantize_kind(str(n.target)) != "quantize":
            return value
        low, high = (n.args[-3], n.args[-2])
        drawn = torch.rand(value.shape, generator=self._generator)
        step = (drawn < SHARE / 2).int() - (drawn >= 1 - SHARE / 2).int()
        return (value.int() + step).clamp(low, high).to(value.dtype)


def largest_steps(
    module: torch.fx.GraphModule, samples: Iterable[tuple[torch.Tensor, ...]], scales: Sequence[float | None]
) -> list[int]:
    """Return how far roundings move each output of a quantized model over samples [LSB].

    Args:
        module: The converted model, without state.
        samples: Its inputs.
        scales: The step of each output's grid; None for a float output, which counts 0.
    """
    moved, most = Moved(module), [0] * len(scales)
    with torch.no_grad():
        for inputs in samples:
            pairs = zip(tensors_of(module(*inputs)), tensors_of(moved.run(*inputs)), strict=True)
            for position, (value, other) in enumerate(pairs):
                scale = scales[position] if position < len(scales) else None
                if scale is not None and value.numel():
                    apart = ((value - other).abs() / scale).round().max()
                    most[position] = max(most[position], int(apart))
    return most
