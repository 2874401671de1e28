"""Graphs and figures in the forms of Model Explorer and Perfetto."""

import json

from workbench.analysis.timeline import CpuStop, Span, Timeline
from workbench.deploy import overlays
from workbench.graph.snapshot import Edge, GraphSnapshot, Node, TensorInfo
from workbench.results import CpuNode, VelaOperation

IMAGE = TensorInfo((1, 3, 8, 8), "float32")
FLOAT = GraphSnapshot(
    "float",
    (
        Node("x", "", "input", outputs=(IMAGE,)),
        Node("conv2d", "aten.conv2d.default", "call", "net.conv", group=("net", "conv"),
             outputs=(IMAGE,), source="net.py:3 in forward: self.conv(x)"),
        Node("relu", "aten.relu.default", "call", "net.relu", group=("net", "relu"),
             outputs=(IMAGE,)),
    ),
    (Edge("x", "conv2d"), Edge("conv2d", "relu")),
)  # fmt: skip
EDGE = GraphSnapshot(
    "edge",
    (
        Node("x", "", "input", outputs=(IMAGE,)),
        Node("lowered_0", "", "delegate"),
        Node("lowered_0/conv2d", "aten.convolution.default", "call", "net.conv",
             outputs=(IMAGE,), attrs={"origin": "conv2d"}),
        Node("relu", "aten.relu.default", "call", "net.relu", outputs=(IMAGE,),
             attrs={"origin": "relu"}),
    ),
    (),
)  # fmt: skip


def operation(name, module, cycles):
    return VelaOperation(
        name=name, operator="Conv2D", module=module, tosa="CONV2D", cycles=cycles,
        cycles_vela=cycles, npu_cycles=cycles, macs=9, sram_cycles=0, external_cycles=0,
        staging_bytes=0, root=name,
    )  # fmt: skip


def test_that_the_graph_has_nodes_in_the_groups_of_modules():
    document = json.loads(overlays.graph_document(FLOAT, "net"))
    (graph,) = document["graphs"]
    nodes = {node["id"]: node for node in graph["nodes"]}
    assert nodes["conv2d"]["namespace"] == "net/conv"
    assert nodes["relu"]["incomingEdges"] == [
        {"sourceNodeId": "conv2d", "sourceNodeOutputId": "0", "targetNodeInputId": "0"}
    ]
    assert {"key": "tensor_shape", "value": "float32[1x3x8x8]"} in (
        nodes["relu"]["outputsMetadata"][0]["attrs"]
    )


def test_that_each_operation_has_its_device():
    results = json.loads(overlays.device_overlay(EDGE, FLOAT))[overlays.GRAPH]["results"]
    assert {node: entry["value"] for node, entry in results.items()} == {
        "conv2d": "NPU", "relu": "CPU",
    }  # fmt: skip


def test_that_the_trace_has_times_modules_and_the_operators_on_the_cpu():
    spans = (
        Span(0, 0, operation("a", "net.conv", 200), 0.0, 200.0),
        Span(1, 0, operation("b", "net.relu", 100), 200.0, 300.0),
    )
    cpu = CpuNode(node="n", op="aten.topk.default", module="", reason="No kernel.")
    line = Timeline(spans, (CpuStop(300.0, (cpu,)),))
    events = json.loads(overlays.perfetto_trace(line, 500e6, "net"))["traceEvents"]
    slices = [(e["tid"], e["name"], round(e["ts"], 6), round(e["dur"], 6))
              for e in events if e["ph"] == "X"]  # fmt: skip
    # At 500 MHz 100 cycles are 0.2 microseconds.
    assert slices == [
        (1, "net", 0.0, 0.6), (1, "net.conv", 0.0, 0.4), (1, "net.relu", 0.4, 0.2),
        (2, "a", 0.0, 0.4), (2, "b", 0.4, 0.2),
    ]  # fmt: skip
    (stop,) = [e for e in events if e["ph"] == "i"]
    assert (stop["name"], stop["ts"]) == ("aten.topk.default", 0.6)
