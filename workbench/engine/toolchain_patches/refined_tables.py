"""Tables of 16-bit functions with further tables where they are steep.

TOSA 1.0 (operator TABLE) has 513 values for 65,536 codes and interpolates linearly between them. A
function that bends within 128 codes, as rsqrt and exp do, is far from what the quantized model
computes. A further table over a window of codes, entered by shifting the window's codes up,
holds the difference: with a shift of 7 bits every one of its 512 codes has a value of its own.
This file stands on torch and ExecuTorch alone, because a generated script carries it along.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from executorch.backends.arm._passes import ArmPass
from executorch.backends.arm._passes.arm_pass_utils import create_node
from executorch.backends.arm._passes.insert_table_ops import InsertTableOpsPass
from executorch.backends.transforms.utils import create_constant_placeholder
from executorch.exir.dialects._ops import ops as exir_ops
from torch import fx
from torch.export.graph_signature import InputKind

# Steps of the output by which a table may depart: 1/1,000 of the largest value.
_ALLOWED = 32
_MOST_WINDOWS = 4
# Steps by which stock's table may depart at the end of a grid, and for how many codes.
_FLAT, _FEW = 4, 8
_BITS, _CODES = 7, 1 << 15


class Window(NamedTuple):
    """A further table: ``table`` holds 513 differences over the codes around ``centre``.

    Its codes are entered as ``(code - centre) << shift``, saturated to 16 bits.
    """

    centre: int
    shift: int
    table: torch.Tensor


_STOCK = InsertTableOpsPass.generate_16_bit_table_values


def first_table(function: Any, into: Any, out: Any) -> tuple[torch.Tensor, int]:
    """Return stock's table of a function with its shift, or one of half the precision.

    The values of stock's table end where the grid of the output ends, so that the line to the first
    value beyond is too flat. With half the precision they reach twice as far.
    """
    table, shift = _STOCK(function, into, out)
    if out.dtype is not torch.int16:
        return table, shift
    room = {"qmin": 2 * out.qmin, "qmax": 2 * out.qmax, "dtype": torch.int32}
    wide, more = _STOCK(function, into, out._replace(**room))
    codes = torch.arange(into.qmin, into.qmax + 1)
    values = function((codes - into.get_zp_per_tensor()) * into.get_scale_per_tensor())
    exact = values.reshape(-1).to(torch.float64) / out.get_scale_per_tensor()
    exact = torch.where(torch.isfinite(exact), exact.clamp(out.qmin, out.qmax), torch.nan)
    errors = [
        (_read(candidate, codes, 2.0**by).clamp(out.qmin, out.qmax) - exact).abs().nan_to_num(0.0)
        for candidate, by in ((table, shift), (wide, more))
    ]
    flat, reaching = (int((error > _FLAT).sum()) for error in errors)
    return (wide, more) if reaching + _FEW < flat else (table, shift)


def windows_of(function: Any, into: Any, out: Any) -> tuple[list[Window], torch.Tensor]:
    """Return the further tables that a function needs, and what all tables give.

    Args:
        function: The function of real numbers.
        into: The ``QuantArgs`` of its input, in 16 bits.
        out: Those of its output, in 16 bits.

    Returns:
        The windows, none where stock's table is near enough, and an output code for every input
        code from -32,768 on.
    """
    codes = torch.arange(-_CODES, _CODES)
    used = codes.clamp(into.qmin, into.qmax)
    values = function((used - into.get_zp_per_tensor()) * into.get_scale_per_tensor())
    values = values.reshape(-1).to(torch.float64)
    defined = torch.isfinite(values)
    low, high = out.qmin, out.qmax
    exact = (values / out.get_scale_per_tensor()).nan_to_num(0.0, float(high), float(low))
    exact = exact.round().clamp(low, high)
    table, shift = first_table(function, into, out)
    now = _read(table, codes, 2.0**shift).clamp(low, high)
    windows = list[Window]()
    while len(windows) < _MOST_WINDOWS:
        error = torch.where(defined, (exact - now).abs(), 0.0)
        wrong = codes[error > _ALLOWED]
        window = _window(codes, exact, now, defined, wrong) if len(wrong) else None
        if window is None:
            break
        entered = ((codes - window.centre) << window.shift).clamp(-_CODES, _CODES - 1)
        better = (now + _read(window.table, entered, 2.0**-_BITS)).clamp(-_CODES, _CODES - 1)
        left = torch.where(defined, (exact - better).abs(), 0.0)
        if left.sum() >= error.sum():
            break
        windows.append(window)
        now = better
    return windows, now.clamp(low, high).to(torch.int64)


def _read(table: torch.Tensor, codes: torch.Tensor, scale: float) -> torch.Tensor:
    """Return what TABLE and its RESCALE give for codes."""
    wide = table.to(torch.int64)
    index, along = (codes + _CODES) >> _BITS, codes & ((1 << _BITS) - 1)
    given = (wide[index] << _BITS) + (wide[index + 1] - wide[index]) * along
    return (given.double() * scale + 0.5).floor()


def _window(
    codes: torch.Tensor, exact: torch.Tensor, now: torch.Tensor, defined: torch.Tensor,
    wrong: torch.Tensor,
) -> Window | None:  # fmt: skip
    """Return the table over the wrong codes, as fine as they are few; None if all are wrong."""
    first, last = int(wrong[0]), int(wrong[-1])
    shift = _BITS
    while shift and (1 << (16 - shift)) < last - first + 5:
        shift -= 1
    if not shift:
        return None
    step = 1 << (_BITS - shift)
    centre = (first + last) // 2 // step * step
    points = centre + (torch.arange(513) - 256) * step
    inside = (points >= -_CODES) & (points < _CODES)
    at = points.clamp(-_CODES, _CODES - 1) + _CODES
    rest = torch.where(inside & defined[at], exact[at] - now[at], 0.0)
    # Codes beyond the window enter its ends.
    for end in (0, 511, 512):
        rest[end] = 0.0
    return Window(centre, shift, rest.clamp(-_CODES, _CODES - 1).to(torch.int16))


@contextmanager
def tables_refined() -> Iterator[list[str]]:
    """Add further tables to 16-bit functions that one table is too coarse for, in the block.

    Yields:
        The names of the nodes that got further tables; it grows while programs are lowered.
    """
    stock = InsertTableOpsPass.call
    refined: list[str] = []

    def call(self: Any, graph_module: fx.GraphModule) -> Any:
        windows_by_node = {node: _windows(self, node) for node in list(graph_module.graph.nodes)}
        added = [_add(self, node, windows) for node, windows in windows_by_node.items() if windows]
        refined.extend(
            node.name for node, more in windows_by_node.items() if more or _reaches(self, node)
        )
        result = stock(self, graph_module)
        if added:
            # The nodes that were added have no values yet.
            result = ArmPass.call(self, result.graph_module)
        return result

    def generate(function: Any, into: Any, out: Any) -> tuple[torch.Tensor, int]:
        return first_table(function, into, out)

    InsertTableOpsPass.call = call
    InsertTableOpsPass.generate_16_bit_table_values = staticmethod(generate)
    try:
        yield refined
    finally:
        InsertTableOpsPass.call = stock
        InsertTableOpsPass.generate_16_bit_table_values = staticmethod(_STOCK)


def _windows(tables: Any, node: fx.Node) -> list[Window]:
    """Return the further tables of a node; none for anything but a 16-bit function."""
    given = _function_of(tables, node)
    return [] if given is None else windows_of(*given)[0]


def _reaches(tables: Any, node: fx.Node) -> bool:
    """Return whether the first table of a node reaches beyond the grid of its output."""
    given = _function_of(tables, node)
    return given is not None and first_table(*given)[1] != _STOCK(*given)[1]


def _function_of(tables: Any, node: fx.Node) -> tuple[Any, Any, Any] | None:
    """Return the function of a node and its grids; None for anything but a 16-bit function."""
    if node.op != "call_function" or node not in tables.table_ops:
        return None
    grids = [node.meta.get(name, {}) for name in ("input_qparams", "output_qparams")]
    if any(len(grid) != 1 or grid[0].dtype is not torch.int16 for grid in grids):
        return None
    return tables.table_ops[node], grids[0][0], grids[1][0]


def _add(tables: Any, node: fx.Node, windows: list[Window]) -> fx.Node:
    """Add what further tables give to the result of a node."""
    graph, source = node.graph, node.args[0]
    users = list(node.users)
    at = node

    def call(target: Any, *args: Any) -> fx.Node:
        nonlocal at
        with graph.inserting_after(at):
            at = create_node(graph, target, args=args, from_node=node, inherit_qparams=False)
        return at

    def constant(name: str, data: torch.Tensor) -> fx.Node:
        with graph.inserting_before(next(iter(graph.nodes))):
            return create_constant_placeholder(
                exp_program=tables.exported_program, graph=graph, kind=InputKind.BUFFER,
                name=f"b_{node.name}_{name}", data=data, persistent_buffer=True,
            )  # fmt: skip

    rescale = exir_ops.backend.tosa.RESCALE.default
    shape = [1] * node.meta["val"].dim()
    total = call(rescale, node, torch.int32, [1.0], 0, 0)
    for number, window in enumerate(windows):
        wide = call(rescale, source, torch.int32, [1.0], 0, 0)
        centre = torch.full(shape, window.centre, dtype=torch.int32)
        moved = call(exir_ops.edge.aten.sub.Tensor, wide, constant(f"centre_{number}", centre))
        entered = call(rescale, moved, torch.int16, [float(1 << window.shift)], 0, 0)
        table = constant(f"window_{number}", window.table)
        read = call(exir_ops.backend.tosa.TABLE.default, entered, table)
        narrow = call(rescale, read, torch.int16, [2.0**-_BITS], 0, 0)
        added = call(rescale, narrow, torch.int32, [1.0], 0, 0)
        total = call(exir_ops.edge.aten.add.Tensor, total, added)
    last = call(rescale, total, torch.int16, [1.0], 0, 0)
    for user in users:
        user.replace_input_with(node, last)
    return last
