"""Vela's cycles, recomputed from its debug database where ``cycle_corrections`` says it is wrong.

Vela 5.1.0 records for each operation what its estimate is made of. The formula is recomputed from
these columns with Vela's own figures first; an operation for which this does not give the recorded
figures is left as Vela says.

Source of the formula: regor/architecture/ethosu55/ethos_u55_performance.cpp, EstimateMacOpCycles,
EstimateElementwiseCycles and EstimateAOCyclesPerElement. For an operation of ``n`` blocks, with
``m`` cycles of the MAC units and ``a`` cycles of the output unit for each block::

    mac_cycles = m * n + a      ao_cycles = a' * n + m      cmd_cycles = (t + m + a) / 4
    cycles = max(m, cmd) * n + max(a, cmd)      (or with m and a exchanged, if a is the greater)

where ``a`` is the greater of ``a'`` and the wait for biases, and ``t`` the transfer of a block.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.errors import WorkbenchError
from workbench.pte import npu_commands
from workbench.targets.ethos_u.cycle_corrections import (
    NO_ACTIVATION,
    POOLING,
    TRANSPOSED_READS,
    WEIGHTS_LOADED,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# Tables of Vela 5.1's debug database; columns are found by header.
PERFORMANCE, QUEUE, GROUPS = "perf", "queue", "group"
SHAPES, UNITS, DECODING = "perf_debug", "perf_debug_main", "perf_debug_wd"


@dataclass(frozen=True)
class _Device:
    """Cycles per output element, by class, and of an activation; the micro-block (h, w, c).

    Classes: 32-bit unary, 32-bit binary, product to 32 bits, product or 40-bit accumulator, simple
    sum, sum, maximum pool, other. Source: s_EthosU55PerfInfo and s_EthosU65PerfInfo of regor.
    """

    output: tuple[float, ...]
    table: float
    relu: float
    block: tuple[int, int, int]
    cores: int = 1


_DEVICES = {
    "ethos-u55-32": _Device((2.0, 3.0, 3.0, 3.0, 4.0, 6.0, 1.0, 2.0), 1.0, 1.0, (1, 1, 4)),
    "ethos-u55-64": _Device((1.0, 1.5, 1.5, 1.5, 2.0, 3.0, 0.5, 1.0), 1.0, 1.0, (1, 1, 8)),
    "ethos-u55-128": _Device((0.75, 1.25, 0.75, 0.75, 1.0, 1.5, 0.25, 0.5), 1.0, 0.5, (1, 2, 8)),
    "ethos-u55-256": _Device((0.625, 1.125, 0.5, 0.375, 0.5, 0.75, 0.125, 0.25), 1.0, 0.25, (2, 2, 8)),
    "ethos-u65-256": _Device((0.625, 1.125, 0.5, 0.375, 0.5, 0.75, 0.125, 0.25), 1.0, 0.25, (2, 2, 8)),
    "ethos-u65-512": _Device(
        (0.3125, 0.5625, 0.25, 0.1875, 0.25, 0.375, 0.0625, 0.125), 0.5, 0.125, (2, 2, 8), 2
    ),
}
_UNARY, _BINARY, _PRODUCT_32, _PRODUCT, _SUM, _MAXIMUM, _OTHER = 0, 1, 2, 3, 5, 6, 7
_TABLES = {"LUT", "Sigmoid", "Tanh"}
_RELUS = {"Relu", "Relu6", "Relu0To1", "ReluN1To1"}
_CONVOLUTIONS = {"Conv2D", "FullyConnected"}
_OTHER_MAC_OPERATIONS = {*_CONVOLUTIONS, "DepthwiseConv2D", "ReduceSum", "MatMul", "Resize"}
_BITS = {"Int8": 8, "UInt8": 8, "Int16": 16, "UInt16": 16, "Int32": 32, "UInt32": 32}
# A kernel is worked off in parts of this size; a step of a pool takes at least four cycles.
_KERNEL_PART, _LEAST_STEP = 8, 4
# Channels of a brick of the format NHCWB16.
_BRICK = 16


@dataclass(frozen=True)
class OperationCycles:
    """Cycles of one row: of the NPU and with memory, as Vela says and corrected.

    ``waits`` are the cycles of the NPU's units, by the names of ``VelaOperation.bound``, and
    ``memory`` those of each memory, by Vela's name of it.
    ``corrections`` are ids of ``CYCLE_CORRECTIONS``, the one that takes off most first.
    """

    vela: int
    vela_npu: int
    cycles: int
    npu: int
    waits: Mapping[str, int]
    memory: Mapping[str, int]
    corrections: tuple[str, ...] = ()


def rows(model: Any, name: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table of regor's debug database, by column; none if there is no table."""
    table = model.opt_database.tables.get(name)
    if table is None:
        return
    header = [str(title).strip() for title in table.header]
    for cells in table.data:
        yield dict(zip(header, cells, strict=False))


def number(value: Any) -> int:
    """Return a cell as an integer; 0 for an empty cell."""
    try:
        return int(float(value))
    except (TypeError, ValueError):
        return 0


def by_id(model: Any, table: str) -> dict[Any, dict[str, Any]]:
    """Return the rows of a table by their ids."""
    return {row["id"]: row for row in rows(model, table) if "id" in row}


@dataclass(frozen=True)
class _Operation:
    """A row of the performance table with its details, and what was fused into it."""

    row: Mapping[str, Any]
    shapes: Mapping[str, Any]
    units: Mapping[str, Any]
    decoding: Mapping[str, Any]
    fused: str

    @property
    def kind(self) -> str:
        return str(self.row.get("operator", ""))

    @property
    def memory_cycles(self) -> dict[str, int]:
        return {
            name.removesuffix("_ac"): number(value)
            for name, value in self.row.items()
            if name.endswith("_ac")
        }

    @property
    def is_buffered(self) -> bool:
        return bool(self.shapes.get("weight_buffering"))

    @property
    def weights(self) -> tuple[Any, ...]:
        """What parts of one operation have in common: their source and their weights."""
        names = ("weight_total_bytes", "weight_distinct", "weight_zero", "ofm_depth_slices")
        return (self.row.get("source_id"), *(self.shapes.get(name) for name in names))


def corrected(model: Any, device: str) -> dict[Any, OperationCycles]:
    """Return the cycles of every operation of a compiled delegate, by the id of its row.

    Args:
        model: regor's compiled model, with its debug database.
        device: E.g. ``ethos-u55-128``.
    """
    operations = list(_operations(model))
    loaded = _loaded_already(model, operations)
    results: dict[Any, OperationCycles] = {}
    before: OperationCycles | None = None
    for operation in operations:
        key = operation.row.get("id")
        before = _corrected(operation, device, before, is_loaded=key in loaded)
        results[key] = before
    return results


def _operations(model: Any) -> Iterator[_Operation]:
    performance = by_id(model, PERFORMANCE)
    shapes, units, decoding = (by_id(model, table) for table in (SHAPES, UNITS, DECODING))
    fused: dict[Any, str] = {}
    for row in rows(model, GROUPS):
        if row["id"] != row["group_id"] and row["id"] in performance:
            fused.setdefault(row["group_id"], str(performance[row["id"]].get("operator", "")))
    for key, row in performance.items():
        details = (shapes.get(key, {}), units.get(key, {}), decoding.get(key, {}))
        yield _Operation(row, *details, fused.get(key, ""))


def _loaded_already(model: Any, operations: Sequence[_Operation]) -> set[Any]:
    """Return the ids of parts whose weights a part before them has loaded.

    Such a part has the weights of the row before it, both are buffered, and the command stream has
    no transfer left for it: one before the part, or before the row before it if the weights are
    loaded ahead.
    """
    if not any(_is_same(*pair) for pair in itertools.pairwise(operations)):
        return set()
    try:
        commands = npu_commands.decode(bytes(model.command_stream)).commands
    except WorkbenchError:
        return set()
    transfers = [c.offset for c in commands if c.name == "NPU_OP_DMA_START"]
    last: dict[Any, int] = {}
    for row in rows(model, QUEUE):
        key, offset = row.get("scheduled_id"), number(row.get("offset"))
        last[key] = max(last.get(key, 0), offset)
    places = [last.get(operation.row.get("id")) for operation in operations]
    loaded = set()
    for index, part in enumerate(operations):
        end = places[index]
        if not part.is_buffered or end is None:
            continue
        ahead = 2 if number(part.shapes.get("weight_pre_buffer")) else 1
        start = places[index - ahead] or 0 if index >= ahead else 0
        own = [at for at in transfers if start < at < end]
        if own:
            transfers = [at for at in transfers if at not in own]
        elif index and _is_same(operations[index - 1], part):
            loaded.add(part.row.get("id"))
    return loaded


def _is_same(before: _Operation, part: _Operation) -> bool:
    return before.is_buffered and part.is_buffered and before.weights == part.weights


def _corrected(
    operation: _Operation, device: str, before: OperationCycles | None, *, is_loaded: bool
) -> OperationCycles:
    vela, npu = number(operation.row.get("op_cycles")), number(operation.row.get("npu_cycles"))
    memory, reasons = operation.memory_cycles, list[str]()
    change = _unit_cycles(operation, device) if npu else None
    waits = _waits(operation)
    corrected_npu = float(npu)
    if change is not None:
        corrected_npu = npu - change.saved + _transfer_exposed(operation, before, npu, change)
        waits, reasons = {**waits, **change.waits}, [*change.reasons]
    if is_loaded:
        computing = max(waits["MACs"], waits["output"])
        if computing < corrected_npu:
            corrected_npu, reasons = computing, [WEIGHTS_LOADED, *reasons]
        memory = {name: _without_weights(operation, name, n) for name, n in memory.items()}
    if device.startswith("ethos-u85-") and operation.kind == "Transpose":
        read_once = _read_once(operation, memory)
        memory, reasons = read_once, [TRANSPOSED_READS] * (read_once != memory) + reasons
    cycles = min(vela, max(round(corrected_npu), *memory.values(), 0)) if npu else vela
    if cycles == vela and round(corrected_npu) == npu:
        reasons = []
    return OperationCycles(vela, npu, cycles, round(corrected_npu), waits, memory, tuple(reasons))


def _waits(operation: _Operation) -> dict[str, int]:
    return {
        "MACs": number(operation.units.get("mac_cycles")),
        "output": number(operation.units.get("ao_cycles")),
        "commands": number(operation.units.get("cmd_cycles")),
        "weight decoding": number(operation.decoding.get("wd_cycles")),
    }


def _without_weights(operation: _Operation, memory: str, cycles: int) -> int:
    """Return the access cycles of a memory without the transfer of weights out of it.

    Of the memory that the weights are loaded into, nothing is taken: the NPU reads them there.
    """
    if memory.lower().startswith(("sram", "shram", "lutram")):
        return cycles
    rest = (f"{memory}FeatureMap_ac", f"{memory}Scales_ac")
    return min(cycles, sum(number(operation.shapes.get(name)) for name in rest))


def _read_once(operation: _Operation, memory: dict[str, int]) -> dict[str, int]:
    """Return the access cycles of memories with one read of a transposed input."""
    shapes, name = operation.shapes, str(operation.shapes.get("ifm_memory"))
    bits = _BITS.get(str(shapes.get("ifm_dtype")))
    read = number(shapes.get(f"{name}FeatureMap_read"))
    moved = read + number(shapes.get(f"{name}FeatureMap_write"))
    if name not in memory or bits is None or not read:
        return memory
    sizes = [number(shapes.get(f"ifm_shape_{axis}")) or 1 for axis in "nhwc"]
    if shapes.get("ifm_format") == "NHCWB16":
        sizes[3] = -(-sizes[3] // _BRICK) * _BRICK
    efficiency = float(shapes.get(f"{name}_read_efficiency") or 1.0) or 1.0
    needed = min(read, round(math.prod(sizes) * bits / 8 / efficiency))
    return {**memory, name: round(memory[name] * (moved - read + needed) / moved)}


def _transfer_exposed(
    operation: _Operation, before: OperationCycles | None, npu: int, change: _Change
) -> float:
    """Return the cycles of weight transfers that shorter operations no longer hide.

    Weights that are loaded ahead are hidden behind the operation before; others behind the
    operation itself.
    """
    transfer = number(operation.shapes.get("weight_transfer_cycles"))
    if not operation.is_buffered or not transfer:
        return 0.0
    if number(operation.shapes.get("weight_pre_buffer")):
        if before is None:
            return 0.0
        return float(max(0, transfer - before.cycles) - max(0, transfer - before.vela))
    return max(0.0, min(npu, transfer) - (npu - change.saved))


@dataclass(frozen=True)
class _Change:
    """Cycles saved by the corrections of an operation, and its units' new cycles."""

    saved: float
    reasons: tuple[str, ...]
    waits: Mapping[str, int]


def _unit_cycles(operation: _Operation, name: str) -> _Change | None:
    """Return the change of an operation's own cycles; None if there is none or it is unknown."""
    device = _DEVICES.get(name)
    bits = _BITS.get(str(operation.shapes.get("ifm_dtype")))
    if not operation.units.get("ao_cycles") or bits is None:
        return None
    has_macs = operation.units.get("mac_cycles") not in {"", None}
    if device is None:
        is_pool = has_macs and operation.kind not in _OTHER_MAC_OPERATIONS
        return _pooling_of_u85(operation, bits) if is_pool else None
    if operation.kind in {"Transpose", "MatMul"}:
        return None
    return (_with_macs if has_macs else _elementwise)(operation, device, bits)


def _pooling_of_u85(operation: _Operation, bits: int) -> _Change | None:
    """Return the change of pools, reductions, copies and transposes, which U85 computes alike."""
    micro = tuple(number(operation.units.get(f"ofm_ublock_{axis}")) or 1 for axis in "hwc")
    blocks, _, inside = _blocks(operation, micro)
    total, output_total = (number(operation.units.get(n)) for n in ("mac_cycles", "ao_cycles"))
    steps = _pool_steps(operation) * inside
    macs, command = steps * bits / 2, number(operation.units.get("cmd_cycles"))
    output = total - macs * blocks
    # The figures are those of whole cycles for each block.
    if output < -1 or abs(output * blocks + macs - output_total) > blocks + 2:
        return None
    less = macs - steps * (bits / 2 - bits / 8)
    transfer = max(0.0, 4 * command - macs - output)
    new_command = (transfer + less + output) / 4
    saved = _total(macs, output, command, blocks) - _total(less, output, new_command, blocks)
    if saved <= 0:
        return None
    waits = {
        "MACs": round(less * blocks + output),
        "output": round(output * blocks + less),
        "commands": round(new_command),
    }
    return _Change(saved, (POOLING,), waits)


def _rates(operation: _Operation, device: _Device, output: int) -> tuple[float, float]:
    """Return the cycles per output element: as Vela charges them, and as they are."""
    rate = device.output[output]
    activation = operation.fused or operation.kind
    if activation in _TABLES:
        return max(rate, device.table), max(rate, device.table)
    if operation.fused in _RELUS:
        return max(rate, device.relu), max(rate, device.relu)
    if operation.fused:
        return rate, rate
    own = device.relu if operation.kind in _RELUS else 0.0
    return max(rate, device.table), max(rate, own)


def _with_macs(operation: _Operation, device: _Device, bits: int) -> _Change | None:
    is_pool = operation.kind not in _OTHER_MAC_OPERATIONS
    output = _OTHER
    if operation.kind == "MaxPool":
        output = _MAXIMUM
    if bits == 16 and not is_pool and operation.shapes.get("ofm_dtype") in {"Int8", "Int16"}:
        output = _PRODUCT
    charged, rate = _rates(operation, device, output)
    blocks, elements, micro_blocks = _blocks(operation, device.block)
    if not elements:
        return None
    solved = _solved(operation.units, blocks, math.ceil(charged * elements))
    if solved is None:
        return None
    macs, waiting = solved
    command = number(operation.units.get("cmd_cycles"))
    transfer = max(0.0, 4 * command - macs - waiting)
    new_macs = float(macs)
    if is_pool and device is not _DEVICES["ethos-u55-32"]:
        steps = _pool_steps(operation) * micro_blocks / device.cores
        new_macs = macs - steps * (bits / 2 - bits / 8) if steps * bits / 2 <= macs else macs
    new_output = max(math.ceil(rate * elements), waiting if waiting > math.ceil(charged * elements) else 0)
    new_command = (transfer + new_macs + new_output) / 4
    saved = _total(macs, waiting, command, blocks) - _total(new_macs, new_output, new_command, blocks)
    reasons = [POOLING] * (new_macs < macs) + [NO_ACTIVATION] * (rate < charged)
    if not reasons or saved <= 0:
        return None
    waits = {
        "MACs": round(new_macs * blocks + new_output),
        "output": round(new_output * blocks + new_macs),
        "commands": round(new_command),
    }
    return _Change(saved, tuple(reasons), waits)


def _blocks(operation: _Operation, micro: tuple[int, ...]) -> tuple[float, int, int]:
    """Return the blocks of the output (a fraction), and a block's elements and micro-blocks.

    Args:
        operation: The operation.
        micro: The size of a micro-block (h, w, c).
    """
    part = "ofm_slice" if number(operation.shapes.get("ofm_slice_h")) else "ofm_shape"
    shape = [number(operation.shapes.get(f"{part}_{axis}")) or 1 for axis in "hwc"]
    block = [
        min(size, number(operation.units.get(f"ofm_block_{axis}")))
        for size, axis in zip(shape, "hwc", strict=True)
    ]
    is_flat = shape[0] == 1 and shape[1] % 2 == 0 and number(operation.shapes.get("kernel_size_y")) <= 1
    if micro[0] == 2 and operation.kind in _CONVOLUTIONS and is_flat:
        micro = (1, 4, micro[2])
    inside = math.prod(-(-size // step) for size, step in zip(block, micro, strict=True))
    total = math.prod(-(-size // step) for size, step in zip(shape, micro, strict=True))
    return (total / inside if inside else 0.0), math.prod(block), inside


def _solved(units: Mapping[str, Any], blocks: float, output: int) -> tuple[int, float] | None:
    """Return the MAC cycles of a block, and its output cycles with the wait for biases.

    None if no figures give the recorded ones with ``output`` cycles of a block's elements.
    """
    macs_total, output_total = number(units.get("mac_cycles")), number(units.get("ao_cycles"))
    near = round(output_total - output * blocks)
    macs = next(
        (m for m in (near, near + 1, near - 1) if m >= 0 and int(output * blocks + m) == output_total), None
    )
    if macs is None:
        return None
    if int(macs * blocks + output) == macs_total:
        return macs, float(output)
    waiting = macs_total - macs * blocks
    return (macs, waiting) if waiting > output else None


def _pool_steps(operation: _Operation) -> int:
    """Return the cycles of a micro-block for a kernel, before the factor for bits."""
    width, height = (number(operation.shapes.get(f"kernel_size_{axis}")) or 1 for axis in "xy")
    return sum(
        max(_LEAST_STEP, min(width - x, _KERNEL_PART) * min(height - y, _KERNEL_PART))
        for x in range(0, width, _KERNEL_PART)
        for y in range(0, height, _KERNEL_PART)
    )


def _total(macs: float, output: float, command: float, blocks: float) -> float:
    macs, output = max(macs, command), max(output, command)
    return macs * blocks + output if macs > output else output * blocks + macs


def _elementwise(operation: _Operation, device: _Device, bits: int) -> _Change | None:
    charged, rate = _rates(operation, device, _elementwise_class(operation, bits))
    if rate >= charged:
        return None
    sizes = [number(operation.shapes.get(f"ofm_shape_{axis}")) or 1 for axis in "nhwc"]
    if operation.shapes.get("ofm_format") == "NHCWB16":
        sizes[3] = -(-sizes[3] // _BRICK) * _BRICK
    elements = math.prod(sizes)
    output, command = (number(operation.units.get(n)) for n in ("ao_cycles", "cmd_cycles"))
    if math.ceil(charged * elements) != output:
        return None
    new_output = math.ceil(rate * elements)
    new_command = max(0, command - (output - new_output) / 4)
    saved = max(output, command) - max(new_output, new_command)
    if saved <= 0:
        return None
    waits = {"output": new_output, "commands": round(new_command)}
    return _Change(saved, (NO_ACTIVATION,), waits)


def _elementwise_class(operation: _Operation, bits: int) -> int:
    if bits == 32:
        return _BINARY if number(operation.shapes.get("ifm2_shape_c")) else _UNARY
    if operation.kind == "Mul":
        return _PRODUCT_32 if operation.shapes.get("ofm_dtype") == "Int32" else _PRODUCT
    return _SUM if operation.kind in {"Add", "Sub"} else _OTHER
