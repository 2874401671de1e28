"""Quantization grids at the inputs and outputs of a quantized graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from workbench.engine.ethos_u.integer_io import is_dequantized, is_quantized

Border = list[dict[str, float | int]]


@dataclass(frozen=True)
class Grid:
    """Step, code of zero, limits and dtype of a per-tensor quantized value."""

    scale: float
    zero_point: int
    qmin: int
    qmax: int
    dtype: Any

    def codes(self, value: torch.Tensor) -> torch.Tensor:
        """Return the codes of real values, rounded half to even and clamped."""
        codes = torch.round(value / self.scale) + self.zero_point
        return codes.clamp(self.qmin, self.qmax).to(self.dtype)

    def reals(self, codes: torch.Tensor) -> torch.Tensor:
        """Return the real values of codes, in float32."""
        return (codes.to(torch.float32) - self.zero_point) * self.scale


def input_grids(module: torch.fx.GraphModule) -> list[Grid | None]:
    """Return the grid of each input's quantize operator; None for unquantized inputs."""
    inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
    return [grid_of(next(iter(n.users))) if is_quantized(n) else None for n in inputs]


def output_grids(module: torch.fx.GraphModule) -> list[Grid | None]:
    """Return the grid of each output's dequantize operator; None for a float output."""
    output = next(node for node in module.graph.nodes if node.op == "output")
    values = output.args[0]
    listed = values if isinstance(values, list | tuple) else [values]
    return [
        grid_of(node) if is_dequantized(node) else None for node in listed if isinstance(node, torch.fx.Node)
    ]


def grid_of(node: torch.fx.Node) -> Grid:
    """Return the grid of a quantize or dequantize operator that works per tensor."""
    scale, zero_point, low, high, dtype = node.args[1:6]
    return Grid(float(scale), int(zero_point), int(low), int(high), dtype)  # type: ignore[arg-type]


def runtime_values(
    module: torch.fx.GraphModule,
    inputs: tuple[torch.Tensor, ...],
    outputs: list[torch.Tensor],
    integer_io: bool,
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Return inputs and outputs in the compiled program's types."""
    given = program_inputs(module, inputs, integer_io)
    if not integer_io:
        return given, outputs
    outs = zip(outputs, output_grids(module), strict=True)
    return given, [grid.codes(value) if grid else value for value, grid in outs]


def program_inputs(
    module: torch.fx.GraphModule, inputs: tuple[torch.Tensor, ...], integer_io: bool
) -> list[torch.Tensor]:
    """Return inputs in the compiled program's types."""
    if not integer_io:
        return list(inputs)
    pairs = zip(inputs, input_grids(module), strict=True)
    return [grid.codes(value) if grid else value for value, grid in pairs]


def meant_values(
    module: torch.fx.GraphModule, outputs: list[torch.Tensor], integer_io: bool
) -> list[torch.Tensor]:
    """Return the real values of the compiled program's outputs."""
    if not integer_io:
        return outputs
    pairs = zip(outputs, output_grids(module), strict=True)
    return [grid.reals(value) if grid else value for value, grid in pairs]


def io_quantization(module: torch.fx.GraphModule, integer_io: bool) -> tuple[Border, Border]:
    """Return the conversion between codes and real values for each input and output.

    Real value = (code - ``zero_point``) * ``scale``; empty for float inputs and outputs.
    """

    def quantization_of(grids: list[Grid | None]) -> Border:
        return [
            {"scale": grid.scale, "zero_point": grid.zero_point} if grid and integer_io else {}
            for grid in grids
        ]

    return quantization_of(input_grids(module)), quantization_of(output_grids(module))


def tolerance(module: torch.fx.GraphModule) -> list[dict[str, float]]:
    """Return for each output the absolute difference of one grid step.

    The integer program may differ from the quantized model by one step, since the latter computes
    in float; ExecuTorch's default of 0.01 ignores the output's scale.
    """
    steps = [grid.scale if grid else 0.0 for grid in output_grids(module)]
    return [{"atol": 1.01 * step, "rtol": 0.0} for step in steps]
