"""A program and its figures for Model Explorer, and its timeline for Perfetto.

Sources: Model Explorer's documents "Develop Adapter Extension" (graphs) and "API guide" (node
data); "Trace Event Format" of Chrome, which Perfetto reads.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from workbench.analysis.timeline import commands
from workbench.graph.lineage import Lineage
from workbench.targets.ethos_u.efficiency import CAUSES, by_module

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from workbench.analysis.timeline import CpuStop, Timeline
    from workbench.graph.snapshot import GraphSnapshot, Node, TensorInfo
    from workbench.results import CalibrateResult, EvaluateResult, LowerResult, VelaOperation

# The tracks of a trace.
_NPU, _CPU = 1, 2
# The name of the only graph.
GRAPH = "program"
# From the least to the largest value; of quality the least is the worst.
_GROWING = ({"stop": 0, "bgColor": "#ffffff"}, {"stop": 1, "bgColor": "#d7301f"})
_FALLING = ({"stop": 0, "bgColor": "#d7301f"}, {"stop": 1, "bgColor": "#ffffff"})
_DEVICES = {"NPU": "#a6dba0", "CPU": "#f4a582"}
# Noise and signal are equal at 0 dB; equal tensors have no SQNR, and are shown as this [dB].
_EQUAL_DB = 150.0


def graph_document(graph: GraphSnapshot, name: str) -> bytes:
    """Return the graph as Model Explorer's JSON; nodes have the ids of the graph.

    Nodes that nothing reads and that read nothing, such as counters of batch norms, are left out.
    """
    joined = graph.inputs_of.keys() | graph.outputs_of.keys()
    nodes = [_node(graph, node) for node in graph.nodes if node.id in joined]
    document = {"label": name, "graphs": [{"id": GRAPH, "nodes": nodes}]}
    return _written(document)


def _node(graph: GraphSnapshot, node: Node) -> dict[str, Any]:
    attributes = {"module": node.module, "source": node.source, **node.attrs}
    return {
        "id": node.id,
        "label": node.op or node.kind,
        "namespace": "/".join(node.group),
        "attrs": [{"key": key, "value": value} for key, value in attributes.items() if value],
        "incomingEdges": [
            {
                "sourceNodeId": edge.source,
                "sourceNodeOutputId": str(edge.output_index),
                "targetNodeInputId": str(edge.input_index),
            }
            for edge in graph.inputs_of.get(node.id, ())
        ],
        "outputsMetadata": [
            {"id": str(position), "attrs": _tensor(tensor)} for position, tensor in enumerate(node.outputs)
        ],
    }


def _tensor(tensor: TensorInfo) -> list[dict[str, str]]:
    shape = "x".join(map(str, tensor.shape)) or "scalar"
    return [{"key": "tensor_shape", "value": f"{tensor.dtype}[{shape}]"}]


def _written(document: Any) -> bytes:
    return (json.dumps(document, indent=1, allow_nan=False) + "\n").encode()


def _overlay(values: Mapping[str, float], gradient: tuple[dict[str, Any], ...]) -> bytes:
    finite = {node: value for node, value in values.items() if math.isfinite(value)}
    results = {node: {"value": _shown(value)} for node, value in finite.items()}
    return _written({GRAPH: {"results": results, "gradient": list(gradient)}})


def _shown(value: float) -> float:
    """Return a value as Model Explorer is to show it, which does not round: six digits, or whole."""
    return value if float(value).is_integer() else float(f"{value:.6g}")


def range_overlay(calibrated: CalibrateResult) -> bytes:
    """Return the largest absolute value of each activation, for each operation that makes one."""
    spans: dict[str, float] = {}
    for entry in calibrated.ranges:
        if entry.kind == "activation" and entry.origin:
            largest = max(abs(entry.minimum), abs(entry.maximum))
            spans[entry.origin] = max(largest, spans.get(entry.origin, 0.0))
    return _overlay(spans, _GROWING)


def error_overlay(evaluated: EvaluateResult) -> bytes:
    """Return the SQNR [dB] of each tensor against the float model; equal ones have 150 dB."""
    quality = {
        entry.origin: _EQUAL_DB if entry.sqnr_db is None else entry.sqnr_db
        for entry in evaluated.tensors
        if entry.origin
    }
    return _overlay(quality, _FALLING)


def added_error_overlay(evaluated: EvaluateResult) -> bytes:
    """Return the part of all added error that each operation itself adds [%]."""
    added: defaultdict[str, float] = defaultdict(float)
    for entry in evaluated.tensors:
        if entry.origin and entry.added_share is not None:
            added[entry.origin] += 100.0 * entry.added_share
    return _overlay(added, _GROWING)


def cycle_overlay(lowered: LowerResult) -> bytes:
    """Return the estimated NPU cycles of each operation of the float program."""
    cycles: defaultdict[str, float] = defaultdict(float)
    for report in lowered.vela:
        for operation in report.operations:
            if operation.root:
                cycles[operation.root] += operation.cycles
    return _overlay(cycles, _GROWING)


def device_overlay(edge: GraphSnapshot, graph: GraphSnapshot) -> bytes:
    """Return which device computes each operation of the float program.

    Args:
        edge: The compiled program; nodes inside of a delegate have its name and a slash in front.
        graph: The float program.
    """
    lineage = Lineage({"float": graph, "edge": edge})
    devices: dict[str, str] = {}
    for node in edge.nodes:
        if node.kind != "call":
            continue
        device = "NPU" if "/" in node.id else "CPU"
        match = lineage.counterparts("edge", node.id, "float")
        # An operation in parts is on the CPU if one of them is.
        for name in match.nodes if match.how != "owner" else ():
            devices[name] = device if devices.get(name) != "CPU" else "CPU"
    results = {
        node: {"value": device, "bgColor": _DEVICES[device], "textColor": "#000000"}
        for node, device in devices.items()
    }
    return _written({GRAPH: {"results": results}})


def perfetto_trace(timeline: Timeline, clock_hz: float | None, name: str) -> bytes:
    """Return the timeline of one inference as a trace of nested slices.

    On the NPU's track modules contain modules, operations and commands; the commands of an
    operation share its time equally. On the CPU's track are the operators between, with their
    roughly estimated time at the clock of the NPU.

    Args:
        timeline: The timeline.
        clock_hz: The clock of the NPU; None to count a cycle as a microsecond.
        name: The name of the program.
    """
    scale = 1e6 / clock_hz if clock_hz else 1.0
    source = "measured" if timeline.is_measured else "estimated by Vela"
    events: list[dict[str, Any]] = [
        _named("process_name", 0, name),
        _named("thread_name", _NPU, f"NPU ({source})"),
        _named("thread_name", _CPU, "CPU (roughly estimated)"),
    ]
    events += [
        _slice(module, start * scale, end * scale, _NPU, _efficiency(inside))
        for module, start, end, inside in _modules(timeline)
    ]
    for span in timeline.spans:
        operation = span.operation
        facts = {
            "operator": operation.operator, "module": operation.module, "cycles": operation.cycles,
            "macs": operation.macs, "bound": operation.bound, "efficiency": operation.efficiency,
            "lost_to": CAUSES.get(operation.cause, ""),
            "sram_bytes": operation.sram_traffic, "external_bytes": operation.external_traffic,
        }  # fmt: skip
        events.append(_slice(operation.name, span.start * scale, span.end * scale, _NPU, facts))
    events += [
        _slice(f"command {command.name}", command.start * scale, command.end * scale, _NPU, {})
        for command in commands(timeline)
    ]
    for stop in timeline.stops:
        events += _cpu_slices(stop, scale)
    unit = "us" if clock_hz else "1 us is 1 cycle"
    document = {"traceEvents": events, "displayTimeUnit": "ns", "otherData": {"unit": unit}}
    return _written(document)


def _cpu_slices(stop: CpuStop, scale: float) -> Iterable[dict[str, Any]]:
    """Yield the operators of a stop, one after another; without a length if it has none."""
    now, has_length = stop.at, stop.end > stop.at
    for node in stop.nodes:
        facts = {"reason": node.reason, "module": node.module, "cycles": node.cycles}
        end = now + node.cycles if has_length else now
        yield _slice(node.op, now * scale, end * scale, _CPU, facts)
        now = end


def _efficiency(operations: Iterable[VelaOperation]) -> dict[str, Any]:
    """Return how near operations together are to the device's limit, and what keeps them away."""
    (together,) = by_module(operations, depth=0)
    return {"efficiency": together.efficiency, "lost_to": CAUSES.get(together.cause, "")}


def _modules(timeline: Timeline) -> Iterable[tuple[str, float, float, list[VelaOperation]]]:
    """Yield runs of operations of one module: name, start, end, operations; inner follow outer."""
    spans = [s for s in timeline.spans if s.end > s.start]
    levels = max((len(_levels(s.operation.module)) for s in spans), default=0)
    for depth in range(1, levels + 1):
        run: tuple[tuple[str, ...], float, float, list[VelaOperation]] | None = None
        for span in spans:
            path = _levels(span.operation.module)[:depth]
            if run is not None and run[0] == path and run[2] == span.start:
                run = (path, run[1], span.end, [*run[3], span.operation])
                continue
            if run is not None:
                yield ".".join(run[0]), *run[1:]
            run = (path, span.start, span.end, [span.operation]) if len(path) == depth else None
        if run is not None:
            yield ".".join(run[0]), *run[1:]


def _levels(module: str) -> tuple[str, ...]:
    return tuple(module.split(".")) if module else ()


def _named(what: str, thread: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": 1, "tid": thread, "args": {"name": name}}


def _slice(name: str, start: float, end: float, thread: int, facts: dict[str, Any]) -> dict[str, Any]:
    """Return a slice [us] in whole nanoseconds, so that one within another does not stick out."""
    begun = round(start, 3)
    return {
        "name": name or "unnamed",
        "ph": "X",
        "ts": begun,
        "dur": round(end - begun, 3),
        "pid": 1,
        "tid": thread,
        "args": facts,
    }
