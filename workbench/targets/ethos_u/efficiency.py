"""How near each operation is to the limits of the device, and what keeps it away.

The limits do not come from Vela: products over the products of a cycle, and every byte of inputs,
outputs and weights once over the widths of the memory ports. Sources: Ethos-U55 Technical Reference
Manual (two 64-bit AXI ports), Ethos-U65 (two of 128 bits), Ethos-U85 (two or more of 128 bits for
SRAM, one or more for external memory).
"""

from __future__ import annotations

from collections import Counter
from math import ceil
from typing import TYPE_CHECKING

from workbench.results.cost import OUTSIDE_MODULES, ModuleCycles
from workbench.targets.ethos_u.devices import family_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from workbench.results import VelaOperation, VelaReport
    from workbench.results.cost import CycleCause

# Bytes of a cycle: through the port of SRAM, and of external memory.
_PORTS = {"u55": (8, 8), "u65": (16, 16), "u85": (32, 16)}
_LOW = 0.5
# Vela compiles a stride above 3 as one operation for each column, a tall kernel in parts.
_COLUMNS, _TALL = 8, 64
_BLOCK_DEPTH = 8
_BY_OPERATOR: dict[str, CycleCause] = {
    "Transpose": "layout",
    "MemoryCopy": "copy",
    "LUT": "table",
    "Table": "table",
    "Rescale": "rescale",
    "Resize": "resize",
    "MaxPool": "pool",
    "AvgPool": "pool",
    "ReduceSum": "pool",
}
CAUSES: dict[CycleCause, str] = {
    "stride": "stride above 3",
    "kernel": "large kernel",
    "few_channels": "few input channels",
    "depth": "channels that fill no block",
    "shape": "height or width of 1",
    "depthwise": "depthwise convolution",
    "elementwise": "elementwise operations",
    "copy": "copies",
    "layout": "changes of layout",
    "rescale": "rescales",
    "table": "tables",
    "resize": "resizing",
    "pool": "pools and sums",
    "memory": "memory",
    "weights": "decoding of weights",
    "output": "writing of outputs",
}


def with_limits(report: VelaReport, device: str) -> VelaReport:
    """Return a report with the limit, the efficiency and the cause of every operation and in total.

    The limit of the whole is that of its products, and of its weights through the external port:
    copies, layouts and elementwise operations are what keeps it from there.

    Args:
        report: Vela's estimate for one delegate.
        device: E.g. ``ethos-u55-128``.
    """
    parts = _parts(report.operations)
    operations = tuple(_with_limit(operation, device, parts) for operation in report.operations)
    macs = sum(operation.macs for operation in report.operations if operation.weight_bytes)
    weights = sum(
        operation.weight_bytes / parts[_key(operation)]
        for operation in report.operations
        if operation.weight_bytes
    )
    ideal = max(1, ceil(macs / _macs(device)), ceil(weights / _ports(device)[1]))
    efficiency = _ratio(ideal, report.cycles_total)
    return report.model_copy(
        update={
            "operations": operations,
            "ideal_cycles": ideal,
            "efficiency": efficiency,
            "cause": _main_cause(operations, efficiency),
        }
    )


def by_module(operations: Iterable[VelaOperation], depth: int | None = None) -> list[ModuleCycles]:
    """Return the cycles of each module in execution order, with its limit and what keeps it away.

    The limit of a module is that of its operations one after another: of copies, layouts and
    elementwise operations too, unlike that of a program.

    Args:
        operations: Those of all delegates of a program.
        depth: To how many parts module names are cut: None for whole names, 0 for all together.
    """
    modules: dict[str, list[VelaOperation]] = {}
    for operation in operations:
        name = ".".join(operation.module.split(".")[:depth])
        modules.setdefault(name, []).append(operation)
    total = sum(o.cycles for inside in modules.values() for o in inside)
    return [_module(name, inside, total) for name, inside in modules.items()]


def _module(name: str, operations: Sequence[VelaOperation], total: int) -> ModuleCycles:
    cycles = sum(operation.cycles for operation in operations)
    ideal = sum(operation.ideal_cycles for operation in operations)
    efficiency = _ratio(ideal, cycles)
    return ModuleCycles(
        module=name,
        operations=len(operations),
        cycles=cycles,
        share=cycles / total if total else 0.0,
        ideal_cycles=ideal,
        efficiency=efficiency,
        cause=_main_cause(operations, efficiency),
    )


def _main_cause(operations: Iterable[VelaOperation], efficiency: float) -> CycleCause:
    """Return what most cycles of operations are lost to; "" where half of them are not lost."""
    lost = excess_cycles(operations)
    return next((cause for cause, _ in lost), "") if efficiency < _LOW else ""


def excess_cycles(operations: Iterable[VelaOperation]) -> list[tuple[CycleCause, int]]:
    """Return each cause with the cycles that operations take beyond their limits, largest first."""
    lost: Counter[CycleCause] = Counter()
    for operation in operations:
        if operation.cause:
            lost[operation.cause] += operation.cycles - operation.ideal_cycles
    return lost.most_common()


def efficiency_text(report: VelaReport) -> str:
    """Return how near a program is to the limits of the device, and what keeps it away."""
    limit = f"the device needs at least {report.ideal_cycles:,} cycles"
    text = f"Efficiency {100 * report.efficiency:.0f} %: {limit}"
    lost = excess_cycles(report.operations)
    if report.efficiency >= _LOW or not lost:
        return text
    cause, cycles = lost[0]
    share = cycles / report.cycles_total
    return f"{text}; {100 * share:.0f} % of the cycles are lost to {CAUSES[cause]}"


# So many modules are named, each that loses such a part of all cycles.
_NAMED_MODULES, _LEAST_LOST = 3, 0.05


def module_texts(modules: Iterable[ModuleCycles]) -> list[str]:
    """Return the modules below half of their limit that lose most, with what they lose it to."""
    modules = list(modules)
    least = _LEAST_LOST * sum(module.cycles for module in modules)
    low = [module for module in modules if module.cause and module.cycles - module.ideal_cycles >= least]
    low.sort(key=lambda module: module.ideal_cycles - module.cycles)
    return [
        f"{module.module or OUTSIDE_MODULES}: efficiency {100 * module.efficiency:.0f} %, "
        f"{module.cycles - module.ideal_cycles:,} cycles lost, most to {CAUSES[module.cause]}"
        for module in low[:_NAMED_MODULES]
    ]


def _parts(operations: Iterable[VelaOperation]) -> Counter[tuple[str, str]]:
    """Return how many operations each convolution is compiled as."""
    return Counter(_key(operation) for operation in operations if operation.weight_bytes)


def _key(operation: VelaOperation) -> tuple[str, str]:
    return operation.name, operation.module


def _with_limit(operation: VelaOperation, device: str, parts: Counter[tuple[str, str]]) -> VelaOperation:
    inside, outside = _ports(device)
    macs = operation.macs if operation.weight_bytes else 0
    # Every part of a convolution has the shapes of the whole.
    count = max(1, parts[_key(operation)])
    ideal = max(
        ceil(macs / _macs(device)),
        ceil((operation.moved_bytes - operation.moved_outside) / count / inside),
        ceil((operation.moved_outside + operation.weight_bytes) / count / outside),
    )
    ideal = min(ideal, operation.cycles)
    efficiency = _ratio(ideal, operation.cycles)
    cause = _cause(operation, count) if efficiency < _LOW else ""
    return operation.model_copy(update={"ideal_cycles": ideal, "efficiency": efficiency, "cause": cause})


def _ratio(ideal: int, cycles: int) -> float:
    return min(1.0, ideal / cycles) if cycles else 1.0


def _macs(device: str) -> int:
    return int(device.rpartition("-")[2])


def _ports(device: str) -> tuple[int, int]:
    return _PORTS[family_of(device).name]


def _cause(operation: VelaOperation, count: int) -> CycleCause:
    """Return what keeps an operation, one of ``count`` of a layer, below half of its limit."""
    if not operation.weight_bytes:
        return _BY_OPERATOR.get(operation.operator, "elementwise")
    *places, outputs = operation.output_shape or (2, 2, _BLOCK_DEPTH)
    inputs = operation.input_shape[2] if operation.input_shape else _BLOCK_DEPTH
    checks: dict[CycleCause, bool] = {
        "stride": count >= _COLUMNS,
        "memory": operation.external_cycles >= operation.npu_cycles,
        "weights": operation.bound == "weight decoding",
        "depthwise": operation.operator.startswith("Depthwise"),
        "kernel": count > 1 or max(operation.kernel, default=1) > _TALL,
        "few_channels": inputs < _BLOCK_DEPTH and operation.bound != "output",
        "output": operation.bound == "output",
        "depth": outputs % _BLOCK_DEPTH > 0 or inputs % _BLOCK_DEPTH > 0,
        "shape": 1 in places,
    }
    return next((cause for cause, holds in checks.items() if holds), "memory")
