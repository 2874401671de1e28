"""Vela's reports on each delegate, recorded during the compilation."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

from workbench.engine.ethos_u.corrected_cycles import (
    GROUPS,
    PERFORMANCE,
    QUEUE,
    SHAPES,
    OperationCycles,
    by_id,
    corrected,
    number,
    rows,
)
from workbench.engine.ethos_u.estimate import totals
from workbench.engine.fx import modules, programs
from workbench.engine.fx.modules import Location
from workbench.results import LiveRange, NpuCommand, VelaOperation, VelaReport

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import torch

# Memories inside the NPU, whose columns are next to those of the system memories.
_BUFFERS = ("shram", "lutram")
_INSIDE = ("sram", *_BUFFERS)
_TENSORS = "tensors"
# Tensors added by Vela (layout changes) are named #1234, with a new number at every run.
_INTERNAL = "(added by Vela)"
_RESHAPE = "tosa.RESHAPE.default"
# Vela's names of operations that are fused with the one before, with their operators of TOSA.
_LAST = {"LUT": "tosa.TABLE.default", "Clamp": "tosa.CLAMP.default"}
# Operators that may follow them inside.
_PLAIN = frozenset(("tosa.RESCALE.default", _RESHAPE, "tosa.TRANSPOSE.default"))


@dataclass(frozen=True)
class Origin:
    """The origin of a TOSA tensor: operator and location of the translated node.

    ``root`` is the name that the exporter recorded for it, ``source`` the tensor it is computed from.
    """

    op: str = ""
    location: Location = field(default_factory=Location)
    root: str = ""
    source: str = ""

    @property
    def module(self) -> str:
        """Dotted name of its innermost module."""
        return self.location.module


Origins = dict[str, Origin]


@dataclass
class Recording:
    """Models compiled by Vela, in order, and the origins of the tensors translated meanwhile.

    ``corrected`` are the delegates that corrections of the compiler changed, by correction.
    """

    models: list[Any] = field(default_factory=list)
    origins: list[Origins] = field(default_factory=list)
    corrected: dict[str, list[str]] = field(default_factory=dict)


@contextmanager
def recorded() -> Iterator[Recording]:
    """Record every model that Vela compiles inside the block, in order."""
    # A process that only reads reports does without ExecuTorch, which takes seconds to import.
    from workbench.engine.ethos_u.capture.lowering import watched_compilation

    recording, pending = Recording(), Origins()

    def compiled(model: Any) -> None:
        recording.models.append(model)
        recording.origins.append(dict(pending))
        pending.clear()

    def translated(node: torch.fx.Node) -> None:
        pending[node.name] = _origin_of(node, pending)

    with watched_compilation(compiled, translated):
        yield recording


def _origin_of(node: torch.fx.Node, translated: Origins) -> Origin:
    """Return the origin of a node; one that a pass added without a place has that of its input."""
    source = next((n.name for n in node.all_input_nodes if n.name in translated), "")
    location = modules.locate(node.meta.get("nn_module_stack"))
    if location is None:
        location = translated[source].location if source else Location()
    return Origin(programs.op_of(node), location, programs.origin_of(node), source)


def report(delegate: int, model: Any, clock_hz: float, origins: Origins, device: str) -> VelaReport:
    """Return the estimate for one delegate.

    Args:
        delegate: Its index in program order.
        model: regor's compiled model, with its debug database.
        clock_hz: Clock of the system configuration; cycles / clock is the time.
        origins: The origins of its TOSA tensors, by name.
        device: E.g. ``ethos-u55-128``.
    """
    figures = model.perf_report
    cycles = corrected(model, device)
    return VelaReport(
        **totals(model, clock_hz, cycles.values()).model_dump(),
        delegate=delegate,
        weights_bytes=int(figures.originalWeights),
        encoded_weights_bytes=int(figures.encodedWeights),
        command_stream_bytes=len(bytes(model.command_stream)) if model.command_stream else 0,
        scratch_bytes=int(model.scratch.size),
        operations=tuple(_operations(model, origins, cycles)),
        commands=tuple(_commands(model)),
        tensors=tuple(_live_ranges(model, origins)),
    )


def _commands(model: Any) -> Iterator[NpuCommand]:
    """Yield the commands that compute, in order; chained commands are part of their first."""
    indices = {row["id"]: index for index, row in enumerate(rows(model, PERFORMANCE))}
    chained = {row["id"] for row in rows(model, GROUPS) if row["id"] != row["group_id"]}
    queue = [row for row in rows(model, QUEUE) if row["scheduled_id"] not in chained]
    for row in sorted(queue, key=lambda row: number(row["offset"])):
        yield NpuCommand(offset=number(row["offset"]), operation=indices.get(row["scheduled_id"]))


def _live_ranges(model: Any, origins: Origins) -> Iterator[LiveRange]:
    """Yield the addresses and live ranges of tensors; tensors without an address are skipped."""
    for row in rows(model, _TENSORS):
        address, end = (_address(row.get(n)) for n in ("start_address", "end_address"))
        if address is None or end is None or end <= address:
            continue
        name = str(row.get("name", ""))
        yield LiveRange(
            name=_INTERNAL if name.startswith("#") else name,
            module=origin_named(name, origins).module,
            memory=str(row.get("memory", "")),
            usage=str(row.get("usage", "")),
            start=number(row.get("start_time")),
            end=number(row.get("end_time")),
            address=address,
            bytes=end - address,
        )


def _address(value: Any) -> int | None:
    try:
        return int(str(value), 0)
    except ValueError:
        return None


def _operations(
    model: Any, origins: Origins, cycles: Mapping[Any, OperationCycles]
) -> Iterator[VelaOperation]:
    details = by_id(model, SHAPES)
    for row, origin in _with_origins(list(rows(model, PERFORMANCE)), origins):
        name = str(row.get("name", ""))
        shapes, counted = details.get(row.get("id"), {}), cycles[row.get("id")]
        external = sum(n for memory, n in counted.memory.items() if not memory.lower().startswith(_INSIDE))
        macs = number(row.get("mac_count"))
        waits = {**counted.waits, "SRAM": counted.memory.get("Sram", 0), "external memory": external}
        encoded = number(shapes.get("weight_total_bytes"))
        pixels = number(shapes.get("ofm_shape_h")) * number(shapes.get("ofm_shape_w"))
        yield VelaOperation(
            name=_INTERNAL if name.startswith("#") else name,
            operator=str(row.get("operator", "")),
            module=origin.module,
            tosa=origin.op,
            cycles=counted.cycles,
            cycles_vela=counted.vela,
            npu_cycles=counted.npu,
            macs=macs,
            sram_cycles=waits["SRAM"],
            external_cycles=external,
            staging_bytes=number(row.get("staging_usage")),
            bound=max(waits, key=lambda name: waits[name]) if any(waits.values()) else "",
            # Every weight is multiplied once per element of an output channel.
            weights=macs // pixels if encoded and pixels else 0,
            weight_bytes=encoded,
            sram_traffic=_traffic(shapes, outside=False),
            external_traffic=_traffic(shapes, outside=True),
            root=origin.root,
            corrections=counted.corrections,
            **_geometry(shapes),
        )


def _with_origins(
    operations: Sequence[Mapping[str, Any]], origins: Origins
) -> Iterator[tuple[Mapping[str, Any], Origin]]:
    """Yield each operation with its origin.

    Operations that Vela fuses have the name of the last one's output. One in front of a table or a
    clamp comes from what that is computed from.
    """
    fused = {row.get("name"): row["operator"] for row in operations if row.get("operator") in _LAST}
    for row in operations:
        origin = origin_named(str(row.get("name", "")), origins)
        if (operator := fused.get(row.get("name"))) is not None:
            last = _upstream(origin, origins, _PLAIN)
            if last.op == _LAST[operator]:
                before = origins.get(last.source, last)
                origin = last if row["operator"] == operator else _upstream(before, origins, {_RESHAPE})
        yield row, origin


def _upstream(origin: Origin, origins: Origins, passed: Collection[str]) -> Origin:
    """Return an origin, or the first before it that is no operator of ``passed``."""
    while origin.op in passed and origin.source in origins:
        origin = origins[origin.source]
    return origin


def _geometry(shapes: Mapping[str, Any]) -> dict[str, Any]:
    """Return shapes and sizes of an operation, as far as Vela's tables have them."""

    def dimensions(tensor: str) -> tuple[int, ...]:
        return tuple(number(shapes.get(f"{tensor}_shape_{axis}")) for axis in "hwc")

    sizes = {
        tensor: prod(dimensions(tensor))
        * max(1, number(shapes.get(f"{tensor}_shape_n")))
        * _BYTES.get(str(shapes.get(f"{tensor}_dtype")), 1)
        for tensor in ("ifm", "ifm2", "ofm")
    }
    return {
        "input_shape": dimensions("ifm"),
        "output_shape": dimensions("ofm"),
        "kernel": tuple(number(shapes.get(f"kernel_size_{axis}")) for axis in "yx"),
        "moved_bytes": sum(sizes.values()),
        "moved_outside": sum(
            size
            for tensor, size in sizes.items()
            if not str(shapes.get(f"{tensor}_memory", "Sram")).startswith("Sram")
        ),
    }


# Sizes of the elements that Vela names; all others have one byte.
_BYTES = {"Int16": 2, "UInt16": 2, "Int32": 4, "UInt32": 4, "Int48": 6, "Int64": 8}


def _traffic(shapes: Mapping[str, Any], *, outside: bool) -> int:
    """Return the bytes that an operation reads and writes, inside or outside SRAM."""
    return sum(
        number(value)
        for name, value in shapes.items()
        if name.endswith(("_read", "_write"))
        and not name.lower().startswith(_BUFFERS)
        and (not name.startswith("Sram")) == outside
    )


def origin_named(name: str, origins: Origins) -> Origin:
    """Return a tensor's origin; tensors added by the translation have a suffix."""
    while name:
        if name in origins:
            return origins[name]
        name = name.rpartition("_")[0]
    return Origin()
