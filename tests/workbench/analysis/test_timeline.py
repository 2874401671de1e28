"""One inference along time: order, lengths, stretches, sums."""

from tests.fakes.results import result_of
from tests.for_each import for_each
from workbench.analysis.timeline import Timeline, commands, is_trace_of, layers, modules, timeline
from workbench.graph.snapshot import GraphSnapshot, Node
from workbench.results import CpuNode, NpuCommand, TracedOperation


def lowered(*cycles, cpu=("quantize", "add", "mul", "dequantize")):
    """Return a program with a delegate for each tuple of cycles."""
    result = result_of("lower")
    base = result.vela[0].operations[0]
    reports = tuple(
        result.vela[0].model_copy(
            update={
                "delegate": number,
                "operations": tuple(
                    base.model_copy(update={"name": f"{number}.{i}", "cycles": c, "bound": "SRAM"})
                    for i, c in enumerate(each)
                ),
            }
        )
        for number, each in enumerate(cycles)
    )
    nodes = tuple(CpuNode(node=n, op=f"aten.{n}.default", module="", reason="") for n in cpu)
    return result.model_copy(update={"vela": reports, "cpu_nodes": nodes})


def program(*ids):
    nodes = tuple(Node(i, "call", "delegate" if i.startswith("delegate") else "call", "") for i in ids)
    return GraphSnapshot("edge", nodes, (), ())


ORDER = program(
    "x", "quantize", "delegate/inside", "delegate", "getitem", "add", "mul", "delegate_1", "dequantize"
)
TWO = lowered((10, 30), (60,))


def traced(result, *cycles):
    rows = [(r.delegate, o) for r in result.vela for o in r.operations]
    return tuple(
        TracedOperation(
            delegate=d, operator=o.operator, name=o.name, module=o.module, estimated=o.cycles, cycles=c
        )
        for (d, o), c in zip(rows, cycles, strict=True)
    )


def test_that_operations_follow_one_another_and_the_cpu_stands_between_delegates():
    found = timeline(TWO, ORDER)
    assert [(s.delegate, s.start, s.end) for s in found.spans] == [(0, 0, 10), (0, 10, 40), (1, 40, 100)]
    stops = [(stop.at, [node.node for node in stop.nodes]) for stop in found.stops]
    assert stops == [(0, ["quantize"]), (40, ["add", "mul"]), (100, ["dequantize"])]
    assert found.unplaced == ()
    assert found.end == 100


def test_that_without_the_programs_order_the_cpu_has_no_place():
    found = timeline(TWO, None)
    assert found.end == 100
    assert found.stops == ()
    assert len(found.unplaced) == 4


@for_each(("cycle", "place"), [(-1, None), (0, 0), (9.9, 0), (10, 1), (99, 2), (100, None)])
def test_that_the_operation_at_a_cycle_is_found(cycle, place):
    assert timeline(TWO, ORDER).at(cycle) == place


def test_that_a_stretch_takes_in_what_runs_in_it_at_any_time():
    found = timeline(TWO, ORDER)
    assert found.between(12, 13) == [1]
    assert found.between(5, 45) == [0, 1, 2]
    assert found.between(10, 40) == [1]
    assert found.between(200, 300) == []
    assert found.stops_between(30, 50) == [1]


def test_that_operations_side_by_side_are_one_stretch():
    found = timeline(lowered((10, 20, 30, 40)), None)
    assert found.stretches([3, 0, 1, 1]) == [(0, 30), (60, 100)]
    assert found.stretches([]) == []


def test_that_sums_add_up_and_tell_the_part_of_all():
    sums = timeline(TWO, ORDER).sums([0, 1])
    assert (sums.operations, sums.cycles, sums.share, sums.estimated) == (2, 40, 0.4, 40)
    assert (sums.npu, sums.sram, sums.external, sums.macs) == (1600, 200, 100, 18432)
    assert sums.bounds == {"SRAM": 2}


def test_that_measured_cycles_make_lengths_and_what_was_not_measured_has_none():
    measured = traced(TWO, 15.0, None, 45.0)
    assert is_trace_of(measured, TWO)
    assert timeline(TWO, ORDER, measured).is_measured
    assert not timeline(TWO, ORDER).is_measured
    assert not Timeline().is_measured
    found = timeline(TWO, ORDER, measured)
    assert [(s.start, s.end, s.measured) for s in found.spans] == [(0, 15, 15), (15, 15, None), (15, 60, 45)]
    assert found.at(15) == 2
    assert found.between(14, 16) == [0, 1, 2]
    # What takes no time is neither before nor behind its only moment.
    assert [found.between(*ends) for ends in ((0, 10), (0, 15), (16, 60))] == [[0], [0], [2]]
    assert found.between(15, 60) == [1, 2]
    assert found.sums([0]).share == 0.25
    assert found.sums([0]).estimated == 10


def test_that_a_trace_of_another_program_is_not_taken():
    other = lowered((10, 30, 60))
    assert not is_trace_of(traced(other, 1.0, 2.0, 3.0), TWO)
    assert not is_trace_of((), TWO)
    assert not is_trace_of(traced(TWO, None, None, None), TWO)


def test_that_a_program_without_delegates_has_stops_alone():
    found = timeline(lowered(), program("quantize", "add", "mul", "dequantize"))
    assert (found.end, found.at(0.0), found.between(0, 1)) == (0, None, [])
    assert [len(stop.nodes) for stop in found.stops] == [4]
    assert found.sums([]).share is None


def test_that_the_cpu_takes_its_estimated_time_between_the_operations():
    nodes = tuple(
        node.model_copy(update={"cycles": 5 if node.node == "add" else 2}) for node in TWO.cpu_nodes
    )
    found = timeline(TWO.model_copy(update={"cpu_nodes": nodes}), ORDER)
    assert [(stop.at, stop.end) for stop in found.stops] == [(0, 2), (42, 49), (109, 111)]
    assert [(s.start, s.end) for s in found.spans] == [(2, 12), (12, 42), (49, 109)]
    assert (found.end, found.npu_cycles) == (111, 100)
    # Operations with the CPU between them are two stretches; shares are those of the NPU's cycles.
    assert found.stretches([0, 1, 2]) == [(2, 42), (49, 109)]
    assert found.sums([2]).share == 0.6
    assert found.at(45) is None
    assert found.stops_between(47, 60) == [1]
    # Without it the NPU's time is alone.
    alone = timeline(TWO.model_copy(update={"cpu_nodes": nodes}), ORDER, cpu_time=False)
    assert [(stop.at, stop.end) for stop in alone.stops] == [(0, 0), (40, 40), (100, 100)]
    assert alone.end == 100


def placed(*names):
    """Return the timeline of one delegate with operations of 10 cycles in modules."""
    result = lowered((10,) * len(names), cpu=())
    report = result.vela[0]
    operations = tuple(
        o.model_copy(update={"module": name}) for o, name in zip(report.operations, names, strict=True)
    )
    places = (
        NpuCommand(offset=8, operation=0),
        NpuCommand(offset=40, operation=0),
        NpuCommand(offset=60, operation=1),
        NpuCommand(offset=80),
    )
    report = report.model_copy(update={"operations": operations, "commands": places})
    return timeline(result.model_copy(update={"vela": (report,)}), None)


def named(slices):
    return [(part.name, part.start, part.end, part.first, part.last) for part in slices]


def test_that_layers_contain_modules_and_operations_commands():
    found = placed("net.stem.conv", "net.blocks.0.a", "net.blocks.0.b", "", "net.blocks.1.a")
    assert named(layers(found)) == [
        ("net.stem", 0, 10, 0, 0),
        ("net.blocks.0", 10, 30, 1, 2),
        ("net.blocks.1", 40, 50, 4, 4),
    ]
    assert [part[0] for part in named(modules(found))] == [
        "net.stem.conv",
        "net.blocks.0.a",
        "net.blocks.0.b",
        "net.blocks.1.a",
    ]
    assert named(commands(found)) == [("0x8", 0, 5, 0, 0), ("0x28", 5, 10, 0, 0), ("0x3c", 10, 20, 1, 1)]


def test_that_a_network_of_one_module_and_one_without_numbers_have_layers():
    assert [part.name for part in layers(placed("fc", "fc"))] == ["fc"]
    assert [part.name for part in layers(placed("conv", "pool"))] == ["conv", "pool"]
    assert layers(placed("", "")) == []
