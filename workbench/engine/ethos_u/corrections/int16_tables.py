"""Tables of 16-bit functions with further tables where they are steep.

TOSA 1.0 (operator TABLE) has 513 values for 65,536 codes and interpolates linearly between them. A
function that bends within 128 codes, as rsqrt and exp do, is far from what the quantized model
computes. A further table over a window of codes, entered by shifting the window's codes up,
holds the difference: with a shift of 7 bits every one of its 512 codes has a value of its own.
A further table costs cycles for every element, so that it is added only where it gains: where the
error of the tables is not small beside the noise that 8-bit weights make anyway.
"""

import math
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

# Steps of the output by which a table may depart: 1/1,000 of the largest value, and less where the
# noise that such errors leave counts.
_ALLOWED, _ALLOWED_WHERE_IT_COUNTS = 32, 8
_MOST_WINDOWS = 4
# Noise of a value over its signal that is there without tables: 8-bit weights leave about 45 dB,
# and values of 16 bits that no such weight came before about 85 dB.
NOISE_OF_WEIGHTS, NOISE_OF_VALUES = 10.0**-5.3, 10.0**-8.5
# What a further table must gain over that noise, and one for departures of a few steps.
_LEAST_GAIN_DB, _LEAST_GAIN_OF_FEW_DB = 1.0, 2.0
# Stock's least step, and the part of a finer grid that values reach: it has head-room.
_STOCK_STEP, _REACHED = 2.0**-12, 0.25
_BITS, _CODES = 7, 1 << 15


class Window(NamedTuple):
    """A further table: ``table`` holds 513 differences over the codes around ``centre``.

    Its codes are entered as ``(code - centre) << shift``, saturated to 16 bits.
    """

    centre: int
    shift: int
    table: torch.Tensor


_STOCK = InsertTableOpsPass.generate_16_bit_table_values


class _Curve(NamedTuple):
    """A function over all input codes: what it gives exactly, and how much each code counts.

    ``exact`` are output codes as numbers within the grid, zero where the function is not
    ``defined``; ``zero`` is the output's zero point.
    """

    codes: torch.Tensor
    exact: torch.Tensor
    defined: torch.Tensor
    weights: torch.Tensor
    zero: int

    def noise(self, given: torch.Tensor) -> float:
        """Return the energy of the errors of output codes over that of the values."""
        energy = float((self.weights * (self.exact - self.zero).square()).sum())
        errors = float((self.weights * (self.exact - given).square()).sum())
        return errors / energy if energy > 0 else 0.0


def _stock(function: Any, into: Any, out: Any) -> tuple[torch.Tensor, int]:
    """Return stock's table with its shift; zeros where the grid holds none of the values.

    Stock takes the logarithm of the largest entry to find the shift, which fails if all are zero.
    """
    try:
        return _STOCK(function, into, out)
    except OverflowError:
        return torch.zeros(_ENTRIES, dtype=torch.int16), _NO_SHIFT


# The entries of a table of 16 bits, and the shift of one whose entries fit: 7 fractional bits.
_ENTRIES, _NO_SHIFT = 513, -7


def _reaching(function: Any, into: Any) -> Any:
    """Return a function of a table's 513 inputs whose last input is the first code beyond the grid.

    TOSA interpolates the last 128 codes towards it. ExecuTorch 1.5.1 computes the same input.
    """
    if into.dtype is not torch.int16 or into.qmax != _CODES - 1:
        return function
    beyond = (_CODES - into.get_zp_per_tensor()) * into.get_scale_per_tensor()

    def reaching(values: torch.Tensor) -> torch.Tensor:
        values = values.clone()
        values[-1] = beyond
        return function(values)  # type: ignore[no-any-return]

    return reaching


def first_table(
    function: Any, into: Any, out: Any, noise: float = NOISE_OF_WEIGHTS
) -> tuple[torch.Tensor, int]:
    """Return the table of a function with its shift, or one of half the precision.

    It is stock's table with the value beyond the last code. The values of stock's table end where
    the grid of the output ends, so that the line to the first value beyond is too flat. With half
    the precision they reach twice as far, which costs an operation: it is taken only where it gains.
    """
    entries = _reaching(function, into)
    table, shift = _stock(entries, into, out)
    if out.dtype is not torch.int16:
        return table, shift
    room = {"qmin": 2 * out.qmin, "qmax": 2 * out.qmax, "dtype": torch.int32}
    wide, more = _stock(entries, into, out._replace(**room))
    curve = _curve(function, into, out)
    flat, reaching = (
        curve.noise(_read(given, curve.codes, 2.0**by).clamp(out.qmin, out.qmax))
        for given, by in ((table, shift), (wide, more))
    )
    return (wide, more) if _gains(flat, reaching, noise) else (table, shift)


def windows_of(
    function: Any, into: Any, out: Any, noise: float = NOISE_OF_WEIGHTS
) -> tuple[list[Window], torch.Tensor]:
    """Return the further tables that a function gains from, and what all tables give.

    Args:
        function: The function of real numbers.
        into: The ``QuantArgs`` of its input, in 16 bits.
        out: Those of its output, in 16 bits.
        noise: The noise of the function's values that is there anyway, over their signal.

    Returns:
        The windows, none where stock's table is near enough, and an output code for every input
        code from -32,768 on.
    """
    curve = _curve(function, into, out)
    table, shift = first_table(function, into, out, noise)
    first = _read(table, curve.codes, 2.0**shift).clamp(out.qmin, out.qmax)
    windows, near = _windows_within(curve, first, _ALLOWED, noise)
    more, nearer = _windows_within(curve, first, _ALLOWED_WHERE_IT_COUNTS, noise)
    if _gains(curve.noise(near), curve.noise(nearer), noise, _LEAST_GAIN_OF_FEW_DB):
        windows, near = more, nearer
    return windows, near.clamp(out.qmin, out.qmax).to(torch.int64)


def _windows_within(
    curve: _Curve, now: torch.Tensor, allowed: int, noise: float
) -> tuple[list[Window], torch.Tensor]:
    """Return windows over the codes at which tables depart by more, and what all tables give.

    Args:
        curve: The function.
        now: What the first table gives for every code.
        allowed: By how many steps of the output tables may depart.
        noise: The noise of the function's values that is there anyway, over their signal.
    """
    windows = list[Window]()
    codes = curve.codes
    while len(windows) < _MOST_WINDOWS:
        wrong = codes[((curve.exact - now).abs() > allowed) & (curve.weights > 0)]
        window = _window(curve, now, wrong) if len(wrong) else None
        if window is None:
            break
        entered = ((codes - window.centre) << window.shift).clamp(-_CODES, _CODES - 1)
        better = (now + _read(window.table, entered, 2.0**-_BITS)).clamp(-_CODES, _CODES - 1)
        if not _gains(curve.noise(now), curve.noise(better), noise):
            break
        windows.append(window)
        now = better
    return windows, now


def _gains(before: float, after: float, noise: float, least: float = _LEAST_GAIN_DB) -> bool:
    """Return whether less error is worth an operation, beside the noise that is there anyway."""
    return 10 * math.log10((noise + before) / (noise + after)) >= least


def _curve(function: Any, into: Any, out: Any) -> _Curve:
    codes = torch.arange(-_CODES, _CODES)
    used = codes.clamp(into.qmin, into.qmax)
    values = function((used - into.get_zp_per_tensor()) * into.get_scale_per_tensor())
    values = values.reshape(-1).to(torch.float64)
    defined = torch.isfinite(values)
    exact = values / out.get_scale_per_tensor() + out.get_zp_per_tensor()
    exact = exact.nan_to_num(0.0, float(out.qmax), float(out.qmin)).clamp(out.qmin, out.qmax)
    weights = torch.where(defined, _weights(codes, values, into, out), 0.0)
    return _Curve(codes, exact, defined, weights, int(out.get_zp_per_tensor()))


def _weights(codes: torch.Tensor, values: torch.Tensor, into: Any, out: Any) -> torch.Tensor:
    """Return how much each input code counts: zero where calibrated values do not reach.

    Values are often small, and those of a norm differ by powers of two: a half of the weight is
    even over all codes, and a half even over all powers of two. How they really are distributed
    is not in the graph.
    """
    zero, low, high = into.get_zp_per_tensor(), into.qmin, into.qmax
    distance = (codes - zero).abs()
    reached = (codes >= low) & (codes <= high) & (distance <= (high - low) / 2 * _part(into))
    top = (out.qmax - out.qmin) / 2 * _part(out) * out.get_scale_per_tensor()
    reached &= values.abs() <= top
    even = reached.double()
    scaled = even / distance.clamp(min=1)
    return even / even.sum().clamp(min=1.0) + scaled / scaled.sum().clamp(min=1e-9)


def _part(grid: Any) -> float:
    """Return the part of a grid that values reach: a step below stock's has head-room."""
    return _REACHED if float(grid.get_scale_per_tensor()) < _STOCK_STEP else 1.0


def _read(table: torch.Tensor, codes: torch.Tensor, scale: float) -> torch.Tensor:
    """Return what TABLE and its RESCALE give for codes."""
    wide = table.to(torch.int64)
    index, along = (codes + _CODES) >> _BITS, codes & ((1 << _BITS) - 1)
    given = (wide[index] << _BITS) + (wide[index + 1] - wide[index]) * along
    return (given.double() * scale + 0.5).floor()


def _window(curve: _Curve, now: torch.Tensor, wrong: torch.Tensor) -> Window | None:
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
    rest = torch.where(inside & curve.defined[at], curve.exact[at].round() - now[at], 0.0)
    # Codes beyond the window enter its ends.
    for end in (0, 511, 512):
        rest[end] = 0.0
    return Window(centre, shift, rest.clamp(-_CODES, _CODES - 1).to(torch.int16))


@contextmanager
def fine_tables() -> Iterator[list[str]]:
    """Give steep 16-bit functions further tables.

    Fault: A 16-bit function has 513 values with straight lines between them. Functions that bend
        within 128 codes, such as rsqrt of a norm or exp behind a mask, differ by thousands of steps
        from the quantized model. With ExecuTorch 1.4.1 the last line is flat: up to 16 steps in
        softmax. The values of a table end where the grid of its output ends, so that the line to
        the first value beyond is too flat: up to 40 steps in softmax.
    Instead: Such a table has half the precision and twice the reach. Where one table departs by
        more than 32 steps, or 8 where that gains 2 dB, up to four further tables over windows of
        codes add the difference. All cost cycles, and are applied where they gain 1 dB or more over
        the noise that 8-bit weights leave anyway (53 dB below the values; 85 dB where there are
        none). The last line ends at the value beyond the last code.
    Right because: In its window a further table has a value for every code, or for every few;
        outside it is zero. The program is compared with the quantized model as ever.
    Network: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) in a16w8
    Tools: executorch 1.5.1
    """
    stock = InsertTableOpsPass.call
    refined: list[str] = []

    noise = NOISE_OF_WEIGHTS

    def call(self: Any, graph_module: fx.GraphModule) -> Any:
        nonlocal noise
        noise = _noise_of(graph_module.graph)
        windows_by_node = {node: _windows(self, node, noise) for node in list(graph_module.graph.nodes)}
        added = [_add(self, node, windows) for node, windows in windows_by_node.items() if windows]
        for node, windows in windows_by_node.items():
            refined.extend([node.name] * (len(windows) or _is_changed(self, node, noise)))
        result = stock(self, graph_module)
        if added:
            # The nodes that were added have no values yet.
            result = ArmPass.call(self, result.graph_module)
        return result

    def generate(function: Any, into: Any, out: Any) -> tuple[torch.Tensor, int]:
        return first_table(function, into, out, noise)

    InsertTableOpsPass.call = call
    InsertTableOpsPass.generate_16_bit_table_values = staticmethod(generate)
    try:
        yield refined
    finally:
        InsertTableOpsPass.call = stock
        InsertTableOpsPass.generate_16_bit_table_values = staticmethod(_STOCK)


def _windows(tables: Any, node: fx.Node, noise: float) -> list[Window]:
    """Return the further tables of a node; none for anything but a 16-bit function."""
    given = _function_of(tables, node)
    return [] if given is None else windows_of(*given, noise)[0]


def _noise_of(graph: fx.Graph) -> float:
    """Return the noise that the values of a graph have anyway: much, if it has 8-bit numbers."""
    grids = (grid for node in graph.nodes for grid in (node.meta.get("input_qparams") or {}).values())
    has_bytes = any(grid.dtype is torch.int8 for grid in grids)
    return NOISE_OF_WEIGHTS if has_bytes else NOISE_OF_VALUES


def _is_changed(tables: Any, node: fx.Node, noise: float) -> bool:
    """Return whether the first table of a node has other values than stock's."""
    given = _function_of(tables, node)
    if given is None:
        return False
    (table, shift), (stock, by) = first_table(*given, noise), _stock(*given)
    return shift != by or not torch.equal(table, stock)


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
                exp_program=tables.exported_program,
                graph=graph,
                kind=InputKind.BUFFER,
                name=f"b_{node.name}_{name}",
                data=data,
                persistent_buffer=True,
            )

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


_TABLES = "executorch.backends.arm._passes.insert_table_ops:InsertTableOpsPass"
_CALL = (f"{_TABLES}.call", "1b8b18cf14e0e183")
# By correction, the functions whose work it copies or replaces, each with the digest of its code;
# one set for each release that has another.
# ExecuTorch 1.4.1: the last value of a table ends with the grid.
PINS = {
    "fine_tables": (
        (_CALL, (f"{_TABLES}.generate_16_bit_table_values", "fb092bec6a0e77d7")),
        (_CALL, (f"{_TABLES}.generate_16_bit_table_values", "64bdfba110fccb44")),
    )
}
