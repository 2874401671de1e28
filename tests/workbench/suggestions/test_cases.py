"""Suggestions one by one: when each is given, what it covers, and what it is expected to save."""

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from tests.fakes.projects import make_project, snapshot
from tests.fakes.results import result_of
from tests.for_each import for_each
from tests.workbench.suggestions.test_suggestions import CHAIN, cpu, edge_of, found, spared
from workbench.deploy.fitting import Demand, Fit
from workbench.graph.snapshot import Edge, GraphSnapshot, Module, Node, TensorInfo
from workbench.project import edits
from workbench.project.model import Rule, TargetChoice
from workbench.results import AppliedRewrite, CalibrateResult, NodeAnnotation, PrepareResult, TensorRange
from workbench.suggestions import Measurements, accuracy, suggest
from workbench.suggestions.suggestion import ExpectedGain

LIN = cpu("lin", "pattern", "head")


def program_of(*nodes, outputs=(1, 4)):
    """Return a float program: a chain of (id, operator, module, source)."""
    tensors = (TensorInfo(outputs, "float32"),)
    made = (
        Node("x", "placeholder", "input", outputs=(TensorInfo((1, 3, 8, 8), "float32"),)),
        *(Node(i, op, "call", module, 0, (), tensors, source=source) for i, op, module, source in nodes),
        Node("output", "output", "output"),
    )
    links = tuple(Edge(a.id, b.id) for a, b in pairwise(made))
    modules = tuple(Module(m, "net.Block", "", 1) for m in {n.module for n in made if n.module})
    return GraphSnapshot("float", made, links, (Module("", "net.Net", "", 1), *modules))


def options_of(project, **options):
    return edits.set_target(
        project, TargetChoice(id=project.target.id, options={**project.target.options, **options})
    )


@for_each(
    ("operator", "correction"),
    [
        ("gru_cell", "written_out_cells"),
        ("addmm", "linears_from_addmm"),
        ("softplus", "plain_operators"),
        ("mish", "plain_operators"),
    ],
)
def test_that_a_correction_that_is_off_is_suggested_for_its_operators(operator, correction):
    program = program_of(("linear", f"aten.{operator}.default", "head", ""))
    project = make_project()
    identity = f"correction:{correction}"
    assert identity not in found(project, LIN, program=program)
    off = options_of(project, **{correction: False})
    made = found(off, LIN, program=program)[identity]
    assert made.edit(off).target.options[correction] is True
    assert identity not in found(off, cpu("lin", "other", "head"), program=program)
    assert identity not in found(off, LIN, program=program_of(("linear", "aten.relu.default", "head", "")))


def test_that_a_clamp_that_would_be_lost_is_left_in_float():
    program = program_of(("linear", "aten.relu.default", "head", ""))
    project = edits.assign(make_project(), "module_name", "head", "float")
    left = cpu("lin", "float", "head")
    assert "float:r2" in found(project, left, program=program)
    off = options_of(project, keep_relu_clamps=False)
    assert "float:r2" not in found(off, left, program=program)
    plain = program_of(("linear", "aten.linear.default", "head", ""))
    assert "float:r2" in found(off, left, program=plain)


def test_that_what_no_rule_covers_gets_one():
    project = edits.remove_rule(make_project(), "r1")
    made = found(project, cpu("lin", "float", "head"))["float:"]
    changed = made.edit(project)
    assert [(r.kind, r.match, r.config) for r in changed.rules] == [("global", "", "a8w8")]
    named = make_project(Rule(id="r1", kind="global", config="float"))
    assert "the whole model" in found(named, cpu("lin", "float", "head"))["float:r1"].title


def test_that_16_bits_of_no_module_are_those_of_the_whole_model():
    program = program_of(("linear", "aten.linear.default", "", ""))
    made = found(make_project(), cpu("lin", "int16"), program=program)["int16:"]
    project = made.edit(make_project())
    assert [(r.kind, r.match) for r in project.rules] == [("global", "")]


def test_that_neighbours_that_are_there_only_because_of_it_go_along():
    edge = edge_of(
        ("x", "input", "x"),
        ("q", "quantize", "x"),
        ("npu", "delegate", ""),
        ("dq", "dequantize", "relu"),
        ("a", "call", "linear"),
        ("b", "call", ""),
        ("c", "call", ""),
        ("q2", "quantize", ""),
        ("npu2", "delegate", ""),
        ("output", "output", ""),
    )
    project = edits.assign(make_project(), "module_name", "head", "float")
    left = (cpu("a", "float", "head"), cpu("b", "beside"), cpu("c", "other"))
    made = found(project, *left, edge=edge)["float:r2"]
    assert made.nodes == ("a", "b")
    # Two operators and the dequantize before them go; one conversion comes before c.
    assert made.gain.cpu_operators == 2
    left = (cpu("a", "float", "head"), cpu("b", "empty"), cpu("c", "rule"))
    made = found(project, *left, edge=edge)["float:r2"]
    assert made.nodes == ("a", "b", "c")
    # Three operators, and a conversion on either side.
    assert made.gain.cpu_operators == 5


@for_each(
    ("config", "origin", "nodes"),
    [
        ("a8w8", "relu", ("a", "b")),
        ("float", "relu", ("a",)),
        ("cpu", "relu", ("a",)),
        ("float", "", ("a", "b")),
    ],
)
def test_that_a_neighbour_that_a_rule_decides_does_not_go_along(config, origin, nodes):
    edge = edge_of(
        ("x", "input", "x"), ("a", "call", "linear"), ("b", "call", origin), ("output", "output", "")
    )
    project = edits.assign(make_project(), "module_name", "head", "float")
    project = edits.assign(project, "module_name", "stem", config)
    made = found(project, cpu("a", "float", "head"), cpu("b", "beside"), edge=edge)["float:r2"]
    assert made.nodes == nodes


def test_that_operators_are_named_that_would_move():
    edge = edge_of(
        ("x", "input", "x"),
        ("a", "call", "linear"),
        ("b", "call", "linear"),
        ("c", "call", ""),
        ("output", "output", ""),
    )
    project = edits.assign(make_project(), "module_name", "head", "float")
    one = found(project, cpu("a", "float", "head"), cpu("c", "other"), edge=edge)["float:r2"]
    assert one.evidence.startswith("linear stays on the CPU. ")
    both = (cpu("a", "float", "head"), cpu("b", "float", "head"))
    two = found(project, *both, edge=edge)["float:r2"]
    assert two.evidence.startswith("linear stay on the CPU. ")
    # Two operators less; a conversion before the first, and one behind the last.
    ends = tuple(node for node in edge.nodes if node.id != "c")
    links = (Edge("x", "a"), Edge("a", "b"), Edge("b", "output"))
    two = found(project, *both, edge=GraphSnapshot("edge", ends, links))["float:r2"]
    assert two.gain.cpu_operators == 0
    assert "2 operators move off the CPU, but as many conversions are added" in two.expected


def linked(*links):
    """Return a graph of links between nodes, whose kind their names tell."""
    kinds = {"x": "input", "q": "quantize", "npu": "delegate", "dq": "dequantize", "o": "output"}
    names = dict.fromkeys(name for link in links for name in link)
    made = tuple(
        Node(
            n,
            f"aten.{n}.default",
            kinds.get(n.rstrip("0123456789"), "call"),
            attrs={"origin": "linear" if n == "a" else ""},
        )
        for n in names
    )
    return GraphSnapshot("edge", made, tuple(Edge(*link) for link in links))


def test_that_a_conversion_goes_only_with_all_that_read_it():
    chain = (("x", "q"), ("q", "npu"), ("npu", "dq"), ("dq", "a"))
    project = edits.assign(make_project(), "module_name", "head", "float")

    def fewer(*links):
        edge = linked(*chain, *links)
        left = (cpu("a", "float", "head"), cpu("c", "other"))
        return found(project, *left, edge=edge)["float:r2"].gain.cpu_operators

    # The operator and the conversion before it go, one comes behind it.
    assert fewer(("a", "o")) == 1
    assert fewer(("a", "o"), ("dq", "c"), ("c", "o2")) == 0
    # A conversion that nothing reads is no part of it.
    assert fewer(("a", "o"), ("npu", "dq2")) == 1


def test_that_an_input_with_several_readers_or_another_reader_keeps_its_type():
    left = (cpu("q", "border"), cpu("dq", "border"))
    whole = (("x", "q"), ("q", "npu"), ("npu", "dq"), ("dq", "o"))
    assert "integer_io" in found(make_project(), *left, edge=linked(*whole))
    for more in (("x", "npu"), ("x", "c")):
        assert "integer_io" not in found(make_project(), *left, edge=linked(*whole, more))
    other = (("x", "npu"), ("x2", "q"), *whole[1:])
    assert "integer_io" not in found(make_project(), *left, edge=linked(*other))
    unread = (*whole, ("x2", "q2"))
    assert "integer_io" not in found(make_project(), *left, edge=linked(*unread))


def test_that_a_gain_of_one_operator_is_a_gain():
    project = edits.assign(make_project(), "module_name", "head", "float")
    made = found(project, cpu("lin", "float", "head"))["float:r2"]
    assert made.gain.cpu_operators == 1
    assert made.expected.startswith("Removes up to 1 of 1 CPU operators")


def test_that_as_many_conversions_as_operators_are_no_gain():
    edge = edge_of(("x", "input", "x"), ("a", "call", "linear"), ("output", "output", ""))
    project = edits.assign(make_project(), "module_name", "head", "float")
    made = found(project, cpu("a", "float", "head"), edge=edge)["float:r2"]
    assert made.gain.cpu_operators == -1
    assert "as many conversions are added" in made.expected


def test_that_operators_are_known_by_the_report_of_the_quantizer():
    edge = edge_of(("x", "input", "x"), ("lin", "call", "made_up"), ("output", "output", ""))
    note = NodeAnnotation(
        node="made_up", origin="linear", op="aten.linear.default", module="head", config="", quantized=False
    )
    project = edits.assign(make_project(), "module_name", "head", "float")
    lowered = result_of("lower").model_copy(update={"cpu_nodes": (cpu("lin", "float"),)})

    def ids(prepared):
        known = Measurements(prepared=prepared)
        return {s.id for s in suggest(project, lowered, snapshot(), edge, known)}

    assert "float:r2" in ids(PrepareResult(observers=0, annotations=(note,)))
    assert "float:r2" not in ids(PrepareResult(observers=0, annotations=()))
    operation = note.model_copy(update={"module": ""})
    assert "float:r2" in ids(PrepareResult(observers=0, annotations=(operation,)))
    elsewhere = note.model_copy(update={"origin": ""})
    assert "float:r2" in ids(PrepareResult(observers=0, annotations=(elsewhere,)))


CONV = "aten.conv2d.default"


def wasted(
    channels,
    *,
    bound="MACs",
    cycles=300,
    operator="Conv2D",
    root="conv",
    between=(CONV,),
    op=CONV,
    shape=None,
):
    nodes = [("conv", op, "stem.conv", "net.py:7 in f: y = self.conv(x)")]
    nodes += [(f"next{i}", op, "", "") for i, op in enumerate(between)]
    program = program_of(*nodes, outputs=(1, channels, 4, 4) if shape is None else shape)
    report = result_of("lower").vela[0]
    row = report.operations[0].model_copy(
        update={"operator": operator, "bound": bound, "cycles": cycles, "root": root, "module": "stem.conv"}
    )
    reports = (report.model_copy(update={"operations": (row,)}),)
    return found(make_project(), program=program, vela=reports).get("channels:conv")


def test_that_channels_that_hardly_fill_a_block_are_wasted():
    made = wasted(17)
    assert made.title == "Use 16 channels in stem.conv, not 17"
    assert made.gain == ExpectedGain(cycles=100)
    assert [(w.place, w.instead) for w in made.written] == [("net.py:7", "16 output channels")]
    assert {n: wasted(n) is not None for n in (1, 2, 8, 9, 10, 11, 16, 17, 18, 19)} == {
        1: False,
        2: False,
        8: False,
        9: True,
        10: True,
        11: False,
        16: False,
        17: True,
        18: True,
        19: False,
    }


@for_each(("reader", "is_read"), [(CONV, True), ("aten.linear.default", True), ("aten.add.Tensor", False)])
def test_that_a_reader_behind_other_operators_counts(reader, is_read):
    assert (wasted(17, between=("aten.relu.default", "aten.add.Tensor", reader)) is not None) is (is_read)


def test_that_channels_of_a_linear_are_its_last_dimension_and_other_operators_have_none():
    linear = "aten.linear.default"
    assert "Use 16 channels" in wasted(0, op=linear, shape=(1, 50, 17)).title
    assert wasted(0, op=linear, shape=(1, 17, 24)) is None
    assert wasted(0, op=linear, shape=(17,)) is not None
    for op, shape in (
        ("aten.mv.default", (17,)),
        ("aten.mean.dim", ()),
        ("aten.matmul.default", (1, 17, 17)),
        (CONV, (17,)),
    ):
        assert wasted(0, op=op, shape=shape) is None, (op, shape)


def test_that_channels_that_cost_nothing_or_are_results_stay():
    assert wasted(17, bound="memory") is None
    assert wasted(17, operator="Depthwise") is None
    assert wasted(17, root="gone") is None
    assert wasted(17, between=()) is None
    # A hundredth of 1,000 cycles, in the third of three blocks.
    assert wasted(17, cycles=30) is not None
    assert wasted(17, cycles=29) is None


def turned(*operators, modules=("stem.conv",), spec="net.py:net", reports=1, rank=4, **model):
    report = result_of("lower").vela[0]
    rows = tuple(
        report.operations[0].model_copy(update={"operator": o, "cycles": 100, "module": m})
        for o, m in zip(operators, modules * len(operators), strict=False)
    )
    shape = (1, 3, 8, 8)[-rank:]
    nodes = tuple(
        replace(n, outputs=(TensorInfo(shape, "float32"),)) if n.kind == "input" else n
        for n in snapshot().nodes
    )
    program = replace(snapshot(), nodes=nodes)
    project = make_project()
    source = project.model.model_copy(update={"spec": spec, **model})
    project = edits.set_model(project, source)
    vela = (report.model_copy(update={"operations": rows}),) * reports
    return found(project, program=program, vela=vela).get("channels_last")


@for_each(("reports", "asks"), [(1, True), (2, False)])
def test_that_transposes_of_no_module_belong_to_the_input_of_the_only_delegate(reports, asks):
    report = result_of("lower").vela[0]
    row = report.operations[0].model_copy(update={"operator": "Transpose", "module": ""})
    vela = (report.model_copy(update={"operations": (row,)}),) * reports
    project = edits.set_model(make_project(), make_project().model.model_copy(update={"spec": "net.py:net"}))
    program = program_of(("conv", "aten.conv2d.default", "", ""))
    assert ("channels_last" in found(project, program=program, vela=vela)) == asks


def test_that_transposes_at_the_start_ask_for_another_layout():
    made = turned("Transpose", "Transpose", "Conv2D", "Transpose")
    assert made.gain == ExpectedGain(cycles=200)
    assert made.written[0].place == "net.py, net()"
    assert "2 transposes" in made.evidence
    assert turned("Transpose", spec="a:b/net.py:net").written[0].place == "a:b/net.py, net()"
    assert turned("Conv2D", "Transpose") is None
    assert turned("Transpose", modules=("head",)) is None
    assert turned("Transpose", rank=3) is None
    assert turned("Transpose", input_shapes=((1, 3, 8, 8),)) is None
    assert turned("Transpose", reports=2).gain == ExpectedGain(cycles=200)


@for_each(
    ("gain", "share"),
    [
        (ExpectedGain(), 0.0),
        (ExpectedGain(cpu_operators=1), 0.25),
        (ExpectedGain(cpu_operators=9), 1.0),
        (ExpectedGain(cpu_operators=-1), 0.0),
        (ExpectedGain(cycles=300), 0.3),
        (ExpectedGain(cycles=300, cpu_operators=2), 0.5),
        (ExpectedGain(sqnr_db=10.0), 0.9),
        (ExpectedGain(sqnr_db=10.0, of_tensors=3), 0.3),
        (ExpectedGain(sqnr_db=-3.0), 0.0),
        (ExpectedGain(sqnr_db=0.5), 0.108749),
    ],
)
def test_that_a_share_is_what_goes_away_of_what_there_is(gain, share):
    lowered = result_of("lower").model_copy(update={"cpu_nodes": (LIN,) * 4})
    assert gain.share(lowered) == pytest.approx(share, abs=1e-6)
    empty = lowered.model_copy(update={"cpu_nodes": (), "vela": ()})
    if gain.sqnr_db is None:
        assert gain.share(empty) == 0.0


def test_that_the_worst_three_modules_get_wider():
    known = Measurements(
        spared=tuple(
            spared(n, g)
            for n, g in (
                ("stem", 1.0),
                ("head", 9.0),
                ("stem.conv", 5.0),
                ("stem.bn", 0.99),
                ("stem.relu", 7.0),
            )
        )
    )
    lowered = result_of("lower").model_copy(update={"cpu_nodes": ()})
    made = suggest(make_project(), lowered, snapshot(), CHAIN, known)
    assert [s.id for s in made] == ["wide:head", "wide:stem.relu", "wide:stem.conv"]
    assert [s.gain.sqnr_db for s in made] == [9.0, 7.0, 5.0]
    one = Measurements(spared=(spared("stem", 1.0), spared("head", 0.99)))
    assert [s.id for s in suggest(make_project(), lowered, snapshot(), CHAIN, one)] == ["wide:stem"]


def peaked(largest, mean_square, node="conv2d"):
    values = np.random.default_rng(1).normal(0, 0.1, 20_000)
    counts, edges = np.histogram(np.append(values, largest), 2048)
    return TensorRange(
        id="o",
        node=node,
        op="aten.conv2d.default",
        module="stem",
        kind="activation",
        index=0,
        minimum=float(edges[0]),
        maximum=largest,
        p_low=-0.3,
        p_high=0.3,
        dtype="int8",
        qmin=-128,
        qmax=127,
        scale=float(edges[-1] - edges[0]) / 255,
        zero_point=-128,
        observer="MinMax",
        mean_square=mean_square,
    ), {"histogram": counts[None], "edges": np.array([[edges[0], edges[-1]]])}


@for_each(
    ("largest", "mean_square", "clipped"),
    [
        (40.0, 25.0, True),
        (40.0, 26.0, False),
        (40.0, 0.0, False),
        (40.0, float("nan"), False),
        (40.0, None, False),
    ],
)
def test_that_an_outlier_is_eight_times_the_rms(largest, mean_square, clipped):
    row, arrays = peaked(largest, mean_square)
    calibrated = CalibrateResult(samples=1, calibrated_on="", ranges=(row,))
    lowered = result_of("lower").model_copy(update={"cpu_nodes": ()})
    known = Measurements(calibrated=calibrated, arrays=arrays)
    made = suggest(make_project(), lowered, snapshot(), CHAIN, known)
    assert [s.id for s in made] == ["clip:conv2d"] * clipped
    known = Measurements(calibrated=calibrated, arrays={})
    assert suggest(make_project(), lowered, snapshot(), CHAIN, known) == ()
    pinned = edits.fix_range(make_project(), "conv2d", -1.0, 1.0)
    assert suggest(pinned, lowered, snapshot(), CHAIN, known) == ()


def clipping(monkeypatch, now, then, *rows):
    """Return what is suggested where the present and the searched grid have these ratios."""
    row, arrays = peaked(40.0, 25.0)
    rows = rows or (row,)
    choice = then if then is None else SimpleNamespace(sqnr_db=then, clipped=0.0)
    monkeypatch.setattr(accuracy, "predicted", lambda *_: SimpleNamespace(sqnr_db=now))
    monkeypatch.setattr(accuracy, "choice_of", lambda *_: choice)
    calibrated = CalibrateResult(samples=1, calibrated_on="", ranges=rows)
    lowered = result_of("lower").model_copy(update={"cpu_nodes": ()})
    known = Measurements(calibrated=calibrated, arrays=arrays)
    return suggest(make_project(), lowered, snapshot(), CHAIN, known)


def test_that_an_outlier_is_clipped_for_three_decibels_or_more(monkeypatch):
    (made,) = clipping(monkeypatch, 10.0, 13.0)
    assert made.gain == ExpectedGain(sqnr_db=3.0, of_tensors=1)
    assert clipping(monkeypatch, 10.0, 12.9) == ()
    nothing = SimpleNamespace(sqnr_db=None, clipped=0.0)
    for now, then in ((None, 13.0), (10.0, None), (None, None)):
        assert clipping(monkeypatch, now, then) == ()
    monkeypatch.setattr(accuracy, "choice_of", lambda *_: nothing)
    row, arrays = peaked(40.0, 25.0)
    calibrated = CalibrateResult(samples=1, calibrated_on="", ranges=(row,))
    assert list(accuracy.clipped_outliers(make_project(), calibrated, arrays)) == []


def test_that_the_three_farthest_outliers_are_clipped(monkeypatch):
    peaks = {"a": 50.0, "b": 90.0, "c": 60.0, "d": 70.0}
    rows = [
        peaked(40.0, 25.0, node)[0].model_copy(update={"maximum": peak, "id": node})
        for node, peak in peaks.items()
    ]
    rows = [row.model_copy(update={"id": f"o_{row.node}"}) for row in rows]
    made = clipping(monkeypatch, 0.0, 20.0, *rows)
    assert [suggestion.id for suggestion in made] == ["clip:b", "clip:d", "clip:c"]
    assert {suggestion.gain.of_tensors for suggestion in made} == {4}


def test_that_compiling_for_size_is_asked_where_the_scratch_pool_finds_no_room():
    demands = tuple(
        Demand(what=w, bytes=b, kinds=(), origin="Vela")
        for w, b in (("program", 9_000), ("scratch pool", 1_000))
    )
    lowered = result_of("lower").model_copy(update={"cpu_nodes": ()})
    misfit = Measurements(fit=Fit(board="small", fillings=(), homeless=demands))

    def ids(project, known, low=lowered):
        return [s.id for s in suggest(project, low, snapshot(), CHAIN, known)]

    assert ids(make_project(), misfit) == ["optimise_size"]
    (made,) = suggest(make_project(), lowered, snapshot(), CHAIN, misfit)
    assert "scratch pool of 1,000 bytes" in made.evidence
    too_long = Measurements(fit=Fit(board="small", fillings=(), homeless=demands[:1]))
    assert ids(make_project(), too_long) == []
    assert ids(make_project(), Measurements(fit=Fit(board="small", fillings=(), absent="x"))) == []
    assert ids(options_of(make_project(), optimise="Size"), misfit) == []
    assert ids(make_project(), Measurements(fit=Fit(board="large", fillings=()))) == []
    assert ids(make_project(), misfit, lowered.model_copy(update={"vela": ()})) == []
    rewritten = tuple(
        AppliedRewrite(id=id_, state="on", places=places)
        for id_, places in (("strides_to_channels", ("conv",)), ("taps_to_channels", ()))
    )
    assert ids(make_project(), misfit, lowered.model_copy(update={"rewrites": rewritten})) == [
        "optimise_size",
        "memory:strides_to_channels",
    ]


def mending(project, *, departs=True):
    lowered = result_of("lower")
    known = Measurements(departs=departs)
    return {s.id: s for s in suggest(project, lowered, snapshot(), CHAIN, known)}


def test_that_a_program_that_differs_has_its_corrections_switched_on():
    off = options_of(make_project(), fine_steps=False, fine_factors=False)
    assert "mend" not in mending(off, departs=False)
    assert "mend" not in found(off)
    assert "mend" not in mending(make_project())
    made = mending(off)["mend"]
    assert next(iter(mending(off))) == "mend"
    assert made.title == "Switch on 2 corrections"
    options = made.edit(off).target.options
    assert options["fine_steps"]
    assert options["fine_factors"]
