"""Prediction of the interpolation error of 16-bit lookup tables.

TOSA 1.0 (operator TABLE) represents a 16-bit function by 513 values with linear interpolation, one
value per 128 steps of its input; ExecuTorch 1.5.1 fills them in (``InsertTableOpsPass`` of the Arm
backend). The quantized model computes the exact function at every step, so it does not include the
interpolation error. An 8-bit table has every value and no such error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from executorch.backends.arm._passes.insert_table_ops import InsertTableOpsPass, TableOps
from executorch.backends.arm._passes.quant_args import QuantArgs

from workbench.engine.ethos_u.applied_corrections import correction_state
from workbench.engine.ethos_u.corrections.int16_tables import NOISE_OF_VALUES, NOISE_OF_WEIGHTS, windows_of
from workbench.engine.ethos_u.grids import Grid, grid_of
from workbench.engine.fx import programs
from workbench.results import CalibrateResult
from workbench.targets.ethos_u.options import EXTRAS_BY_NAME, NEGATIVE_INFINITY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from workbench.engine.runtime.context import StageContext

# A step of an 8-bit grid up to the largest value: below it 16 bits have an advantage.
TELLING = 1 / 127
# Steps of the input between two table values, as a power of two.
_BETWEEN = 7
# Share of the replacement of minus infinity above which a range was probably widened by a mask:
# the masked operand reduces it a little.
_MASKED = 0.75
_FUNCTIONS = frozenset(operator._op for operator in TableOps.included_ops())  # noqa: SLF001 - its only name


@dataclass(frozen=True)
class TableError:
    """The error of a table over the calibrated codes of its input.

    ``steps`` is the largest error in steps of the output grid, ``share`` its part of the largest
    value; ``spacing`` and ``low`` are real input values: the distance of two table values, and the
    smallest input. ``source`` names the input tensor.
    """

    op: str
    module: str
    source: str
    spacing: float
    low: float
    steps: int
    share: float


def known_differences(context: StageContext, converted: torch.fx.GraphModule) -> list[str]:
    """Return the differences between the NPU and the quantized model, as sentences; computed."""
    ranges = context.result("calibrate", CalibrateResult).ranges
    seen = {r.node: (r.minimum, r.maximum) for r in ranges if r.kind == "activation"}
    options = context.project.target.options
    refined = correction_state("fine_tables", options) == "on"
    errors = table_errors(converted, seen, refined=refined)
    telling = [error for error in errors if error.share > TELLING]
    infinity = options.get("negative_infinity")
    least = float(str(infinity)) if infinity is not None else NEGATIVE_INFINITY
    return list(_sentences(telling, least))


def table_errors(
    converted: torch.fx.GraphModule, seen: Mapping[str, tuple[float, float]], *, refined: bool = False
) -> Iterator[TableError]:
    """Yield the error of every interpolated function of a quantized graph.

    Args:
        converted: The quantized graph.
        seen: Minimum and maximum of tensors; for other tensors all codes count.
        refined: Whether steep functions get further tables.
    """
    noise = NOISE_OF_WEIGHTS if _has_bytes(converted.graph) else NOISE_OF_VALUES
    for node in converted.graph.nodes:
        borders = _borders(node) if node.target in _FUNCTIONS else None
        if borders is None:
            continue
        source, into, out = borders
        low, high = seen.get(source.name, (-float("inf"), float("inf")))
        ends = torch.tensor([low, high]).div(into.scale).round() + into.zero_point
        first, last = (int(end) for end in ends.clamp(into.qmin, into.qmax))
        codes = torch.arange(first, last + 1)
        exact = _codes(_function(node, into.reals(codes)), out)
        given = _refined(node, into, out, noise)[codes + (1 << 15)] if refined else None
        steps = ((_read(node, into, out, codes) if given is None else given) - exact).abs().max()
        largest = (exact - out.zero_point).abs().max().clamp(min=1)
        yield TableError(
            op=programs.op_of(node).split(".")[1],
            module=programs.module_of(node),
            source=source.name,
            spacing=into.scale * (1 << _BETWEEN),
            low=low,
            steps=int(steps),
            share=float(steps / largest),
        )


def _borders(node: torch.fx.Node) -> tuple[torch.fx.Node, Grid, Grid] | None:
    """Return the input tensor of a function, its grid and the output grid, in 16 bits."""
    given: Any = node.args[0]
    taken = [user for user in node.users if "quantize_per_tensor" in str(user.target)]
    if not taken or "dequantize_per_tensor" not in str(getattr(given, "target", "")):
        return None
    quantized: Any = given.args[0]
    if not quantized.args:
        # A quantized constant, such as a divisor.
        return None
    into, out = grid_of(given), grid_of(taken[0])
    if out.dtype is not torch.int16 or into.dtype is not torch.int16:
        return None
    return quantized.args[0], into, out


def _function(node: torch.fx.Node, values: torch.Tensor) -> torch.Tensor:
    """Return the function of a node's operator with other operands fixed."""
    target: Any = node.target
    values_out: torch.Tensor = target(values, *node.args[1:], **node.kwargs)
    return values_out


def _codes(values: torch.Tensor, grid: Grid) -> torch.Tensor:
    """Return codes as wide integers; NaN becomes zero."""
    return grid.codes(values.nan_to_num(0.0, float("inf"), -float("inf"))).to(torch.int64)


def _read(node: torch.fx.Node, into: Grid, out: Grid, codes: torch.Tensor) -> torch.Tensor:
    """Return the result of TOSA's TABLE and the following RESCALE for input codes."""
    entries, shift = InsertTableOpsPass.generate_16_bit_table_values(
        lambda values: _function(node, values), _arguments(into), _arguments(out)
    )
    table = entries.to(torch.int64)
    index, along = (codes + (1 << 15)) >> _BETWEEN, codes & ((1 << _BETWEEN) - 1)
    wide = (table[index] << _BETWEEN) + (table[index + 1] - table[index]) * along
    return (wide.double() * 2.0**shift + 0.5).floor().clamp(out.qmin, out.qmax).to(torch.int64)


def _refined(node: torch.fx.Node, into: Grid, out: Grid, noise: float) -> torch.Tensor:
    """Return what all tables of a function give, for every input code from -32,768 on."""
    grids = _arguments(into), _arguments(out)
    return windows_of(lambda values: _function(node, values), *grids, noise)[1]


def _has_bytes(graph: torch.fx.Graph) -> bool:
    """Return whether something of a quantized graph has 8 bits, as the weights of a16w8 have."""
    return any("dequantize" in str(node.target) and torch.int8 in node.args for node in graph.nodes)


def _arguments(grid: Grid) -> QuantArgs:
    return QuantArgs(scale=grid.scale, zp=grid.zero_point, qmin=grid.qmin, qmax=grid.qmax, dtype=grid.dtype)


def _sentences(table_errors: Iterable[TableError], least: float) -> Iterator[str]:
    """Yield a sentence per operator with an error, for its worst case."""
    by_op: dict[str, list[TableError]] = {}
    for error in table_errors:
        by_op.setdefault(error.op, []).append(error)
    for op, errors in by_op.items():
        worst = max(errors, key=lambda error: error.share)
        where = f" in {worst.module}" if worst.module else ""
        more = f", the worst of {len(errors)} such" if len(errors) > 1 else ""
        yield (
            f"{op}{where}{more}: the NPU interpolates linearly between the 513 values of "
            f"a 16-bit table, here one per {worst.spacing:.3g} of {worst.source}; it will "
            f"differ by up to {worst.steps} steps ({worst.share:.1%} of the largest "
            f"value) from the quantized model (computed). {_remedy(worst, least)}"
        )


def _remedy(error: TableError, least: float) -> str:
    narrow = f"arrow the range of {error.source} in Ranges, or leave the module in float."
    if error.low > _MASKED * least:
        return f"N{narrow}"
    title = EXTRAS_BY_NAME["negative_infinity"].title
    return (
        f"If a mask makes its range that wide, set the target's option \u201c{title}\u201d nearer "
        f"to zero than {least:g}, e.g. -32; otherwise n{narrow}"
    )
