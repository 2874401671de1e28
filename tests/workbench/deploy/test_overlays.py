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
        Node(
            "conv2d",
            "aten.conv2d.default",
            "call",
            "net.conv",
            group=("net", "conv"),
            outputs=(IMAGE,),
            source="net.py:3 in forward: self.conv(x)",
        ),
        Node("relu", "aten.relu.default", "call", "net.relu", group=("net", "relu"), outputs=(IMAGE,)),
        Node("counter", "", "input"),
    ),
    (Edge("x", "conv2d"), Edge("conv2d", "relu")),
)
EDGE = GraphSnapshot(
    "edge",
    (
        Node("x", "", "input", outputs=(IMAGE,)),
        Node("lowered_0", "", "delegate"),
        Node(
            "lowered_0/conv2d",
            "aten.convolution.default",
            "call",
            "net.conv",
            outputs=(IMAGE,),
            attrs={"origin": "conv2d"},
        ),
        Node("relu", "aten.relu.default", "call", "net.relu", outputs=(IMAGE,), attrs={"origin": "relu"}),
    ),
    (),
)


def operation(name, module, cycles):
    return VelaOperation(
        name=name,
        operator="Conv2D",
        module=module,
        tosa="CONV2D",
        cycles=cycles,
        cycles_vela=cycles,
        npu_cycles=cycles,
        macs=9,
        sram_cycles=0,
        external_cycles=0,
        staging_bytes=0,
        root=name,
    )


def test_that_the_graph_has_nodes_in_the_groups_of_modules():
    document = json.loads(overlays.graph_document(FLOAT, "net"))
    (graph,) = document["graphs"]
    nodes = {node["id"]: node for node in graph["nodes"]}
    assert {*nodes} == {"x", "conv2d", "relu"}
    assert nodes["conv2d"]["namespace"] == "net/conv"
    assert nodes["relu"]["incomingEdges"] == [
        {"sourceNodeId": "conv2d", "sourceNodeOutputId": "0", "targetNodeInputId": "0"}
    ]
    assert {"key": "tensor_shape", "value": "float32[1x3x8x8]"} in (
        nodes["relu"]["outputsMetadata"][0]["attrs"]
    )


def test_that_values_have_the_digits_that_a_reader_needs():
    results = json.loads(overlays._overlay({"a": 1234567.0, "b": 38.79627274161, "c": 1.23456789e-7}, ()))
    values = [entry["value"] for entry in results[overlays.GRAPH]["results"].values()]
    assert values == [1234567.0, 38.7963, 1.23457e-7]


def test_that_each_operation_has_its_device():
    results = json.loads(overlays.device_overlay(EDGE, FLOAT))[overlays.GRAPH]["results"]
    assert {node: entry["value"] for node, entry in results.items()} == {"conv2d": "NPU", "relu": "CPU"}


def checked(document):
    """Return the slices by track, and the names of tracks, of a valid trace.

    Source of the rules: "Trace Event Format" of Chrome. Every event has name, phase, process and
    thread; a complete event ("X") has a time and a duration, and on one thread two of them are
    either apart or one within the other; metadata ("M") has the name among its arguments.
    """
    assert document["displayTimeUnit"] in {"ms", "ns"}
    slices, tracks = {}, {}
    for event in document["traceEvents"]:
        assert isinstance(event["name"], str)
        assert event["name"]
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert event["ph"] in {"X", "M"}
        if event["ph"] == "M":
            tracks[event["tid"]] = event["args"]["name"]
            continue
        assert event["ts"] >= 0
        assert event["dur"] >= 0
        slices.setdefault(event["tid"], []).append(event)
    for events in slices.values():
        # Viewers count in nanoseconds.
        stretches = [(round(1000 * e["ts"]), round(1000 * e["dur"])) for e in events]
        ends = []
        for begun, lasts in sorted(stretches, key=lambda stretch: (stretch[0], -stretch[1])):
            while ends and ends[-1] <= begun:
                ends.pop()
            assert not ends or begun + lasts <= ends[-1]
            ends.append(begun + lasts)
    return slices, tracks


def test_that_the_trace_nests_modules_operations_and_commands_and_has_the_cpu():
    cpu = CpuNode(node="n", op="aten.topk.default", module="", reason="No kernel.", cycles=50)
    far = {"ideal_cycles": 20, "efficiency": 0.1, "cause": "stride"}
    slow = operation("a", "net.conv", 200).model_copy(update=far)
    spans = (
        Span(0, 0, slow, 0.0, 200.0, commands=(16, 64)),
        Span(1, 0, operation("b", "net.relu", 100), 250.0, 350.0, commands=(96,)),
    )
    line = Timeline(spans, (CpuStop(200.0, (cpu,), 250.0),))
    slices, tracks = checked(json.loads(overlays.perfetto_trace(line, 500e6, "net")))
    assert tracks == {0: "net", 1: "NPU (estimated by Vela)", 2: "CPU (roughly estimated)"}
    # At 500 MHz 100 cycles are 0.2 microseconds. The CPU works between the parts of net.
    told = sorted((e["ts"], -e["dur"], e["name"]) for e in slices[1])
    assert [(round(t, 6), round(-d, 6), n) for t, d, n in told] == [
        (0.0, 0.4, "a"),
        (0.0, 0.4, "net"),
        (0.0, 0.4, "net.conv"),
        (0.0, 0.2, "command 0x10"),
        (0.2, 0.2, "command 0x40"),
        (0.5, 0.2, "b"),
        (0.5, 0.2, "command 0x60"),
        (0.5, 0.2, "net"),
        (0.5, 0.2, "net.relu"),
    ]
    # Operations and the modules around them say how near the limit they are.
    facts = {e["name"]: e["args"] for e in slices[1] if e["ts"] < 0.5}
    assert facts["net.conv"] == facts["net"] == {"efficiency": 0.1, "lost_to": "stride above 3"}
    assert (facts["a"]["efficiency"], facts["a"]["lost_to"]) == (0.1, "stride above 3")
    (stop,) = slices[2]
    assert (stop["name"], stop["ts"], stop["dur"]) == ("aten.topk.default", 0.4, 0.1)
    # The order of the events of one stretch is from the outside in, as viewers nest them.
    names = [e["name"] for e in slices[1] if e["ts"] == 0.0]
    assert names == ["net", "net.conv", "a", "command 0x10"]
