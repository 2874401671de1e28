"""What differs between runs: names, figures, layers and modules."""

from tests.fakes.projects import make_project
from tests.fakes.results import result_of, write_result
from tests.for_each import for_each
from workbench.analysis.gate import GateResult
from workbench.history.comparison import (
    compared,
    config_name,
    difference,
    estimate_warning,
    facts_of_rules,
    front_of,
    lowered_of,
    module_changes,
    newest_accuracy,
    pareto_front,
    point_of,
    rule_name,
    rules_line,
    run_title,
    settings_lines,
    size_line,
)
from workbench.history.runs import Cost, Quality, Run, Simulated, quality_of
from workbench.pipeline.cache import Cache
from workbench.project import edits
from workbench.project.model import Compression, Rule
from workbench.results import CpuNode, TensorQuality


def rule(kind, match="", config="a8w8", **more):
    return Rule(id=f"{kind}-{match}", kind=kind, match=match, config=config, **more)


COST = Cost(
    cycles=1000,
    inference_ms=1.0,
    sram_bytes=2048,
    flash_bytes=4096,
    cpu_nodes=1,
    pte_bytes=1,
    vela_version="5.1.0",
)
QUALITY = Quality(samples=4, data="d", sqnr_db=30.0, cosine=0.99)


def run(number=1, quality=QUALITY, cost=COST, **more):
    project = make_project()
    fields = {"made": "", "project": "net", "target": project.target, "rules": (rule("global"),)}
    return Run(**{**fields, "number": number, "quality": quality, "cost": cost, **more})


def test_that_the_front_holds_what_nothing_beats():
    points = [(1.0, 10, 10), (1.0, 10, 10), (0.9, 9, 10), (0.9, 11, 9), (0.8, 11, 10), None]
    assert pareto_front(points) == {0, 1, 2, 3}
    assert pareto_front([(0.5, 5, 5), (0.5, 5, 4)]) == {1}
    assert pareto_front([]) == set()


def cost_with(cycles, clock=1.0, **more):
    """Return a cost with other cycles, at a multiple of the clock."""
    time = COST.inference_ms * cycles / COST.cycles / clock
    return COST.model_copy(update={"cycles": cycles, "inference_ms": time, **more})


def test_that_cycles_of_another_clock_are_not_judged_but_their_time_is():
    first, slower_clock = run(1), run(2, cost=cost_with(900, clock=0.25))
    rows = {row.what: row for row in compared([first, slower_clock])}
    assert rows["cycles"].change == "\u2212100 (\u221210.0 %)"
    assert rows["cycles"].is_better is None
    assert rows["time"].change.endswith("(+260.0 %)")
    assert rows["time"].is_better is False
    # Neither is better than the other: the front has the runs at the newest one's clock.
    assert front_of([first, slower_clock]) == {2}
    assert front_of([slower_clock, first]) == {1}


def test_that_only_comparable_runs_are_on_the_front():
    top1 = QUALITY.model_copy(update={"top1": 0.5})
    old, newest = run(1), run(4, top1)
    dearer = run(2, top1, cost_with(1, cpu_nodes=3))
    unknown = run(3, top1, None)
    assert front_of([old, dearer, unknown, newest]) == {4}
    assert front_of([dearer, newest, old]) == {1}
    # Estimators and data that differ give figures that are not comparable.
    older_vela = run(5, top1, cost_with(1, vela_version="4.0"))
    other_data = run(6, top1.model_copy(update={"data": "e", "top1": 0.9}))
    assert front_of([older_vela, other_data, newest]) == {4}
    assert newest_accuracy([newest, old]) == "SQNR"
    assert newest_accuracy([old, newest]) == "top-1"
    assert newest_accuracy([]) == ""
    nothing = QUALITY.model_copy(update={"sqnr_db": None})
    assert newest_accuracy([newest, run(5, nothing)]) == "top-1"
    assert point_of(run()) == (30.0, 1000.0, 2048.0)
    assert point_of(unknown) is None
    assert point_of(run(quality=nothing)) is None


def test_that_several_runs_are_compared_with_the_first_and_named_by_what_changed():
    first = run(1)
    wide = run(2, rules=(rule("global"), rule("module_type", "Conv2d", "a16w8")), cost=cost_with(1500))
    third = run(3, cost=cost_with(900))
    assert [run_title(r, first) for r in (first, wide, third)] == ["Run 1", "Run 2 (+a16w8 Conv2d)", "Run 3"]
    rows = {row.what: row for row in compared([first, wide, third])}
    assert rows["cycles"].values == ("1,000", "1,500", "900")
    assert rows["cycles"].change == "\u2212100 (\u221210.0 %)"
    assert rows["cycles"].is_better
    assert rows["Conv2d"].is_better is None
    assert rows["Conv2d"].values == ("", "a16w8", "")
    assert rows["Conv2d"].change == ""
    assert [row.kind for row in compared([first, wide])] == ["Figure", "Figure", "Rule"]


def test_that_figures_that_are_equal_are_told_on_demand_in_the_order_of_all_figures():
    slower = run(2, cost=cost_with(1500))
    differing = compared([run(1), slower])
    assert [(row.what, row.is_better) for row in differing] == [("cycles", False), ("time", False)]
    rows = compared([run(1), slower], equal_figures=True)
    assert [row.what for row in rows].index("SQNR") < [row.what for row in rows].index("cycles")
    changes = {row.what: (row.change, row.is_better) for row in rows}
    assert changes["SQNR"] == changes["SRAM"] == ("equal", None)
    # What is known of no run is no row.
    assert all(all(row.values) for row in rows)


def test_that_decibels_have_as_many_digits_as_they_changed_by():
    decibels = [QUALITY.model_copy(update={"sqnr_db": value}) for value in (43.865, 40.8649)]
    (row,) = compared([run(number, quality=quality) for number, quality in enumerate(decibels, 1)])
    assert row.values == ("43.87 dB", "40.86 dB")
    assert row.change == "\u22123.01 dB"


def test_that_cycles_of_two_releases_of_vela_have_no_change():
    other = run(2, cost=cost_with(900, sram_bytes=1, vela_version="5.2.0"))
    rows = {row.what: row for row in compared([run(1), other])}
    assert rows["cycles"].values == ("1,000", "900")
    assert rows["cycles"].change == ""
    # A change has the unit of its values.
    assert rows["SRAM"].values[1].endswith(" KiB")
    assert rows["SRAM"].change.split(" (")[0].endswith(" KiB")


def test_that_the_accuracy_is_the_users_metric_first():
    with_all = QUALITY.model_copy(update={"metric": 0.0, "metric_name": "mAP", "top1": 0.5})
    assert (run(quality=with_all).accuracy, run(quality=with_all).accuracy_name) == (0.0, "mAP")
    top1 = QUALITY.model_copy(update={"top1": 0.0})
    assert (run(quality=top1).accuracy, run(quality=top1).accuracy_name) == (0.0, "top-1")
    assert (run().accuracy, run().accuracy_name) == (30.0, "SQNR")


RULES = (
    rule("global", config="a16w8"),
    rule("global", config="a8w8"),
    rule("io", config="uint8"),
    rule("module_name", "head", "a8w4"),
    rule("quantizer", "", "own.py:Rows"),
    rule("finder", "own.py:First", "own.py:tight"),
    rule("node_name", "add", "cpu"),
    rule("module_name", "gone", "a8w4", enabled=False),
    rule("global", config="cpu"),
)


def kept(**more):
    project = edits.fix_range(make_project(), "relu", -1.0, 2.5)
    project = edits.choose_method(project, "module", "head", "mse")
    return run(
        rules=RULES,
        improvers=("bias",),
        trained_weights="w.safetensors",
        ranges=project.ranges,
        range_methods=project.range_methods,
        **more,
    )


def test_that_rules_are_named_by_what_they_apply_to():
    assert [rule_name(r) for r in RULES[1:7]] == [
        "everything",
        "inputs and outputs",
        "head",
        "a plug-in's quantizer",
        "First",
        "add",
    ]
    assert [config_name(r) for r in RULES[4:6]] == ["Rows", "tight"]
    line = rules_line(kept())
    assert line.startswith("a8w8, inputs and outputs: uint8, head: a8w4, ")
    assert ", everything: cpu, bias, trained, " in line
    assert line.endswith(" for all of head, 1 fixed range")
    assert "gone" not in line
    two = edits.fix_range(edits.fix_range(make_project(), "a", -1, 1), "b", -1, 1)
    assert rules_line(run(rules=(), ranges=two.ranges)) == "float, 2 fixed ranges"
    facts = facts_of_rules(kept())
    assert facts["everything"] == "a8w8"
    assert facts["add, off the NPU"] == "on"
    assert facts["everything, off the NPU"] == "on"
    assert facts["improver bias"] == "on"
    assert facts["weights"] == "w.safetensors"
    assert facts["range of relu"] == "-1 to 2.5"
    assert "range of all of head" in facts
    assert "weights" not in facts_of_rules(run())


def figures(a, b):
    return {c.what: (c.before, c.after) for c in difference(a, b).figures}


def test_that_every_figure_that_differs_is_told():
    quality = Quality(
        samples=4, data="d", sqnr_db=31.5, cosine=0.999, top1=0.98765, metric_name="mAP",
        metric=0.25, perplexity=3.84, divergence=0.0125,
    )  # fmt: skip
    cost = COST.model_copy(update={"cycles": 1234567, "cpu_nodes": 2, "sram_bytes": 4096})
    simulated = Simulated(
        simulator="FVP", version="11", runner="r", samples=1, cycles=1180.0, estimated_cycles=1,
        exact=0.5, max_lsb=2, argmax_equal=1,
    )  # fmt: skip
    gate = GateResult(verdict="right", reason="", limits=())
    after = run(2, quality, cost, simulated=simulated, gate=gate)
    assert figures(run(), after) == {
        "SQNR": ("30.00 dB", "31.50 dB"), "cosine": ("0.99", "0.999"), "top-1": ("", "98.77 %"),
        "perplexity": ("", "3.84"), "KL divergence": ("", "0.0125 nats"), "mAP": ("", "0.25"),
        "cycles": ("1,000", "1,234,567"), "SRAM": ("2.0 KiB", "4.0 KiB"),
        "CPU ops": ("1", "2"), "correct": ("", "yes"),
        "measured cycles": ("", "1180"), "simulator": ("", "FVP 11"),
        "equal to TOSA": ("", "50.00 %"), "max LSB on the simulator": ("", "2"),
    }  # fmt: skip
    assert figures(run(cost=None), run())["constants"] == ("", "4.0 KiB")
    assert figures(run(), run()) == {}


def layer(tensor, sqnr):
    return TensorQuality(
        tensor=tensor, origin=tensor, module="", op="", sqnr_db=sqnr, cosine=1.0, max_abs_error=0.0
    )


def test_that_layers_that_moved_are_told_the_most_first():
    before = run(layers=(layer("a", 30.0), layer("b", 20.0), layer("c", None), layer("e", 10.0)))
    after = run(
        layers=(layer("a", 30.25), layer("b", 15.0), layer("c", 3.0), layer("d", 1.0), layer("e", 10.01))
    )
    found = [(c.what, c.before, c.after) for c in difference(before, after).layers]
    assert found == [("b", "20.00 dB", "15.00 dB"), ("a", "30.00 dB", "30.25 dB")]
    assert [c.what for c in difference(before, after, 0.25).layers] == ["b", "a"]
    assert [c.what for c in difference(before, after, 0.26).layers] == ["b"]
    little = run(layers=(layer("a", 30.06), layer("b", 20.04)))
    assert [c.what for c in difference(before, little).layers] == ["a"]
    versions = difference(run(versions={"vela": "5.0"}), run(versions={"vela": "5.1"})).versions
    assert [(c.what, c.before, c.after) for c in versions] == [("vela", "5.0", "5.1")]


def lowered(*operations, cpu=()):
    result = result_of("lower")
    (vela,) = result.vela
    (one,) = vela.operations
    made = tuple(
        one.model_copy(update={"module": m, "cycles": c, "staging_bytes": s}) for m, c, s in operations
    )
    nodes = tuple(CpuNode(node=m, op="", module=m, reason="") for m in cpu)
    changed = vela.model_copy(update={"operations": made})
    return result.model_copy(update={"vela": (changed,), "cpu_nodes": nodes})


def test_that_modules_are_compared_by_cycles_and_place():
    before = lowered(("a", 100, 1024), ("a", 50, 2048), ("b", 10, 0), cpu=("c",))
    after = lowered(("a", 100, 1024), ("b", 10, 0), ("", 30, 512), cpu=("c", "c", "b"))
    found = {c.what: (c.before, c.after) for c in module_changes(before, after)}
    assert list(found)[:2] == ["a", "(outside modules)"]
    assert set(found) == {"a", "(outside modules)", "b", "c"}
    assert found["a"][0].startswith("150 cycles")
    assert found["a"][1].startswith("100 cycles")
    assert found["b"][1].endswith(", 1 on the CPU")
    assert found["c"] == ("1 on the CPU", "2 on the CPU")
    assert found["(outside modules)"][0] == ""
    assert module_changes(before, before) == []


def test_that_the_program_of_a_run_is_found_while_it_is_cached(tmp_path):
    cache = Cache(tmp_path)
    with cache.writing("ab12") as folder:
        write_result("lower", folder)
    assert lowered_of(run(digests={"lower": "ab12"}), cache) == result_of("lower")
    assert lowered_of(run(digests={"lower": "cd34"}), cache) is None
    assert lowered_of(run(), cache) is None
    file = cache.folder("ab12") / "result.json"
    file.write_bytes(b"x" * file.stat().st_size)
    assert lowered_of(run(digests={"lower": "ab12"}), cache) is None


def test_that_an_evaluation_is_kept_with_its_text():
    evaluated = result_of("evaluate")
    assert quality_of(evaluated).perplexity is None
    assert quality_of(evaluated) == Quality(samples=16, data="data.npz", sqnr_db=34.5, cosine=0.999)


@for_each("first", ["evaluate", "lower"])
def test_that_runs_of_equal_results_are_one(first):
    digests = {"evaluate": "a", "lower": "b"}
    assert run(1, digests=digests).key == run(2, digests={**digests, "verify": "c"}).key
    assert run(digests=digests).key != run(digests={**digests, first: "x"}).key


@for_each(
    ("entry", "line"),
    [
        (Compression(module="stem", channels=12, clusters=16), "stem: 12 channels, 16 weights"),
        (Compression(module="stem", channels=12), "stem: 12 channels"),
        (Compression(clusters=16), "all: 16 weights"),
    ],
)
def test_that_a_compression_is_told_with_its_sizes(entry, line):
    assert size_line(entry) == line
    assert rules_line(run(compressions=(entry,))).endswith(line)


def test_that_the_parts_of_a_difference_are_named():
    found = difference(run(), run(2, versions={"torch": "9"}))
    assert found.parts == {
        "rules": found.rules,
        "settings": found.settings,
        "figures": found.figures,
        "layers": found.layers,
        "versions": found.versions,
    }
    assert [change.what for change in found.parts["versions"]] == ["torch"]


def with_layer(db):
    layer = TensorQuality(tensor="relu", module="", op="relu", sqnr_db=db, cosine=None, max_abs_error=None)
    return run(layers=(layer,))


@for_each(("moved", "told"), [(0.04, 0), (0.06, 1), (1.0, 1), (-0.06, 1)])
def test_that_layers_are_told_that_moved_by_a_twentieth_of_a_decibel(moved, told):
    assert len(difference(with_layer(20.0), with_layer(20.0 + moved)).layers) == told


def test_that_modules_are_told_by_how_much_their_cycles_changed():
    a = result_of("lower")
    operation = a.vela[0].operations[0]

    def lowered(**cycles):
        operations = tuple(
            operation.model_copy(update={"module": name, "cycles": count}) for name, count in cycles.items()
        )
        report = a.vela[0].model_copy(update={"operations": operations})
        return a.model_copy(update={"vela": (report,)})

    found = module_changes(lowered(big=5000, small=100), lowered(big=5100, small=900))
    assert [change.what for change in found] == ["small", "big"]


def test_that_estimates_are_compared_where_there_are_two():
    assert estimate_warning(run(cost=None), run()) == estimate_warning(run(), run(cost=None)) == ""


def test_that_a_program_of_which_a_file_is_lost_is_no_longer_in_the_cache(tmp_path):
    cache, key = Cache(tmp_path), "ab" * 32
    with cache.writing(key) as folder:
        write_result("lower", folder)
        (folder / "more.txt").write_text("x")
    kept_run = run(digests={"lower": key})
    assert lowered_of(kept_run, cache) == result_of("lower")
    (cache.folder(key) / "more.txt").unlink()
    assert lowered_of(kept_run, cache) is None


def test_that_the_front_has_estimates_of_one_release_of_vela_only():
    cheaper = COST.model_copy(update={"cycles": 10, "cpu_nodes": 0, "vela_version": "5.2.0"})
    assert front_of([run(1, cost=cheaper), run(2)]) == {2}
    assert front_of([run(2), run(3, cost=cheaper)]) == {3}


def test_that_options_of_the_target_and_another_model_are_among_the_differences():
    target = make_project().target
    integer = target.model_copy(update={"options": {**target.options, "integer_io": True}})
    one = run(1, digests={"import_model": "aaaaaaaaaa"})
    two = run(2, target=integer, digests={"import_model": "aaaaaaaaaa"})
    three = run(3, digests={"import_model": "bbbbbbbbbb"})
    changed = {row.what: (row.kind, *row.values) for row in compared([one, two])}
    assert changed["Integer inputs and outputs"] == ("Setting", "", "on")
    assert run_title(two, one) == "Run 2 (Integer inputs and outputs on)"
    assert settings_lines([one, two, one]) == ["", "Integer inputs and outputs on", ""]
    other = {row.what: row.values for row in compared([one, three])}
    assert other["model and weights"] == ("aaaaaaaa", "bbbbbbbb")
    assert run_title(three, one) == "Run 3 (another model)"
    # The tools' releases are in the digest, too.
    newer = run(4, digests={"import_model": "cccccccccc"}, versions={"torch": "9"})
    for same in (one, newer):
        assert not [row for row in compared([one, same]) if row.kind == "Setting"]
