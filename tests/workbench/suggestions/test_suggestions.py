"""Suggestions over recorded results: what is said, and what is left unsaid."""

from itertools import pairwise

import numpy as np

from tests.fakes.projects import make_project, snapshot
from tests.fakes.results import result_of
from tests.for_each import for_each
from workbench.deploy.fitting import Demand, Fit
from workbench.graph.snapshot import Edge, GraphSnapshot, Node, TensorInfo
from workbench.project import edits
from workbench.project.model import ModelSource, Rule
from workbench.results import AppliedRewrite, CalibrateResult, CpuNode, ModelOutput, TensorRange
from workbench.suggestions import (
    ExpectedGain,
    Figures,
    Gain,
    Measurements,
    Spared,
    Suggestion,
    ranked,
    suggest,
    tried,
)
from workbench.suggestions.suggestion import with_option
from workbench.targets.ethos_u.rewrites import KERNELS, NORMS_AS_ONE, NORMS_FORWARD, STRIDES, TRANSPOSED

PICTURE = (TensorInfo((1, 3, 8, 8), "float32"),)


def cpu(node, cause, module="", op="aten.linear.default"):
    return CpuNode(node=node, op=op, module=module, reason="", cause=cause)


def edge_of(*nodes):
    """Return a chain of (id, kind, origin)."""
    made = tuple(Node(i, f"aten.{i}.default", kind, attrs={"origin": o}) for i, kind, o in nodes)
    links = tuple(Edge(a.id, b.id) for a, b in pairwise(made))
    return GraphSnapshot("edge", made, links)


CHAIN = edge_of(
    ("x", "input", "x"),
    ("q", "quantize", "x"),
    ("npu", "delegate", ""),
    ("dq", "dequantize", "relu"),
    ("lin", "call", "linear"),
    ("output", "output", "output"),
)


def found(project, *left, edge=CHAIN, program=None, **changes):
    lowered = result_of("lower").model_copy(update={"cpu_nodes": left, **changes})
    return {s.id: s for s in suggest(project, lowered, program or snapshot(), edge)}


def test_that_nothing_left_on_the_cpu_asks_for_nothing():
    assert found(make_project()) == {}


def test_that_an_operator_no_rule_can_help_is_left_alone():
    assert found(make_project(), cpu("lin", "other", "head")) == {}
    assert found(make_project(), cpu("gone", "float", "head")) == {}


@for_each(
    ("rule", "identity", "title"),
    [
        (Rule(id="r2", kind="module_name", match="head", config="float"), "float:r2", "Assign a8w8 to head"),
        (
            Rule(id="r2", kind="module_type", match="torch.nn.modules.linear.Linear", config="float"),
            "float:r2",
            "Assign a8w8 to Linear",
        ),
        (Rule(id="r2", kind="node_name", match="linear", config="cpu"), "off:r2", "Run linear on the NPU"),
    ],
)
def test_that_the_rule_that_decided_it_is_the_one_that_changes(rule, identity, title):
    project = make_project(Rule(id="r1", kind="global", config="a8w8"), rule)
    made = found(project, cpu("lin", "rule" if rule.keeps_off else "float", "head"))
    assert made[identity].title == title
    assert made[identity].nodes == ("lin",)
    assert "Rule 2" in made[identity].evidence
    changed = made[identity].edit(project)
    assert [r.config for r in changed.rules] == (["a8w8"] if rule.keeps_off else ["a8w8"] * 2)


def test_that_a_float_border_is_suggested_once_and_only_where_the_passes_take_it():
    conversions = (
        cpu("q", "border", op="quantized_decomposed.quantize_per_tensor.default"),
        cpu("dq", "border", op="quantized_decomposed.dequantize_per_tensor.default"),
    )
    whole = edge_of(
        ("x", "input", "x"),
        ("q", "quantize", "x"),
        ("npu", "delegate", ""),
        ("dq", "dequantize", "linear"),
        ("output", "output", ""),
    )
    project = make_project()
    made = found(project, *conversions, edge=whole)["integer_io"]
    assert made.expected.startswith("Removes both CPU operators")
    assert made.edit(project).target.options["integer_io"] is True
    assert found(made.edit(project), *conversions, edge=whole) == {}
    assert "integer_io" not in found(project, conversions[0], edge=CHAIN)


def test_that_16_bit_where_the_device_has_8_names_the_module():
    project = make_project(Rule(id="r1", kind="global", config="a16w8"))
    made = found(project, cpu("lin", "int16", "head"))["int16:head"]
    assert made.title == "Assign a8w8 to head"
    assert made.edit(project) == edits.assign(project, "module_name", "head", "a8w8")


@for_each(
    ("spec", "inputs", "expected"),
    [("net.py:net", None, True), ("net.pt2", None, False), ("net.py:net", "in.npz", False)],
)
def test_that_channels_last_needs_transposes_and_a_line_to_change(spec, inputs, expected):
    report = result_of("lower").vela[0]
    turn = report.operations[0].model_copy(
        update={"operator": "Transpose", "cycles": 300, "module": "stem.conv"}
    )
    reports = (report.model_copy(update={"operations": (turn, *report.operations)}),)
    plain = snapshot()
    nodes = tuple(
        Node(n.id, n.op, n.kind, n.module, outputs=PICTURE) if n.kind == "input" else n for n in plain.nodes
    )
    program = GraphSnapshot("float", nodes, plain.edges, plain.modules)
    project = edits.set_model(make_project(), ModelSource(spec=spec, inputs=inputs))
    made = found(project, program=program, vela=reports)
    assert ("channels_last" in made) is expected
    if expected:
        assert "300 of 1,000 cycles, estimated (Vela 5.1.0)" in made["channels_last"].expected
    assert found(project, program=program) == {}


@for_each(
    ("rewrite", "changes", "expected"),
    [
        (STRIDES, {"cause": "stride"}, True),
        (STRIDES, {"cause": "copy"}, False),
        (KERNELS, {"cause": "few_channels"}, True),
        (NORMS_AS_ONE, {"root": "norm"}, True),
        (NORMS_FORWARD, {"root": "conv"}, False),
        (NORMS_FORWARD, {"root": "layers"}, True),
        (TRANSPOSED, {"root": "grown"}, True),
        (TRANSPOSED, {"root": "norm"}, False),
    ],
)
def test_that_rewrites_that_are_off_are_tried_where_cycles_are_lost_to_what_they_change(
    rewrite, changes, expected
):
    report = result_of("lower").vela[0]
    operation = report.operations[0].model_copy(update={"cycles": 300, **changes})
    reports = (report.model_copy(update={"operations": (operation,)}),)
    plain = snapshot()
    norm = Node("norm", "aten.batch_norm.default", "compute", "body")
    layers = Node("layers", "aten.layer_norm.default", "compute", "body")
    grown = Node("grown", "aten.conv_transpose2d.input", "compute", "body")
    program = GraphSnapshot("float", (*plain.nodes, norm, layers, grown), plain.edges, plain.modules)
    project = make_project()
    off = with_option(project, rewrite, False)
    made = found(off, program=program, vela=reports)
    assert (f"faster:{rewrite}" in made) is expected
    if expected:
        suggestion = made[f"faster:{rewrite}"]
        assert (suggestion.kind, suggestion.improves) == ("faster", "cycles")
        assert suggestion.gain.cycles == 300
        assert suggestion.edit(off).target.options[rewrite] is True
    on = found(project, program=program, vela=reports)
    assert not any(suggestion.kind == "faster" for suggestion in on.values())


@for_each(("after", "expected"), [(900, 0), (1000, 0), (1300, 300)])
def test_that_a_rewrite_that_the_estimate_calls_slower_can_be_switched_off(after, expected):
    applied = AppliedRewrite(id=STRIDES, state="on", places=("conv",), cycles_before=1000, cycles_after=after)
    made = found(make_project(), rewrites=(applied,))
    assert (f"faster:{STRIDES}" in made) is bool(expected)
    if expected:
        suggestion = made[f"faster:{STRIDES}"]
        assert (suggestion.gain.cycles, suggestion.improves) == (expected, "cycles")
        assert suggestion.edit(make_project()).target.options[STRIDES] is False


def test_that_a_gain_counts_and_estimates_and_names_both_versions():
    before = result_of("lower")
    report = before.vela[0].model_copy(update={"cycles_total": 1500})
    after = before.model_copy(update={"cpu_nodes": (), "vela": (report,), "vela_version": "5.2.0"})
    said = Gain(before, after).sentence
    assert "Operators on the CPU 1 → 0, counted" in said
    assert "1,000 → 1,500 (+50.0 %), estimated (Vela 5.1.0 and 5.2.0)" in said
    nothing = before.model_copy(update={"vela": (), "delegates": 0})
    assert "NPU cycles 0 → 1,500, estimated" in Gain(nothing, after).sentence


def spared(name, gain):
    return Spared(name, "module_name", (name,), gain, 32)


def test_that_the_largest_gain_comes_first():
    project = edits.assign(make_project(), "module_name", "head", "float")
    lowered = result_of("lower").model_copy(update={"cpu_nodes": (cpu("lin", "float", "head"),) * 4})
    known = Measurements(spared=(spared("stem", 1.0), spared("stem.conv", 30.0)))
    order = [s.id for s in suggest(project, lowered, snapshot(), CHAIN, known)]
    assert order[0] == "wide:stem.conv"
    assert order.index("wide:stem.conv") < order.index("wide:stem")
    shares = [s.gain.share(lowered) for s in suggest(project, lowered, snapshot(), CHAIN, known)]
    assert shares == sorted(shares, reverse=True)
    assert all(0 <= share <= 1 for share in shares)


def test_that_a_module_in_16_bits_or_float_gets_no_wider():
    known = Measurements(spared=(spared("stem", 9.0), spared("head", 0.2)))
    lowered = result_of("lower").model_copy(update={"cpu_nodes": ()})
    project = make_project()
    assert [s.id for s in suggest(project, lowered, snapshot(), CHAIN, known)] == ["wide:stem"]
    (suggestion,) = suggest(project, lowered, snapshot(), CHAIN, known)
    wider = suggestion.edit(project)
    assert wider.rules[-1].config == "a16w8"
    # Only the input in front of the module is not as wide.
    assert [s.id for s in suggest(wider, lowered, snapshot(), CHAIN, known)] == ["wide_ends"]


def test_that_what_adds_most_error_to_an_inaccurate_program_gets_more_bits():
    quality = result_of("evaluate")
    conv = quality.tensors[0]
    tensors = (
        conv.model_copy(update={"added_share": 0.6}),
        conv.model_copy(update={"tensor": "linear", "module": "head", "added_share": 0.3}),
    )
    low = quality.outputs[0].model_copy(update={"sqnr_db": 5.0})
    lossy = quality.model_copy(update={"tensors": tensors, "sqnr_db": 5.0, "outputs": (low,)})
    lowered = result_of("lower").model_copy(update={"cpu_nodes": ()})

    def ask(project, evaluated):
        known = Measurements(evaluated=evaluated)
        return {s.id: s for s in suggest(project, lowered, snapshot(), CHAIN, known)}

    narrow = make_project(Rule(id="r1", kind="global", config="a8w4"))
    wider = ask(narrow, lossy)["wider"]
    assert wider.title == "Assign a8w8 to stem.conv"
    assert "60 % of the error" in wider.evidence
    assert wider.improves == "sqnr_db"
    changed = wider.edit(narrow)
    assert [(r.match, r.config) for r in changed.rules[1:]] == [("stem.conv", "a8w8")]
    # All of them, where that is not enough.
    (more,) = wider.alternatives
    assert {r.match for r in more.edit(narrow).rules[1:]} == {"stem.conv", "head"}
    # 8 bits become 16, which is the widest; an accurate program asks for nothing.
    assert ask(make_project(), lossy)["wider"].title == "Assign a16w8 to stem.conv"
    assert "wider" not in ask(make_project(Rule(id="r1", kind="global", config="a16w8")), lossy)
    assert "wider" not in ask(narrow, quality.model_copy(update={"tensors": tensors}))


def test_that_16_bits_that_an_output_undoes_are_asked_for_at_the_output_too():
    project = edits.assign(make_project(), "module_name", "head", "a16w8")
    output = ModelOutput(name="output 0", shape=(1, 4), dtype="float32", position=0, nodes=("linear",))
    known = Measurements(exported=result_of("export").model_copy(update={"model_outputs": (output,)}))

    def offered(project):
        lowered = result_of("lower").model_copy(update={"cpu_nodes": ()})
        given = {s.id: s for s in suggest(project, lowered, snapshot(), CHAIN, known)}
        return given.get("wide_ends")

    found = offered(project)
    assert output.name in found.evidence
    assert found.improves == "sqnr_db"
    followed = found.edit(project)
    assert [(r.kind, r.config) for r in followed.rules if r.kind == "io"] == [("io", "a16w8")]
    assert offered(followed) is None
    # Where all is in 8 bits, or all in 16, nothing is undone.
    assert offered(make_project()) is None
    assert offered(edits.assign(project, "global", "", "a16w8")) is None


def test_that_16_bits_of_what_reads_an_input_are_asked_for_at_the_input_too():
    project = edits.assign(make_project(), "module_name", "stem", "a16w8")
    lowered = result_of("lower").model_copy(update={"cpu_nodes": ()})

    def offered(project):
        return {s.id: s for s in suggest(project, lowered, snapshot(), CHAIN, Measurements())}.get(
            "wide_ends"
        )

    found = offered(project)
    assert "reads x" in found.evidence
    assert "makes" not in found.evidence
    assert offered(found.edit(project)) is None
    assert offered(make_project()) is None


def test_that_outliers_of_a_tensor_are_suggested_to_be_clipped():
    values = np.random.default_rng(1).normal(0, 0.1, 100_000)
    counts, edges = np.histogram(np.append(values, 40.0), 2048)
    scale = (edges[-1] - edges[0]) / 255
    row = TensorRange(
        id="o",
        node="conv2d",
        op="aten.conv2d.default",
        module="stem",
        kind="activation",
        index=0,
        minimum=edges[0],
        maximum=40.0,
        p_low=-0.3,
        p_high=0.3,
        dtype="int8",
        qmin=-128,
        qmax=127,
        scale=scale,
        zero_point=-128,
        observer="MinMax",
        mean_square=0.026,
    )
    arrays = {"histogram": counts[None], "edges": np.array([[edges[0], edges[-1]]])}
    calibrated = CalibrateResult(samples=1, calibrated_on="", ranges=(row,))
    lowered = result_of("lower").model_copy(update={"cpu_nodes": ()})
    known = Measurements(calibrated=calibrated, arrays=arrays)
    (suggestion,) = suggest(make_project(), lowered, snapshot(), CHAIN, known)
    assert suggestion.id == "clip:conv2d"
    assert suggestion.gain.sqnr_db > 3
    project = suggestion.edit(make_project())
    assert [(m.scope, m.match, m.method) for m in project.range_methods] == [("tensor", "conv2d", "mse")]
    assert suggest(project, lowered, snapshot(), CHAIN, known) == ()


def test_that_a_program_too_large_for_its_board_is_first_compiled_for_size():
    demand = Demand(what="scratch pool", bytes=9_000, kinds=(), origin="Vela")
    lowered = result_of("lower").model_copy(update={"cpu_nodes": ()})
    known = Measurements(
        spared=(spared("stem", 9.0),), fit=Fit(board="small", fillings=(), homeless=(demand,))
    )
    first, *_ = suggest(make_project(), lowered, snapshot(), CHAIN, known)
    assert first.id == "optimise_size"
    assert first.edit(make_project()).target.options["optimise"] == "Size"


def with_constants(count):
    report = result_of("lower").vela[0]
    return {"vela": (report.model_copy(update={"flash_bytes": count}),)}


def test_that_one_scale_for_a_weight_is_tried_where_constants_matter():
    offered = found(make_project(), **with_constants(1 << 16))["per_tensor"]
    assert offered.improves == "size"
    changed = offered.edit(make_project())
    assert [rule.config for rule in changed.rules] == ["a8w8-per-tensor"]
    assert "per_tensor" not in found(changed, **with_constants(1 << 16))
    assert "per_tensor" not in found(make_project(), **with_constants(1 << 10))


@for_each(
    ("program_bytes", "sqnr_db", "is_offered"),
    [(900, 34.0, True), (990, 34.0, False), (900, 12.0, False), (1100, 40.0, False)],
)
def test_that_a_smaller_program_is_offered_while_it_is_accurate(program_bytes, sqnr_db, is_offered):
    def figures(count, decibels):
        evaluated, lowered = result_of("evaluate"), result_of("lower")
        output = evaluated.outputs[0].model_copy(update={"sqnr_db": decibels})
        return Figures(
            evaluated.model_copy(update={"outputs": (output,), "parts": ()}),
            lowered.model_copy(update={"pte_bytes": count}),
        )

    offered = found(make_project(), **with_constants(1 << 16))["per_tensor"]
    after = tried(offered, figures(1000, 35.0), figures(program_bytes, sqnr_db))
    assert (after is not None) == is_offered
    if after is not None:
        assert (after.gain.bytes, after.tried) == (1000 - program_bytes, True)


def test_that_what_was_tried_is_ranked_by_what_it_was_measured_to_gain():
    lowered = result_of("lower")
    gains = {"integer_io": ExpectedGain(cpu_operators=0), "wide_join:cat": ExpectedGain(sqnr_db=30.0)}
    cards = [Suggestion(id=name, title="", evidence="", expected="", gain=g) for name, g in gains.items()]
    split = Suggestion(id="split_output", title="", evidence="", expected="")
    assert [card.id for card in ranked([*cards, split], lowered)] == [
        "split_output",
        "wide_join:cat",
        "integer_io",
    ]
